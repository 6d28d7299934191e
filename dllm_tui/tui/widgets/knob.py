"""What all knobs have in common: the keys that turn them, and the state they show."""

import textwrap
from typing import ClassVar

from rich.segment import Segment
from textual.binding import BindingType
from textual.geometry import Size
from textual.message import Message
from textual.reactive import reactive
from textual.strip import Strip

from dllm_tui.knobs import Knob, Value
from dllm_tui.tui.actions import bindings
from dllm_tui.tui.cells import cut
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

    hint_lines = 0
    """Lines below the first, where the model has the knob."""
    turned: reactive[bool] = reactive(False)
    """Turned during a run, and not in force yet."""
    reason: reactive[str] = reactive("", layout=True)
    """Why the model doesn't have this knob; it can't be turned then."""

    def __init__(self, pen: Pen, knob: Knob) -> None:
        super().__init__(pen, id=f"knob-{knob.name}", classes="knob")
        self.knob = knob
        self.default = knob.default
        self.tooltip = knob.help

    def watch_reason(self, reason: str) -> None:
        """A knob that the model doesn't have takes no focus."""
        self.can_focus = not reason

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        """A line for the knob, and below it as many as its hint or the reason needs."""
        return 1 + (len(self._reason_lines(width)) or self.hint_lines)

    def _reason_lines(self, width: int) -> list[str]:
        return textwrap.wrap(self.reason, max(width, LABEL_WIDTH))

    def fixed_line(self, y: int, value: str) -> Strip:
        """A line of a knob that the model doesn't have: why that is, beside its name if there is one line."""
        width, pen = self.size.width, self.pen
        if y == 0:
            room = max(width - LABEL_WIDTH, 0)
            beside = cut(self.reason, room, pen.marks.dots) if self.size.height == 1 else value.rjust(room)
            text = self.knob.label.ljust(LABEL_WIDTH) + beside
        else:
            text = "".join(self._reason_lines(width)[y - 1 : y]).rjust(width)
        return self.finish(Strip([Segment(text, pen.muted)]))

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
