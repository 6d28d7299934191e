"""Where in an answer one looks: at its newest step, or at an earlier one, standing still or playing.

No widget, and no part of the run: whoever scrubs reads the events that the engine has written, and the
engine never knows.
"""

import time
from array import array
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from dllm_tui.events import AnyEvent, Done, KnobChange, RunStart, Step
from dllm_tui.knobs import KNOBS
from dllm_tui.trace.player import SPEEDS, STEP_SECONDS, Player
from dllm_tui.trace.timeline import Checkpoints, Mark, Moment, Timeline
from dllm_tui.tui.canvas_state import CanvasState
from dllm_tui.tui.metrics import Meter, Reading

RESHAPED = {"insert": "inserted", "delete": "deleted", "shift": "moved", "renoise": "renoised"}
"""Kinds of changes that neither edit a cell nor remask it, in words."""
WORDS = ("remasked", "edited", *RESHAPED.values())
"""What a step may have done, in the order in which it is told."""


class Scrub:
    """A cursor over the steps of one run, which may still grow.

    Args:
        events: of the run; whatever is appended is taken in by :meth:`grow`.
        arrow: stands between a knob's former value and its new one.
        now: the clock that playing runs on.
    """

    def __init__(
        self, events: Sequence[AnyEvent], *, arrow: str = "→", now: Callable[[], float] = time.monotonic
    ) -> None:
        self.events = events
        self.timeline = Timeline()
        self.moment: int | None = None
        """The step that is looked at; ``None`` is the newest, also when the next one comes."""
        self.ended = False
        """No more steps are to come."""
        self.playing = False
        """The cursor moves on its own, with :meth:`tick`."""
        self.pace: float | None = 1.0
        """Seconds of the run in a second of playing; ``None`` gives every step the same time."""
        self._arrow = arrow
        self._player = Player(0.0, now=now)
        self._canvases = Checkpoints(events, new=CanvasState, fold=CanvasState.fold, copy=CanvasState.copy)
        self._meters = Checkpoints(events, new=Meter, fold=Meter.fold, copy=Meter.copy)
        self._knobs: dict[str, Any] = {}
        self._turning: list[str] = []
        """Knobs turned since the last moment."""
        self._turned: dict[int, str] = {}
        """What was turned, by the first moment that it held for."""
        self._marked = array("Q")
        """Moments with marks."""
        self._told: tuple[int, str] = (-1, "")
        """The marked moment that was described last, and what of it."""

    # -- what there is

    def grow(self) -> bool:
        """Take in the events that came since the last call; whether there were any."""
        known, count = len(self.timeline), len(self.events)  # the engine's thread may append meanwhile
        for at in range(known, count):
            event = self.events[at]
            moments = len(self.timeline.moments)
            self.timeline.add(event)
            match event:
                case RunStart():
                    self._knobs = dict(event.knobs)
                case KnobChange():
                    self._turning += [
                        f"{_label(name)} {_value(self._knobs.get(name))} {self._arrow} {_value(value)}"
                        for name, value in event.changes.items()
                    ]
                    self._knobs |= event.changes
                case Done():
                    self.ended = True
                case _:
                    pass
            if len(self.timeline.moments) > moments:
                self._new_moment(moments)
        if count > known and self._moments:
            self._player.end = self._second(self.last)
        return count > known

    @property
    def last(self) -> int:
        """The newest moment; -1 before there is one."""
        return len(self._moments) - 1

    @property
    def count(self) -> int:
        """How many events make up what is looked at."""
        return len(self.timeline) if self.moment is None else self.timeline.count_after(self.moment)

    @property
    def canvas(self) -> CanvasState:
        """The canvas as it was then; the caller's own."""
        return self._canvases.at(self.count)

    @property
    def reading(self) -> Reading:
        """The numbers as they were then."""
        return self._meters.at(self.count).reading

    @property
    def marked(self) -> bool:
        """Whether anything was marked."""
        return bool(self._marked)

    @property
    def note(self) -> str:
        """What was marked last, up to what is looked at; empty where nothing was."""
        moment = self._last_marked
        if moment is None:
            return ""
        if self._told[0] != moment:
            self._told = moment, self._describe(moment)
        return self._told[1]

    @property
    def noted(self) -> Mark:
        """What :attr:`note` is about."""
        moment = self._last_marked
        return Mark.NONE if moment is None else self._moments[moment].marks

    @property
    def _last_marked(self) -> int | None:
        upto = self.last if self.moment is None else self.moment
        at = bisect_right(self._marked, upto) - 1
        return None if at < 0 else self._marked[at]

    # -- moving

    def go(self, moment: int) -> None:
        """Look at a step, and stand still; the ends hold."""
        self._stop()
        if self._moments:
            self.moment = min(max(moment, 0), self.last)
            self._player.seek(self._second(self.moment))

    def to_newest(self) -> None:
        """Look at the newest step, whatever comes."""
        self._stop()
        self.moment = None

    def step(self, by: int) -> None:
        """So many steps on or back; beyond the last of a run that goes on is the newest again."""
        at = self.last if self.moment is None else self.moment
        if at + by > self.last and not self.ended:
            self.to_newest()
        elif self.moment is not None or by < 0:
            self.go(at + by)

    def block(self, by: int) -> None:
        """To the start of the next block (1), or of this one and then the one before (-1)."""
        at = self.last if self.moment is None else self.moment
        if at == self.last and by > 0:
            self.step(by)
        else:
            self.go(self.timeline.block(at, by))

    def toggle(self) -> None:
        """Play, or stand still. From the newest step of a run that goes on: stay while it goes on."""
        if self.playing or (self.moment is None and not self.ended):
            self.go(self.last if self.moment is None else self.moment)
        elif self._moments:
            self.go(0 if self.moment is None or self.moment == self.last else self.moment)
            self._play()

    def faster(self) -> None:
        """The next pace; the slowest goes step by step."""
        paces = (None, *SPEEDS)
        self._set_pace(paces[min(paces.index(self.pace) + 1, len(paces) - 1)])

    def slower(self) -> None:
        """The pace before."""
        paces = (None, *SPEEDS)
        self._set_pace(paces[max(paces.index(self.pace) - 1, 0)])

    def tick(self) -> bool:
        """Move on while it plays; whether what is looked at has changed.

        Playing that catches up with a run that goes on follows it from there.
        """
        if self.moment is None or not self.playing:
            return False
        before, position = self.moment, self._player.position
        stepwise = self.pace is None
        at = int(position / STEP_SECONDS + 1e-6) if stepwise else self.timeline.moment_at(position)
        self.moment = min(max(at, before), self.last)
        if self.moment == self.last:
            if self.ended:
                self.go(self.last)
            else:
                self.to_newest()
        return self.moment != before or not self.playing

    # -- how

    def _play(self) -> None:
        self.playing = True
        self._player.play()

    def _stop(self) -> None:
        self.playing = False
        self._player.pause()

    @property
    def _moments(self) -> list[Moment]:
        return self.timeline.moments

    def _second(self, moment: int) -> float:
        """Where on the player's clock a moment is."""
        return moment * STEP_SECONDS if self.pace is None else self._moments[moment].time

    def _set_pace(self, pace: float | None) -> None:
        plays = self.playing
        self._stop()
        self.pace = pace
        self._player.speed = pace or 1.0
        if self._moments:
            self._player.end = self._second(self.last)
        if self.moment is not None:
            self.go(self.moment)
            if plays:
                self._play()

    def _new_moment(self, moment: int) -> None:
        if self._moments[moment].marks:
            self._marked.append(moment)
        if self._turning:
            self._turned[moment] = ", ".join(self._turning)
            self._turning = []

    def _describe(self, moment: int) -> str:
        """What else a step did, in a few words."""
        marked = self._moments[moment]
        step = self.events[marked.event]
        assert isinstance(step, Step)
        before = self._canvases.at(marked.event).tokens
        done = Counter[str]()
        for change in step.changes:
            former = before[change.position] if change.position < len(before) else None
            if change.kind in RESHAPED:
                done[RESHAPED[change.kind]] += 1
            elif former is not None and former != change.token_id:
                done["remasked" if change.token_id is None else "edited"] += 1
        parts = [self._turned[moment]] if moment in self._turned else []
        if marked.marks & Mark.REJECT:
            parts.append(f"verify rejected {done.total()}")
        else:
            parts += [f"{done[word]} {word}" for word in WORDS if done[word]]
        return ", ".join(parts)


def _label(name: str) -> str:
    """What the panel calls a knob; a trace may name others."""
    return KNOBS[name].label if name in KNOBS else name


def _value(value: object) -> str:
    """A knob's value for people."""
    if isinstance(value, float):
        return f"{value:.2f}" if round(value, 2) == value else f"{value:g}"
    return "?" if value is None else str(value)
