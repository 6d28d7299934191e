"""The engine, as the commands get it. Importing this loads no torch; the host's own thread does."""

import logging
import warnings

from dllm_tui.ports import Host
from dllm_tui.settings import Settings

ALTERNATIVES = 5
"""Of the best tokens at an undecided position: what an inspector shows, and a trace can hold."""


def new_host(settings: Settings, *, recorded: bool) -> Host:
    """A host without a model yet. Warnings that libraries write for their developers go nowhere from now on.

    Args:
        settings: device and dtype.
        recorded: whether somebody looks closer, now or later: guesses come with their alternatives.
    """
    from dllm_tui.engine.host import EngineHost

    logging.disable(logging.WARNING)
    warnings.simplefilter("ignore")
    alternatives = ALTERNATIVES if recorded else 0
    return EngineHost(device=settings.device, dtype=settings.dtype, alternatives=alternatives)
