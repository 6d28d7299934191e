"""The kernels, compiled where there is a GPU and interpreted where there is none."""

import importlib
from types import ModuleType

import pytest
import torch


@pytest.fixture(scope="session")
def device() -> torch.device:
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


@pytest.fixture(scope="session")
def kernels() -> dict[str, ModuleType]:
    """The Triton modules by name."""
    pytest.importorskip("triton")
    return {
        name: importlib.import_module(f"dllm_kernels.{name}_triton")
        for name in ("confidence", "block_attention")
    }
