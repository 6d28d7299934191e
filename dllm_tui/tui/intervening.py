"""Changing a canvas by hand, and letting the model go on from there: what a person has changed so far."""

from functools import partial
from typing import TYPE_CHECKING

from dllm_tui.errors import DllmError
from dllm_tui.events import Error, RunStart, text_of
from dllm_tui.ports import Run
from dllm_tui.tui.cells import printable
from dllm_tui.tui.choice import Choice
from dllm_tui.tui.widgets.answer import Answer

if TYPE_CHECKING:
    from dllm_tui.tui.app import ChatApp
    from dllm_tui.tui.canvas_state import CanvasState
    from dllm_tui.tui.inspecting import Inspecting
    from dllm_tui.tui.screens.chat import ChatScreen
    from dllm_tui.tui.scrubbing import Scrubbing

MOST_WORDS = 1 << 12
"""Tokens that may be set at once."""


class Intervening:
    """The changes that a person has made on the canvas that is looked at; they are none of the run's.

    Args:
        app: begins branches and asks.
        chat: the screen with canvas and inspector.
        scrubbing: says which answer, and which of its steps.
        inspecting: says which position.
    """

    def __init__(
        self, app: "ChatApp", chat: "ChatScreen", scrubbing: "Scrubbing", inspecting: "Inspecting"
    ) -> None:
        self._app, self._chat = app, chat
        self._scrubbing, self._inspecting = scrubbing, inspecting
        self._place: tuple[Answer | None, int] = (None, 0)
        """The answer and the step of it that the changes belong to."""
        self._marks: frozenset[int] = frozenset()
        self._edits: dict[int, int | None] = {}
        """By position: the token that is set there, or ``None`` for a mask."""
        self._pieces: dict[int, bytes] = {}
        """Of tokens that the run may not have named."""
        self._before: list[tuple[frozenset[int], dict[int, int | None]]] = []
        """What there was before each change, to be taken back."""
        self._branch: Run | None = None
        """The branch that goes on."""

    # -- what is asked for

    def take(self, what: str, number: int = 0) -> None:
        """Do what a key of the inspector asks for.

        Args:
            what: ``mark``, ``extend``, ``remask``, ``choose``, ``words``, ``undo`` or ``go_on``.
            number: by how many positions, or which of the best tokens; 0 asks which.
        """
        reason = self.reason
        if reason:
            self._chat.composer.above.say(f"this canvas can't be changed: {reason}")
            return
        self._chat.composer.dismiss()
        self.follow()
        if what == "mark":
            self._change(self._marks ^ {self._inspecting.position}, self._edits)
        elif what == "extend":
            here = self._inspecting.position
            self._inspecting.move(by=number)
            self._change(self._marks | {here, self._inspecting.position}, self._edits)
        elif what == "remask":
            self._remask()
        elif what == "choose":
            self._choose(number)
        elif what == "words":
            self._ask_for_words()
        elif what == "undo" and self._before:
            self._marks, self._edits = self._before.pop()
            self._show()
        elif what == "go_on":
            self.go_on()

    @property
    def reason(self) -> str:
        """Why the answer that is looked at can't be changed; empty where it can."""
        answer = self._scrubbing.answer
        start = answer.events[0] if answer and answer.events else None
        if answer is None or not isinstance(start, RunStart):
            return "there are no steps to go back to"
        return self._app.session.unbranched(start.run)

    def go_on(self) -> None:
        """Begin a branch: the step that is looked at, with what was changed there."""
        answer, count = self._scrubbing.answer, self._chat.timeline.scrub.count
        reason = self.reason
        try:
            if reason or answer is None:
                self._chat.composer.above.say(f"no branch from here: {reason}")
                return
            edits = self._edits if self._place == (answer, count) else {}
            run = self._app.session.go_on(answer.events, count, edits)
        except DllmError as error:
            self._chat.composer.above.say(f"{error.message} {error.hint}".strip())
            return
        self.clear()
        self._branch = run
        self._app.show_branch(run)

    def ended(self) -> None:
        """A run has ended. If it was a branch that came to nothing, the answer before is shown again."""
        run, self._branch = self._branch, None
        done = run.done if run else None
        if run is None or done is None or self._app.session.turns[-1].run == done.run:
            return
        errors = [event for event in run.events if isinstance(event, Error)]
        self._app.show_session()
        for error in errors:
            self._chat.conversation.add_error(error)

    # -- the changes

    def follow(self) -> None:
        """Changes belong to a step: they go when another one is looked at. Marks stay, on the same answer."""
        place = (self._scrubbing.answer, self._chat.timeline.scrub.count)
        if place == self._place:
            return
        same = place[0] is self._place[0]
        self._place, self._edits, self._before = place, {}, []
        self._marks = self._marks if same else frozenset()
        self._draw()

    def clear(self) -> None:
        """Forget all of them."""
        self._marks, self._edits, self._before = frozenset(), {}, []
        self._draw()
        self._place = (None, 0)

    def _change(self, marks: frozenset[int], edits: dict[int, int | None]) -> None:
        self._before.append((self._marks, self._edits))
        self._marks, self._edits = marks, edits
        self._show()

    def _show(self) -> None:
        """Show the canvas as it was changed."""
        if self._edits and self._scrubbing.view:
            self._scrubbing.view.show_state(self._base.changed(self._edits, self._pieces))
        else:
            self._scrubbing.show()
        self._draw()

    def _draw(self) -> None:
        view = self._scrubbing.view
        if view:
            view.mark(self._marks)
        dot = self._chat.inspector.pen.marks.dot
        parts = [f"{len(self._marks)} marked"] * bool(self._marks)
        if self._edits:
            parts.append(f"{len(self._edits)} changed")
            key = self._app.key_for("resume")
            parts += [f"{key} goes on"] * bool(key and not self._marks)
        self._chat.inspector.drafted(
            f" {dot} ".join(parts),
            {
                at: "remasked" if token is None else f"set to {self._name(token)}"
                for at, token in self._edits.items()
            },
        )

    @property
    def _base(self) -> "CanvasState":
        """The canvas as the run left it."""
        return self._chat.timeline.scrub.canvas

    def _name(self, token: int) -> str:
        piece = self._pieces.get(token, self._base.pieces.get(token))
        if piece is None:
            return f"#{token}"
        return f'"{printable(piece.decode(errors="replace"), self._chat.inspector.pen.glyphs)}"'

    # -- remask, choose, words

    def _remask(self) -> None:
        tokens = self._base.tokens
        targets = self._marks or {self._inspecting.position}
        edits = {at: token for at, token in self._edits.items() if at not in targets}
        edits |= {at: None for at in targets if at < len(tokens) and tokens[at] is not None}
        self._change(frozenset(), edits)

    def _choose(self, number: int) -> None:
        """Set another of the tokens that the model held possible at the position."""
        inspector = self._chat.inspector
        choices = inspector.choices
        if not choices:
            self._chat.composer.above.say(
                "no alternatives were recorded here: remask it, or set words of your own"
            )
        elif number:
            if number <= len(choices):
                self._set(self._inspecting.position, choices[number - 1][0])
        else:
            from dllm_tui.tui.screens.pick import Pick

            listed = [
                Choice(str(token), self._name(token), f"{probability:.3f}") for token, probability in choices
            ]
            self._app.push_screen(
                Pick("the best tokens here", listed), partial(self._chosen, self._inspecting.position)
            )

    def _chosen(self, position: int, value: str | None) -> None:
        if value is not None:
            self._set(position, int(value))

    def _set(self, position: int, token: int) -> None:
        self._change(self._marks - {position}, {**self._edits, position: token})

    def _ask_for_words(self) -> None:
        """Let words be typed in place of the marked run, or of the position."""
        from dllm_tui.tui.screens.words import Words

        start, length = self._run_of_marks()
        state = self._base.changed(self._edits, self._pieces)
        before = text_of(state.tokens[start : start + length], state.pieces, state.special)
        screen = Words(start, before, self._app.session.host.pieces, self._chat.inspector.pen.glyphs)
        self._app.push_screen(screen, partial(self._worded, start, length))

    def _run_of_marks(self) -> tuple[int, int]:
        """The first marked position and how many follow it without a gap; else the one inspected."""
        if not self._marks:
            return self._inspecting.position, 1
        start = end = min(self._marks)
        while end in self._marks:
            end += 1
        return start, end - start

    def _worded(self, start: int, length: int, words: "list[tuple[int, bytes]] | None") -> None:
        if words is None:
            return
        limit = min(self._app.session.knobs.max_new_tokens, start + MOST_WORDS)
        if start + len(words) > limit:
            self._chat.composer.above.say(
                f"{len(words)} tokens from position {start + 1} on go past the longest answer, {limit}"
            )
            return
        self._pieces |= dict(words)
        tokens = self._base.tokens
        edits = {**self._edits, **{start + at: token for at, (token, _) in enumerate(words)}}
        edits |= {at: None for at in range(start + len(words), start + length) if at < len(tokens)}
        self._change(frozenset(), edits)
