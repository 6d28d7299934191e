"""Write a trace: event by event, so that a killed program loses at most the line it was writing."""

import contextlib
import fcntl
import os
import stat
from collections.abc import Iterable
from pathlib import Path

import msgspec

from dllm_tui import paths
from dllm_tui.errors import TraceError
from dllm_tui.events import AnyEvent, Header, Pieces, encode

_TAIL = 1 << 16


class Writer:
    """Appends events to a trace file that is the user's alone (0600) and locked while it is open.

    Call from one thread at a time.
    """

    def __init__(self, path: Path, *, append: bool = False, known: Iterable[int] = ()) -> None:
        """Open the file.

        Args:
            path: the trace; its directory is made if need be.
            append: go on with a trace that is there, instead of starting a new file. A last line that
                was cut off is taken away.
            known: ids whose bytes the file has already, under its last header.

        Raises:
            TraceError: the file can't be opened, exists already (or doesn't, to append), or is in use.
        """
        self.path = path
        self._known = set(known)
        self._file: int | None = None
        try:
            paths.private(path.parent)
            self._file = os.open(path, os.O_RDWR | os.O_CLOEXEC | (0 if append else os.O_CREAT), 0o600)
            self._end = self._claim(self._file, append=append)
        except OSError as error:
            self.close()
            raise TraceError(f"{path}: can't be written: {error.strerror}") from None
        except TraceError:
            self.close()
            raise

    def write(self, event: AnyEvent) -> None:
        """Append one event.

        Raises:
            TraceError: the disk is full or gone; raised once. The lines before stay whole, the file is
                closed, and further events are dropped in silence, so that the caller can go on.
        """
        if self._file is None:
            return
        if isinstance(event, Header):
            self._known.clear()
        if isinstance(event, Pieces):
            event = self._unknown(event)
            if not event.pieces:
                return
        line = encode(event) + b"\n"
        try:
            written = os.pwrite(self._file, line, self._end)
            while written < len(line):
                written += os.pwrite(self._file, line[written:], self._end + written)
        except OSError as error:
            with contextlib.suppress(OSError):
                os.ftruncate(self._file, self._end)
            self.close()
            raise TraceError(
                f"{self.path}: can't be written: {error.strerror}",
                "What was written before stays; from here on nothing is kept.",
            ) from None
        self._end += len(line)

    def close(self) -> None:
        """Close the file and free it for others; events after this are dropped."""
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def _claim(self, file: int, *, append: bool) -> int:
        """Lock the file, cut off a torn last line, and return where to write on."""
        if not stat.S_ISREG(os.fstat(file).st_mode):
            raise TraceError(f"{self.path} is not a file")
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise TraceError(f"{self.path} is open in another dllm-chat", "Close it there first.") from None
        except OSError:
            pass  # a file system without locks
        if not append and os.fstat(file).st_size:
            raise TraceError(f"{self.path} exists already", "Take another name, or remove it first.")
        end = _end_of_last_line(file)
        os.ftruncate(file, end)
        return end

    def _unknown(self, event: Pieces) -> Pieces:
        """The event without what the file has already."""
        pieces = {token: data for token, data in event.pieces.items() if token not in self._known}
        self._known.update(pieces)
        special = tuple(token for token in event.special if token in pieces)
        return msgspec.structs.replace(event, pieces=pieces, special=special)


def _end_of_last_line(file: int) -> int:
    """Offset behind the last newline, searched from the end of the file."""
    end = os.fstat(file).st_size
    while end > 0:
        start = max(0, end - _TAIL)
        newline = os.pread(file, end - start, start).rfind(b"\n")
        if newline >= 0:
            return start + newline + 1
        end = start
    return 0
