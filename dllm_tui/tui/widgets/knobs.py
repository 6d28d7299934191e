"""The knob panel: sliders, the policy, presets, and what each does at its present value."""

from collections.abc import Callable, Iterable
from typing import Any

from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.app import ComposeResult
from textual.containers import Vertical, VerticalScroll
from textual.message import Message
from textual.reactive import reactive
from textual.strip import Strip

from dllm_tui.events import ModelInfo
from dllm_tui.knobs import (
    APPROXIMATE,
    CACHES,
    KNOBS,
    POLICIES,
    PRESETS,
    SCHEDULES,
    Knob,
    Knobs,
    Value,
)
from dllm_tui.tui.commands import FIRST_KNOBS
from dllm_tui.tui.marks import UNICODE, Marks
from dllm_tui.tui.metrics import Effects
from dllm_tui.tui.pen import Pen
from dllm_tui.tui.widgets.knob import LABEL_WIDTH, KnobWidget, Turnable, Turned
from dllm_tui.tui.widgets.slider import Slider, value_text

PRESET_GAP = 2
EXACT_ALONE = ("auto", "exact")
"""Caches where there is nothing to choose."""


_HINTS: dict[str, Callable[[Any, Marks], str]] = {
    "steps": lambda value, marks: f"{marks.at_most} {value} forward{'s' * (value > 1)} a block",
    "block_size": lambda value, _: f"{value} positions together" if value > 1 else "one position at a time",
    "threshold": lambda value, _: f"takes all above {value:.2f}" if value < 1 else "takes what is certain",
    "temperature": lambda value, _: "samples; higher is freer" if value else "the best token, always",
    "top_p": lambda value, _: f"the likeliest {value:.0%} together" if value < 1 else "all tokens",
    "top_k": lambda value, _: f"the best {value} tokens" if value else "all tokens",
    "max_new_tokens": lambda value, marks: f"{marks.at_most} {value} tokens an answer",
    "distance_penalty": lambda value, _: f"costs {value:.2f} a position" if value else "no pull to the left",
    "entropy_bound": lambda value, _: f"{value:.2f} nats a step (policy entropy)",
    "pick_temperature": lambda value, _: (
        "the surest positions" if not value else "draws positions; higher is freer"
    ),
    "edit_threshold": lambda value, _: f"replaces when {value:.0%} sure",
    "cfg_scale": lambda value, _: "away from the unprompted answer" if value else "off",
    "seed": lambda value, _: "drawn anew for each answer" if value is None else "the same draw every time",
    "policy": lambda value, _: POLICIES[value],
    "schedule": lambda value, _: SCHEDULES[value],
    "cache": lambda value, _: CACHES[value],
}


def hint(name: str, knobs: Knobs, effects: Effects, marks: Marks = UNICODE) -> str:
    """What a knob does at its present value: as measured in this session where two settings were."""
    rate, other = effects.tokens_per_forward(knobs), effects.comparison(name, knobs)
    if rate and other:
        return f"{rate:.1f} tok/fwd, {other[1]:.1f}{marks.times} that of {value_text(other[0])}"
    return _HINTS[name](getattr(knobs, name), marks) if name in _HINTS else ""


class Selector(KnobWidget):
    """A knob with a few named values: arrows go through them, Enter or a click opens the list."""

    value: reactive[str] = reactive("")
    choices: reactive[tuple[str, ...]] = reactive[tuple[str, ...]](())

    class Opened(Message):
        """A person wants to see all values."""

        def __init__(self, selector: "Selector") -> None:
            super().__init__()
            self.selector = selector

    def __init__(self, pen: Pen, knob: Knob) -> None:
        super().__init__(pen, knob)
        self.set_reactive(Selector.choices, tuple(knob.choices))

    def show(self, value: Value, hint: str) -> None:
        """Show a value; what it does is said when the mouse rests on it."""
        self.value = str(value)
        self.tooltip = f"{self.knob.help}\n{hint}".strip()

    def turn(self, value: object) -> None:
        """Ask for a value."""
        if value != self.value:
            self.value = str(value)
            self.post_message(Turned(self.knob, self.value))

    def step(self, by: int) -> None:
        """Go through the values."""
        index = self.choices.index(self.value) + by if self.value in self.choices else 0
        self.turn(self.choices[min(max(index, 0), len(self.choices) - 1)])

    async def action_accept(self) -> None:
        """Show all values."""
        self.post_message(self.Opened(self))

    def on_click(self) -> None:
        """Show all values."""
        if not self.reason:
            self.post_message(self.Opened(self))

    def render_line(self, y: int) -> Strip:
        """Name and value."""
        if self.reason:
            return self.fixed_line(y, self.value)
        if y:
            return self.finish(Strip([]))
        pen = self.pen
        focused = Style(bold=True) + pen.accent
        label = focused if self.has_focus else pen.text
        value = pen.turned if self.turned else pen.accent
        value += Style(reverse=True, bold=True) if self.has_focus else Style()
        approximate = ", approximate" if self.value in APPROXIMATE else ""
        segments = [
            Segment(self.knob.label.ljust(LABEL_WIDTH), label),
            Segment(f"{self.value}{approximate} {pen.marks.opens}", value),
        ]
        if self.turned:
            segments.append(Segment(f"  {self.pending}", pen.turned))
        return self.finish(Strip(segments))


class Presets(Turnable):
    """The presets beside each other; the one in force is lit."""

    current: reactive[str | None] = reactive[str | None](None)

    class Chosen(Message):
        """A person took a preset."""

        def __init__(self, name: str) -> None:
            super().__init__()
            self.name = name

    def step(self, by: int) -> None:
        """Go through the presets."""
        names = list(PRESETS)
        index = names.index(self.current) + by if self.current in names else 0
        self.current = names[min(max(index, 0), len(names) - 1)]
        self.post_message(self.Chosen(self.current))

    def on_click(self, event: events.Click) -> None:
        """Take the one under the mouse."""
        x = 0
        for name in PRESETS:
            if x <= event.x < x + len(name) + 2:
                self.post_message(self.Chosen(name))
            x += len(name) + 2 + PRESET_GAP

    def render_line(self, y: int) -> Strip:
        """All of them in a row."""
        pen = self.pen
        segments: list[Segment] = []
        for name in PRESETS if y == 0 else ():
            style = pen.lit if name == self.current else pen.chip
            style += Style(underline=self.has_focus and name == self.current)
            segments += [Segment(f" {name} ", style), Segment(" " * PRESET_GAP)]
        return self.finish(Strip(segments))


class More(Turnable):
    """Shows or hides the further knobs."""

    open: reactive[bool] = reactive(False)

    def __init__(self, pen: Pen) -> None:
        super().__init__(pen, id="more")

    def render_line(self, y: int) -> Strip:
        """What pressing it does."""
        text = "fewer knobs" if self.open else f"more{self.pen.marks.dots}"
        style = Style(bold=True) + self.pen.accent if self.has_focus else self.pen.muted
        return self.finish(Strip([Segment(text, style)] if y == 0 else []))

    async def action_accept(self) -> None:
        """Toggle."""
        await self.run_action("app.more_knobs")

    async def on_click(self) -> None:
        """Toggle."""
        await self.run_action("app.more_knobs")


class KnobPanel(VerticalScroll, can_focus=False):
    """Every knob. Shows what :meth:`show` is given; turning posts :class:`Turned`."""

    def __init__(self, pen: Pen) -> None:
        super().__init__(id="knobs")
        self.border_title = "knobs"
        self.pen = pen
        self._model = ModelInfo(id="", family="")
        self._defaults = Knobs()
        self._showing: Callable[[KnobWidget], None] = _nothing

    def compose(self) -> ComposeResult:
        """The usual knobs, presets, and what brings the further knobs."""
        yield from (self._widget(KNOBS[name]) for name in FIRST_KNOBS)
        yield Presets(self.pen)
        yield More(self.pen)

    def _widget(self, knob: Knob) -> KnobWidget:
        return Selector(self.pen, knob) if knob.choices else Slider(self.pen, knob)

    @property
    def all(self) -> Iterable[KnobWidget]:
        """The widgets of all knobs."""
        return self.query(KnobWidget)

    def use_model(self, model: ModelInfo, defaults: Knobs) -> None:
        """Take a model's defaults and policies, and say which knobs it doesn't have."""
        self._model, self._defaults = model, defaults
        for widget in self.all:
            self._fit(widget)

    def _fit(self, widget: KnobWidget) -> None:
        name = widget.knob.name
        widget.default = getattr(self._defaults, name)
        widget.reason = self._model.fixed_knobs.get(name, "")
        if isinstance(widget, Selector) and name == "policy":
            widget.choices = self._model.policies or tuple(POLICIES)
        if isinstance(widget, Selector) and name == "cache":
            widget.choices = self._model.caches or tuple(CACHES)

    def show(self, knobs: Knobs, effects: Effects) -> None:
        """Show a setting."""

        def showing(widget: KnobWidget) -> None:
            name = widget.knob.name
            widget.show(getattr(knobs, name), hint(name, knobs, effects, self.pen.marks))
            if name == "cache":
                alone = self._model.caches == EXACT_ALONE and knobs.cache in EXACT_ALONE
                widget.reason = "The model's own is exact." if alone else ""

        self._showing = showing
        for widget in self.all:
            showing(widget)
        self.query_one(Presets).current = knobs.preset

    def mark(self, names: Iterable[str], *, turned: bool) -> None:
        """Mark knobs as turned and not yet in force, or take the mark off."""
        for widget in self.all:
            if widget.knob.name in names:
                widget.turned = turned

    def settle(self) -> None:
        """Take every mark off."""
        for widget in self.all:
            widget.turned = False

    async def toggle_further(self) -> None:
        """Show or hide the further knobs; they are made when they are first wanted."""
        more = self.query_one(More)
        more.open = not more.open
        if more.open and not self.query("#further"):
            knobs = [self._widget(knob) for knob in KNOBS.values() if knob.name not in FIRST_KNOBS]
            await self.mount(Vertical(*knobs, id="further"))
            for widget in knobs:
                self._fit(widget)
                self._showing(widget)
        self.query_one("#further").display = more.open

    def focus_first(self) -> None:
        """Move the focus to the first knob that can be turned."""
        # set at once: keys that were typed meanwhile are meant for the knob
        self.screen.set_focus(next(widget for widget in self.query(Turnable) if widget.focusable))


def _nothing(_: KnobWidget) -> None:
    """Nothing is to be shown yet."""
