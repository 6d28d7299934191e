"""Tiny checkpoints to load: the golden ones, copied and bent as a test needs it."""

import json
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from dllm_tui.engine.load import Choice, load_checkpoint
from dllm_tui.engine.model import Model
from dllm_tui.errors import CheckpointError
from tests.golden.cases import DATA

CPU = torch.device("cpu")


def copied(family: str, to: Path) -> Path:
    """A golden checkpoint's files in a directory of its own."""
    to.mkdir(parents=True, exist_ok=True)
    for file in (DATA / family).iterdir():
        if not file.name.startswith("cases."):
            shutil.copyfile(file, to / file.name)
    return to


def edit_json(path: Path, **changes: Any) -> None:
    """Change fields; ``None`` removes one."""
    fields = {**json.loads(path.read_text()), **changes}
    path.write_text(json.dumps({name: value for name, value in fields.items() if value is not None}))


def edit_tensors(path: Path, change: Callable[[dict[str, Tensor]], object]) -> None:
    tensors = load_file(path)
    change(tensors)
    save_file(tensors, path)


def write(to: Path, config: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> Path:
    to.mkdir(parents=True, exist_ok=True)
    (to / "config.json").write_text(json.dumps(config))
    save_file(
        {name: tensor.contiguous().clone() for name, tensor in tensors.items()}, to / "model.safetensors"
    )
    return to


def load(
    path: Path | str, backbone: Choice = "auto", dtype: torch.dtype = torch.float32, **options: Any
) -> Model:
    return load_checkpoint(path, CPU, dtype, backbone=backbone, **options)


def refused(path: Path | str, **options: Any) -> str:
    """What is said when the checkpoint is refused, hint included."""
    try:
        load(path, **options)
    except CheckpointError as error:
        return f"{error.message} {error.hint}"
    raise AssertionError(f"{path} was loaded")


def split(checkpoint: Path) -> dict[str, str]:
    """Turn one file into two shards with an index; the weight map."""
    tensors = load_file(checkpoint / "model.safetensors")
    (checkpoint / "model.safetensors").unlink()
    names = sorted(tensors)
    halves = {"model-00001-of-00002.safetensors": names[::2], "model-00002-of-00002.safetensors": names[1::2]}
    for file, part in halves.items():
        save_file({name: tensors[name] for name in part}, checkpoint / file)
    where = {name: file for file, part in halves.items() for name in part}
    (checkpoint / "model.safetensors.index.json").write_text(json.dumps({"weight_map": where}))
    return where
