"""The kernels, compiled where there is a GPU and interpreted where there is none."""

import importlib
import os
from types import ModuleType

import pytest
import torch

if not torch.cuda.is_available():
    # Triton looks at this when it is imported, and nothing but the kernels imports it here.
    os.environ["TRITON_INTERPRET"] = "1"


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
