"""The knob panel: sliders, the policy, presets, and what each does at its present value."""

from collections.abc import Callable, Iterable
from typing import Any, ClassVar

from rich.segment import Segment
from textual import events
from textual.app import ComposeResult
from textual.containers import Vertical, VerticalScroll
from textual.message import Message
from textual.reactive import reactive
from textual.strip import Strip

from dllm_tui.events import ModelInfo
from dllm_tui.knobs import KNOBS, POLICIES, PRESETS, Knob, Knobs, Value
from dllm_tui.tui.commands import FIRST_KNOBS
from dllm_tui.tui.marks import UNICODE, Marks
from dllm_tui.tui.metrics import Effects
from dllm_tui.tui.widgets.knob import LABEL_WIDTH, KnobWidget, Turnable, Turned
from dllm_tui.tui.widgets.slider import Slider, value_text

PRESET_GAP = 2


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
    "edit_threshold": lambda value, _: f"replaces when {value:.0%} sure",
    "cfg_scale": lambda value, _: "away from the unprompted answer" if value else "off",
    "seed": lambda value, _: "drawn anew for each answer" if value is None else "the same draw every time",
    "policy": lambda value, _: POLICIES[value],
}


def hint(name: str, knobs: Knobs, effects: Effects, marks: Marks = UNICODE) -> str:
    """What a knob does at its present value: as measured in this session where two settings were."""
    rate, other = effects.tokens_per_forward(knobs), effects.comparison(name, knobs)
    if rate and other:
        return f"{rate:.1f} tok/fwd, {other[1]:.1f}{marks.times} that of {value_text(other[0])}"
    return _HINTS[name](getattr(knobs, name), marks) if name in _HINTS else ""


class Selector(KnobWidget):
    """A knob with a few named values: arrows go through them, Enter or a click opens the list."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {
        "slider--label",
        "selector--value",
        "slider--turned",
        "slider--hint",
    }

    value: reactive[str] = reactive("")
    choices: reactive[tuple[str, ...]] = reactive[tuple[str, ...]](())

    class Opened(Message):
        """A person wants to see all values."""

        def __init__(self, selector: "Selector") -> None:
            super().__init__()
            self.selector = selector

    def __init__(self, knob: Knob, *, marks: Marks = UNICODE) -> None:
        super().__init__(knob, marks=marks)
        self.add_class("selector")
        self.set_reactive(Selector.choices, knob.choices)

    def show(self, value: Value, hint: str) -> None:
        """Show a value; what it does is said when the mouse rests on it."""
        self.value = str(value)
        self.tooltip = f"{self.knob.help}\n{hint}".strip()

    def turn(self, value: object) -> None:
        """Ask for a value."""
        if value != self.value:
            self.post_message(Turned(self.knob, str(value)))

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
        if y:
            return Strip.blank(self.size.width, self.rich_style)
        name = "slider--hint" if self.reason else "slider--turned" if self.turned else "selector--value"
        text = self.reason or f"{self.value} {self.marks.opens}"
        segments = [
            Segment(self.knob.label.ljust(LABEL_WIDTH), self.get_component_rich_style("slider--label")),
            Segment(text, self.get_component_rich_style(name)),
        ]
        if self.turned:
            segments.append(Segment(f"  {self.pending}", self.get_component_rich_style("slider--turned")))
        return Strip(segments).adjust_cell_length(self.size.width, self.rich_style)


class Presets(Turnable):
    """The presets beside each other; the one in force is lit."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {"presets--on", "presets--off"}

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
        self.post_message(self.Chosen(names[min(max(index, 0), len(names) - 1)]))

    def on_click(self, event: events.Click) -> None:
        """Take the one under the mouse."""
        x = 0
        for name in PRESETS:
            if x <= event.x < x + len(name) + 2:
                self.post_message(self.Chosen(name))
            x += len(name) + 2 + PRESET_GAP

    def render_line(self, y: int) -> Strip:
        """All of them in a row."""
        if y:
            return Strip.blank(self.size.width, self.rich_style)
        segments: list[Segment] = []
        for name in PRESETS:
            style = "presets--on" if name == self.current else "presets--off"
            # brackets tell the lit one where there is no colour
            text = f"[{name}]" if name == self.current and self.app.no_color else f" {name} "
            segments += [
                Segment(text, self.get_component_rich_style(style)),
                Segment(" " * PRESET_GAP, self.rich_style),
            ]
        return Strip(segments).adjust_cell_length(self.size.width, self.rich_style)


class More(Turnable):
    """Shows or hides the further knobs."""

    open: reactive[bool] = reactive(False, layout=True)

    def __init__(self, marks: Marks = UNICODE) -> None:
        super().__init__(id="more")
        self.marks = marks

    def render(self) -> str:
        """What pressing it does."""
        return "fewer knobs" if self.open else f"more{self.marks.dots}"

    async def action_accept(self) -> None:
        """Toggle."""
        await self.run_action("app.more_knobs")

    async def on_click(self) -> None:
        """Toggle."""
        await self.run_action("app.more_knobs")


class KnobPanel(VerticalScroll, can_focus=False):
    """Every knob. Shows what :meth:`show` is given; turning posts :class:`Turned`."""

    def __init__(self, *, marks: Marks = UNICODE) -> None:
        super().__init__(id="knobs")
        self.marks = marks
        self.border_title = "knobs"

    def compose(self) -> ComposeResult:
        """The usual knobs, presets, and the further knobs out of sight."""
        yield from (self._widget(KNOBS[name]) for name in FIRST_KNOBS)
        yield Presets()
        yield More(self.marks)
        with Vertical(id="further"):
            yield from (self._widget(knob) for knob in KNOBS.values() if knob.name not in FIRST_KNOBS)

    def _widget(self, knob: Knob) -> KnobWidget:
        return Selector(knob, marks=self.marks) if knob.choices else Slider(knob, marks=self.marks)

    @property
    def all(self) -> Iterable[KnobWidget]:
        """The widgets of all knobs."""
        return self.query(KnobWidget)

    def use_model(self, model: ModelInfo, defaults: Knobs) -> None:
        """Take a model's defaults and policies, and say which knobs it doesn't have."""
        for widget in self.all:
            widget.default = getattr(defaults, widget.knob.name)
            widget.reason = model.fixed_knobs.get(widget.knob.name, "")
        self.query_one("#knob-policy", Selector).choices = model.policies or tuple(POLICIES)

    def show(self, knobs: Knobs, effects: Effects) -> None:
        """Show a setting."""
        for widget in self.all:
            name = widget.knob.name
            widget.show(getattr(knobs, name), hint(name, knobs, effects, self.marks))
        self.query_one(Presets).current = knobs.preset

    def mark(self, names: Iterable[str], *, turned: bool) -> None:
        """Mark knobs as turned and not yet in force, or take the mark off."""
        for name in names:
            self.query_one(f"#knob-{name}", KnobWidget).turned = turned

    def settle(self) -> None:
        """Take every mark off."""
        for widget in self.all:
            widget.turned = False

    def toggle_further(self) -> None:
        """Show or hide the further knobs."""
        more = self.query_one(More)
        more.open = not more.open
        self.set_class(more.open, "-open")

    def focus_first(self) -> None:
        """Move the focus to the first knob that can be turned."""
        next(widget for widget in self.query(Turnable) if widget.focusable).focus()
