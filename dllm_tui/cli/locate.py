"""``dllm-chat locate``: where things of the user live, made so that they can be put to use."""

import contextlib
from pathlib import Path
from typing import Literal

from dllm_tui import paths
from dllm_tui.settings import template

PLACES = {
    "config": paths.config_file,
    "themes": paths.themes_dir,
    "data": paths.data_dir,
    "traces": paths.traces_dir,
}
"""What can be asked for."""


def locate(what: Literal["config", "themes", "data", "traces"]) -> Path:
    """The place, made if need be; a place that can't be made is named all the same."""
    place = PLACES[what]()
    with contextlib.suppress(OSError):
        if what != "config":
            return paths.private(place)
        if not place.exists():
            paths.write_private(place, template().encode())
    return place
