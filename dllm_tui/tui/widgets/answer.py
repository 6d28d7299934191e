"""An answer in the conversation: a headline, and under it the canvas or, once it is finished, Markdown."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, takewhile
from typing import Final, Literal, TypeAlias

from textual import events
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.content import Content
from textual.widget import Widget
from textual.widgets import Static

from dllm_tui.events import AnyEvent, Done, Step
from dllm_tui.tui.canvas_state import CanvasState
from dllm_tui.tui.cells import clean
from dllm_tui.tui.palette import Palette
from dllm_tui.tui.widgets.canvas import Canvas

INDENT = 2
"""Columns before a headline."""

View: TypeAlias = Literal["markdown", "canvas"]
"""How an answer is seen. One that is being generated is always a canvas."""

ENDINGS: Final = {
    "stop": "",
    "length": "length limit",
    "context": "context full",
    "cancelled": "stopped",
    "error": "failed",
}
"""How a run ended, for people."""


@dataclass(eq=False)
class Answer:
    """What is kept of an answer, whether or not it has a widget."""

    name: str
    """Of the model."""
    events: Sequence[AnyEvent] = ()
    """Of its run, which may still grow; none where they were not kept."""
    text: str = ""
    """The whole answer, once it is finished."""
    view: View = "markdown"
    live: bool = False
    """More events are to come."""
    note: str = ""
    """Which of the answers to its prompt it is; empty where it is the only one."""

    @property
    def can_flip(self) -> bool:
        """Whether it has both views."""
        return bool(self.events) and not self.live


def figures(tokens: int, nfe: int, seconds: float, ending: str = "", given: int = 0) -> list[str]:
    """What an answer took, for its headline: each part says what it counts, and stands only once known.

    How it ended comes first: where the line is short, the numbers are cut. Rates count the tokens that were
    found, without those that were ``given``.
    """
    found = max(tokens - given, 0)
    counted = f"{_count(tokens, 'token')}, {found} of them new" if given else _count(tokens, "token")
    parts = [counted, _count(nfe, "forward")] if nfe else []
    if found and nfe:
        parts.append(f"{found / nfe:.1f} tok/fwd")
    if found and seconds > 0:
        rate = found / seconds
        parts.append(f"{rate:.0f} tok/s" if rate >= 10 else f"{rate:.1f} tok/s")
    return [ending, *parts] if ending else parts


def _count(number: int, word: str) -> str:
    return f"{number} {word}" if number == 1 else f"{number} {word}s"


class AnswerView(Vertical):
    """The widget of an answer.

    Args:
        answer: what it shows; when it ends, that is written back.
        palette: what its canvas is drawn with.
    """

    def __init__(self, answer: Answer, palette: Palette) -> None:
        super().__init__(classes="answer")
        self.answer = answer
        self._palette = palette
        self.shown: View | None = "canvas" if answer.view == "canvas" else None
        """The view that is there; ``None`` until the first is built."""
        self._folded = 0
        self._unsaid = False
        """The headline's figures are of an earlier step."""
        self._newest: CanvasState | None = None
        """Where the run stands, while the canvas shows another state of it."""
        self._scrubbed: CanvasState | None = None
        """That other state."""
        self._inspected: int | None = None
        """A position that is looked at closely."""
        self._marked: frozenset[int] = frozenset()
        self._head = Static(self._headline(_last(answer.events)), classes="who")
        self._canvas = self._new_canvas() if self.shown else None

    def compose(self) -> ComposeResult:
        """The headline, and the canvas; Markdown takes longer."""
        yield self._head
        if self._canvas:
            yield self._canvas

    async def on_mount(self) -> None:
        """Build what isn't there yet, before anything is shown."""
        await self._show_view()

    @property
    def palette(self) -> Palette:
        """What its canvas is drawn with."""
        return self._palette

    @palette.setter
    def palette(self, palette: Palette) -> None:
        self._palette = palette
        if self._canvas:
            self._canvas.palette = palette

    def fold(self, *, figures: bool = True) -> Sequence[AnyEvent]:
        """Take in the events that came since the last call, paint once, and return them.

        Args:
            figures: draw those of the headline now; otherwise they wait for a call that does.
        """
        count = len(self.answer.events)  # the engine's thread may append meanwhile
        news = self.answer.events[self._folded : count]
        self._folded = count
        if news and self._newest is not None:
            self._newest.fold(news)
        elif news and self._canvas:
            self._canvas.fold(news)
            self._unsaid = True
        ended = bool(news) and isinstance(news[-1], Done)
        if self._unsaid and self._canvas and (figures or ended):
            self._unsaid = False
            self._head.update(self._headline(self._canvas.state), layout=False)
        return news

    @property
    def canvas(self) -> Canvas | None:
        """The canvas, where that is what is seen."""
        return self._canvas

    def show_state(self, state: CanvasState | None) -> None:
        """Show the canvas as it was at some step; with ``None``, the answer as it stands again."""
        if state is None:
            newest, self._newest, self._scrubbed = self._newest, None, None
            if self._canvas and newest is not None:
                self._show_on(self._canvas, newest)
        else:
            if self._newest is None:
                self._newest = self._canvas.state if self._canvas else CanvasState.at(self.answer.events)
            self._scrubbed = state
            if self._canvas:
                self._show_on(self._canvas, state)
        if self._view != self.shown:
            self.show_view()

    def inspect(self, position: int | None) -> None:
        """Let a position of the canvas stand out; with ``None``, none."""
        self._inspected = position
        if self._canvas:
            self._canvas.cursor = position
        if self._view != self.shown:
            self.show_view()

    def mark(self, positions: frozenset[int]) -> None:
        """Let positions of the canvas be marked."""
        self._marked = positions
        if self._canvas:
            self._canvas.marked = positions

    def _show_on(self, canvas: Canvas, state: CanvasState) -> None:
        canvas.show(state)
        self._head.update(self._headline(state), layout=False)

    @property
    def _view(self) -> View:
        """What is to be seen now."""
        looked_at = self._scrubbed is not None or self._inspected is not None
        return "canvas" if looked_at else self.answer.view

    def on_click(self, event: events.Click) -> None:
        """Flip the view of a finished answer by its headline."""
        answer = self.answer
        if event.widget is self._head and answer.can_flip:
            answer.view = "canvas" if answer.view == "markdown" else "markdown"
            self.show_view()

    def show_view(self) -> None:
        """Change to the view that the answer is to be seen in now."""
        self.call_later(self._show_view)

    async def _show_view(self) -> None:
        view = self._view
        if view == self.shown or not self.is_attached:  # the app may be leaving
            return
        if view != "canvas":
            self._head.update(self._headline(_last(self.answer.events)), layout=False)
        former = [child for child in self.children if child is not self._head]
        self._canvas = self._new_canvas() if view == "canvas" else None
        body = self._canvas or self._new_text()
        body.display = False  # until it is built: nothing flickers
        await self.mount(body)
        with self.app.batch_update():
            body.display = True
            for child in former:
                await child.remove()
        self.shown = view

    def _new_canvas(self) -> Canvas:
        """Of all events, or of none where :meth:`fold` is to bring them."""
        canvas = Canvas(self._palette, self.answer.events)
        canvas.marked = self._marked
        canvas.cursor = self._inspected
        if self._scrubbed is not None:
            self._show_on(canvas, self._scrubbed)
        elif not self.answer.live:
            canvas.show(CanvasState.at(self.answer.events))
        return canvas

    def _new_text(self) -> Widget:
        from dllm_tui.tui.widgets.answer_text import AnswerText

        text = clean(self.answer.text, self._palette.glyphs)
        return AnswerText(text) if text.strip() else Static("(no text)", classes="note")

    def on_resize(self) -> None:
        """The headline says as much as fits."""
        self.say()

    def say(self) -> None:
        """Draw the headline anew."""
        canvas = self._canvas.state if self._canvas else None
        self._head.update(self._headline(canvas or _last(self.answer.events)), layout=False)

    def _headline(self, now: CanvasState | Done | None) -> Content:
        """The name, and as many of the figures as there is room for."""
        name = Content.styled(clean(self.answer.name) or "answer", "bold $accent")
        match now:
            case CanvasState(done=None, last=Step() as step):
                parts = figures(now.found, step.nfe, step.t, given=now.given)
            case CanvasState(done=Done() as done) | (Done() as done):
                parts = figures(done.tokens, done.nfe, done.seconds, ENDINGS[done.reason], done.given)
            case _:
                parts = ["reading the prompt"] if self.answer.live else []
        parts = [self.answer.note, *parts] if self.answer.note else parts
        dot, room = self._palette.glyphs.dot, (self.size.width or 1000) - INDENT
        shown = accumulate(parts, lambda line, part: line.append(dot + part), initial=name)
        return max(takewhile(lambda line: line.cell_length <= room, shown), default=name, key=len)


def _last(events: Sequence[AnyEvent]) -> Done | None:
    last = events[-1] if events else None
    return last if isinstance(last, Done) else None
