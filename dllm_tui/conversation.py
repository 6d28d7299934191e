"""One chat as it stands: its turns, the events of its answers, and where they are kept."""

import math
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Protocol

import msgspec

from dllm_tui import __version__
from dllm_tui.errors import TraceError
from dllm_tui.events import (
    AnyEvent,
    Done,
    Header,
    KnobsSet,
    ModelInfo,
    Pieces,
    RunStart,
    ScreenSize,
    Turn,
    encode,
    text_of,
)
from dllm_tui.knobs import LiveKnobs
from dllm_tui.trace.chats import Past, follow, versions_after
from dllm_tui.trace.recording import Recording
from dllm_tui.trace.writer import Writer

_BYTES_PER_TOKEN = 3.0
"""Few, so that the guess at a text's tokens is rather too high; English has about 4.5."""
_MOST_BYTES_PER_TOKEN = 6.0
"""More than any prose has on average."""
_TOKENS_PER_MESSAGE = 8
"""What a chat template puts around a message, roughly."""


class Recorder(Protocol):
    """Keeps the events of a session somewhere."""

    def write(self, event: AnyEvent) -> None:
        """Take the next event; raises :class:`~dllm_tui.errors.TraceError` once where that fails."""
        ...

    def close(self) -> None:
        """Nothing more will come."""
        ...


class _Measured(msgspec.Struct, frozen=True):
    """The turns ``start … end-1`` and the template around them are that many tokens: a run counted them."""

    start: int
    end: int
    tokens: int


class Conversation:
    """One chat. Prompts come from the interface's thread, answers from the engine's.

    Args:
        model: gives the model that is ready.
        create: makes the chat's file when the first turn comes; ``None`` keeps nothing.
        recorders: get every event too; they outlive the chat.
        report: is told once what could not be written.
        opening: how things stand where a sitting begins, for the record: behind each header.
    """

    def __init__(
        self,
        model: Callable[[], ModelInfo | None],
        *,
        opening: Callable[[], Sequence[ScreenSize | KnobsSet]] = tuple,
        create: Callable[[], Writer] | None = None,
        recorders: Sequence[Recorder] = (),
        report: Callable[[TraceError], None],
    ) -> None:
        self.turns: list[Turn] = []
        self.events: dict[int, Sequence[AnyEvent]] = {}
        """Events of the runs that turns and versions name."""
        self.versions: dict[int, Turn] = {}
        """The answers that the last prompt has got, by run."""
        self.models: dict[int, ModelInfo] = {}
        """Which model made a run, as far as that is known."""
        self.next_run = 0
        self.start = 0
        """Turns before this one (but for the system prompt) are no longer sent: the context is too short."""
        self.file: Writer | None = None
        self.recording: Recording | None = None
        """Gets every event too, while there is one."""
        self.model: ModelInfo | None = None
        """The last header's."""
        self._began = False
        self._model = model
        self._opening = opening
        self._create = create
        self._recorders = recorders
        self._report = report
        self._unkept: list[AnyEvent] = []
        """All that has happened, where there is no file of it."""
        self._measured: list[_Measured] = []
        self._answering = 0
        self._left = False
        self._lock = threading.RLock()

    def go_on(self, past: Past, file: Writer) -> None:
        """Take up a chat that was kept. An answer that was cut off by a crash is kept as far as it came."""
        self._began, self._create, self.file = True, None, file
        self.model = past.header.model
        self.turns, self.next_run = list(past.turns), past.next_run
        self.events, self.versions, self.models = dict(past.events), past.versions, dict(past.models)
        self._measured = _counted(self.turns, self.events)
        for event in past.interrupted:
            self.take(event)
        self._began = False  # a new sitting has a header of its own

    def take(self, event: AnyEvent) -> None:
        """Record an event, with the time of day; a turn joins the conversation."""
        with self._lock:
            model = self._model()
            if not self._began or (model and model != self.model):
                self._began, self.model = True, model
                self._write(header(model))
                for stands in self._opening():
                    self._write(stamped(stands))
            self._write(event := stamped(event))
            if isinstance(event, RunStart) and self.model:
                self.models[event.run] = self.model
            if isinstance(event, Turn):
                self.versions = versions_after(self.versions, self.turns, event)
                self.turns = follow(self.turns, event)
                self._measured = [known for known in self._measured if known.end < len(self.turns)]

    def note(self, event: ScreenSize | KnobsSet) -> None:
        """Record what happens beside the conversation; before that begins, only in a recording."""
        with self._lock:
            if self._began:
                self.take(event)
            elif self.recording:
                self.recording.write(stamped(event))

    def record(self, recording: Recording | None) -> None:
        """Let a recording have what happens from now on."""
        with self._lock:
            if recording:
                recording.join(len(self.turns))
            self.recording = recording

    def source(self) -> Path | bytes:
        """What has happened, as a trace: its file, or what one would hold.

        Raises:
            TraceError: nothing has.
        """
        with self._lock:
            if self.file:
                return self.file.path
            events = list(self._unkept)
        if not events:
            raise TraceError("Nothing was asked yet.")
        return b"".join(encode(event) + b"\n" for event in events)

    def answer(
        self, turns: Sequence[Turn], start: int, knobs: LiveKnobs
    ) -> tuple[int, Callable[[AnyEvent], None]]:
        """Make room for the next run: its number, and what takes its events on the engine's thread.

        Args:
            turns: what it answers, a beginning of this conversation; its answer comes behind.
            start: the first of them that is sent.
            knobs: for the record, should the run fail before it begins.
        """
        with self._lock:
            index, self.next_run = self.next_run, self.next_run + 1
            self._answering += 1
        return index, _Answer(self, index, len(turns), start, knobs).take

    def end_answer(
        self, done: Done, turn: Turn | None, events: Sequence[AnyEvent], start: int, tokens: int
    ) -> None:
        """A run has ended, with or without an answer. ``done`` is recorded last: it ends what a run is.

        Args:
            done: the run's last event.
            turn: the answer, if any.
            events: of its run.
            start: the first turn that the model read.
            tokens: what the model read and wrote.
        """
        with self._lock:
            if turn:
                self.take(turn)
                kept = {turn.run for turn in self.turns} | self.versions.keys()
                self.events = {run: of_run for run, of_run in self.events.items() if run in kept}
                self.events[turn.run or 0] = events
                self._measured.append(_Measured(start, len(self.turns), tokens))
            self.take(done)
            self._answering -= 1
            if self._left and not self._answering:
                self._close()

    def leave(self) -> None:
        """Close the file, as soon as the answer that is being written has ended."""
        with self._lock:
            self._left = True
            if not self._answering:
                self._close()

    def tokens(self, turns: Sequence[Turn], start: int) -> int:
        """About how many tokens a beginning of this conversation is when it is sent from ``start`` on."""
        fitting = [known for known in self._measured if known.start == start and known.end <= len(turns)]
        counted, rest = (fitting[-1].tokens, turns[fitting[-1].end :]) if fitting else (0, turns[start:])
        if not fitting and start and turns[0].role == "system":
            rest = [turns[0], *rest]
        return counted + sum(
            _TOKENS_PER_MESSAGE + math.ceil(len(turn.text.encode()) / _BYTES_PER_TOKEN) for turn in rest
        )

    def _write(self, event: AnyEvent) -> None:
        try:
            if self._create:
                create, self._create = self._create, None
                self.file = create()
        except TraceError as error:
            self._report(error)
        if not self.file:
            self._unkept.append(event)
        for recorder in (*self._recorders, self.recording, self.file):
            try:
                if recorder:
                    recorder.write(event)
            except TraceError as error:
                self._report(error)

    def _close(self) -> None:
        if self.file:
            self.file.close()


def _counted(turns: Sequence[Turn], events: Mapping[int, Sequence[AnyEvent]]) -> list[_Measured]:
    """What the runs of a kept chat counted, as far as they were sent all that stood before.

    A trace doesn't say which turns were left out. Where any were, a prompt is shorter than what the model had
    read and written before and the text that came since.
    """
    measured: list[_Measured] = []
    start = int(bool(turns) and turns[0].role == "system")
    counted = asked = 0
    for end, turn in enumerate(turns, start=1):
        if turn.role != "assistant":
            asked += len(turn.text.encode())
            continue
        run = () if turn.run is None else events.get(turn.run, ())
        if not run or not isinstance(first := run[0], RunStart) or not isinstance(done := run[-1], Done):
            break
        if first.prompt_tokens < counted + asked / _MOST_BYTES_PER_TOKEN:
            break
        counted, asked = first.prompt_tokens + done.tokens, 0
        measured.append(_Measured(start, end, counted))
    return measured


class _Answer:
    """Takes the events of one run, and makes a turn of them."""

    def __init__(self, chat: Conversation, index: int, at: int, start: int, knobs: LiveKnobs) -> None:
        self._chat = chat
        self._index = index
        self._at = at
        self._start = start
        self._knobs = knobs
        self._events: list[AnyEvent] = []
        self._pieces: dict[int, bytes] = {}
        self._special: set[int] = set()
        self._read = 0

    def take(self, event: AnyEvent) -> None:
        """Record the next event of the run."""
        if not self._events and not isinstance(event, RunStart):
            self.take(RunStart(run=self._index, knobs=self._knobs.now.to_dict()))
        self._events.append(event)
        if isinstance(event, Done):
            self._end(event)
            return
        self._chat.take(event)
        if isinstance(event, RunStart):
            self._read = event.prompt_tokens
        elif isinstance(event, Pieces):
            self._pieces.update(event.pieces)
            self._special.update(event.special)

    def _end(self, done: Done) -> None:
        text = text_of(done.token_ids, self._pieces, self._special)
        turn = None
        if text or done.reason not in {"cancelled", "error"}:
            replaces = self._at if self._at < len(self._chat.turns) else None
            turn = Turn(role="assistant", text=text, run=self._index, replaces=replaces)
        self._chat.end_answer(done, turn, self._events, self._start, self._read + done.tokens)


def stamped(event: AnyEvent) -> AnyEvent:
    """The event with the time of day, if it is of those that have one."""
    if isinstance(event, Turn | RunStart | ScreenSize | KnobsSet):
        return msgspec.structs.replace(event, at=round(time.time(), 3))
    return event


def header(model: ModelInfo | None) -> Header:
    """The header of what this program writes now."""
    created = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    return Header(app=f"dllm-chat {__version__}", created=created, model=model)
