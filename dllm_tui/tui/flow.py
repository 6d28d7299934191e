"""What stands at every position of a canvas, and on which line: text that flows, calm while it changes. Pure.

A masked position is a slot with room for its best guess. A slot grows at once. It shrinks to its token when
nothing decided stands to the right of it, else only when the block is final: words that can be read stay
where they are. Lines break between words, as they will when the text is finished.
"""

from bisect import bisect_right
from functools import lru_cache

import msgspec
from rich.cells import cell_len

from dllm_tui.events import Guess
from dllm_tui.tui import palette as look
from dllm_tui.tui.canvas_state import CanvasState
from dllm_tui.tui.cells import Glyphs, Piece, decode_each, partial, piece_of, printable
from dllm_tui.tui.lens import Lens, openness_step
from dllm_tui.tui.wrap import Line, Part, Shown, Span, Start, wrap

SLOT_WIDTH = 5
"""Least width of a slot: the most common width of a token, with its space."""

FAINTEST_GUESS = 0.15
"""Guesses below this confidence are noise: their slot shows the mask alone."""

_BROKEN = "\ufffd"
_NOTHING = Shown(((),), 0, False, False)


class Word(msgspec.Struct, frozen=True):
    """A token's text as it is printed, at whatever position."""

    piece: Piece
    opens: bool
    """A line may break before it."""
    closes: bool
    """A line may break after it."""


class Slot(msgspec.Struct, frozen=True):
    """A word and the room that it has."""

    word: Word
    width: int
    filler: str
    """Fills what the word leaves over."""


class Flow:
    """The lines of one canvas at one width."""

    def __init__(self, glyphs: Glyphs, width: int = 80, lens: Lens = Lens.CONFIDENCE) -> None:
        self.glyphs = glyphs
        self.lens = lens
        """What the colours of committed tokens tell."""
        self.width = max(1, width)
        self.looks: list[int] = []
        """By position, and past the end for what the last step took back from there: how it looks, of
        :mod:`dllm_tui.tui.palette`, with ``LOOKS`` added in every other block."""
        self.lines: list[Line] = [()]
        self.active = range(0)
        """Positions of the block that is being denoised."""
        self._starts: list[Start] = [Start(0)]
        self._shown: list[Shown] = []
        self._slots: list[Slot] = []
        self._last_decided = -1
        """The last position that held a token when this was last updated."""
        self._words: dict[int, Word] = {}
        self._guesses: dict[int, Word] = {}
        self._partial: set[int] = set()
        """Positions whose token is not valid UTF-8 alone."""
        self._newline = (glyphs.newline, cell_len(glyphs.newline))

    def resize(self, width: int) -> bool:
        """Flow into lines of ``width`` cells; whether that changed anything."""
        if width == self.width or width < 1:
            return False
        self.width = width
        self._wrap(0, len(self._shown))
        return True

    def update(self, state: CanvasState) -> set[int]:
        """Take over what changed in ``state`` since its ``take_dirty`` was last called.

        Returns:
            The lines that look different now.
        """
        dirty = state.take_dirty()
        if self._partial:
            dirty |= {near for at in dirty for near in range(at - 3, at + 4) if near in self._partial}
        if self.lens is Lens.AGE:  # every token has become older
            dirty.update(range(len(state)))
        former = len(self.looks)
        length = max(len(state), max(state.dropped, default=-1) + 1)
        del self.looks[length:], self._shown[length:], self._slots[length:]
        if length > former:
            self.looks += [look.MASK] * (length - former)
            self._shown += [_NOTHING] * (length - former)
            self._slots += [_NO_SLOT] * (length - former)
            dirty.update(range(former, length))
        touched, moved = self._take_over(state, sorted(dirty), length)
        if length != former:
            moved += [min(length, former), length]
        self._last_decided = len(state) - 1
        while self._last_decided >= 0 and state.tokens[self._last_decided] is None:
            self._last_decided -= 1
        changed = self._wrap(min(moved), max(moved)) if moved else set[int]()
        changed |= self._lines_of_all(touched)
        if state.active != self.active:
            changed.update(self._active_lines())
            self.active = state.active
            changed.update(self._active_lines())
        return changed

    def lines_of(self, position: int) -> range:
        """Numbers of the lines that show a position."""
        first = bisect_right(self._starts, (position, 0, 0, True, True)) - 1
        last = bisect_right(self._starts, (position + 1, -1)) - 1
        return range(first, last + 1)

    def neighbour(self, position: int, lines: int) -> int:
        """The position so many lines below, about where this one is on its line."""
        here = self.lines_of(position).start
        x = 0
        for span in self.lines[here]:
            if span.position == position:
                break
            x += span.width
        line = min(max(here + lines, 0), len(self.lines) - 1)
        below = self.lines[line]
        at = self.position_at(x, line)
        return position if not below else below[-1].position if at is None else at

    def look_at(self, position: int | None) -> bool:
        """Somebody looks at a position closely; whether other lines are shown for that."""
        return False

    def forward_at(self, x: int) -> int | None:
        """The forward that a column stands for, where columns are forwards."""
        return None

    def position_at(self, x: int, line: int) -> int | None:
        """The position drawn at column ``x`` of a line, or ``None`` beside the text."""
        if 0 <= line < len(self.lines) and x >= 0:
            for span in self.lines[line]:
                if x < span.width:
                    return span.position
                x -= span.width
        return None

    def text(self) -> str:
        """The lines as they are drawn, without the marks of newlines."""
        lines = ([span.text for span in line if span.part is not Part.MARK] for line in self.lines)
        return "\n".join("".join(line) for line in lines)

    def _take_over(
        self, state: CanvasState, positions: list[int], length: int
    ) -> tuple[list[int], list[int]]:
        """Show positions anew; returns those that look different, and those of them that may move others."""
        touched: list[int] = []
        moved: list[int] = []
        for position in positions:
            if position >= length:
                break
            slot, style = self._show(state, position)
            if slot != self._slots[position]:
                self._slots[position] = slot
                self._shown[position] = self._place(position, slot)
                moved.append(position)
            elif style == self.looks[position]:
                continue
            self.looks[position] = style
            touched.append(position)
        return touched, moved

    def _wrap(self, first: int, last: int) -> set[int]:
        """Lay the lines out for changes from ``first`` to ``last``; returns the lines that are different."""
        starts = self._starts
        number = self._word_line(self.lines_of(first).start)
        number = self._word_line(max(0, number - 1))  # a shorter word may fit on the line before
        known = {starts[at]: at for at in range(self.lines_of(last).stop, len(starts)) if starts[at].word}
        wrapped = wrap(self._shown, starts[number], self.width, known)
        before, rest = self.lines[number:], len(starts) if wrapped.joined is None else wrapped.joined
        self.lines[number:] = [*wrapped.lines, *self.lines[rest:]]
        self._starts[number:] = [*wrapped.starts, *starts[rest:]]
        after = self.lines[number:]
        same = {index for index, (new, old) in enumerate(zip(after, before, strict=False)) if new == old}
        return {number + index for index in range(len(after)) if index not in same}

    def _word_line(self, number: int) -> int:
        """The last line up to ``number`` that starts with a word."""
        while not self._starts[number].word:
            number -= 1
        return number

    def _lines_of_all(self, positions: list[int]) -> set[int]:
        """Numbers of the lines that show any of some positions, which are in order."""
        lines: set[int] = set()
        done = -1
        for position in positions:
            if position >= done:  # else it stands between two that are there already
                here = self.lines_of(position)
                lines.update(here)
                done = self._starts[here.stop].position if here.stop < len(self._starts) else 1 << 30
        return lines

    def _active_lines(self) -> range:
        if not self.active:
            return range(0)
        return range(self.lines_of(self.active.start).start, self.lines_of(self.active.stop - 1).stop)

    def _show(self, state: CanvasState, position: int) -> tuple[Slot, int]:
        """What a position holds, and how it looks."""
        inside = position < len(state.tokens)
        tint = look.LOOKS if inside and state.blocks[position] % 2 else 0
        held = self._slots[position].width
        token_id = state.tokens[position] if inside else None
        if token_id is not None:
            if position < state.frozen or position > self._last_decided or state.done:
                held = 0
            word, style = self._word(state, position, token_id), _token_look(state, position, self.lens)
            if style < look.SETTLED:
                word = _marked(word, self.glyphs)
            return Slot(word, held, " "), style + tint
        dropped = state.dropped.get(position)
        guess = state.guesses.get(position)
        if dropped is not None:
            word, style = self._guess(state, dropped), look.GONE
        elif guess is None or guess.confidence < FAINTEST_GUESS or guess.token_id in state.special:
            word, style = _MASKED, look.MASK
        else:
            word = _marked(self._guess(state, guess.token_id), self.glyphs)
            style = _guess_look(guess, self.lens)
        width = max(SLOT_WIDTH, word.piece.widths[0], held)
        return Slot(word, width, self.glyphs.mask if style != look.GONE else ""), style + tint

    def _place(self, position: int, slot: Slot) -> Shown:
        """What stands at a position."""
        word, opens, closes = slot.word, slot.word.opens, slot.word.closes
        texts, widths = word.piece
        text, width = texts[-1], widths[-1]
        last = Span(position, text, width)
        if len(texts) > 1:
            newline = Span(position, *self._newline, Part.MARK)
            broken = zip(texts[:-1], widths, strict=False)
            lines = [(Span(position, text, width), newline) for text, width in broken]
            return Shown((*lines, (last,)), width, opens, closes)
        rest = slot.width - width
        if rest > 0 and slot.filler:
            filler = Span(position, slot.filler * rest, rest, Part.REST)
            return Shown(((last, filler),), slot.width, opens, closes)
        return Shown(((last,),), width, opens, closes)

    def _word(self, state: CanvasState, position: int, token_id: int) -> Word:
        """A committed token among its neighbours."""
        word = self._words.get(token_id)
        if word is not None:
            return word
        piece = state.pieces.get(token_id)
        if token_id in state.special:
            word = _HIDDEN
        elif piece is None:
            return _word_of(_BROKEN, self.glyphs)
        elif partial(piece):
            self._partial.add(position)
            first, group = self._partial_group(state, position)
            return _word_of(decode_each(group)[position - first], self.glyphs)
        else:
            word = _word_of(piece.decode(), self.glyphs)
        self._words[token_id] = word
        return word

    def _guess(self, state: CanvasState, token_id: int) -> Word:
        """A token that is not committed: alone, and on one line."""
        word = self._guesses.get(token_id)
        if word is None:
            piece = state.pieces.get(token_id)
            text = printable(_BROKEN if piece is None else piece.decode(errors="replace"), self.glyphs)
            word = Word(Piece((text,), (cell_len(text),)), _opens(text), _closes(text))
            if piece is not None:
                self._guesses[token_id] = word
        return word

    def _partial_group(self, state: CanvasState, position: int) -> tuple[int, list[bytes]]:
        """The run of tokens around ``position`` that are not valid UTF-8 alone, and where it starts."""

        def broken(at: int) -> bytes | None:
            token_id = state.tokens[at] if 0 <= at < len(state.tokens) else None
            piece = state.pieces.get(token_id) if token_id is not None else None
            return piece if piece and partial(piece) and token_id not in state.special else None

        first = last = position
        while broken(first - 1):
            first -= 1
        while broken(last + 1):
            last += 1
        return first, [broken(at) or b"" for at in range(first, last + 1)]


def _token_look(state: CanvasState, position: int, lens: Lens) -> int:
    kind = state.kinds[position]
    if kind == "renoise":
        return look.GUESS + look.guess_step(state.confidences[position])
    revised, fresh = kind in {"edit", "insert"}, position in state.fresh
    if revised and fresh:
        return look.CHANGED
    shade = lens.shade(state, position)
    if shade is None:
        return look.PLAIN
    return (look.FRESH if fresh else look.EDITED if revised else look.SETTLED) + shade


def _guess_look(guess: Guess, lens: Lens) -> int:
    if lens is Lens.ENTROPY and guess.entropy is not None:
        return look.GUESS + openness_step(guess.entropy)
    return look.GUESS + look.guess_step(guess.confidence)


def _word_of(text: str, glyphs: Glyphs) -> Word:
    piece = piece_of(text, glyphs)
    return Word(piece, _opens(piece.lines[0]), _closes(piece.lines[-1]))


@lru_cache(maxsize=1 << 16)
def _marked(word: Word, glyphs: Glyphs) -> Word:
    """A guess between its marks; the space before it stays outside, for a line may begin without it."""
    before, after = glyphs.guess
    if not before or not any(word.piece.widths):
        return word
    lines = list(word.piece.lines)
    bare = lines[0].lstrip(" ")
    lines[0] = lines[0][: -len(bare) or None] + before + bare
    lines[-1] += after
    return Word(Piece(tuple(lines), tuple(cell_len(line) for line in lines)), word.opens, word.closes)


def _opens(text: str) -> bool:
    return text[:1] == " " or _wide(text[:1])


def _closes(text: str) -> bool:
    return text[-1:] in {" ", "-", "–", "—", "/"} or _wide(text[-1:])


def _wide(character: str) -> bool:
    return not character.isascii() and cell_len(character) == 2


_HIDDEN = Word(Piece(("",), (0,)), False, False)
_MASKED = Word(Piece((" ",), (1,)), True, False)
_NO_SLOT = Slot(_HIDDEN, 0, "")
