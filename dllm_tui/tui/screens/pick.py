"""Choose one of a list: type to filter, arrows to move, Enter to take. Models, themes, chats, policies."""

import textwrap
from collections.abc import Callable, Iterator, Sequence
from typing import ClassVar

from rich.cells import cell_len, set_cell_size
from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Input, OptionList, Static
from textual.widgets.option_list import Option

from dllm_tui.tui.cells import cut
from dllm_tui.tui.choice import Choice
from dllm_tui.tui.marks import ASCII, UNICODE

LEAST_TITLE = 20
"""Cells that a title has at least, where details stand beside it."""
GAP = 3
"""Cells between a title and its details."""


class Pick(ModalScreen[str | None]):
    """Gives the chosen value, or ``None``.

    Args:
        title: above the list.
        choices: what there is.
        current: where the cursor begins.
        empty: said where there is nothing to choose.
        preview: called with the value under the cursor, and with ``current`` when nothing is chosen.
        remove: asks about and removes a value, then calls back with whether it is gone.
        free: whether what was typed may be taken as it is.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "leave", "Close", show=False),
        Binding("up", "move(-1)", "Up", show=False, priority=True),
        Binding("down", "move(1)", "Down", show=False, priority=True),
        Binding("pageup", "move(-8)", "Up", show=False, priority=True),
        Binding("pagedown", "move(8)", "Down", show=False, priority=True),
        Binding("enter", "take", "Take", show=False, priority=True),
        Binding("ctrl+d,delete", "remove", "Delete", show=False, priority=True),
    ]

    def __init__(
        self,
        title: str,
        choices: Sequence[Choice],
        *,
        current: str | None = None,
        empty: str = "",
        preview: Callable[[str], None] | None = None,
        remove: Callable[[str, Callable[[bool], None]], None] | None = None,
        free: bool = False,
    ) -> None:
        super().__init__()
        self._title, self._choices, self._current, self._empty = title, list(choices), current, empty
        self._preview, self._remove, self._free = preview, remove, free
        self._matching: list[Choice] = []

    def compose(self) -> ComposeResult:
        """A box in the middle."""
        with Vertical(id="box") as box:
            box.border_title = self._title
            yield Input(placeholder="type to filter", compact=True)
            yield OptionList(compact=True)
            yield Static(id="keys")

    def on_mount(self) -> None:
        """Fill the list."""
        keys = ["Enter take", "Esc close"]
        if self._remove:
            keys.insert(1, "Del delete")
        self.query_one("#keys", Static).update(Content("   ".join(keys)))
        self._fill(self._current)

    def on_resize(self) -> None:
        """Fit the lines to their room, once that is known."""
        self.call_after_refresh(lambda: self._fill(self._chosen()))

    @on(Input.Changed)
    def _filter(self) -> None:
        self._fill(self._current)

    def _fill(self, chosen: str | None) -> None:
        """List what matches, with the cursor on what was chosen."""
        typed = self.query_one(Input).value
        words = typed.lower().split()
        self._matching = [
            choice
            for choice in self._choices
            if all(
                word in f"{choice.value} {choice.title} {choice.detail} {choice.about}".lower()
                for word in words
            )
        ]
        if self._free and words and typed.strip() not in {choice.value for choice in self._matching}:
            self._matching.append(Choice(typed.strip(), typed.strip(), about="taken as it is typed"))
        options = self.query_one(OptionList)
        options.clear_options()
        room = options.scrollable_content_region.width or self.size.width
        options.add_options(Option(line) for line in self._lines(room))
        if not self._matching:
            none = self._empty or "nothing matches"
            options.add_option(Option(Content.styled(none, "$muted"), disabled=True))
            return
        values = [choice.value for choice in self._matching]
        options.highlighted = values.index(chosen) if chosen in values else 0

    def _lines(self, room: int) -> Iterator[Content]:
        """What is listed, in so many cells; where a title is cut, that is seen."""
        dots = (ASCII if self.app.has_class("-plain") else UNICODE).dots
        details = [_muted(choice.detail) for choice in self._choices if choice.detail]
        beside = max((detail.cell_length + GAP for detail in details), default=0)
        titles = [choice.title for choice in self._choices if choice.detail]
        width = max((cell_len(title) for title in titles), default=0)
        width = min(width, max(room - beside, LEAST_TITLE))
        for choice in self._matching:
            if choice.about:
                about = textwrap.wrap(choice.about, max(room - 2, LEAST_TITLE))
                lines = [Content(cut(choice.title, room, dots)), *(_muted("  " + line) for line in about)]
                yield Content("\n").join(lines)
            elif choice.detail:
                title = set_cell_size(cut(choice.title, width, dots), width)
                yield Content.assemble(title, " " * GAP, _muted(choice.detail))
            else:
                yield Content(cut(choice.title, room, dots))

    def _chosen(self) -> str | None:
        index = self.query_one(OptionList).highlighted
        return self._matching[index].value if index is not None and index < len(self._matching) else None

    @on(OptionList.OptionHighlighted)
    def _show(self) -> None:
        value = self._chosen()
        if self._preview and value is not None:
            self._preview(value)

    @on(OptionList.OptionSelected)
    def action_take(self) -> None:
        """Give what is under the cursor."""
        value = self._chosen()
        if value is not None:
            self.dismiss(value)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Without :attr:`remove`, the key edits what is typed."""
        return action != "remove" or self._remove is not None

    def action_leave(self) -> None:
        """Give nothing, and show again what was there."""
        if self._preview and self._current is not None:
            self._preview(self._current)
        self.dismiss(None)

    def action_move(self, by: int) -> None:
        """Move the cursor."""
        options = self.query_one(OptionList)
        if self._matching:
            options.highlighted = min(max((options.highlighted or 0) + by, 0), len(self._matching) - 1)

    def action_remove(self) -> None:
        """Delete what is under the cursor, after asking."""
        value = self._chosen()
        if self._remove is None or value is None:
            return

        def gone(removed: bool) -> None:
            if removed:
                self._choices = [choice for choice in self._choices if choice.value != value]
                self._fill(self._current)

        self._remove(value, gone)


def _muted(text: str | Content) -> Content:
    return text if isinstance(text, Content) else Content.styled(text, "$muted")
