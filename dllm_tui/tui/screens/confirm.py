"""One question with two answers."""

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Static

from dllm_tui.tui.cells import clean


class Confirm(ModalScreen[bool]):
    """Asks; Enter or ``y`` agrees, Escape or ``n`` doesn't."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter,y", "answer(True)", "Yes", show=False),
        Binding("escape,n", "answer(False)", "No", show=False),
    ]

    def __init__(self, question: str, *, yes: str, no: str = "cancel") -> None:
        super().__init__()
        self._question, self._yes, self._no = question, yes, no

    def compose(self) -> ComposeResult:
        """A box in the middle."""
        with Vertical(id="box"):
            yield Static(Content(clean(self._question)), id="question")
            yield Static(Content(f"Enter {self._yes}   Esc {self._no}"), id="keys")

    def action_answer(self, answer: bool) -> None:
        """Give the answer."""
        self.dismiss(answer)
