"""Ties the timeline to what it moves: the canvas of an answer, and the numbers beside it."""

from textual.geometry import Region

from dllm_tui.tui.metrics import Reading
from dllm_tui.tui.screens.chat import ChatScreen
from dllm_tui.tui.scrub import Scrub
from dllm_tui.tui.widgets.answer import Answer, AnswerView
from dllm_tui.tui.widgets.canvas import Canvas


class Scrubbing:
    """Which answer is looked at, and at which of its steps.

    Args:
        chat: the screen with conversation, timeline and meters.
    """

    def __init__(self, chat: ChatScreen) -> None:
        self._chat = chat
        self._answer: Answer | None = None
        """The answer that the timeline shows."""
        self._newest: Answer | None = None
        """The last of the conversation when this was last looked at."""
        self._reading: Reading | None = None
        self._away = False
        """What is seen is not the newest step."""
        self._grown = False
        """Steps have come that were not drawn."""
        self._kept: int | None = None
        """A position that is to stay in sight."""

    @property
    def playing(self) -> bool:
        """Whether the cursor moves on its own."""
        return self._chat.timeline.scrub.playing

    @property
    def answer(self) -> Answer | None:
        """The answer that is looked at."""
        return self._answer

    @property
    def view(self) -> AnswerView | None:
        """The widget of the answer that is looked at."""
        return self._chat.conversation.view_of(self._answer) if self._answer else None

    def tick(self, *, redraw: bool = True) -> None:
        """Once a frame: take in new answers and steps, and move on where it plays.

        Args:
            redraw: draw new steps now; otherwise they wait for a tick that does.
        """
        answers = self._chat.conversation.answers
        newest = answers[-1] if answers else None
        if newest is not self._newest or (self._answer and self._answer not in answers):
            self._newest = newest
            self._look_at(newest)
        timeline = self._chat.timeline
        self._grown |= timeline.scrub.grow()
        if timeline.scrub.tick():
            self.show()
        elif self._grown and redraw:
            self._grown = False
            timeline.redraw_line()

    def show_reading(self, reading: Reading | None) -> None:
        """Show the newest numbers, unless an earlier step is looked at."""
        self._reading = reading
        if not self._away:
            self._chat.meters.reading = reading

    def show(self) -> None:
        """Show what the timeline stands on."""
        timeline, meters = self._chat.timeline, self._chat.meters
        scrub, view = timeline.scrub, self.view
        self._away = scrub.moment is not None
        if view:
            view.show_state(scrub.canvas if self._away else None)
            self._chat.call_after_refresh(self._scroll_to_change, view)
        meters.then = f"step {scrub.moment + 1}" if scrub.moment is not None else ""
        meters.reading = scrub.reading if self._away else self._reading
        timeline.redraw()

    def choose(self, by: int) -> None:
        """Look at another answer: 1 for the next one down, -1 for the one above."""
        answers = self._chat.conversation.answers
        if self._answer in answers:
            at = min(max(answers.index(self._answer) + by, 0), len(answers) - 1)
            if answers[at] is not self._answer:
                self._look_at(answers[at])
                if self.view:
                    self._chat.conversation.release_anchor()
                    self._chat.conversation.scroll_to_widget(self.view, animate=False)

    def choose_canvas(self, canvas: Canvas) -> None:
        """Look at the answer that a canvas is of; where it stands stays as it is."""
        for answer in self._chat.conversation.answers:
            view = self._chat.conversation.view_of(answer)
            if view and view.canvas is canvas and answer is not self._answer:
                self._look_at(answer)

    def go_to(self, nfe: int) -> None:
        """Look at the step of a forward."""
        scrub = self._chat.timeline.scrub
        moments = scrub.timeline.moments
        at = next((at for at, moment in enumerate(moments) if moment.nfe >= nfe), scrub.last)
        if at == scrub.last and not scrub.ended:
            scrub.to_newest()
        else:
            scrub.go(at)
        self.show()

    def keep_in_sight(self, position: int | None) -> None:
        """Scroll to a position of the canvas, and let no step scroll it away; with ``None``, let go of it."""
        self._kept = position
        if self.view and position is not None:
            self._chat.call_after_refresh(self._scroll_to, self.view, position)

    def leave(self) -> None:
        """Look at the newest step of the newest answer."""
        if self._answer is not self._newest:
            self._look_at(self._newest)
        elif self._away:
            self._chat.timeline.scrub.to_newest()
            self.show()

    def _look_at(self, answer: Answer | None) -> None:
        if self._away:
            self._chat.timeline.scrub.to_newest()
            self.show()
        self._answer = answer
        scrub = Scrub(answer.events if answer else (), arrow=self._chat.timeline.pen.marks.arrow)
        scrub.grow()
        self._chat.timeline.show(scrub, self._title())

    def _title(self) -> str:
        answers = self._chat.conversation.answers
        if self._answer is None or self._answer is self._newest:
            return "timeline"
        return f"timeline of answer {answers.index(self._answer) + 1} of {len(answers)}"

    def _scroll_to_change(self, view: AnswerView) -> None:
        """Bring what the step changed into view, or what is to be kept there."""
        canvas = view.canvas
        if self._away and canvas is not None:
            state = canvas.state
            changed = state.fresh or state.dropped.keys() or {state.active.start, len(state) - 1}
            self._scroll_to(view, max(changed) if self._kept is None else self._kept)

    def _scroll_to(self, view: AnswerView, position: int) -> None:
        canvas = view.canvas
        if canvas is None or not canvas.is_attached:
            return
        lines = canvas.flow.lines_of(min(position, max(len(canvas.state) - 1, 0)))
        top = canvas.virtual_region.y + view.virtual_region.y
        self._chat.conversation.scroll_to_region(
            Region(0, top + lines.start, 1, max(len(lines), 1)), animate=False, force=True
        )
