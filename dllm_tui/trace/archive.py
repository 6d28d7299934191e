"""A trace opened to look things up: read through once, checked and laid out in time.

Only an index stays in memory; events are decoded when somebody asks for them. So a session of any length
opens fast and takes little.
"""

import os
import weakref
from array import array
from bisect import bisect_left
from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from io import BytesIO
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, TypeVar, overload

import msgspec

from dllm_tui.errors import TraceError
from dllm_tui.events import AnyEvent, Header, KnobsSet, Pieces, RunStart, ScreenSize, Turn, decode
from dllm_tui.trace.reader import read_lines
from dllm_tui.trace.timeline import Timeline

CACHED = 512
"""Decoded events that are kept for the next to ask."""

Item = TypeVar("Item")


class Archive(Sequence[AnyEvent]):
    """The events of a trace, as a sequence that any thread may read. The file may grow meanwhile.

    Args:
        path: the trace.
        data: its content, where that is not in the file of this name, or in none.

    Raises:
        TraceError: as :func:`dllm_tui.trace.reader.read`; and where an event is asked for, that the file was
            changed since.
    """

    def __init__(self, path: Path, data: bytes | None = None) -> None:
        self.path = path
        self.timeline = Timeline()
        self.headers: list[int] = []
        """Where the headers are."""
        self.known = dict[int, bytes]()
        """The bytes of tokens under the last header."""
        self._offsets = array("Q", [0])
        """Where every line begins, and the end of the last."""
        self._runs: dict[int, Excerpt] = {}
        self._read: Callable[[int, int], bytes] = _closed
        self._let_go: Callable[[], object] = lambda: None
        if data is not None:
            self._read = partial(_part, data)
            self._index(BytesIO(data))
        else:
            try:
                self._open()
            except OSError as error:
                raise TraceError(f"{path}: can't be read: {error.strerror}") from None
        self._decoded = lru_cache(CACHED)(self._decode)

    def __len__(self) -> int:
        return len(self.timeline)

    @overload
    def __getitem__(self, index: int) -> AnyEvent: ...
    @overload
    def __getitem__(self, index: slice) -> list[AnyEvent]: ...
    def __getitem__(self, index: int | slice) -> AnyEvent | list[AnyEvent]:
        """One event, or some."""
        if isinstance(index, slice):
            return [self._decoded(at) for at in range(len(self))[index]]
        return self._decoded(range(len(self))[index])

    def __enter__(self) -> "Archive":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the file; no event can be had after that."""
        self._read = _closed
        self._let_go()

    @property
    def runs(self) -> "dict[int, Excerpt]":
        """The events of every run."""
        return self._runs

    def header_at(self, count: int) -> Header:
        """The last header among the first ``count`` events."""
        return self._as(Header, self.headers[max(0, bisect_left(self.headers, count) - 1)])

    def said(self, count: int) -> list[Turn]:
        """All turns among the first ``count`` events, those too that others have replaced."""
        return [self._as(Turn, said.event) for said in self.timeline.turns if said.event < count]

    def turns_at(self, count: int) -> list[Turn]:
        """The conversation after the first ``count`` events."""
        return [self._as(Turn, said.event) for said in self.timeline.turns_at(count)]

    def _as(self, kind: type[Item], at: int) -> Item:
        event = self[at]
        assert isinstance(event, kind)
        return event

    def _open(self) -> None:
        if not self.path.is_file():
            reason = "is not a file" if self.path.exists() else "there is no such file"
            raise TraceError(f"{self.path}: {reason}")
        with self.path.open("rb") as file:
            self._index(file)
            descriptor = os.dup(file.fileno())
        self._read = partial(_pread, descriptor)
        self._let_go = weakref.finalize(self, os.close, descriptor)

    def _index(self, file: BinaryIO) -> None:
        special = set[int]()
        for at, event in enumerate(read_lines(file, name=str(self.path))):
            self._offsets.append(file.tell())
            self.timeline.add(event)
            match event:
                case Header():
                    self.headers.append(at)
                    self.known, special = {}, set()
                case RunStart():
                    self._runs[event.run] = Excerpt(self, event.run, self.known, special)
                    self._runs[event.run].places.append(at)
                case Turn() | ScreenSize() | KnobsSet():
                    pass
                case _:
                    self._runs[event.run].places.append(at)
                    if isinstance(event, Pieces):
                        self.known.update(event.pieces)
                        special.update(event.special)

    def _decode(self, at: int) -> AnyEvent:
        try:
            return decode(self._read(self._offsets[at], self._offsets[at + 1]))
        except msgspec.DecodeError:
            raise TraceError(f"{self.path}: was changed while it was open", "Open it again.") from None
        except OSError as error:
            raise TraceError(f"{self.path}: can't be read: {error}") from None


def _part(data: bytes, start: int, end: int) -> bytes:
    return data[start:end]


def _pread(descriptor: int, start: int, end: int) -> bytes:
    return os.pread(descriptor, end - start, start)


def _closed(start: int, end: int) -> bytes:
    raise OSError("it was closed")


class Excerpt(Sequence[AnyEvent]):
    """The events of one run, and behind its start the bytes of all its tokens."""

    def __init__(self, archive: Archive, run: int, pieces: dict[int, bytes], special: set[int]) -> None:
        self.places = array("Q")
        """Where its events are in the archive; the second of this sequence is nowhere there."""
        self._archive = archive
        self._run = run
        self._pieces, self._special = pieces, special

    def __len__(self) -> int:
        return len(self.places) + 1

    @overload
    def __getitem__(self, index: int) -> AnyEvent: ...
    @overload
    def __getitem__(self, index: slice) -> list[AnyEvent]: ...
    def __getitem__(self, index: int | slice) -> AnyEvent | list[AnyEvent]:
        """One event, or some."""
        if isinstance(index, slice):
            return [self[at] for at in range(len(self))[index]]
        at = range(len(self))[index]
        if at == 1:
            return Pieces(run=self._run, pieces=self._pieces, special=tuple(sorted(self._special)))
        return self._archive[self.places[at - (at > 0)]]

    def count_at(self, count: int) -> int:
        """How many of its events are among the first ``count`` of the archive."""
        own = bisect_left(self.places, count)
        return own + (own > 0)
