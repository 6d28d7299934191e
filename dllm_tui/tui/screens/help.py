"""What can be done: keys as they are in force, slash commands, knobs, and how to read the canvas."""

from collections.abc import Mapping, Sequence
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Static

from dllm_tui.knobs import KNOBS, POLICIES, Knob
from dllm_tui.tui.actions import ACTIONS, Keymap, Situation, key_text
from dllm_tui.tui.commands import commands

Rows = Sequence[tuple[str, str, bool]]
"""Term, explanation, and whether it applies now."""


class Help(ModalScreen[None]):
    """Made from the registry; what can't be done now is faint and says why.

    Args:
        keymap: the keys in force.
        now: decides what can be done.
        knob: explained first, where the focus was on one.
        fixed: knobs that the model doesn't have, with the reason.
    """

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,f1,q,enter", "dismiss", "Close", show=False)]

    def __init__(
        self,
        keymap: Keymap,
        now: Situation,
        *,
        knob: Knob | None = None,
        fixed: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__()
        self._keymap, self._now, self._knob, self._fixed = keymap, now, knob, fixed or {}

    def compose(self) -> ComposeResult:
        """One scrolling page."""
        with VerticalScroll(id="box") as box:
            box.border_title = "help"
            box.border_subtitle = "Esc closes"
            yield Static(Content("\n").join(self._lines()))

    def on_mount(self) -> None:
        """Scroll with the keys at once."""
        self.query_one("#box").focus()

    def _lines(self) -> list[Content]:
        lines: list[Content] = []
        if self._knob:
            lines += _section(
                f"This knob: {self._knob.label}", [(self._knob.label, self._about(self._knob), True)]
            )
        groups: dict[str, list[tuple[str, str, bool]]] = {}
        for action in ACTIONS.values():
            keys = "  ".join(key_text([key]) for key in self._keymap[action.id])
            reason = action.unavailable(self._now)
            command = f"/{action.slash[0]}" if action.slash else ""
            if keys or command:
                title = f"{action.title}  {command if keys else ''}".rstrip() + (
                    f"  ({reason})" if reason else ""
                )
                groups.setdefault(action.group, []).append((keys or command, title, not reason))
        for group, rows in groups.items():
            lines += _section(group, rows)
        lines += _section("Knobs", [(f"/{knob.label}", self._about(knob), True) for knob in KNOBS.values()])
        lines += _section("Policies", [(name, text, True) for name, text in POLICIES.items()])
        others = [c for c in commands().values() if not c.alias and not c.knob and not c.action]
        lines += _section("Commands", [(c.usage, c.help, True) for c in others] + _NOTES)
        return lines[:-1]

    def _about(self, knob: Knob) -> str:
        fixed = self._fixed.get(knob.name)
        return f"{knob.help} {knob.range_text().capitalize()}." + (f" Not here: {fixed}." if fixed else "")


_NOTES: list[tuple[str, str, bool]] = [
    ("//…", "A prompt that begins with a slash.", True),
    ("Shift + mouse", "Select with the terminal's own selection.", True),
    ("tok/s", "Tokens kept ÷ seconds since the run began, prefill included.", True),
    ("tok/forward", "Tokens kept ÷ forwards of all kinds (NFE).", True),
    ("ms/fwd", "Mean over denoise and commit forwards, prefill left out.", True),
]


def _section(title: str, rows: Rows) -> list[Content]:
    lines = [Content.styled(title, "bold $accent")]
    for term, text, applies in rows:
        style = "$foreground" if applies else "$muted"
        lines.append(
            Content.assemble((f"  {term:<26}", f"bold {style}"), (text, "$muted" if not applies else ""))
        )
    return [*lines, Content("")]
