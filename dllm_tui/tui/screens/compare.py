"""Two versions of an answer side by side; the other one can be put in the answer's place."""

from collections.abc import Sequence
from typing import ClassVar

from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical, VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Static

from dllm_tui.tui.versions import Version, different

BESIDE = 90
"""Columns from which both have room beside each other."""


class Compare(ModalScreen[int | None]):
    """Gives the run of the version that is to stand, or ``None``.

    Args:
        versions: two at least.
        current: the run of the one that stands.
        dot: between two parts of a line.
    """

    CSS = """
    Compare #box { width: 96%; max-width: 220; height: 90%; }
    Compare #panes { height: 1fr; layout: horizontal; scrollbar-size-vertical: 1; }
    Compare #panes > VerticalScroll { width: 1fr; height: auto; padding: 0 1; scrollbar-size-vertical: 1; }
    Compare #panes.-stacked { layout: vertical; overflow-y: hidden; }
    Compare #panes.-stacked > VerticalScroll { height: 1fr; }
    Compare #panes Static { width: 100%; height: auto; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q", "leave", "Close", show=False),
        Binding("left,up", "other(-1)", "Earlier", show=False, priority=True),
        Binding("right,down", "other(1)", "Later", show=False, priority=True),
        Binding("enter", "take", "Take", show=False, priority=True),
    ]

    def __init__(self, versions: Sequence[Version], current: int, dot: str) -> None:
        super().__init__()
        self._standing = next(version for version in versions if version.run == current)
        self._others = [version for version in versions if version.run != current]
        self._at = len(self._others) - 1
        self._dot = f" {dot} "

    def compose(self) -> ComposeResult:
        """Two panes. Beside each other they scroll together; one above the other, each by itself."""
        with Vertical(id="box") as box:
            box.border_title = "versions of the last answer"
            with VerticalScroll(id="panes"):
                yield VerticalScroll(Static(id="standing"), can_focus=False)
                yield VerticalScroll(Static(id="other"), can_focus=False)
            yield Static(id="keys")

    def on_mount(self) -> None:
        """Show the last of the others."""
        more = "Left/Right another   " if len(self._others) > 1 else ""
        keys = f"{more}Enter put the other in the answer's place   Esc close"
        self.query_one("#keys", Static).update(Content(keys))
        self._show()

    def on_resize(self, event: events.Resize) -> None:
        """Beside each other, or one above the other."""
        stacked = event.size.width < BESIDE
        panes = self.query_one("#panes")
        panes.set_class(stacked, "-stacked")
        panes.can_focus = not stacked
        for pane in panes.query_children(VerticalScroll):
            pane.can_focus = stacked
        self.focus_next()

    def _show(self) -> None:
        other = self._others[self._at]
        here, there = different(self._standing.tokens, other.tokens)
        count = max(len(here), len(there))  # one may have all words of the other, and more
        apart = f"{count} tokens differ" if count > 1 else "1 token differs" if count else "the same words"
        for id_, version, places, said in (
            ("#standing", self._standing, here, "stands now"),
            ("#other", other, there, apart),
        ):
            self.query_one(id_, Static).update(self._pane(version, places, said))

    def _pane(self, version: Version, places: set[int], said: str) -> Content:
        sure = "" if version.confidence is None else f"mean confidence {version.confidence:.2f}"
        head = [
            Content.styled(f"version {version.number}", "bold $accent") + Content(self._dot + said),
            Content.styled(self._dot.join(version.figures), "$muted"),
            Content.styled(self._dot.join(part for part in (sure, version.origin) if part), "$muted"),
        ]
        words = [
            Content.styled(text, "bold underline $accent") if at in places else Content(text)
            for at, text in enumerate(version.texts)
        ]
        return Content("\n").join(head) + Content("\n\n") + Content("").join(words)

    def action_other(self, by: int) -> None:
        """Compare with another one."""
        self._at = (self._at + by) % len(self._others)
        self._show()

    def action_take(self) -> None:
        """Give the other one."""
        self.dismiss(self._others[self._at].run)

    def action_leave(self) -> None:
        """Give nothing."""
        self.dismiss(None)
