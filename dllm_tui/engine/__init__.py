"""The decode loop and what it is made of. Importing the package loads no torch; :class:`Engine` does."""

import os
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dllm_tui.engine.api import Engine

__all__ = ["Engine"]

# Before torch is loaded: OpenMP's idle threads should sleep rather than spin, or the interface stutters
# and other processes starve; and what libraries print would end up in the middle of the interface.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
os.environ.setdefault("TRANSFORMERS_NO_ADVISORY_WARNINGS", "1")
os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")


def __getattr__(name: str) -> Any:
    if name == "Engine":
        from dllm_tui.engine.api import Engine

        return Engine
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
