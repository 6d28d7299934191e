"""Copying, also over SSH and through tmux: the terminal is asked first, then a tool of the desktop."""

import base64
import contextlib
import os
import shutil
import subprocess
from collections.abc import Mapping

MAX_OSC52 = 100_000
"""Characters of base64 that terminals commonly take in one OSC 52 sequence; xterm's own limit is close."""

TOOLS: tuple[tuple[str, ...], ...] = (
    ("pbcopy",),
    ("wl-copy",),
    ("xclip", "-selection", "clipboard"),
    ("xsel", "--clipboard", "--input"),
    ("clip.exe",),
)
"""Programs that put their input on the clipboard, with their arguments."""


def osc52(text: str, environment: Mapping[str, str] = os.environ) -> str:
    """The escape sequence that puts a text on the terminal's clipboard; empty where the text is too long.

    Inside tmux and GNU screen it is wrapped so that it passes through to the terminal outside.
    """
    data = base64.b64encode(text.encode("utf-8", "replace")).decode("ascii")
    if len(data) > MAX_OSC52:
        return ""
    plain = f"\x1b]52;c;{data}\x07"
    if environment.get("TMUX"):
        # tmux sets its own buffer from the plain form, and hands the wrapped one on
        return plain + "\x1bPtmux;" + plain.replace("\x1b", "\x1b\x1b") + "\x1b\\"
    if environment.get("TERM", "").startswith("screen"):
        return f"\x1bP{plain}\x1b\\"
    return plain


def desktop(text: str, environment: Mapping[str, str] = os.environ) -> bool:
    """Put a text on the desktop's clipboard by the first of :func:`tools` that takes it; whether one did."""
    for tool in tools(environment):
        with contextlib.suppress(OSError, subprocess.SubprocessError):
            subprocess.run(
                tool,
                input=text.encode(),
                check=True,
                timeout=2,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
            return True
    return False


def tools(environment: Mapping[str, str] = os.environ) -> list[tuple[str, ...]]:
    """The programs here that can reach the person's clipboard."""
    if environment.get("SSH_TTY") or environment.get("SSH_CONNECTION"):
        return []  # it would be the clipboard of the far machine
    needs = {"xclip": "DISPLAY", "xsel": "DISPLAY", "wl-copy": "WAYLAND_DISPLAY"}
    usable = (tool for tool in TOOLS if tool[0] not in needs or environment.get(needs[tool[0]]))
    return [tool for tool in usable if shutil.which(tool[0])]
