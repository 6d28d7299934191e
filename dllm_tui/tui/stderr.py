"""Native libraries write on file descriptor 2; while the app owns the screen, that goes to a log."""

import contextlib
import os
import sys
from collections.abc import Generator
from pathlib import Path

MAX_LOG = 1 << 20
"""A log that has grown beyond this is begun anew."""


@contextlib.contextmanager
def guarded(log: Path) -> Generator[None]:
    """Send descriptor 2 to a log file, and Python's own ``stderr`` to the terminal as before.

    Textual draws on ``sys.__stderr__``: it gets a copy of the terminal's descriptor. Where the log can't be
    written, what would go there is dropped.
    """
    try:
        log.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        mode = os.O_TRUNC if log.exists() and log.stat().st_size > MAX_LOG else os.O_APPEND
        target = os.open(log, os.O_WRONLY | os.O_CREAT | mode, 0o600)
    except OSError:
        target = os.open(os.devnull, os.O_WRONLY)
    before = sys.stderr, sys.__stderr__
    try:
        terminal = os.dup(2)
    except OSError:  # descriptor 2 is closed: nothing to guard
        os.close(target)
        yield
        return
    drawn = os.fdopen(terminal, "w", encoding="utf-8", errors="replace", buffering=1)
    os.dup2(target, 2)
    os.close(target)
    sys.stderr = sys.__stderr__ = drawn  # pyright: ignore[reportAttributeAccessIssue] (what Textual looks up)
    try:
        yield
    finally:
        sys.stderr, sys.__stderr__ = before  # pyright: ignore[reportAttributeAccessIssue]
        with contextlib.suppress(OSError):  # the terminal may be gone
            drawn.flush()
        os.dup2(drawn.fileno(), 2)
        with contextlib.suppress(OSError):
            drawn.close()
