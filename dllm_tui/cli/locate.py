"""``dllm-chat locate``: where things of the user live, made so that they can be put to use."""

import contextlib
from pathlib import Path
from typing import Literal

from dllm_tui import paths
from dllm_tui.settings import template


def locate(what: Literal["config", "themes", "data", "traces"]) -> Path:
    """The place, made if need be; a place that can't be made is named all the same."""
    folders = {"themes": paths.themes_dir, "data": paths.data_dir, "traces": paths.traces_dir}
    with contextlib.suppress(OSError):
        if what != "config":
            return paths.private(folders[what]())
        if not paths.config_file().exists():
            paths.write_private(paths.config_file(), template().encode())
    return paths.config_file() if what == "config" else folders[what]()
