"""A session laid out in time: an index over its events, and the moves of a cursor on it.

The index grows event by event, so that a run that goes on is a timeline whose end moves: live is the tail.
It keeps no event, only where things are; an event is named by its place in the sequence that was added.

Times are *session seconds*: they start with the first turn or run, and never run backwards. A run's steps
lie where the run began plus their own ``t``. Turns and runs say ``at`` when they happened; where they
don't, and across a header (which starts a new sitting), :data:`PAUSE` stands for the time in between.
"""

import enum
from array import array
from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from typing import Generic, TypeVar

import msgspec

from dllm_tui.events import (
    GIVEN,
    AnyEvent,
    BlockStart,
    Commit,
    Done,
    Header,
    KnobChange,
    KnobsSet,
    Reason,
    RunStart,
    ScreenSize,
    Step,
    Turn,
)

PAUSE = 1.0
"""Session seconds before a prompt where a trace doesn't tell how long it took to come."""


class Mark(enum.IntFlag):
    """What else happened in a step, besides masks that became tokens."""

    NONE = 0
    EDIT = enum.auto()
    """A token became another, or moved."""
    REMASK = enum.auto()
    """A token went back to the mask."""
    REJECT = enum.auto()
    """Verification did: tokens that the commit forward did not agree with."""
    KNOBS = enum.auto()
    """The first step that a turned knob held for."""


class Moment(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A step that is one column of the timeline.

    Every denoising step is one; a prefill or commit forward is where it changed the canvas.
    """

    event: int
    """Where its :class:`~dllm_tui.events.Step` is."""
    run: int
    block: int
    step: int
    nfe: int
    time: float
    """Session seconds at its end."""
    committed: int
    """Masks that became tokens; not those that the run was given."""
    marks: Mark
    opens: bool
    """The first of its block."""


class Bucket(msgspec.Struct, frozen=True, kw_only=True):
    """One column that stands for several moments."""

    first: int
    stop: int
    """Moments ``first … stop-1``."""
    committed: int
    """Tokens of all of them."""
    peak: int
    """Tokens of the one that committed most."""
    marks: Mark
    opens: bool
    """A block begins here."""


class RunSpan(msgspec.Struct, kw_only=True):
    """Where a run lies."""

    run: int
    lane: str | None
    event: int
    """Of its start."""
    time: float
    """Session seconds of its start."""
    end: float
    """Session seconds of its last event so far."""
    moments: int = 0
    reason: Reason | None = None
    """Why it ended, once it has."""


class BlockSpan(msgspec.Struct, frozen=True, kw_only=True):
    """Where a block begins."""

    run: int
    block: int
    event: int
    time: float


class Said(msgspec.Struct, frozen=True, kw_only=True):
    """Where a turn is."""

    event: int
    time: float
    role: str
    run: int | None
    replaces: int | None


class _Open:
    """A run that has not ended: its cells, to tell what a step changed."""

    def __init__(self, span: RunSpan) -> None:
        self.span = span
        self.cells: list[int | None] = []
        self.block: int | None = None
        self.turned = False

    def apply(self, step: Step) -> tuple[int, Mark]:
        """Take a step in; masks that became tokens, and what else it did."""
        cells, committed, marks = self.cells, 0, Mark.NONE
        del cells[step.length :]
        cells.extend([None] * (step.length - len(cells)))
        taken_back = Mark.REJECT if step.phase == "commit" else Mark.REMASK
        for change in step.changes:
            former, now = cells[change.position], change.token_id
            cells[change.position] = now
            if former is None:
                committed += now is not None and change.kind not in GIVEN
            elif now is None:
                marks |= taken_back
            elif now != former:
                marks |= Mark.REJECT if step.phase == "commit" else Mark.EDIT
        return committed, marks


class Timeline:
    """The index of a session, or of one run.

    Add events in the order in which they happened, each as it comes. Every list is in that order, too.
    """

    def __init__(self, events: Iterable[AnyEvent] = ()) -> None:
        self.times = array("d")
        """Session seconds of every event; never decreasing."""
        self.idle = bytearray()
        """For every event, whether nothing was running when it came: the time before it is idle."""
        self.moments: list[Moment] = []
        self.runs: dict[int, RunSpan] = {}
        self.blocks: list[BlockSpan] = []
        self.turns: list[Said] = []
        self.turned = array("Q")
        """Where knobs were set or turned: starts of runs, and knob changes, in runs and between them."""
        self.screens = array("Q")
        """Where the size of the interface is told."""
        self._after = array("Q")
        """For every moment, how many events make up the state after it."""
        self._moment_times = array("d")
        self._open: dict[int, _Open] = {}
        self._busy = set[int]()
        """Runs that go on; one that was cut off doesn't, after the next header."""
        self._base: float | None = None
        """What ``at`` is at session second 0, in this sitting."""
        self._now = 0.0
        self.extend(events)

    def __len__(self) -> int:
        return len(self.times)

    @property
    def duration(self) -> float:
        """Session seconds from the start to the last event."""
        return self._now

    def extend(self, events: Iterable[AnyEvent]) -> None:
        """Add the next events."""
        for event in events:
            self.add(event)

    def add(self, event: AnyEvent) -> None:
        """Add the next event.

        Raises:
            IndexError: a step changes a position outside its canvas (a trace that was read has none such).
        """
        idle = not self._busy
        match event:
            case Step():
                self._step(event)
            case RunStart():
                self._start(event)
            case Turn():
                self._turn(event)
            case ScreenSize() | KnobsSet():
                self._aside(event)
            case Header():
                self._busy.clear()
                self._base = None
            case _:
                self._part(event)
        self.times.append(self._now)
        self.idle.append(idle)

    # Where the cursor may go. A moment is named by its index; -1 is before the first.

    def count_after(self, moment: int) -> int:
        """How many events make up the state after a moment: those up to where the next one begins."""
        if moment < 0:
            return 0
        return len(self) if moment + 1 == len(self.moments) else self._after[moment]

    def count_at(self, time: float) -> int:
        """How many events have happened by a session second."""
        return bisect_right(self.times, time)

    def moment_at(self, time: float) -> int:
        """The last moment by a session second."""
        return bisect_right(self._moment_times, time) - 1

    def moment_of(self, count: int) -> int:
        """The last moment among the first ``count`` events."""
        return bisect_right(self.moments, count - 1, key=lambda moment: moment.event) - 1

    def step(self, moment: int, by: int) -> int:
        """So many moments on or back, as far as there are any."""
        return min(max(moment + by, 0), len(self.moments) - 1)

    def block(self, moment: int, by: int) -> int:
        """To the start of the next block (``by`` 1), or of this one and then the one before (-1)."""
        last = len(self.moments) - 1
        at = moment + by
        while 0 < at < last and not self.moments[at].opens:
            at += by
        return min(max(at, 0), last)

    # What a row of columns shows

    def buckets(self, columns: int, start: int = 0, stop: int | None = None) -> list[Bucket]:
        """Moments ``start … stop-1`` on at most so many columns, all equally wide, give or take a moment."""
        stop = len(self.moments) if stop is None else stop
        total = max(0, stop - start)
        columns = min(columns, total)
        edges = [start + column * total // columns for column in range(columns + 1)] if columns > 0 else []
        return [_bucket(self.moments, *edge) for edge in pairwise(edges)]

    def turns_at(self, count: int) -> list[Said]:
        """The conversation after the first ``count`` events."""
        turns: list[Said] = []
        for said in self.turns:
            if said.event >= count:
                break
            del turns[len(turns) if said.replaces is None else said.replaces :]
            turns.append(said)
        return turns

    # How it grows

    def _turn(self, turn: Turn) -> None:
        self._pass(turn.at, pause=PAUSE if turn.role == "user" else 0.0)
        self.turns.append(
            Said(event=len(self), time=self._now, role=turn.role, run=turn.run, replaces=turn.replaces)
        )
        if turn.role == "assistant":
            self._belongs()

    def _aside(self, event: ScreenSize | KnobsSet) -> None:
        # where a sitting begins, these stand in front of its first prompt
        self._pass(event.at, pause=0.0 if event.at is None or self._base is not None else PAUSE)
        if isinstance(event, KnobsSet):
            self.turned.append(len(self))
        else:
            self.screens.append(len(self))

    def _start(self, start: RunStart) -> None:
        self._pass(start.at, pause=0.0)
        self.turned.append(len(self))
        span = RunSpan(run=start.run, lane=start.lane, event=len(self), time=self._now, end=self._now)
        self.runs[start.run] = span
        self._open[start.run] = _Open(span)
        self._busy.add(start.run)

    def _pass(self, at: float | None, *, pause: float) -> None:
        """Let the time pass up to a turn or run."""
        waited = self._now + (pause if self.turns or self.runs else 0.0)
        if at is None:
            self._now = waited
        elif self._base is None:
            self._base, self._now = at - waited, waited
        else:
            self._now = max(self._now, at - self._base)

    def _step(self, step: Step) -> None:
        run = self._open[step.run]
        span = run.span
        span.end = self._now = max(self._now, span.time + step.t)
        committed, marks = run.apply(step)
        if step.phase != "denoise" and not step.changes:
            if span.moments:
                self._belongs()
            return
        if run.turned:
            marks |= Mark.KNOBS
            run.turned = False
        opens, run.block = step.block != run.block, step.block
        span.moments += 1
        self.moments.append(
            Moment(
                event=len(self),
                run=step.run,
                block=step.block,
                step=step.step,
                nfe=step.nfe,
                time=self._now,
                committed=committed,
                marks=marks,
                opens=opens,
            )
        )
        self._after.append(len(self) + 1)
        self._moment_times.append(self._now)

    def _part(self, event: AnyEvent) -> None:
        match event:
            case BlockStart():
                self.blocks.append(
                    BlockSpan(run=event.run, block=event.block, event=len(self), time=self._now)
                )
            case KnobChange():
                self.turned.append(len(self))
                if event.run in self._open:
                    self._open[event.run].turned = True
            case Commit():
                self._belongs()
            case Done():
                self._busy.discard(event.run)
                if event.run in self._open:  # else it failed before it began: its prompt was too long
                    span = self._open.pop(event.run).span
                    span.reason = event.reason
                    span.end = self._now = max(self._now, span.time + event.seconds)
                self._belongs()
            case _:
                pass

    def _belongs(self) -> None:
        """The event that is being added is part of the state after the last moment."""
        if self.moments:
            self._after[-1] = len(self) + 1


def _bucket(moments: Sequence[Moment], first: int, stop: int) -> Bucket:
    part = moments[first:stop]
    marks = Mark.NONE
    for moment in part:
        marks |= moment.marks
    return Bucket(
        first=first,
        stop=stop,
        committed=sum(moment.committed for moment in part),
        peak=max(moment.committed for moment in part),
        marks=marks,
        opens=any(moment.opens for moment in part),
    )


State = TypeVar("State")


class Checkpoints(Generic[State]):
    """States of a fold over a sequence of events that may grow, without folding from the start each time.

    Args:
        events: what is folded.
        new: makes the state before any event.
        fold: brings a state forward over some events.
        copy: an independent copy of a state.
        every: events between two states that are kept.
    """

    def __init__(
        self,
        events: Sequence[AnyEvent],
        *,
        new: Callable[[], State],
        fold: Callable[[State, Sequence[AnyEvent]], object],
        copy: Callable[[State], State],
        every: int = 256,
    ) -> None:
        self._events = events
        self._fold, self._copy = fold, copy
        self._every = every
        self._kept = [new()]
        """States after 0, ``every``, 2 × ``every`` … events, as far as anybody has been."""

    def at(self, count: int) -> State:
        """The state after the first ``count`` events, the caller's own."""
        count = min(count, len(self._events))
        nearest = count // self._every
        while len(self._kept) <= nearest:
            self._kept.append(self._from(len(self._kept) - 1, len(self._kept) * self._every))
        return self._from(nearest, count)

    def _from(self, kept: int, count: int) -> State:
        state = self._copy(self._kept[kept])
        self._fold(state, self._events[kept * self._every : count])
        return state
