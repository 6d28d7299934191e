"""Tensor files that are whole or not there."""

from collections.abc import Mapping
from pathlib import Path

from safetensors.torch import save
from torch import Tensor

from dllm_tui.paths import write_private


def write_tensors(path: Path, tensors: Mapping[str, Tensor], metadata: dict[str, str]) -> None:
    """Write a safetensors file; what was there stays until all of it is on the disk.

    Raises:
        OSError: the disk is full, or the place can't be written to.
    """
    whole = {name: tensor.detach().contiguous().cpu() for name, tensor in tensors.items()}
    write_private(path, save(whole, metadata))
