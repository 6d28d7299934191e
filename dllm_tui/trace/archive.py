"""A trace opened to look things up: read through once, checked and laid out in time.

Only an index stays in memory; events are decoded when somebody asks for them. So a session of any length
opens fast and takes little.
"""

from array import array
from bisect import bisect_left
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from types import TracebackType
from typing import TypeVar, overload

import msgspec

from dllm_tui.errors import TraceError
from dllm_tui.events import AnyEvent, Header, Pieces, RunStart, Turn, decode
from dllm_tui.trace.reader import read_lines
from dllm_tui.trace.timeline import Timeline

CACHED = 512
"""Decoded events that are kept for the next to ask."""

Item = TypeVar("Item")


class Archive(Sequence[AnyEvent]):
    """The events of a trace, as a sequence.

    Args:
        path: the trace.

    Raises:
        TraceError: as :func:`dllm_tui.trace.reader.read`; and where an event is asked for, that the file was
            changed since.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.timeline = Timeline()
        self.headers: list[int] = []
        """Where the headers are."""
        self._offsets = array("Q", [0])
        """Where every line begins, and the end of the last."""
        self._runs: dict[int, Excerpt] = {}
        try:
            if not path.is_file():
                reason = "is not a file" if path.exists() else "there is no such file"
                raise TraceError(f"{path}: {reason}")
            self._file = path.open("rb")
            try:
                self._index()
            except BaseException:
                self._file.close()
                raise
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
        self._file.close()

    @property
    def runs(self) -> "dict[int, Excerpt]":
        """The events of every run."""
        return self._runs

    def header_at(self, count: int) -> Header:
        """The last header among the first ``count`` events."""
        return self._as(Header, self.headers[max(0, bisect_left(self.headers, count) - 1)])

    def turns_at(self, count: int) -> list[Turn]:
        """The conversation after the first ``count`` events."""
        return [self._as(Turn, said.event) for said in self.timeline.turns_at(count)]

    def _as(self, kind: type[Item], at: int) -> Item:
        event = self[at]
        assert isinstance(event, kind)
        return event

    def _index(self) -> None:
        pieces, special = dict[int, bytes](), set[int]()
        for at, event in enumerate(read_lines(self._file, name=str(self.path))):
            self._offsets.append(self._file.tell())
            self.timeline.add(event)
            match event:
                case Header():
                    self.headers.append(at)
                    pieces, special = {}, set()
                case RunStart():
                    self._runs[event.run] = Excerpt(self, event.run, pieces, special)
                    self._runs[event.run].places.append(at)
                case Turn():
                    pass
                case _:
                    self._runs[event.run].places.append(at)
                    if isinstance(event, Pieces):
                        pieces.update(event.pieces)
                        special.update(event.special)

    def _decode(self, at: int) -> AnyEvent:
        changed = TraceError(f"{self.path}: was changed while it was open", "Open it again.")
        start, end = self._offsets[at], self._offsets[at + 1]
        try:
            self._file.seek(start)
            return decode(self._file.read(end - start))
        except msgspec.DecodeError:
            raise changed from None
        except (OSError, ValueError) as error:
            raise TraceError(f"{self.path}: can't be read: {error}") from None


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
