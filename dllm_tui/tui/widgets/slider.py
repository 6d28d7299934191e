"""A knob as a slider in two rows: name, bar and value, and below them what it does."""

from bisect import bisect_left
from typing import ClassVar

from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.binding import Binding, BindingType
from textual.reactive import reactive
from textual.strip import Strip

from dllm_tui.knobs import KnobError, Value
from dllm_tui.tui.widgets.knob import LABEL_WIDTH, KnobWidget, Turned

VALUE_WIDTH = 7
TYPED = {**{digit: digit for digit in "0123456789"}, "full_stop": "."}
"""What can be typed into a value: key → character."""


def place(value: float, snaps: tuple[float, ...]) -> float:
    """Where a value stands between a slider's ends, 0 … 1: snaps are evenly spaced, linear between."""
    if len(snaps) < 2:
        return 0.0
    above = bisect_left(snaps, value)
    if above == 0:
        return 0.0
    if above == len(snaps):
        return 1.0
    low, high = snaps[above - 1], snaps[above]
    return (above - 1 + (value - low) / (high - low)) / (len(snaps) - 1)


def stepped(value: float, snaps: tuple[float, ...], by: int) -> float:
    """The snap ``by`` steps from a value, which may lie between snaps; the ends hold."""
    index = bisect_left(snaps, value)
    exact = index < len(snaps) and snaps[index] == value
    if not exact and by > 0:
        index -= 1
    return snaps[min(max(index + by, 0), len(snaps) - 1)]


class Slider(KnobWidget):
    """Turns one numeric knob, by mouse, keys, or a typed number."""

    # Bindings are looked up in the order in which keys were typed, after what each has done: a digit that
    # follows "/" at once belongs to the prompt already.
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding(key, f"type({character!r})", show=False) for key, character in TYPED.items()
    ]

    hint_lines = 1
    value: reactive[Value] = reactive[Value](None)
    hint: reactive[str] = reactive("")
    """What the knob does at this value."""
    typed: reactive[str] = reactive("")
    """A number that is being typed."""
    problem: reactive[str] = reactive("")
    """What was wrong with the typed number."""

    def show(self, value: Value, hint: str) -> None:
        """Show a value, and what it does."""
        self.value, self.hint = value, hint

    # -- turning

    def turn(self, value: object) -> None:
        """Ask for a value; a wrong one shows what would be right."""
        try:
            checked = self.knob.check(value)
        except KnobError as error:
            self.problem = str(error).partition("; ")[2] or str(error)
            return
        self.problem = ""
        if checked != self.value:
            self.value = checked  # at once: the next key, that may be waiting already, goes on from here
            self.post_message(Turned(self.knob, checked))

    def step(self, by: int) -> None:
        """Turn by some snaps."""
        self.typed = ""
        if self.knob.snaps and isinstance(self.value, int | float):
            self.turn(stepped(self.value, self.knob.snaps, by))

    def action_type(self, character: str) -> None:
        """Type a digit or the point into the value."""
        if len(self.typed) < VALUE_WIDTH - 1:
            self.problem, self.typed = "", self.typed + character

    async def action_accept(self) -> None:
        """Take the number that was typed."""
        typed, self.typed = self.typed, ""
        if typed:
            self.turn(typed)

    def action_reset(self) -> None:
        """Delete a typed digit, or go back to the default."""
        if self.typed:
            self.typed = self.typed[:-1]
        else:
            super().action_reset()

    # -- input

    def on_key(self, event: events.Key) -> None:
        """Escape throws away what is typed."""
        if event.key == "escape" and (self.typed or self.problem):
            self.typed = self.problem = ""
            event.stop()

    def on_blur(self) -> None:
        """What was half typed is not meant."""
        self.typed = self.problem = ""

    def on_mouse_down(self, event: events.MouseDown) -> None:
        """Take hold of the thumb."""
        if event.button == 1 and not self.reason and event.y == 0:
            self.capture_mouse()
            self._drag(event.x)

    def on_mouse_move(self, event: events.MouseMove) -> None:
        """Drag."""
        if self.app.mouse_captured is self:
            self._drag(event.x)

    def on_mouse_up(self) -> None:
        """Let go."""
        self.release_mouse()

    def on_click(self, event: events.Click) -> None:
        """A double click resets."""
        if event.chain == 2 and not self.reason:
            self.turn(self.default)

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        """The wheel turns the knob over its bar; over the hints the panel scrolls."""
        self._wheel(event, 1)

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        """As :meth:`on_mouse_scroll_up`."""
        self._wheel(event, -1)

    def _wheel(self, event: events.MouseEvent, by: int) -> None:
        if event.y == 0 and not self.reason:
            event.stop()
            self.step(by)

    def _drag(self, x: int) -> None:
        snaps, start, width = self.knob.snaps, LABEL_WIDTH, self._bar_width
        if snaps and width > 1 and (x >= start or self.app.mouse_captured is self):
            share = min(max((x - start) / (width - 1), 0.0), 1.0)
            self.turn(snaps[round(share * (len(snaps) - 1))])

    # -- drawing

    @property
    def _bar_width(self) -> int:
        return max(self.size.width - LABEL_WIDTH - VALUE_WIDTH, 0)

    def render_line(self, y: int) -> Strip:
        """The bar, and below it the hint."""
        if self.reason:
            return self.fixed_line(y, value_text(self.value))
        if y == 0:
            return self.finish(Strip(self._bar_line()))
        pen = self.pen
        text, style = self.hint, pen.muted
        if self.problem:
            text, style = self.problem, pen.error
        elif self.turned:
            text, style = self.pending, pen.turned
        return self.finish(Strip([Segment(text.rjust(self.size.width), style)]))

    def _bar_line(self) -> list[Segment]:
        pen = self.pen
        focused = Style(bold=True) + pen.accent
        label = Segment(self.knob.label.ljust(LABEL_WIDTH), focused if self.has_focus else pen.text)
        if self.typed:
            value = Segment(f"{self.typed}_".rjust(VALUE_WIDTH), focused)
        else:
            # where there is no room for the hint, the mark stands before the value
            lead = f"{pen.marks.turned} " if self.turned and self.size.height == 1 else ""
            style = pen.turned if self.turned else pen.bold
            value = Segment((lead + value_text(self.value)).rjust(VALUE_WIDTH), style)
        return [label, *self._bar(), value]

    def _bar(self) -> list[Segment]:
        width, pen = self._bar_width, self.pen
        if width < 2 or not self.knob.snaps or not isinstance(self.value, int | float):
            return [Segment(" " * width)]
        thumb = round(place(self.value, self.knob.snaps) * (width - 1))
        return [
            Segment(pen.marks.filled * thumb, pen.accent),
            Segment(pen.marks.thumb, pen.bold if self.has_focus else pen.accent),
            Segment(pen.marks.empty * (width - thumb - 1), pen.frame),
        ]


def value_text(value: Value) -> str:
    """A knob's value as it is shown: fractions with two places, ``None`` as ``auto``."""
    if value is None:
        return "auto"
    return f"{value:.2f}" if isinstance(value, float) else str(value)
