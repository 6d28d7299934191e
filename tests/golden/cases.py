"""The golden data as test cases: what the reference implementations gave for tiny random checkpoints."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from safetensors.torch import load_file
from torch import Tensor

DATA = Path(__file__).parent / "data"
"""Where the data lies that ``--golden-dir`` replaces."""


@dataclass(frozen=True)
class Case:
    """One entry of a ``cases.json``."""

    folder: Path
    """The checkpoint that it belongs to."""
    entry: dict[str, Any]

    @property
    def id(self) -> str:
        """Family and case, as a failing test names them."""
        return f"{self.folder.name}/{self.entry['name']}"

    @property
    def family(self) -> str:
        return self.folder.name

    @property
    def name(self) -> str:
        return self.entry["name"]

    @property
    def policy(self) -> str:
        """Policy that a ``policy`` case is a table of."""
        return self.entry.get("policy", self.entry["name"])

    @property
    def knobs(self) -> dict[str, Any]:
        """The reference's knobs, under its names."""
        return self.entry["knobs"]

    @property
    def prompt(self) -> list[int]:
        return self.entry["prompt"]

    @property
    def inputs(self) -> Any:
        return self.entry["inputs"]

    @property
    def expected(self) -> Any:
        return self.entry["expected"]

    def given(self, name: str) -> Tensor:
        """An input that is kept as a tensor, by its name in the case."""
        return self.stored(self.inputs[name]["tensor"])

    def result(self, name: str) -> Tensor:
        """An expected output that is kept as a tensor, by its name in the case."""
        return self.stored(self.expected[name]["tensor"])

    def stored(self, key: str) -> Tensor:
        """A tensor by its key in ``cases.safetensors``."""
        return _tensors(self.folder)[key]


@cache
def _tensors(folder: Path) -> dict[str, Tensor]:
    return load_file(folder / "cases.safetensors")


def read_cases(folder: Path, kind: str) -> Iterator[Case]:
    """All cases of a kind (``logits``, ``decode`` or ``policy``) below a folder."""
    for file in sorted(folder.glob("*/cases.json")):
        for entry in json.loads(file.read_text(encoding="utf-8"))["cases"]:
            if entry["kind"] == kind:
                yield Case(file.parent, entry)
