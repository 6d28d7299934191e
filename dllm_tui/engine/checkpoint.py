"""A checkpoint's directory: its config, its tensors wherever they lie, and nothing that could run.

Weights are data here. Pickle files are refused, links may not leave the directory, and what an index
names must be plain file names.
"""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from dllm_tui.engine.links import refuse_escape
from dllm_tui.engine.shards import Entry, Shard
from dllm_tui.errors import CheckpointError
from dllm_tui.families.layout import SHOWN, Config, shown

PICKLES = (".bin", ".pt", ".pth", ".ckpt", ".pkl")
JSON_LIMIT = 16 << 20
"""Longest JSON file that is read; an index of 100,000 tensors has 10 MB."""


class Directory:
    """The files of a checkpoint.

    Args:
        path: the directory.

    Raises:
        CheckpointError: a file is missing, damaged, a pickle, or lies elsewhere; it is named.
    """

    def __init__(self, path: Path) -> None:
        if not path.is_dir():
            raise CheckpointError(f"{path} is not a directory.", "Name a directory with config.json in it.")
        self.path = path
        self.config = Config(self.json("config.json"))
        self.generation: Mapping[str, Any] = (
            self.json("generation_config.json") if (path / "generation_config.json").is_file() else {}
        )

    def file(self, name: str, said: str = "") -> Path:
        """The path of one of the directory's files.

        Args:
            name: the file's.
            said: what is known of it, for messages.

        Raises:
            CheckpointError: it is missing, no plain name, or a link that leaves the directory.
        """
        path = self.path / name
        if Path(name).name != name or name in {"", ".", ".."}:
            raise CheckpointError(
                f"{shown(name)} is not the name of a file in the checkpoint's own directory{said}."
            )
        try:
            here = path.is_file()
        except OSError:  # a name too long for any file
            here = False
        if not here:
            raise CheckpointError(
                f"{name[:SHOWN]} is missing in {self.path}{said}.", "Get the model's files again."
            )
        refuse_escape(path, said)
        return path

    def json(self, name: str) -> dict[str, Any]:
        """The table in a JSON file.

        Raises:
            CheckpointError: it is missing, too large, or no JSON table.
        """
        path = self.file(name)
        try:
            if path.stat().st_size > JSON_LIMIT:
                raise CheckpointError(f"{name} is larger than {JSON_LIMIT >> 20} MB.")
            table = json.loads(path.read_bytes())
        except OSError as error:
            raise CheckpointError(f"{name} can't be read: {error.strerror}.") from error
        except (ValueError, RecursionError):
            raise CheckpointError(f"{name} is not valid JSON.", "Get the file again.") from None
        if not isinstance(table, dict):
            raise CheckpointError(f"{name} is not a table of fields.", "Get the file again.")
        return table

    def tensors(self) -> "Tensors":
        """All tensors of the checkpoint.

        Raises:
            CheckpointError: a shard is missing or damaged, or there are no weights that can be read.
        """
        return Tensors([Shard(file) for file in self._weights()])

    def _weights(self) -> list[Path]:
        names = {entry.name for entry in self.path.iterdir()}
        index = "model.safetensors.index.json"
        if index in names:
            listed = self.json(index).get("weight_map")
            if not isinstance(listed, dict) or not all(isinstance(name, str) for name in listed.values()):
                raise CheckpointError(f"{index} has no weight_map.", "Get the file again.")
            first: dict[str, str] = {}
            for tensor, file in listed.items():
                first.setdefault(file, f"; {index} puts tensor {shown(tensor)} there")
            return [self.file(name, said) for name, said in sorted(first.items())]
        if weights := sorted(name for name in names if name.endswith(".safetensors")):
            whole = "model.safetensors"
            return [self.file(name) for name in ([whole] if whole in weights else weights)]
        if pickles := sorted(name for name in names if name.endswith(PICKLES)):
            raise CheckpointError(
                f"The weights in {self.path} are pickle files ({pickles[0]}), which can run code on loading.",
                "They are never opened here. Get the model as safetensors, or convert it where you trust it.",
            )
        raise CheckpointError(
            f"There are no weights in {self.path}.", "It needs model.safetensors, or shards."
        )


class Tensors:
    """The tensors of several files, by name.

    Args:
        shards: the files.

    Raises:
        CheckpointError: two files hold a tensor of the same name.
    """

    def __init__(self, shards: list[Shard]) -> None:
        self.entries: dict[str, Entry] = {}
        self._shards: dict[str, Shard] = {}
        for shard in shards:
            for name, entry in shard.entries.items():
                if name in self.entries:
                    other = self._shards[name].path.name
                    raise CheckpointError(f"Tensor {name!r} is in {other} and in {shard.path.name} too.")
                self.entries[name] = entry
                self._shards[name] = shard

    @property
    def size(self) -> int:
        """Bytes of all tensors."""
        return sum(entry.size for entry in self.entries.values())

    def where(self, name: str) -> str:
        """Name of the file that holds a tensor."""
        return self._shards[name].path.name

    def pieces(self, name: str, first: int = 0, last: int | None = None) -> Iterator[tuple[int, Tensor]]:
        """Some rows of a tensor, a few at a time; see :meth:`dllm_tui.engine.shards.Shard.pieces`."""
        return self._shards[name].pieces(name, first, last)

    def fill(self, target: Tensor, name: str, first: int = 0, last: int | None = None) -> None:
        """Write some rows of a tensor to ``target`` [last - first, ...], on its device and in its dtype."""
        entry = self.entries[name]
        direct = target.device.type == "cpu" and target.dtype == entry.dtype and target.is_contiguous()
        if direct and name in self._shards:
            for _ in self._shards[name].pieces(name, first, last, into=target):
                pass
            return
        for row, rows in self.pieces(name, first, last):
            target[row - first : row - first + len(rows)] = rows

    def read(self, name: str, dtype: torch.dtype) -> Tensor:
        """A whole tensor, converted piece by piece."""
        whole = torch.empty(self.entries[name].shape or (1,), dtype=dtype)
        self.fill(whole, name)
        return whole.view(self.entries[name].shape)

    def equal(self, name: str, other: str) -> bool:
        """Whether two tensors hold the same values."""
        if self.entries[name].shape != self.entries[other].shape:
            return False
        pairs = zip(self.pieces(name), self.pieces(other), strict=False)
        return all(torch.equal(rows, others) for (_, rows), (_, others) in pairs)
