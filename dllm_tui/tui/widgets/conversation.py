"""The conversation: what people wrote, the answers with their canvases, and what went wrong, in one scroll."""

from collections.abc import Mapping, Sequence

from textual.containers import VerticalScroll
from textual.message import Message

from dllm_tui.events import AnyEvent, Done, Error, Turn
from dllm_tui.session import Run
from dllm_tui.tui.palette import Palette


class Conversation(VerticalScroll):
    """A scrolling conversation. It stays at the bottom until the reader scrolls up, and never pulls back."""

    class AnswerFinished(Message):
        """An answer that was live has ended."""

        def __init__(self, conversation: "Conversation", run: Run, done: Done, text: str) -> None:
            super().__init__()
            self.conversation = conversation
            self.run = run
            self.done = done
            self.text = text
            """The whole answer, decoded in one piece, control tokens left out."""

    class LinkClicked(Message):
        """A link in an answer was clicked; nothing was opened. Ask first."""

        def __init__(self, conversation: "Conversation", href: str) -> None:
            super().__init__()
            self.conversation = conversation
            self.href = href

    def __init__(self, palette: Palette, *, id: str | None = None, classes: str | None = None) -> None:  # noqa: A002 – Textual's name
        super().__init__(id=id, classes=classes)

    @property
    def palette(self) -> Palette:
        """What canvases are drawn with; set it when the theme changes."""
        raise NotImplementedError

    @palette.setter
    def palette(self, palette: Palette) -> None:
        raise NotImplementedError

    @property
    def live(self) -> bool:
        """Whether an answer is still being generated."""
        raise NotImplementedError

    def add_user(self, text: str) -> None:
        """Append what a person wrote, and follow the end again."""
        raise NotImplementedError

    def start_answer(self, run: Run, model_name: str) -> None:
        """Append the answer of a run that has just begun; :meth:`fold` brings it to life."""
        raise NotImplementedError

    def fold(self) -> bool:
        """Take in all events since the last call and repaint once; call it once a frame.

        Returns:
            Whether there was anything new.
        """
        raise NotImplementedError

    def add_error(self, error: Error) -> None:
        """Append a calm box that says what is wrong and what to do."""
        raise NotImplementedError

    def add_notice(self, text: str) -> None:
        """Append a line that is neither the person's nor the model's."""
        raise NotImplementedError

    def toggle_view(self, *, every: bool = False) -> str:
        """Flip the last answer (or every one) between Markdown and its canvas.

        Returns:
            What is shown now, ``markdown`` or ``canvas``; empty where there is nothing to flip.
        """
        raise NotImplementedError

    def clear(self) -> None:
        """Forget everything."""
        raise NotImplementedError

    def cut(self, turn: int) -> None:
        """Remove turn number ``turn`` (people's and answers, counted from 0) and all that follows."""
        raise NotImplementedError

    def load(
        self,
        turns: Sequence[Turn],
        runs: Mapping[int, Sequence[AnyEvent]] | None = None,
        model_name: str = "",
    ) -> None:
        """Show a stored conversation in place of this one.

        Args:
            turns: its turns as they now stand; ``system`` turns are left out.
            runs: events of the runs that ``Turn.run`` names, where they were kept: those answers have a
                canvas view.
            model_name: stands above the answers.
        """
        raise NotImplementedError
