"""The conversation in one scroll: what people wrote, the answers, notices, and what went wrong.

Everything that was said is kept as a small item. Only items near the end have widgets; the reader gets the
earlier ones by scrolling to the top.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from textual import on
from textual.app import ComposeResult
from textual.containers import Vertical, VerticalScroll
from textual.content import Content
from textual.geometry import Size
from textual.message import Message
from textual.widget import Widget
from textual.widgets import Static

from dllm_tui.events import AnyEvent, Done, Error, Turn
from dllm_tui.session import Run
from dllm_tui.tui.cells import Glyphs, clean
from dllm_tui.tui.palette import Palette
from dllm_tui.tui.widgets.answer import Answer, AnswerView, View

if TYPE_CHECKING:
    from textual.widgets import Markdown

MOST_SHOWN = 48
"""Items that have widgets at most; when there are more, the oldest lose theirs."""

HELPING = 24
"""Items that keep their widgets then, and that come back at once when the reader asks for earlier ones."""


@dataclass(frozen=True)
class Said:
    """What a person wrote."""

    text: str


@dataclass(frozen=True)
class Note:
    """A line that is neither the person's nor the model's."""

    text: str


Item: TypeAlias = Said | Note | Error | Answer


class Earlier(Static):
    """Says how much stands above; a click brings some of it back."""

    def show_count(self, count: int, glyphs: Glyphs) -> None:
        """Say that there are ``count`` more; nothing is shown for none."""
        self.display = count > 0
        self.update(Content(f"{glyphs.above} {count} earlier"))

    def on_click(self) -> None:
        """Ask the conversation for them."""
        self.post_message(Conversation.EarlierWanted())


class Conversation(VerticalScroll):
    """A scrolling conversation. It follows its end until the reader scrolls up, and never pulls back."""

    DEFAULT_CSS = """
    Conversation {
        scrollbar-size-vertical: 1;
        & > .log { height: auto; min-height: 100%; }
        & > .log > * { height: auto; margin: 0 0 1 0; }
        & Earlier { color: $muted; text-align: center; &:hover { color: $foreground; } }
        & .who { height: 1; padding: 0 0 0 2; color: $muted; text-wrap: nowrap; text-overflow: ellipsis; }
        & .said > .text { height: auto; padding: 0 1 0 2; }
        & .note { color: $muted; padding: 0 1 0 2; }
        & .failure { border-left: outer $error; padding: 0 1; }
        & .failure > * { height: auto; }
        & .failure > .hint { color: $muted; }
        & AnswerView > * { height: auto; }
        & AnswerText { padding: 0 1 0 2; }
        & AnswerText > MarkdownBlock:last-child { margin-bottom: 0; }
    }
    """

    class AnswerFinished(Message):
        """An answer that was live has ended."""

        def __init__(self, run: Run, done: Done, text: str) -> None:
            super().__init__()
            self.run = run
            self.done = done
            self.text = text
            """The whole answer, decoded in one piece, control tokens left out."""

    class LinkClicked(Message):
        """A link in an answer was clicked; nothing was opened. Ask first."""

        def __init__(self, href: str) -> None:
            super().__init__()
            self.href = href

    class EarlierWanted(Message):
        """The reader wants to see what stands above."""

    def __init__(self, palette: Palette, *, id: str | None = None, classes: str | None = None) -> None:  # noqa: A002 – Textual's name
        super().__init__(id=id, classes=classes)
        self.view: View = "markdown"
        """What answers become when they are finished."""
        self._palette = palette
        self._items: list[Item] = []
        self._widgets: list[Widget] = []
        """Of the last items; the others have none."""
        self._runs: list[tuple[Run, AnswerView]] = []
        """Those that go on."""
        self._below: int | None = None
        """Lines from the top of the view to the end, while items come in above."""
        self._earlier = Earlier()
        self._earlier.display = False
        self._log = Vertical(self._earlier, classes="log")

    def compose(self) -> ComposeResult:
        """A column that fills at least the view, so that a short conversation stands at its top."""
        yield self._log

    def on_mount(self) -> None:
        """Follow the end from the start."""
        self._log.mount(*(widget for widget in self._widgets if not widget.is_attached))
        self.anchor()

    @property
    def palette(self) -> Palette:
        """What canvases are drawn with; set it when the theme changes."""
        return self._palette

    @palette.setter
    def palette(self, palette: Palette) -> None:
        self._palette = palette
        for view in self._answers():
            view.palette = palette

    @property
    def live(self) -> bool:
        """Whether an answer is still being generated, as far as was folded."""
        return bool(self._runs)

    @property
    def answers(self) -> list[Answer]:
        """Those whose steps are known and that have a widget, in their order."""
        return [view.answer for view in self._answers() if view.answer.events or view.answer.live]

    def view_of(self, answer: Answer) -> AnswerView | None:
        """The widget of an answer, where it has one."""
        return next((view for view in self._answers() if view.answer is answer), None)

    def add_user(self, text: str) -> None:
        """Append what a person wrote, and follow the end again."""
        self._append(Said(text))
        self.anchor()

    def add_notice(self, text: str) -> None:
        """Append a line that is neither the person's nor the model's."""
        self._append(Note(text))

    def add_error(self, error: Error) -> None:
        """Append a calm box that says what is wrong and what to do."""
        self._append(error)

    def start_answer(self, run: Run, model_name: str) -> None:
        """Append the answer of a run that has just begun; :meth:`fold` brings it to life."""
        view = self._append(Answer(model_name, run.events, view="canvas", live=True))
        assert isinstance(view, AnswerView)
        self._runs.append((run, view))

    def fold(self, *, figures: bool = True) -> bool:
        """Take in all events since the last call and repaint once; call it once a frame.

        Args:
            figures: draw those of the headlines now; otherwise they wait for a call that does.

        Returns:
            Whether there was anything new.
        """
        news = False
        for run, view in tuple(self._runs):
            events = view.fold(figures=figures)
            news = news or bool(events)
            for event in events:
                if isinstance(event, Error):
                    self.add_error(event)
                elif isinstance(event, Done):
                    self._finish(run, view, event)
        return news

    def toggle_view(self, *, every: bool = False) -> View | None:
        """Flip the last finished answer, or every one, between Markdown and its canvas.

        Flipping every one also decides what coming answers are shown as when they are finished.

        Returns:
            What is shown now; ``None`` where there is no answer with a canvas.
        """
        answers = [item for item in self._items if isinstance(item, Answer) and item.can_flip]
        if not answers:
            return None
        view: View = "canvas" if answers[-1].view == "markdown" else "markdown"
        for answer in answers if every else answers[-1:]:
            answer.view = view
        if every:
            self.view = view
        for shown in self._answers():
            if shown.answer in answers:
                shown.show_view()
        return view

    def note_last(self, note: str) -> None:
        """Say in the last answer's headline which of its versions it is."""
        answers = [item for item in self._items if isinstance(item, Answer)]
        if answers and answers[-1].note != note:
            answers[-1].note = note
            if view := self.view_of(answers[-1]):
                view.say()

    def show_canvas(self) -> None:
        """Let the last answer be seen as a canvas, if it can."""
        answers = [item for item in self._items if isinstance(item, Answer) and item.can_flip]
        if answers and answers[-1].view != "canvas":
            self.toggle_view()

    def clear(self) -> None:
        """Forget everything."""
        self._cut_items(0)

    def cut(self, turn: int) -> None:
        """Remove turn number ``turn`` (people's and answers, counted from 0) and all that follows."""
        turns = [index for index, item in enumerate(self._items) if isinstance(item, Said | Answer)]
        if turn < len(turns):
            self._cut_items(turns[turn])

    def load(
        self,
        turns: Sequence[Turn],
        runs: Mapping[int, Sequence[AnyEvent]] | None = None,
        model_name: str = "",
        models: Mapping[int, str] | None = None,
    ) -> None:
        """Show a stored conversation in place of this one.

        Args:
            turns: its turns as they now stand; ``system`` turns are left out.
            runs: events of the runs that ``Turn.run`` names, where they were kept: those answers have a
                canvas view.
            model_name: stands above the answers,
            models: and above those of these runs, other models' names.
        """
        self.clear()
        for turn in turns:
            if turn.role == "user":
                self._items.append(Said(turn.text))
            elif turn.role == "assistant":
                events = (runs or {}).get(-1 if turn.run is None else turn.run, ())
                name = (models or {}).get(-1 if turn.run is None else turn.run, model_name)
                self._items.append(Answer(name, events, turn.text, self.view if events else "markdown"))
        self._show_last()
        self._count_earlier()
        self.anchor()

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        """At the top, bring back what stands above."""
        super().watch_scroll_y(old_value, new_value)
        if new_value <= 0 < old_value and self._hidden:
            self.post_message(self.EarlierWanted())

    @on(EarlierWanted)
    async def show_earlier(self) -> None:
        """Give widgets to the items before the first shown; what the reader looks at stays in place."""
        end = self._hidden
        items = self._items[max(0, end - HELPING) : end]
        if not items:
            return
        self.release_anchor()
        widgets = [self._build(item) for item in items]
        for widget in widgets:
            widget.display = False
        self._widgets[:0] = widgets
        await self._log.mount(*widgets, after=self._earlier)
        self._below = self.virtual_size.height - self.scroll_offset.y
        for widget in widgets:
            widget.display = True
        self._count_earlier()

    def watch_virtual_size(self, old: Size, new: Size) -> None:
        """Stay where the reader is when earlier items come in above."""
        if self._below is not None and new.height > old.height:
            self.scroll_to(y=new.height - self._below, animate=False, immediate=True)
            self._below = None

    def on_markdown_link_clicked(self, event: "Markdown.LinkClicked") -> None:
        """Pass a link on: only the app can ask."""
        event.stop()
        self.post_message(self.LinkClicked(event.href))

    @property
    def _hidden(self) -> int:
        """Items before the first that has a widget."""
        return len(self._items) - len(self._widgets)

    def _answers(self) -> list[AnswerView]:
        return [widget for widget in self._widgets if isinstance(widget, AnswerView)]

    def _count_earlier(self) -> None:
        self._earlier.show_count(self._hidden, self._palette.glyphs)

    def _show_last(self) -> None:
        """Give widgets to the last items, when none has any."""
        self._widgets = [self._build(item) for item in self._items[-HELPING:]]
        if self._log.is_attached:
            self._log.mount(*self._widgets)

    def _append(self, item: Item) -> Widget:
        self._items.append(item)
        widget = self._build(item)
        self._widgets.append(widget)
        if self._log.is_attached:
            self._log.mount(widget)
        following = self.max_scroll_y <= self.scroll_y
        if following and len(self._widgets) > MOST_SHOWN:
            _remove(self._widgets[:-HELPING])
            self._widgets = self._widgets[-HELPING:]
            self._count_earlier()
        return widget

    def _finish(self, run: Run, view: AnswerView, done: Done) -> None:
        answer = view.answer
        answer.text = run.text(done.token_ids)
        answer.live = False
        if answer.text.strip():
            answer.view = self.view
            view.show_view()
        self._runs.remove((run, view))
        self.post_message(self.AnswerFinished(run, done, answer.text))

    def _cut_items(self, index: int) -> None:
        keep = max(0, index - self._hidden)
        del self._items[index:]
        _remove(self._widgets[keep:])
        self._widgets = self._widgets[:keep]
        if not self._widgets and self._items:
            self._show_last()
        self._runs = [(run, view) for run, view in self._runs if view in self._widgets]
        self._count_earlier()

    def _build(self, item: Item) -> Widget:
        glyphs = self._palette.glyphs
        match item:
            case Answer():
                return AnswerView(item, self._palette)
            case Said():
                return Vertical(
                    Static("you", classes="who"), _text(item.text, glyphs, "text"), classes="said"
                )
            case Note():
                return _text(item.text, glyphs, "note")
            case Error():
                lines = [_text(item.message, glyphs, "message"), _text(item.hint, glyphs, "hint")]
                return Vertical(*(lines if item.hint else lines[:1]), classes="failure")


def _remove(widgets: Iterable[Widget]) -> None:
    for widget in widgets:
        if widget.is_attached:
            widget.remove()


def _text(text: str, glyphs: Glyphs, classes: str) -> Static:
    """Plain text, safe and without markup."""
    return Static(Content(clean(text, glyphs)), classes=classes)
