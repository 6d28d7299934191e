"""Make something of a session: what of it, as what, how large, and where; and then how far it is."""

import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import ClassVar

import msgspec
from textual import events, on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.message import Message
from textual.screen import ModalScreen
from textual.widget import Widget
from textual.widgets import Input, Static

from dllm_tui.exporting import Export
from dllm_tui.trace.export import FORMATS
from dllm_tui.tui.cells import clean
from dllm_tui.tui.marks import Marks

STANDARD = (100, 30)
"""Columns and rows of a film that suit a page."""
SHORT_PAUSE = 2.0
"""Seconds that pauses are cut to."""
LABEL = 9
"""Cells of a row's name."""
BAR = 30
"""Cells of the progress bar at most."""


class Wish(msgspec.Struct, frozen=True, kw_only=True):
    """What was asked for."""

    source: str
    """Value of one of the sources that were offered."""
    out: str
    """A path, as it was typed."""
    size: tuple[int, int]
    idle: float | None


def formats() -> list[str]:
    """What can be made here: of videos, only where ffmpeg is."""
    return [name for name in FORMATS if name != "mp4" or shutil.which("ffmpeg")]


class Row(Static, can_focus=True):
    """One of several: the arrow keys and a click take the next.

    Args:
        name: stands in front.
        choices: value and words of each.
        value: what is chosen at first.
        marks: what the arrows are drawn with.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("left", "turn(-1)", "Before", show=False),
        Binding("right,space", "turn(1)", "Next", show=False),
    ]

    class Turned(Message):
        """Another one was chosen."""

    def __init__(self, name: str, choices: Sequence[tuple[str, str]], value: str, marks: Marks) -> None:
        super().__init__(id=f"row-{name}", classes="row", markup=False)
        self._name, self._choices, self._marks = name, choices, marks
        self._value = value

    @property
    def value(self) -> str:
        """What is chosen."""
        return self._value

    @value.setter
    def value(self, value: str) -> None:
        self._value = value
        self._draw()

    def on_mount(self) -> None:
        """Draw it."""
        self._draw()

    def on_focus(self) -> None:
        """The arrows show that it can be turned."""
        self._draw()

    def on_blur(self) -> None:
        """They go."""
        self._draw()

    def on_click(self, event: events.Click) -> None:
        """Take the next; on the name, the one before."""
        self.action_turn(-1 if event.x < LABEL else 1)

    def action_turn(self, by: int) -> None:
        """Take the next, or the one before, round at the ends."""
        values = [value for value, _ in self._choices]
        self.value = values[(values.index(self._value) + by) % len(values)]
        self.post_message(self.Turned())

    def _draw(self) -> None:
        words = clean(dict(self._choices)[self._value])
        left, right = ("<", ">") if self._marks.dot == "-" else ("‹", "›")
        before, after = (f"{left} ", f" {right}") if self.has_focus else ("  ", "")
        style = "bold $accent" if self.has_focus else "$foreground"
        self.update(Content.assemble((self._name.ljust(LABEL), "$muted"), before, (words, style), after))


class ExportDialog(ModalScreen[Wish | None]):
    """Gives what was asked for, or ``None``.

    Args:
        sources: value and words of what there is to be made something of.
        place: where a file of an ending is written, unless another is asked for.
        screen: columns and rows of the terminal.
        marks: what is drawn with.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "dismiss(None)", "Close", show=False),
        Binding("up", "app.focus_previous", "Up", show=False, priority=True),
        Binding("down", "app.focus_next", "Down", show=False, priority=True),
        Binding("enter", "take", "Export", show=False, priority=True),
    ]

    def __init__(
        self,
        sources: Sequence[tuple[str, str]],
        place: Callable[[str], Path],
        screen: tuple[int, int],
        marks: Marks,
    ) -> None:
        super().__init__()
        self._place = place
        kinds = [(name, f"{name}  {FORMATS[name].about}") for name in formats()]
        by = marks.times
        sizes = {
            "{}x{}".format(*STANDARD): "{}{by}{}".format(*STANDARD, by=by),
            "{}x{}".format(*screen): "{}{by}{}, this terminal's".format(*screen, by=by),
        }
        pauses = [("", "as long as they were"), (f"{SHORT_PAUSE}", f"cut to {SHORT_PAUSE:g} s")]
        self._source = Row("what", sources, sources[0][0], marks)
        self._kind = Row("format", kinds, "gif", marks)
        self._extent = Row("size", list(sizes.items()), "{}x{}".format(*STANDARD), marks)
        self._pauses = Row("pauses", pauses, "", marks)
        self._offered = str(place("gif"))
        """The file, unless the person names another."""
        self._file = Input(self._offered, compact=True, id="file", select_on_focus=False)

    def compose(self) -> ComposeResult:
        """A box in the middle, a row each."""
        with Vertical(id="box") as box:
            box.border_title = "export"
            yield from (self._source, self._kind, self._extent, self._pauses)
            yield Static("file", classes="label")
            yield self._file
            yield Static(Content("Enter export   Esc close   ←→ change   ↑↓ move"), id="keys")

    def on_mount(self) -> None:
        """Begin with what is made."""
        self._kind.focus()
        if self.app.has_class("-plain"):
            self.query_one("#keys", Static).update("Enter export   Esc close   arrow keys choose")
        self._file.cursor_position = len(self._file.value)

    @on(Row.Turned)
    def _turned(self) -> None:
        """The file's ending follows the format."""
        typed, name = Path(self._file.value), self._kind.value
        own = bool(typed.name) and str(typed) != self._offered
        self._offered = str(self._place(name))
        self._file.value = str(typed.with_suffix(f".{name}")) if own else self._offered
        self._fit()

    @on(Input.Changed)
    def _named(self, event: Input.Changed) -> None:
        """The format follows the file's ending."""
        name = Path(event.value).suffix.lower().removeprefix(".")
        if name in formats():
            self._kind.value = name
        self._fit()

    def _fit(self) -> None:
        """What makes no difference to a format isn't asked for."""
        kind = FORMATS[self._kind.value]
        self._extent.display = kind.film or kind.still
        self._pauses.display = kind.film or self._kind.value == "jsonl"

    def action_take(self) -> None:
        """Give what stands there."""
        columns, rows = self._extent.value.split("x")
        idle = float(self._pauses.value) if self._pauses.value and self._pauses.display else None
        wish = Wish(
            source=self._source.value, out=self._file.value.strip(), size=(int(columns), int(rows)), idle=idle
        )
        if wish.out:
            self.dismiss(wish)


class Exporting(ModalScreen[None]):
    """How far an export is; it goes on when this is closed.

    Args:
        export: what goes on.
        marks: what the bar is drawn with.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "cancel", "Cancel", show=False),
        Binding("enter", "dismiss", "Go on in the background", show=False),
    ]

    def __init__(self, export: Export, marks: Marks) -> None:
        super().__init__()
        self._export, self._marks = export, marks

    def compose(self) -> ComposeResult:
        """A box in the middle."""
        with Vertical(id="box") as box:
            box.border_title = "export"
            yield Static(Content(clean(str(self._export.order.out))), id="out")
            yield Static(id="bar")
            yield Static("Esc cancel   Enter goes on in the background", id="keys")

    def on_mount(self) -> None:
        """Move with it."""
        self._draw()
        self.set_interval(0.1, self._draw)

    def _draw(self) -> None:
        if self._export.state != "running":
            self._close()
            return
        done, marks = self._export.done, self._marks
        room = max(min(BAR, self.query_one("#bar", Widget).size.width - 6), 0)
        filled = round(done * room)
        bar = (marks.filled * filled, "$accent"), (marks.empty * (room - filled), "$muted")
        self.query_one("#bar", Static).update(Content.assemble(*bar, f" {done:4.0%}"))

    def action_cancel(self) -> None:
        """Stop it; nothing is left of it."""
        self._export.cancel()
        self._close()

    def _close(self) -> None:
        """Once: the export's end and the key that ends it may come together."""
        if self.is_current:
            self.dismiss()
