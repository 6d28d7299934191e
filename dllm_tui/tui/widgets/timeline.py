"""The timeline: a column for each step of an answer, and what to scrub it with."""

import enum
from collections.abc import Sequence
from typing import ClassVar, NamedTuple

from rich.cells import cell_len
from rich.segment import Segment
from textual import events
from textual.binding import BindingType
from textual.geometry import Region
from textual.message import Message
from textual.strip import Strip

from dllm_tui.trace.timeline import Bucket, Mark, Timeline
from dllm_tui.tui.actions import bindings
from dllm_tui.tui.cells import cut, printable
from dllm_tui.tui.marks import Marks
from dllm_tui.tui.pen import Drawn, Pen
from dllm_tui.tui.scrub import Scrub

ROOM = 40
"""Columns that the chart of a long answer has at least before notes get any."""
NOTE = 30
"""Columns that notes get beside a long chart."""
FEW = 16
"""Columns below which a note says nothing."""


class Kind(enum.Enum):
    """What a sign of the chart is."""

    BAR = enum.auto()
    MARK = enum.auto()
    FRAME = enum.auto()
    """Between blocks."""


class Sign(NamedTuple):
    """One cell of the chart."""

    text: str
    kind: Kind
    first: int
    stop: int
    """The moments that it stands for; of those between blocks, the ones that follow."""


class Detail(enum.Enum):
    """What is drawn besides the bars, as there is room for it."""

    NAMES = enum.auto()
    """Blocks by number, and a mark after its bar."""
    TICKS = enum.auto()
    """A line between blocks."""
    BARS = enum.auto()
    """Nothing: a mark takes the place of its bar."""


def chart(timeline: Timeline, width: int, marks: Marks) -> list[Sign]:
    """The signs of a timeline, at most ``width`` of them: one bar a step, or for several where it is long."""
    total = len(timeline.moments)
    if total <= width:
        steps = timeline.buckets(total)
        for detail in (Detail.NAMES, Detail.TICKS):
            signs = _signs(timeline, steps, detail, marks)
            if len(signs) <= width:
                return signs
    columns = min(width, total)
    while columns > width // 2 and len(timeline.blocks) <= width // 3:
        signs = _signs(timeline, timeline.buckets(columns), Detail.TICKS, marks)
        if len(signs) <= width:
            return signs
        columns -= len(signs) - width
    return _signs(timeline, timeline.buckets(width), Detail.BARS, marks)


def _signs(timeline: Timeline, buckets: Sequence[Bucket], detail: Detail, marks: Marks) -> list[Sign]:
    signs: list[Sign] = []
    top = max([bucket.peak for bucket in buckets], default=0)

    def add(text: str, kind: Kind, bucket: Bucket) -> None:
        signs.extend(Sign(sign, kind, bucket.first, bucket.stop) for sign in text)

    for bucket in buckets:
        if bucket.opens and detail is not Detail.BARS:
            if signs:
                add(marks.tick, Kind.FRAME, bucket)
            if detail is Detail.NAMES:
                space = " " * bool(signs)
                add(f"{space}B{timeline.moments[bucket.first].block + 1} ", Kind.FRAME, bucket)
        level = -(-bucket.peak * len(marks.bars) // top) - 1 if top else -1
        if not bucket.marks or detail is not Detail.BARS:
            add(marks.bars[level] if level >= 0 else marks.none, Kind.BAR, bucket)
        if bucket.marks:
            add(_sign_of(bucket.marks, marks), Kind.MARK, bucket)
    return signs


def _sign_of(happened: Mark, marks: Marks) -> str:
    """The sign of what happened; of the rarest, where it was more than one thing."""
    if happened & Mark.KNOBS:
        return marks.turned
    return marks.back if happened & (Mark.REJECT | Mark.REMASK) else marks.edited


class TimelineRow(Drawn, can_focus=True):
    """Draws a :class:`~dllm_tui.tui.scrub.Scrub` and moves it by keys and mouse.

    Args:
        pen: what it is drawn with.
        newest: what the newest step of a run that goes on is: ``live``, where it is.
    """

    BINDINGS: ClassVar[list[BindingType]] = bindings("timeline")
    footer = {  # noqa: RUF012 – declared in the base
        "step_back": "back",
        "step_on": "on",
        "block_on": "next block",
        "play": "play",
        "slower": "slower",
        "faster": "faster",
        "to_live": "newest",
        "branch_here": "branch",
    }

    class Moved(Message):
        """Another step is looked at now, or it plays."""

    class AnswerWanted(Message):
        """Another answer is to be looked at."""

        def __init__(self, by: int) -> None:
            super().__init__()
            self.by = by
            """1 for the next one down, -1 for the one above."""

    class BranchWanted(Message):
        """Go on from the step that is looked at."""

    class Left(Message):
        """Back to the prompt."""

    def __init__(self, pen: Pen, *, newest: str = "live") -> None:
        super().__init__(pen, id="timeline")
        self.newest = newest
        self.scrub = Scrub(())
        self.border_title = "timeline"
        self._signs: list[Sign] = []
        self._laid_out: tuple[Timeline, int, int, Marks] | None = None
        self._dragging = False

    @property
    def pace(self) -> str:
        """How fast it plays, for people."""
        pace = self.scrub.pace
        if pace is None:
            return "step by step"
        return "real time" if pace == 1.0 else f"{self.pen.marks.times}{pace:g}"

    def show(self, scrub: Scrub, title: str) -> None:
        """Show another answer."""
        self.scrub, self.border_title = scrub, title
        self.redraw()

    def redraw(self) -> None:
        """Draw where one stands now, and say in the frame how fast it plays."""
        self.border_subtitle = "" if self.scrub.moment is None else self.pace
        self.refresh()

    def redraw_line(self) -> None:
        """Draw what has been added, and leave the frame as it is."""
        self.refresh(Region(0, 0, self.size.width, 1))

    # -- drawing

    def render_line(self, y: int) -> Strip:
        """The chart, then where one stands and what was marked."""
        # how much room the chart has must not depend on where one stands: it would move under the mouse
        width, total = self.size.width, self.scrub.last + 1
        status = Strip(self._status())
        room = max(width - max(status.cell_length, cell_len(self._where(total, total)) + 2) - 2, 0)
        note = NOTE if self.scrub.marked and room - NOTE >= ROOM else 0
        self._lay_out(room - note)
        left = max(room - len(self._signs), 0)
        said = Strip(self._note(left)) if left >= FEW else Strip([])
        gap = max(width - len(self._signs) - status.cell_length - said.cell_length, 0)
        return self.finish(Strip([*self._chart(), Segment(" " * gap), *status, *said]).simplify())

    def _lay_out(self, width: int) -> None:
        timeline, marks = self.scrub.timeline, self.pen.marks
        wanted = (timeline, len(timeline.moments), width, marks)
        if wanted != self._laid_out:
            self._laid_out, self._signs = wanted, chart(timeline, width, marks)

    def _chart(self) -> list[Segment]:
        at, pen = self.scrub.moment, self.pen
        styles = {Kind.MARK: pen.turned, Kind.FRAME: pen.muted}
        segments: list[Segment] = []
        for sign in self._signs:
            style = styles.get(sign.kind, pen.accent)
            if at is not None and sign.kind is not Kind.FRAME:
                if sign.first <= at < sign.stop:
                    style += pen.cursor
                elif sign.first > at:
                    style = pen.frame
            segments.append(Segment(sign.text, style))
        return segments

    def _status(self) -> list[Segment]:
        scrub, pen, marks = self.scrub, self.pen, self.pen.marks
        total = scrub.last + 1
        if not total:
            return [Segment("no steps yet" if scrub.events else "nothing to scrub yet", pen.muted)]
        if scrub.moment is None:
            if scrub.ended:
                return [Segment(f"{marks.idle} {total} step{'s' * (total > 1)}", pen.muted)]
            return [Segment(f"{marks.busy} ", pen.accent), Segment(self.newest, pen.text)]
        sign = marks.playing if scrub.playing else marks.paused
        return [Segment(f"{sign} ", pen.turned), Segment(self._where(scrub.moment + 1, total), pen.bold)]

    def _where(self, step: int, total: int) -> str:
        return f"step {step}/{total} {self.pen.marks.dot} not live"

    def _note(self, room: int) -> list[Segment]:
        """What was marked, as far as there is room for it."""
        marks = self.pen.marks
        text, room = printable(self.scrub.note, self.pen.glyphs), room - 5
        if not text:
            return []
        text = cut(text, room, marks.dots)
        sign = _sign_of(self.scrub.noted, marks)
        return [Segment(f"   {sign} ", self.pen.turned), Segment(text, self.pen.muted)]

    # -- the mouse

    def on_mouse_down(self, event: events.MouseDown) -> None:
        """Go where the mouse is, and follow it until it is let go."""
        self._dragging = True
        self.capture_mouse()
        self._go(event)

    def on_mouse_move(self, event: events.MouseMove) -> None:
        """Follow the mouse."""
        if self._dragging:
            self._go(event)

    def on_mouse_up(self) -> None:
        """Let the mouse go."""
        if self._dragging:
            self._dragging = False
            self.release_mouse()

    def _go(self, event: events.MouseEvent) -> None:
        x = event.x - self.gutter.left
        if not self._signs:
            return
        if x >= len(self._signs):
            self.scrub.to_newest()
        else:
            sign = self._signs[max(x, 0)]
            self.scrub.go(sign.first if sign.kind is Kind.FRAME else sign.stop - 1)
        self._moved()

    # -- actions

    def action_step_back(self) -> None:
        """A step back."""
        self.scrub.step(-1)
        self._moved()

    def action_step_on(self) -> None:
        """A step on."""
        self.scrub.step(1)
        self._moved()

    def action_block_back(self) -> None:
        """To where the block began, and then to the one before."""
        self.scrub.block(-1)
        self._moved()

    def action_block_on(self) -> None:
        """To where the next block begins."""
        self.scrub.block(1)
        self._moved()

    def action_first_step(self) -> None:
        """To the first step."""
        self.scrub.go(0)
        self._moved()

    def action_last_step(self) -> None:
        """To the newest step: the last one, or live."""
        if self.scrub.ended:
            self.scrub.go(self.scrub.last)
        else:
            self.scrub.to_newest()
        self._moved()

    def action_play(self) -> None:
        """Play, or stand still."""
        self.scrub.toggle()
        self._moved()

    def action_slower(self) -> None:
        """Play slower."""
        self.scrub.slower()
        self._moved()

    def action_faster(self) -> None:
        """Play faster."""
        self.scrub.faster()
        self._moved()

    def action_answer_above(self) -> None:
        """Look at the answer above."""
        self.post_message(self.AnswerWanted(-1))

    def action_answer_below(self) -> None:
        """Look at the answer below."""
        self.post_message(self.AnswerWanted(1))

    def action_branch_here(self) -> None:
        """Go on from the step that is looked at."""
        self.post_message(self.BranchWanted())

    def action_to_live(self) -> None:
        """Back to the newest step; from there, to the prompt."""
        if self.scrub.moment is None:
            self.post_message(self.Left())
        else:
            self.scrub.to_newest()
            self._moved()

    def _moved(self) -> None:
        self.post_message(self.Moved())
