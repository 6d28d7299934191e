"""Playing a timeline: at which second of the show every event comes, and a clock that runs through it.

Pure: no timer, no thread. Whoever draws asks where the show stands, as often as it likes.
"""

import time
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Final

import msgspec

from dllm_tui.trace.timeline import Timeline

SPEEDS: Final = (0.1, 0.25, 0.5, 1.0, 2.0, 5.0, 10.0)
"""What the speed keys go through."""

STEP_SECONDS: Final = 0.5
"""How long a step stands where the show goes step by step."""


class Course(msgspec.Struct, frozen=True):
    """When every event is shown, in seconds from the start of the show."""

    times: Sequence[float]
    """By event; never decreasing."""
    left_out: float = 0.0
    """Idle seconds that were left out."""
    gaps: int = 0
    """Idle gaps that were shortened for that."""

    @property
    def duration(self) -> float:
        """Seconds until the last event."""
        return self.times[-1] if self.times else 0.0

    def count_at(self, second: float) -> int:
        """How many events have been shown by then."""
        return bisect_right(self.times, second)

    def second_of(self, count: int) -> float:
        """When the first ``count`` events have been shown."""
        return self.times[min(count, len(self.times)) - 1] if count > 0 and self.times else 0.0


def real_time(timeline: Timeline) -> Course:
    """Everything as long as it took."""
    return Course(array("d", timeline.times))


def without_idling(timeline: Timeline, longest: float) -> Course:
    """No idle time, in which nothing ran, takes longer than so many seconds."""
    times, left_out, gaps = array("d", timeline.times[:1]), 0.0, 0
    for event, (before, after) in enumerate(pairwise(timeline.times), start=1):
        extra = max(0.0, after - before - longest) if timeline.idle[event] else 0.0
        left_out += extra
        gaps += extra > 0
        times.append(after - left_out)
    return Course(times, left_out, gaps)


def step_by_step(timeline: Timeline, seconds: float = STEP_SECONDS) -> Course:
    """Every step, and every prompt, stands for so many seconds, however long it took."""
    stops = sorted(
        [moment.event for moment in timeline.moments]
        + [said.event for said in timeline.turns if said.role == "user"]
    )
    return Course(array("d", (bisect_right(stops, event) * seconds for event in range(len(timeline)))))


class Player:
    """Where a show stands: between ``start`` and ``end`` seconds, moving while it plays.

    Args:
        end: where it ends; may be moved, for a show that is still being made.
        start: where it begins.
        speed: seconds of the show in a second, above 0.
        loop: at the end, begin again.
        hold: seconds (of the show) to stay at the end before that.
        now: the clock, in seconds; never runs backwards.
    """

    def __init__(
        self,
        end: float,
        *,
        start: float = 0.0,
        speed: float = 1.0,
        loop: bool = False,
        hold: float = 0.0,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self.start = start
        self.loop = loop
        self._end = max(start, end)
        self._hold = hold
        self._speed = speed
        self._now = now
        self._mark = start
        """Where it stood at ``_since``."""
        self._since = now()
        self._playing = False
        self._live = False

    @property
    def position(self) -> float:
        """Where it stands now."""
        if self._live:
            return self._end
        return min(self._ran(), self._end)

    @property
    def playing(self) -> bool:
        """Whether the position moves on its own. Not at the end, unless it loops or follows it."""
        return self._live or (self._playing and (self.loop or self._ran() < self._end))

    @property
    def live(self) -> bool:
        """Whether it follows the end, wherever that goes."""
        return self._live

    @property
    def ended(self) -> bool:
        """Whether it has come to its end and stays there."""
        return not self._live and not self.loop and self._ran() >= self._end

    @property
    def speed(self) -> float:
        """Seconds of the show in a second."""
        return self._speed

    @speed.setter
    def speed(self, speed: float) -> None:
        self._settle()
        self._speed = speed

    @property
    def end(self) -> float:
        """Where it ends."""
        return self._end

    @end.setter
    def end(self, end: float) -> None:
        self._settle()
        self._end = max(self.start, end)

    def play(self) -> None:
        """Move on; from the start again, if it stands at the end."""
        if self.ended:
            self.seek(self.start)
        self._settle()
        self._playing = not self._live

    def pause(self) -> None:
        """Stay where it stands."""
        self._settle()
        self._playing = self._live = False

    def toggle(self) -> None:
        """Pause or play."""
        if self.playing:
            self.pause()
        else:
            self.play()

    def seek(self, second: float) -> None:
        """Go somewhere, and play on from there if it was playing; from the live end it stays there."""
        self._live = False
        self._mark, self._since = min(max(second, self.start), self._end), self._now()

    def follow(self) -> None:
        """Stay at the end while it moves."""
        self._playing, self._live = False, True

    def faster(self) -> None:
        """The next speed."""
        at = bisect_right(SPEEDS, self._speed)
        self.speed = SPEEDS[min(at, len(SPEEDS) - 1)]

    def slower(self) -> None:
        """The speed before."""
        at = bisect_left(SPEEDS, self._speed)
        self.speed = SPEEDS[max(at - 1, 0)]

    def _ran(self) -> float:
        """Where it would stand if there were no end; wrapped where it loops."""
        if not self._playing:
            return self._mark
        ran = self._mark + (self._now() - self._since) * self._speed
        period = self._end - self.start + self._hold
        if self.loop and period > 0:
            return self.start + (ran - self.start) % period
        return ran

    def _settle(self) -> None:
        """Begin to count anew from where it stands, so that what changes now holds from now on."""
        self._mark, self._since = self.position, self._now()
