"""Everything that is known of one position of a canvas, at the step that is looked at."""

from collections.abc import Iterator, Mapping, Sequence
from typing import ClassVar

from rich.cells import set_cell_size
from rich.segment import Segment
from textual import events
from textual.binding import BindingType
from textual.message import Message
from textual.reactive import reactive
from textual.strip import Strip

from dllm_tui.tui.actions import bindings
from dllm_tui.tui.canvas_state import CanvasState
from dllm_tui.tui.cells import cut, printable
from dllm_tui.tui.lens import ramp_step
from dllm_tui.tui.pen import Drawn, Pen
from dllm_tui.tui.sightings import Sighting

BAR = 8
"""Cells of a bar that stands for certainty."""
NAME = 12
"""Cells of a token's text beside numbers."""
AIRY = 22
"""Rows from which there are blank lines."""
BYTES = 8
"""Bytes of a token that are shown."""

_KINDS = {
    "fill": "committed",
    "edit": "edited",
    "remask": "remasked",
    "insert": "inserted",
    "delete": "deleted",
    "shift": "moved",
    "renoise": "renoised",
    "fix": "set by hand",
    "keep": "taken over",
}


class Inspector(Drawn, can_focus=True):
    """Draws a position; keys ask for another one."""

    BINDINGS: ClassVar[list[BindingType]] = bindings("inspector")
    footer = {  # noqa: RUF012 – declared in the base
        "position_back": "back",
        "position_on": "on",
        "step_before": "step before",
        "step_after": "after",
        "mark": "mark",
        "remask": "remask",
        "words": "words",
        "resume": "go on",
        "leave": "close",
    }

    position: reactive[int | None] = reactive[int | None](None)
    """What is inspected."""

    class Asked(Message):
        """Another position, or another step."""

        def __init__(self, *, by: int = 0, lines: int = 0, steps: int = 0) -> None:
            super().__init__()
            self.by, self.lines, self.steps = by, lines, steps

    class Changing(Message):
        """The canvas is to be changed by hand: what of :meth:`~dllm_tui.tui.intervening.Intervening.take`."""

        def __init__(self, what: str, number: int = 0) -> None:
            super().__init__()
            self.what, self.number = what, number

    class Left(Message):
        """No more of it."""

    def __init__(self, pen: Pen) -> None:
        super().__init__(pen, id="inspector")
        self.border_title = "inspect"
        self._state = CanvasState()
        self._seen: Sequence[Sighting] = ()
        self._later: Sighting | None = None
        self._told = ""
        self._changes: Mapping[int, str] = {}
        self._lines: list[Strip] = []

    def show(
        self,
        state: CanvasState,
        position: int | None,
        seen: Sequence[Sighting],
        where: str,
        last: Sighting | None = None,
    ) -> None:
        """Show a position of a state.

        Args:
            state: the canvas.
            position: on it; ``None`` where it is empty.
            seen: what the steps made of it up to there.
            where: the step that is looked at, for people; empty for the newest.
            last: how a later step decided it for good.
        """
        self._state, self._seen, self._later = state, seen, last
        self.border_title = "inspect" if position is None else f"position {position + 1} of {len(state)}"
        self.border_subtitle = where
        self.position = position
        self.refresh()

    def drafted(self, told: str, changes: Mapping[int, str]) -> None:
        """Say what a person has changed on the canvas.

        Args:
            told: how much it is, in a few words; empty for nothing.
            changes: by position, what became of it.
        """
        self._told, self._changes = told, changes
        self.refresh()

    @property
    def choices(self) -> Sequence[tuple[int, float]]:
        """What the model held possible at the position, best first, as far as it was recorded."""
        looked = self._looked
        return looked.guess.top if looked and looked.guess else ()

    def render_lines(self, crop):  # noqa: ANN001, ANN201 # pyright: ignore
        """Lay the lines out once a frame, then as Textual does."""
        self._lines = list(self._layout())
        return super().render_lines(crop)

    def render_line(self, y: int) -> Strip:
        """One of the lines laid out."""
        return self.finish(self._lines[y] if y < len(self._lines) else Strip([]))

    # -- what is drawn

    def _layout(self) -> Iterator[Strip]:
        position = self.position
        if position is None or not 0 <= position < len(self._state):
            yield self._line("the canvas has no positions yet")
            return
        gap = [Strip([])] if self.size.height >= AIRY else []
        lines = [
            *self._draft(position),
            *self._token(position),
            *gap,
            *self._decided(position),
            *gap,
            *self._opinion(),
        ]
        yield from lines
        room = self.size.height - len(lines) - len(gap) - 1
        if self._seen and room > 0:
            shown = self._seen[-room:]
            last = f", the last {len(shown)}" if len(shown) < len(self._seen) else ""
            yield from gap
            yield self._line(f"through the steps{last}")
            yield from (self._history(seen) for seen in shown)

    def _draft(self, position: int) -> Iterator[Strip]:
        """What a person has changed, here and elsewhere."""
        if self._told:
            yield Strip([Segment(self._told, self.pen.turned)])
        if position in self._changes:
            yield Strip([Segment(f"{self.pen.marks.turned} {self._changes[position]}", self.pen.turned)])

    def _token(self, position: int) -> Iterator[Strip]:
        state, pen = self._state, self.pen
        token_id = state.tokens[position]
        if token_id is None:
            yield Strip([Segment("masked", pen.muted)])
            return
        piece = state.pieces.get(token_id, b"")
        special = "  control token" if token_id in state.special else ""
        yield Strip([Segment(self._text(token_id), pen.bold), Segment(special, pen.muted)])
        told = " ".join(f"{byte:02x}" for byte in piece[:BYTES])
        dots = f" {pen.marks.dots}" * (len(piece) > BYTES)
        yield self._line(f"id {token_id} {pen.marks.dot} {told}{dots}")

    def _decided(self, position: int) -> Iterator[Strip]:
        state = self._state
        last = next((seen for seen in reversed(self._seen) if seen.kind), None)
        decided = state.tokens[position] is not None
        if last:
            yield self._line(_KINDS[last.kind or "fill"], last.where)
            yield self._line("", f"forward {last.nfe}")
        if last and decided:
            yield self._measure("confidence", last.confidence)
        looked = self._looked
        if not decided and looked:
            yield self._line("best guess", looked.where)
            yield self._measure("confidence", looked.confidence)
        if self._later:
            token_id = self._later.token_id
            text = "masked" if token_id is None else self._text(token_id)
            yield self._line("at the end", f"{text} {self._later.confidence:.2f}")

    @property
    def _looked(self) -> Sighting | None:
        """The last time that the model had an opinion of the position and left it open."""
        return next((seen for seen in reversed(self._seen) if seen.guess), None)

    def _opinion(self) -> Iterator[Strip]:
        """What the model thought of the position then."""
        looked = self._looked
        if looked is None or looked.guess is None:
            yield self._line("decided the first time it was")
            yield self._line("looked at: no guesses before")
            return
        guess = looked.guess
        yield self._line(f"the model at {looked.where}")
        told = [] if guess.entropy is None else [("entropy ", f"{guess.entropy:.2f} nats  ")]
        if len(guess.top) > 1:
            told.append(("margin ", f"{guess.top[0][1] - guess.top[1][1]:.2f}"))
        if told:
            styles = (self.pen.muted, self.pen.text)
            parts = [part for name, value in told for part in zip((name, value), styles, strict=True)]
            yield Strip([Segment(text, style) for text, style in parts])
        for number, choice in enumerate(guess.top, start=1):
            yield Strip([Segment(f"{number} ", self.pen.muted), *self._choice(*choice)])
        if not guess.top:
            yield self._line("alternatives weren't recorded")

    def _history(self, seen: Sighting) -> Strip:
        pen, marks = self.pen, self.pen.marks
        step = str(seen.step) if seen.phase == "denoise" else {"prefill": "p", "commit": "c"}[seen.phase]
        where = Segment(f"B{seen.block + 1} {step:>2} ", pen.muted)
        if seen.token_id is None:
            return Strip([where, Segment(f"{marks.turned} remasked", pen.turned)])
        sign = Segment("  ", pen.muted)
        if seen.kind:
            sign = Segment(f"{marks.busy} ", pen.accent if seen.kind == "fill" else pen.turned)
        return Strip([where, sign, *self._choice(seen.token_id, seen.confidence, decided=bool(seen.kind))])

    def _choice(self, token_id: int, probability: float, *, decided: bool = True) -> list[Segment]:
        pen = self.pen
        name = set_cell_size(cut(self._text(token_id), NAME, pen.marks.dots), NAME)
        return [
            Segment(name, pen.text if decided else pen.muted),
            Segment(f" {probability:.2f} ", pen.muted),
            self._bar(probability),
        ]

    def _measure(self, name: str, probability: float) -> Strip:
        pen = self.pen
        return Strip(
            [
                Segment(f"{name:<11}", pen.muted),
                Segment(f"{probability:.2f} ", pen.bold),
                self._bar(probability),
            ]
        )

    def _line(self, name: str, value: str = "") -> Strip:
        if not value:
            return Strip([Segment(name, self.pen.muted)])
        return Strip([Segment(f"{name:<11}", self.pen.muted), Segment(value, self.pen.text)])

    def _bar(self, probability: float) -> Segment:
        share = min(max(probability, 0.0), 1.0)
        return Segment(self.pen.marks.filled * round(share * BAR), self.pen.ramp[ramp_step(share)])

    def _text(self, token_id: int) -> str:
        """A token between quotation marks, so that its spaces are seen."""
        piece = self._state.pieces.get(token_id)
        if piece is None:
            return f"#{token_id}"
        return f'"{printable(piece.decode(errors="replace"), self.pen.glyphs)}"'

    # -- actions

    def action_position_back(self) -> None:
        """The position before."""
        self.post_message(self.Asked(by=-1))

    def action_position_on(self) -> None:
        """The next position."""
        self.post_message(self.Asked(by=1))

    def action_position_above(self) -> None:
        """The position above."""
        self.post_message(self.Asked(lines=-1))

    def action_position_below(self) -> None:
        """The position below."""
        self.post_message(self.Asked(lines=1))

    def action_first_position(self) -> None:
        """The first position."""
        self.post_message(self.Asked(by=-(1 << 30)))

    def action_last_position(self) -> None:
        """The last position."""
        self.post_message(self.Asked(by=1 << 30))

    def action_step_before(self) -> None:
        """A step back."""
        self.post_message(self.Asked(steps=-1))

    def action_step_after(self) -> None:
        """A step on."""
        self.post_message(self.Asked(steps=1))

    def action_mark(self) -> None:
        """Mark the position."""
        self.post_message(self.Changing("mark"))

    def action_mark_back(self) -> None:
        """Mark backwards."""
        self.post_message(self.Changing("extend", -1))

    def action_mark_on(self) -> None:
        """Mark on."""
        self.post_message(self.Changing("extend", 1))

    def action_remask(self) -> None:
        """Remask what is marked."""
        self.post_message(self.Changing("remask"))

    def action_choose(self) -> None:
        """Choose another of the best tokens."""
        self.post_message(self.Changing("choose"))

    def action_words(self) -> None:
        """Set words."""
        self.post_message(self.Changing("words"))

    def action_undo(self) -> None:
        """Take the last change back."""
        self.post_message(self.Changing("undo"))

    def action_resume(self) -> None:
        """Go on from here."""
        self.post_message(self.Changing("go_on"))

    def on_key(self, event: events.Key) -> None:
        """A digit takes one of the alternatives as they are numbered."""
        if event.character and event.character in "123456789":
            event.stop()
            self.post_message(self.Changing("choose", int(event.character)))

    def action_leave(self) -> None:
        """Close it."""
        self.post_message(self.Left())
