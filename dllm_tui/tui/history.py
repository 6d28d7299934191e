"""What every step made of the positions of one block: the columns of a heat map. Pure."""

import enum
from collections.abc import Sequence

import msgspec

from dllm_tui.events import AnyEvent, BlockStart, Canvas, Change, Phase, Step


class What(enum.Enum):
    """What a step made of a position."""

    ABSENT = enum.auto()
    """The canvas doesn't reach so far."""
    MASKED = enum.auto()
    """It is a mask, and the model had no opinion of it."""
    GUESSED = enum.auto()
    """It stays a mask, and the model has a guess."""
    COMMITTED = enum.auto()
    """It became a token in this step."""
    STANDS = enum.auto()
    """It holds the token that it had."""
    CHANGED = enum.auto()
    """Its token became another one."""
    REMASKED = enum.auto()
    GIVEN = enum.auto()
    """A person has set it, or it was taken over."""


class Spot(msgspec.Struct, frozen=True, gc=False):
    """One position in one step."""

    what: What
    confidence: float = 0.0
    """Of the guess, or of the token when it was committed."""
    entropy: float | None = None
    """Of the distribution that was seen there last, in nats."""


class Column(msgspec.Struct, frozen=True):
    """One step of a block."""

    phase: Phase
    step: int
    nfe: int
    spots: tuple[Spot, ...]
    """By position, from the start of the block."""


class BlockSpan(msgspec.Struct, frozen=True):
    """A block, and how its cells stood when it began."""

    number: int
    start: int
    end: int
    event: int
    """Where in the run it began."""
    cells: tuple[int | None, ...]
    confidences: tuple[float, ...]
    entropies: tuple[float | None, ...]


class Blocks:
    """The blocks of a run, as far as its events were read."""

    def __init__(self) -> None:
        self.spans: list[BlockSpan] = []
        self.count = 0
        """Events that were read."""
        self._canvas = Canvas()
        self._entropies: dict[int, float | None] = {}
        """Of decided cells, where it was told."""

    def read(self, events: Sequence[AnyEvent], count: int) -> None:
        """Take in the events up to the first ``count``; going back is forgotten."""
        if count < self.count:
            self.spans = [span for span in self.spans if span.event < count]
            return
        for at in range(self.count, count):
            event = events[at]
            if isinstance(event, Step):
                self._canvas.apply(event)
                self._entropies.update((guess.position, guess.entropy) for guess in event.decided)
            elif isinstance(event, BlockStart):
                cells = slice(event.start, event.end)
                self.spans.append(
                    BlockSpan(
                        event.block,
                        event.start,
                        event.end,
                        at,
                        tuple(self._canvas.cells[cells]),
                        tuple(self._canvas.confidences[cells]),
                        tuple(map(self._entropies.get, range(event.start, event.end))),
                    )
                )
        self.count = count

    def of(self, position: int) -> int:
        """Index of the last block that has a position; of the last one, where none has."""
        for index in reversed(range(len(self.spans))):
            if self.spans[index].start <= position < self.spans[index].end:
                return index
        return len(self.spans) - 1


class Trail:
    """The columns of one block, step by step."""

    def __init__(self, span: BlockSpan) -> None:
        self.span = span
        self.at = span.event + 1
        """The next event to read."""
        missing = span.end - span.start - len(span.cells)
        self._tokens = [*span.cells, *[None] * missing]
        self._confidences = [*span.confidences, *[0.0] * missing]
        self._entropies = list(span.entropies)

    def read(self, events: Sequence[AnyEvent], count: int) -> list[Column]:
        """The columns of the events that come next, up to the first ``count``."""
        columns: list[Column] = []
        for at in range(self.at, count):
            event = events[at]
            if isinstance(event, Step):
                column = self._column(event)
                shown = event.phase == "denoise" or any(
                    spot.what in {What.REMASKED, What.CHANGED} for spot in column.spots
                )
                columns += [column] * shown
        self.at = max(self.at, count)
        return columns

    def _column(self, step: Step) -> Column:
        start, end = self.span.start, self.span.end
        changes = {change.position: change for change in step.changes}
        guesses = {guess.position: guess for guess in (*step.guesses, *step.decided)}
        spots: list[Spot] = []
        for row, position in enumerate(range(start, end)):
            guess = guesses.get(position)
            if guess is not None:
                self._entropies[row] = guess.entropy
            entropy = self._entropies[row]
            if position >= step.length:
                self._tokens[row] = None
                spots.append(Spot(What.ABSENT))
            elif change := changes.get(position):
                spots.append(Spot(self._take(row, change), change.confidence, entropy))
            elif self._tokens[row] is not None:
                spots.append(Spot(What.STANDS, self._confidences[row], entropy))
            elif guess is not None:
                spots.append(Spot(What.GUESSED, guess.confidence, entropy))
            else:
                spots.append(Spot(What.MASKED))
        return Column(step.phase, step.step, step.nfe, tuple(spots))

    def _take(self, row: int, change: Change) -> What:
        former, now = self._tokens[row], change.token_id
        self._tokens[row], self._confidences[row] = now, change.confidence
        if change.kind in {"fix", "keep"}:
            return What.GIVEN
        if now is None:
            return What.REMASKED
        return What.COMMITTED if former is None else What.CHANGED
