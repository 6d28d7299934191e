"""The state of one run's canvas at a point of its events. Pure: a fold, and nothing of how it is drawn.

It agrees with :class:`dllm_tui.events.Canvas` on tokens, and adds what people see beside them: guesses,
when and how a cell was decided, what the last step changed, blocks.
"""

from collections.abc import Iterable, Mapping, Sequence, Set
from copy import copy
from itertools import chain

import msgspec

from dllm_tui.events import GIVEN, AnyEvent, BlockStart, Commit, Done, Guess, Kind, Pieces, Step


def noise(before: Set[int], step: Step) -> set[int]:
    """Positions that hold a token nobody stands for, after a step: noise, and draws that may change yet.

    There are such in families without a mask: all that a denoising forward still guesses, and a canvas
    that was just laid. Elsewhere these positions hold masks.

    Args:
        before: what it was before the step.
        step: that follows.
    """
    kept = {guess.position for guess in step.guesses} if step.phase == "denoise" else before
    laid = (change.position for change in step.changes if change.kind == "renoise")
    return {position for position in (*kept, *laid) if position < step.length}


class Cell(msgspec.Struct, frozen=True, kw_only=True):
    """One position as it stands."""

    position: int
    token_id: int | None
    """``None`` is the mask."""
    confidence: float
    """Of the token when it was committed; 0 at a mask that never had one."""
    guess: Guess | None
    """The model's best guess at an undecided position."""
    kind: Kind | None
    """How the cell last changed; ``None`` before it did."""
    nfe: int
    """Forwards of the run when it last changed; 0 before."""
    block: int
    frozen: bool
    """Its block is final."""
    fresh: bool
    """Changed by the last step."""
    dropped: int | None
    """The token that the last step took back from here."""


class CanvasState:
    """The cells of a run, event by event. Read it freely; only :meth:`fold` and :meth:`take_dirty` write.

    Lists are indexed by position and as long as the canvas. What the last step changed stays marked through
    a commit forward after it, which runs within the same breath, up to the next denoising step.
    """

    def __init__(self) -> None:
        self.count = 0
        """Events of the run that were taken in."""
        self.given = 0
        """Cells that the run was given: taken over from another one, or set by a person."""
        self.tokens: list[int | None] = []
        self.confidences: list[float] = []
        self.kinds: list[Kind | None] = []
        self.changed_at: list[int] = []
        """Forwards of the run when the cell last changed."""
        self.steps: list[int] = []
        """Step of the block in which the cell last changed; 0 outside denoising."""
        self.entropies: list[float | None] = []
        """Of the last distribution that was told of the cell, in nats; ``None``: none was."""
        self.blocks: list[int] = []
        self.fresh: set[int] = set()
        self.dropped: dict[int, int] = {}
        """Tokens that the last step took back, by position, which may lie past the end by now."""
        self.frozen = 0
        """Positions before this one are final."""
        self.active = range(0)
        """The block that is being denoised."""
        self.decided = 0
        """Number of cells that hold a token, be it noise."""
        self.noise: set[int] = set()
        """As of :func:`noise`."""
        self.pieces: dict[int, bytes] = {}
        self.special: set[int] = set()
        self.last: Step | None = None
        self.done: Done | None = None
        self._span: BlockStart | None = None
        self._guesses: tuple[Guess, ...] = ()
        self._guess_at: dict[int, Guess] | None = {}
        self._dirty: set[int] = set()
        self._seen_guesses: dict[int, Guess] = {}
        self._seen_marked: set[int] = set()

    @classmethod
    def at(cls, events: Sequence[AnyEvent], count: int | None = None) -> "CanvasState":
        """The state after the first ``count`` events, or all of them."""
        state = cls()
        state.fold(events[:count])
        return state

    def copy(self) -> "CanvasState":
        """An independent one that stands where this one does; everything in it is yet to be drawn."""
        other = CanvasState()
        other.__dict__.update(
            (name, copy(value) if isinstance(value, list | set | dict) else value)
            for name, value in vars(self).items()
        )
        other._dirty.update(range(len(self.tokens)))
        return other

    def __len__(self) -> int:
        return len(self.tokens)

    @property
    def guesses(self) -> dict[int, Guess]:
        """The last guesses, by position."""
        if self._guess_at is None:
            self._guess_at = {guess.position: guess for guess in self._guesses}
        return self._guess_at

    @property
    def found(self) -> int:
        """Number of cells that hold a token that isn't noise."""
        return self.decided - sum(self.tokens[position] is not None for position in self.noise)

    def cell(self, position: int) -> Cell:
        """Everything about one position.

        Raises:
            IndexError: it is not on the canvas.
        """
        if not 0 <= position < len(self.tokens):
            raise IndexError(f"position {position} is outside the canvas of {len(self.tokens)} cells")
        token_id = self.tokens[position]
        return Cell(
            position=position,
            token_id=token_id,
            confidence=self.confidences[position],
            guess=self.guesses.get(position) if token_id is None else None,
            kind=self.kinds[position],
            nfe=self.changed_at[position],
            block=self.blocks[position],
            frozen=position < self.frozen,
            fresh=position in self.fresh,
            dropped=self.dropped.get(position),
        )

    def fold(self, events: Iterable[AnyEvent]) -> None:
        """Take in the next events of the run; those that don't concern the canvas pass by.

        Raises:
            ValueError: a step changes a position outside the canvas.
        """
        for event in events:
            self.count += 1
            match event:
                case Step():
                    self._step(event)
                case BlockStart():
                    self._block(event)
                case Commit():
                    former, self.frozen = self.frozen, min(event.end, len(self.tokens))
                    self._dirty.update(range(min(former, self.frozen), max(former, self.frozen)))
                case Pieces():
                    self.pieces.update(event.pieces)
                    self.special.update(event.special)
                case Done():
                    self._finish(event)
                case _:
                    pass

    def take_dirty(self) -> set[int]:
        """Positions that may look different since this was last called, some perhaps past the end."""
        dirty, self._dirty = self._dirty, set()
        marked = self.fresh | self.dropped.keys()
        dirty |= marked | self._seen_marked
        guesses, seen = self.guesses, self._seen_guesses
        if guesses is not seen:
            dirty.update(position for position, guess in guesses.items() if seen.get(position) != guess)
            dirty.update(seen.keys() - guesses.keys())
        self._seen_guesses, self._seen_marked = guesses, marked
        return dirty

    def changed(self, edits: Mapping[int, int | None], pieces: Mapping[int, bytes]) -> "CanvasState":
        """A copy with cells that a person has changed, not told by any event.

        Args:
            edits: by position: the token that is set there, or ``None`` for a mask.
            pieces: the bytes of tokens that the run may not have named.
        """
        other = self.copy()
        other.pieces = {**self.pieces, **pieces}
        length = max(len(self), max(edits, default=-1) + 1)
        if length > len(self):
            other._resize(length)
        other.fresh, other.dropped = set(), {}
        for position, token_id in edits.items():
            former = other.tokens[position]
            if token_id is None and former is not None:
                other.dropped[position] = former
            other.tokens[position], other.confidences[position] = token_id, float(token_id is not None)
            other.kinds[position] = "fix" if token_id is not None else "remask"
            other.fresh.add(position)
        return other

    def _step(self, step: Step) -> None:
        if step.phase != "commit":
            self.fresh, self.dropped = set(), {}
        self._guesses, self._guess_at = step.guesses, None
        if step.length != len(self.tokens):
            self._resize(step.length)
        for guess in chain(step.guesses, step.decided):
            if guess.position < step.length:
                self.entropies[guess.position] = guess.entropy
        tokens, fresh = self.tokens, self.fresh
        for change in step.changes:
            position, token_id, kind = change.position, change.token_id, change.kind
            if position >= step.length:
                raise ValueError(f"position {position} is outside the canvas of {step.length} cells")
            former = tokens[position]
            self.given += kind in GIVEN
            self.decided += (token_id is not None) - (former is not None)
            if former is not None and token_id is None:
                self.dropped[position] = former
            elif former is not None and kind == "fill" and token_id != former:
                kind = "edit"
            tokens[position] = token_id
            self.confidences[position] = change.confidence
            self.kinds[position] = kind
            self.changed_at[position] = step.nfe
            self.steps[position] = step.step
            fresh.add(position)
            self._dirty.add(position)
        self.noise = noise(self.noise, step)
        self.last = step

    def _resize(self, length: int) -> None:
        tokens, former = self.tokens, len(self.tokens)
        if length < former:
            for position in range(length, former):
                token_id = tokens[position]
                if token_id is not None:
                    self.dropped[position] = token_id
                    self.decided -= 1
            del tokens[length:], self.confidences[length:], self.kinds[length:]
            del self.changed_at[length:], self.blocks[length:], self.steps[length:], self.entropies[length:]
            self.frozen = min(self.frozen, length)
            self.fresh = {position for position in self.fresh if position < length}
            self._dirty.update(range(length, former))
            return
        grown = length - former
        tokens.extend([None] * grown)
        self.confidences.extend([0.0] * grown)
        self.kinds.extend([None] * grown)
        self.changed_at.extend([0] * grown)
        self.blocks.extend([0] * grown)
        self.steps.extend([0] * grown)
        self.entropies.extend([None] * grown)
        if self._span:
            self._name_block(self._span, former)
        self._dirty.update(range(former, length))

    def _block(self, block: BlockStart) -> None:
        reach = len(self.tokens)
        for span in (self.active, range(block.start, block.end)):
            self._dirty.update(range(span.start, min(span.stop, reach)))
        self.active = range(block.start, block.end)
        self._span = block
        self._name_block(block, block.start)

    def _name_block(self, block: BlockStart, start: int) -> None:
        for position in range(max(block.start, start), min(block.end, len(self.blocks))):
            self.blocks[position] = block.block

    def _finish(self, done: Done) -> None:
        self.done = done
        self.active = range(0)
        self.fresh, self.dropped = set(), {}
        self._dirty.update(range(len(self.tokens)))
