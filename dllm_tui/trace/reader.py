"""Read a trace as a stream: checked line by line, in bounded memory, whatever the file holds."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO

import msgspec

from dllm_tui.errors import TraceError
from dllm_tui.events import (
    SCHEMA_VERSION,
    AnyEvent,
    BlockStart,
    Commit,
    Done,
    Error,
    Header,
    KnobChange,
    KnobsSet,
    Pieces,
    RunStart,
    ScreenSize,
    Step,
    Turn,
    decode,
)
from dllm_tui.trace import MAX_LINE

MAX_RUNS = 1 << 20
"""Most runs of one file; with :data:`MAX_PIECES` it bounds what the checks remember."""
MAX_PIECES = 1 << 20


class _First(msgspec.Struct):
    """As much of a first line as every schema has."""

    type: str = ""
    schema: int = 0


class _BrokenError(Exception):
    """A line is not valid; the message says why."""


def read(path: Path) -> Iterator[AnyEvent]:
    """The events of a trace, in order. A last line that was cut off is left out.

    Every event is checked: what it refers to (runs, turns, positions, tokens) was there before.

    Raises:
        TraceError: not a file that can be read, no trace, a newer schema, or a line that is not valid
            (with its number). Events before that line were yielded.
    """
    try:
        if not path.is_file():
            reason = "is not a file" if path.exists() else "there is no such file"
            raise TraceError(f"{path}: {reason}")
        with path.open("rb") as file:
            yield from read_lines(file, name=str(path))
    except OSError as error:
        raise TraceError(f"{path}: can't be read: {error.strerror}") from None


def read_lines(file: BinaryIO, *, name: str) -> Iterator[AnyEvent]:
    """:func:`read` of an open file; ``name`` is for messages."""
    lines = _lines(file, name)
    first = next(lines, None)
    if first is None:
        raise TraceError(f"{name}: empty, or cut off in its first line; a trace begins with a header")
    check = _Check()
    check(header := _header(first, name))
    yield header
    for number, line in enumerate(lines, start=2):
        try:
            event = decode(line)
            check(event)
        except (msgspec.DecodeError, _BrokenError) as error:
            raise TraceError(f"{name}, line {number}: {error}") from None
        except RecursionError:
            raise TraceError(f"{name}, line {number}: nested too deeply") from None
        yield event


def _lines(file: BinaryIO, name: str) -> Iterator[bytes]:
    number = 0
    while line := file.readline(MAX_LINE + 1):
        number += 1
        if line.endswith(b"\n"):
            yield line
        elif len(line) > MAX_LINE:
            raise TraceError(
                f"{name}, line {number}: longer than {MAX_LINE >> 20} MiB, which no trace line is"
            )


def _header(line: bytes, name: str) -> Header:
    foreign = TraceError(
        f"{name}: not a trace of dllm-chat (the first line is no header)",
        "Traces are made by dllm-chat itself: every chat is one, and so is `ask --trace FILE`.",
    )
    try:
        first = msgspec.json.decode(line, type=_First)
        if first.type != "header":
            raise foreign
        if first.schema > SCHEMA_VERSION:
            raise TraceError(
                f"{name}: written by a newer dllm-chat (schema {first.schema}, known here: {SCHEMA_VERSION})",
                "Update dllm-chat to read it.",
            )
        event = decode(line)
    except (msgspec.DecodeError, RecursionError):
        raise foreign from None
    if not isinstance(event, Header) or event.schema < 1:
        raise foreign
    return event


class _Check:
    """Whether events follow upon each other; called with each in turn, raises :class:`_BrokenError`."""

    def __init__(self) -> None:
        self._turns = 0
        self._runs = set[int]()
        self._open = dict[int, tuple[int, float]]()
        """Forwards and time of the last step, by running generation."""
        self._pieces = set[int]()

    def __call__(self, event: AnyEvent) -> None:
        match event:
            case Header():
                if not 1 <= event.schema <= SCHEMA_VERSION:
                    raise _BrokenError(f"a header of schema {event.schema} inside a trace")
                self._pieces.clear()
            case Turn():
                self._turn(event)
            case RunStart():
                self._start(event)
            case ScreenSize() | KnobsSet():
                pass
            case _:
                self._part(event)

    def _turn(self, event: Turn) -> None:
        if event.run is not None and event.run not in self._runs:
            raise _BrokenError(f"a turn of run {event.run}, which has not begun")
        if event.replaces is not None:
            if event.replaces >= self._turns:
                raise _BrokenError(f"a turn that replaces turn {event.replaces} of {self._turns}")
            self._turns = event.replaces
        self._turns += 1

    def _start(self, event: RunStart) -> None:
        if event.run in self._runs:
            raise _BrokenError(f"run {event.run} begins a second time")
        if len(self._runs) >= MAX_RUNS:
            raise _BrokenError(f"more than {MAX_RUNS} runs")
        self._runs.add(event.run)
        self._open[event.run] = (0, 0.0)

    def _part(self, event: BlockStart | Pieces | Step | KnobChange | Commit | Error | Done) -> None:
        if event.run not in self._open:
            state = "has ended" if event.run in self._runs else "has not begun"
            raise _BrokenError(f"{event.type} of run {event.run}, which {state}")
        match event:
            case Step():
                self._step(event)
            case Pieces():
                self._pieces.update(event.pieces)
                if len(self._pieces) > MAX_PIECES:
                    raise _BrokenError(f"more than {MAX_PIECES} tokens, which no vocabulary has")
            case BlockStart() | Commit() if event.start > event.end:
                raise _BrokenError(f"a block from {event.start} to {event.end}")
            case Done():
                self._tokens(event.token_ids)
                del self._open[event.run]
            case _:
                pass

    def _step(self, event: Step) -> None:
        nfe, t = self._open[event.run]
        if event.nfe < nfe or event.t < t:
            raise _BrokenError(f"step {event.nfe} at {event.t:g} s comes after step {nfe} at {t:g} s")
        self._open[event.run] = (event.nfe, event.t)
        ids, length = set[int | None](), event.length
        for cell in (*event.changes, *event.guesses, *event.decided):
            if cell.position >= length:
                raise _BrokenError(f"position {cell.position} is outside the canvas of {length} cells")
            ids.add(cell.token_id)
        for guess in (*event.guesses, *event.decided):
            ids.update(dict(guess.top))
        ids.discard(None)
        self._tokens(ids)

    def _tokens(self, ids: Iterable[int | None]) -> None:
        """Whether all have their text; a model without a tokenizer has none for any."""
        if self._pieces and not self._pieces.issuperset(ids):
            token = next(token for token in ids if token not in self._pieces)
            raise _BrokenError(f"token {token} has no text: no pieces before name it")
