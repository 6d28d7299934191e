"""The engine, as the commands get it. Importing this loads no torch; the host's own thread does."""

from dllm_tui.session import Host
from dllm_tui.settings import Settings


def new_host(settings: Settings) -> Host:
    """A host without a model yet."""
    from dllm_tui.engine.host import EngineHost

    return EngineHost(device=settings.device, dtype=settings.dtype)
