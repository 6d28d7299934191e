"""Type words that are to stand at some positions of a canvas; they are shown as the model's tokens."""

from collections.abc import Callable, Sequence
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Input, Static

from dllm_tui.errors import DllmError
from dllm_tui.tui.cells import Glyphs, printable

Tokens = list[tuple[int, bytes]]


class Words(ModalScreen[Tokens | None]):
    """Gives the tokens of what was typed, or ``None``.

    Args:
        position: where they begin.
        text: what stands there.
        read: makes tokens of a text; raises :class:`~dllm_tui.errors.DllmError` where there is no model.
        glyphs: what stands for characters that can't be shown.
    """

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "leave", "Close", show=False)]

    def __init__(
        self, position: int, text: str, read: Callable[[str], Sequence[tuple[int, bytes]]], glyphs: Glyphs
    ) -> None:
        super().__init__()
        self._position, self._text, self._read, self._glyphs = position, text, read, glyphs

    def compose(self) -> ComposeResult:
        """A box in the middle."""
        with Vertical(id="box") as box:
            box.border_title = f"words from position {self._position + 1} on"
            yield Input(printable(self._text, self._glyphs), compact=True)
            yield Static(id="tokens")
            yield Static(id="keys")

    def on_mount(self) -> None:
        """Say what the keys do, and show the tokens."""
        self.query_one("#keys", Static).update(Content("Enter set   Esc close   a word has its space before"))
        self._preview(self.query_one(Input).value)

    @on(Input.Changed)
    def _changed(self, event: Input.Changed) -> None:
        self._preview(event.value)

    def _preview(self, text: str) -> None:
        try:
            names = [printable(piece.decode(errors="replace"), self._glyphs) for _, piece in self._read(text)]
            said = f"{len(names)} token{'s' * (len(names) != 1)}  " + " ".join(f'"{name}"' for name in names)
        except DllmError as error:
            said = error.message
        self.query_one("#tokens", Static).update(Content.styled(said, "$muted"))

    @on(Input.Submitted)
    def _submitted(self, event: Input.Submitted) -> None:
        try:
            tokens = list(self._read(event.value))
        except DllmError:
            return
        if tokens:
            self.dismiss(tokens)

    def action_leave(self) -> None:
        """Give nothing."""
        self.dismiss(None)
