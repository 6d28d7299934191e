"""What all knobs have in common: the keys that turn them, and the state they show."""

from typing import ClassVar

from textual.binding import BindingType
from textual.message import Message
from textual.reactive import reactive

from dllm_tui.knobs import Knob, Value
from dllm_tui.tui.actions import bindings
from dllm_tui.tui.pen import Drawn, Pen

LABEL_WIDTH = 12
FAR = 3
"""Steps of a big turn."""
ALL = 10_000
"""Steps that surely reach the end."""


class Turned(Message):
    """A person turned a knob."""

    def __init__(self, knob: Knob, value: Value) -> None:
        super().__init__()
        self.knob = knob
        self.value = value


class Turnable(Drawn, can_focus=True):
    """Something in the knob panel that arrows turn. Up and down go to its neighbours."""

    BINDINGS: ClassVar[list[BindingType]] = bindings("knob")
    footer = {  # noqa: RUF012 – declared in the base
        "less": "less",
        "more": "more",
        "accept": "take",
        "reset": "default",
        "to_prompt": "prompt",
    }

    def step(self, by: int) -> None:
        """Turn by some steps; below 0 is down, and the ends hold."""

    def action_less(self) -> None:
        """One step down."""
        self.step(-1)

    def action_more(self) -> None:
        """One step up."""
        self.step(1)

    def action_much_less(self) -> None:
        """Several steps down."""
        self.step(-FAR)

    def action_much_more(self) -> None:
        """Several steps up."""
        self.step(FAR)

    def action_least(self) -> None:
        """To the lower end."""
        self.step(-ALL)

    def action_most(self) -> None:
        """To the upper end."""
        self.step(ALL)

    async def action_accept(self) -> None:
        """Enter."""

    def action_reset(self) -> None:
        """Back to the default."""

    def action_knob_above(self) -> None:
        """Focus the one above."""
        self.screen.focus_previous(Turnable)

    def action_knob_below(self) -> None:
        """Focus the one below."""
        self.screen.focus_next(Turnable)


class KnobWidget(Turnable):
    """A knob. It posts :class:`Turned`; whoever owns the knobs answers by :meth:`show`."""

    turned: reactive[bool] = reactive(False)
    """Turned during a run, and not in force yet."""
    reason: reactive[str] = reactive("")
    """Why the model doesn't have this knob; it can't be turned then."""

    def __init__(self, pen: Pen, knob: Knob) -> None:
        super().__init__(pen, id=f"knob-{knob.name}", classes="knob")
        self.knob = knob
        self.default = knob.default
        self.tooltip = knob.help

    def watch_reason(self, reason: str) -> None:
        """A knob that the model doesn't have takes no focus."""
        self.can_focus = not reason
        self.set_class(bool(reason), "-fixed")

    def show(self, value: Value, hint: str) -> None:
        """Show a value, and what it does."""
        raise NotImplementedError

    def turn(self, value: object) -> None:
        """Ask for a value."""
        raise NotImplementedError

    def action_reset(self) -> None:
        """Back to the default."""
        self.turn(self.default)

    @property
    def pending(self) -> str:
        """What is said of a turn that isn't in force yet."""
        return f"{self.pen.marks.turned} from the next {self.knob.holds}"
