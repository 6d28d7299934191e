"""What can be done: keys as they are in force, slash commands, knobs, and what the numbers count."""

from collections.abc import Iterable, Mapping
from typing import ClassVar

from rich.console import Group
from rich.table import Table
from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import Static

from dllm_tui.knobs import KNOBS, POLICIES, PRESETS, Knob
from dllm_tui.tui.actions import ACTIONS, Action, Keymap, Situation, key_text

Row = tuple[str, str, bool]
"""Term, explanation, and whether it applies now."""

NUMBERS = {
    "tok/s": "Tokens kept, divided by the seconds since the run began, prefill included.",
    "tok/forward": "Tokens kept, divided by the forwards of all kinds (NFE).",
    "ms/fwd": "Mean over denoise and commit forwards; prefill grows with the prompt and is left out.",
    "lowest confidence": "The least sure token that each step took; below the line the steps forced it.",
}
"""What the meters count."""

NOTES = {
    "Digits on a knob": "Type its value; Enter takes it, Esc throws it away.",
    "Mouse on a knob": "Click or drag the bar, or turn the wheel on it; a double click resets it.",
    "Click on a headline": "Switches that answer between canvas and text.",
    "//text": "Sends a prompt that begins with a slash.",
    "Shift + mouse": "Selects by the terminal's own means, where the app has the mouse.",
}


class Help(ModalScreen[None]):
    """Made from the registry; what can't be done now is faint.

    Args:
        keymap: the keys in force.
        now: decides what can be done.
        knob: explained first, where the focus was on one.
        fixed: knobs that the model doesn't have, with the reason.
        plain: ASCII alone.
    """

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,f1,q,enter", "dismiss", "Close", show=False)]

    def __init__(
        self,
        keymap: Keymap,
        now: Situation,
        *,
        knob: Knob | None = None,
        fixed: Mapping[str, str] | None = None,
        plain: bool = False,
    ) -> None:
        super().__init__()
        self._plain = plain
        self._keymap, self._now, self._knob, self._fixed = keymap, now, knob, fixed or {}

    def compose(self) -> ComposeResult:
        """One scrolling page."""
        with VerticalScroll(id="box") as box:
            box.border_title, box.border_subtitle = "help", "Esc closes"
            yield _Page(list(self._sections()))

    def on_mount(self) -> None:
        """Scroll with the keys at once."""
        self.query_one("#box").focus()

    def _sections(self) -> Iterable[tuple[str, list[Row]]]:
        if self._knob:
            yield "This knob", [self._about(self._knob)]
        for group in dict.fromkeys(action.group for action in ACTIONS.values()):
            yield (
                group,
                [
                    row
                    for action in ACTIONS.values()
                    if action.group == group and (row := self._row(action.id))
                ],
            )
        yield "What the knobs do", [self._about(knob) for knob in KNOBS.values()]
        presets = {
            name: ", ".join(f"{knob} {value}" for knob, value in knobs.items())
            for name, knobs in PRESETS.items()
        }
        for title, terms in (
            ("Presets", presets),
            ("Policies", POLICIES),
            ("Numbers", NUMBERS),
            ("Also", NOTES),
        ):
            yield title, [(term, text, True) for term, text in terms.items()]
        names = [(action.id, self._named(action), True) for action in ACTIONS.values()]
        yield 'Names of all actions, for [keys] in the settings file: stop = "ctrl+x, f5"', names

    def _named(self, action: Action) -> str:
        keys = ", ".join(self._keymap[action.id])
        where = "" if action.scope == "app" else f" ({action.scope})"
        return f"{action.title}{where}" + (f": {keys}" if keys else "")

    def _row(self, id_: str) -> Row | None:
        action = ACTIONS[id_]
        keys = "  ".join(key_text([key], ascii_only=self._plain) for key in self._keymap[id_][:2])
        command = f"/{action.slash[0]}" if action.slash else ""
        if not keys and not command:
            return None
        text = f"{action.title}  {command}" if keys else action.title
        return keys or command, text.rstrip(), not action.unavailable(self._now)

    def _about(self, knob: Knob) -> Row:
        fixed = self._fixed.get(knob.name)
        text = f"{knob.help} {knob.range_text().capitalize()}."
        return knob.label, f"Not with this model: {fixed}." if fixed else text, not fixed


class _Page(Static):
    """Lays the sections out in two columns that wrap."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {"help--title", "help--term", "help--text", "help--faint"}

    def __init__(self, sections: list[tuple[str, list[Row]]]) -> None:
        super().__init__()
        self._sections = sections

    def render(self) -> Group:
        """All sections."""
        style = {name: self.get_component_rich_style(name, partial=True) for name in self.COMPONENT_CLASSES}
        parts: list[Text | Table] = []
        for title, rows in self._sections:
            table = Table.grid(padding=(0, 3, 0, 0), expand=True)
            table.add_column(width=20)
            table.add_column(ratio=1)
            for term, text, applies in rows:
                faint = style["help--faint"]
                table.add_row(
                    Text(term, style["help--term"] if applies else faint),
                    Text(text, style["help--text"] if applies else faint),
                )
            parts += [Text(title, style["help--title"]), table, Text("")]
        return Group(*parts[:-1])
