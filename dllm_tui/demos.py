"""Demos: traces to give away, made of what happens from now on (a recording), or of what has happened."""

import re
import time
from pathlib import Path

from dllm_tui import paths
from dllm_tui.errors import TraceError
from dllm_tui.trace import SUFFIX
from dllm_tui.trace.archive import Archive
from dllm_tui.trace.cut import only_last_answer
from dllm_tui.trace.export import write_trace

LONGEST_NAME = 40
"""Characters of a prompt that a file is named by."""


def place(asked: str, *, title: str = "", suffix: str = SUFFIX, folder: Path | None = None) -> Path:
    """Where a file is to be written.

    Args:
        asked: a path as a person typed it, or nothing. A folder gets a file in it.
        title: what the file is named by, where no name was asked for; the time of day without.
        suffix: how the name ends, where none was asked for.
        folder: for files of which nothing was asked; by default the folder of demos.

    Returns:
        A path; one that was not asked for by its name is free.

    Raises:
        TraceError: its folder isn't there, or can't be looked into.
    """
    try:
        path = Path(asked).expanduser().absolute() if asked else (folder or paths.demos_dir())
        if not asked or path.is_dir():
            return _free(path, _named(title), suffix)
        if not path.parent.is_dir():
            raise TraceError(f"{path}: there is no folder {path.parent}.", "Make it first, or take another.")
    except OSError as error:
        raise TraceError(f"{asked}: can't be looked up: {error.strerror}.") from None
    except RuntimeError:  # ~somebody
        raise TraceError(f"{asked}: there is no such home.", "Give the whole path.") from None
    return path if path.suffix else path.with_suffix(suffix)


def save_last_answer(session: Archive, path: Path, *, replace: bool = False) -> None:
    """Write the last prompt of a session and what answers it as a demo, for the user's eyes alone (0600).

    Raises:
        TraceError: nothing was asked in it yet.
        ExportError: the file is there already or can't be written.
    """
    write_trace(only_last_answer(session), path, force=replace, private=True)


def _named(title: str) -> str:
    words = "-".join(re.findall(r"[^\W_]+", title.lower()))[:LONGEST_NAME].strip("-")
    return words or time.strftime("recording-%Y%m%d-%H%M%S")


def _free(folder: Path, name: str, suffix: str) -> Path:
    path, number = folder / f"{name}{suffix}", 2
    while path.exists():
        path, number = folder / f"{name}-{number}{suffix}", number + 1
    return path
