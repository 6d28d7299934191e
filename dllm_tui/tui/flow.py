"""Where every cell of a canvas stands on the screen: text that flows in lines, calm while it changes. Pure.

A masked position is a slot with room for its best guess. A slot grows at once. It shrinks to its token when
nothing decided stands to the right of it, else only when the block is final: words that can be read stay
where they are. Lines break between words, as they will when the text is finished; only a word longer than a
line is cut.
"""

from bisect import bisect_right
from enum import IntEnum
from typing import NamedTuple

from rich.cells import cell_len

from dllm_tui.tui import palette as look
from dllm_tui.tui.canvas_state import CanvasState
from dllm_tui.tui.cells import Glyphs, chop, decode_each, partial, piece_of, printable

SLOT_WIDTH = 5
"""Least width of a slot: the most common width of a token, with its space."""

FAINTEST_GUESS = 0.15
"""Guesses below this confidence are noise: their slot shows the mask alone."""


class Part(IntEnum):
    """What a part of a line is."""

    TEXT = 0
    """Text of its position."""
    MARK = 1
    """The mark of a newline."""
    REST = 2
    """What a slot has more than its text."""


class Shown(NamedTuple):
    """What is drawn at one position."""

    lines: tuple[str, ...]
    """With a line break between each two."""
    widths: tuple[int, ...]
    rest: str
    """What fills the cells of the slot that its text leaves over."""
    opens: bool
    """A line may break before it."""
    closes: bool
    """A line may break after it."""
    look: int
    """Of :mod:`dllm_tui.tui.palette`; with ``LOOKS`` added in every other block."""


class Span(NamedTuple):
    """A part of a line: text of one position."""

    position: int
    text: str
    width: int
    part: Part = Part.TEXT


Line = tuple[Span, ...]


class Start(NamedTuple):
    """Where a line starts."""

    position: int
    part: int = 0
    """Which of :attr:`Shown.lines`."""
    cut: int = 0
    """Pieces of this part that stand on lines before, where it is longer than a line."""
    word: bool = True
    """A word starts here."""
    soft: bool = False
    """The line before was full: spaces at the start are not drawn."""


_NOTHING = Shown(("",), (0,), "", False, False, look.MASK)


class Flow:
    """The lines of one canvas at one width."""

    def __init__(self, glyphs: Glyphs, width: int = 80) -> None:
        self.glyphs = glyphs
        self.width = max(1, width)
        self.shown: list[Shown] = []
        """By position, and past the end what the last step took back from there."""
        self.lines: list[Line] = [()]
        self.active = range(0)
        """Positions of the block that is being denoised."""
        self._starts: list[Start] = [Start(0)]
        self._slots: list[int] = []
        self._last_decided = -1
        """The last position that held a token when this was last updated."""
        self._partial: set[int] = set()

    def resize(self, width: int) -> bool:
        """Flow into lines of ``width`` cells; whether that changed anything."""
        if width == self.width or width < 1:
            return False
        self.width = width
        self._wrap_from(0)
        return True

    def update(self, state: CanvasState) -> set[int]:
        """Take over what changed in ``state`` since its ``take_dirty`` was last called.

        Returns:
            The lines that look different now.
        """
        dirty = state.take_dirty()
        if self._partial:
            dirty |= {near for at in dirty for near in range(at - 3, at + 4) if near in self._partial}
        former = len(self.shown)
        length = max(len(state), max(state.dropped, default=-1) + 1)
        del self.shown[length:], self._slots[length:]
        self.shown.extend([_NOTHING] * (length - former))
        self._slots.extend([0] * (length - former))
        reflow = min(length, former) if length != former else None
        touched: list[int] = []
        for position in sorted(dirty.union(range(former, length))):
            if position >= length:
                break
            before, after = self.shown[position], self._show(state, position)
            if before == after:
                continue
            self.shown[position] = after
            touched.append(position)
            if before[:-1] != after[:-1] and (reflow is None or position < reflow):
                reflow = position
        self._last_decided = len(state) - 1
        while self._last_decided >= 0 and state.tokens[self._last_decided] is None:
            self._last_decided -= 1
        changed = set[int]() if reflow is None else self._wrap_from(reflow)
        for position in touched:
            changed.update(self.lines_of(position))
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
        return "\n".join(
            "".join(span.text for span in line if span.part is not Part.MARK) for line in self.lines
        )

    def _active_lines(self) -> range:
        if not self.active:
            return range(0)
        return range(self.lines_of(self.active.start).start, self.lines_of(self.active.stop - 1).stop)

    def _show(self, state: CanvasState, position: int) -> Shown:
        token_id = state.tokens[position] if position < len(state) else None
        dropped = state.dropped.get(position)
        if token_id is not None:
            shown = self._show_token(state, position, token_id)
        elif dropped is not None:
            shown = self._slot(position, self._word(state, dropped), look.GONE)._replace(rest="")
        else:
            shown = self._show_mask(state, position)
        if position < len(state) and state.blocks[position] % 2:
            return shown._replace(look=shown.look + look.LOOKS)
        return shown

    def _show_token(self, state: CanvasState, position: int, token_id: int) -> Shown:
        lines, widths = piece_of(self._text(state, position, token_id), self.glyphs)
        if position < state.frozen or position > self._last_decided or state.done:
            self._slots[position] = 0
        rest = " " * (self._slots[position] - widths[0]) if len(lines) == 1 else ""
        look_of_token = self._token_look(state, position)
        return Shown(lines, widths, rest, _opens(lines[0]), _closes(lines[-1]), look_of_token)

    def _token_look(self, state: CanvasState, position: int) -> int:
        confidence, kind = state.confidences[position], state.kinds[position]
        if kind == "renoise":
            return look.GUESS + look.guess_step(confidence)
        revised = kind in {"edit", "insert"}
        if position in state.fresh:
            return look.CHANGED if revised else look.FRESH + look.ramp_step(confidence)
        return (look.EDITED if revised else look.SETTLED) + look.ramp_step(confidence)

    def _show_mask(self, state: CanvasState, position: int) -> Shown:
        guess = state.guesses.get(position)
        if guess is None or guess.confidence < FAINTEST_GUESS or guess.token_id in state.special:
            return self._slot(position, " ", look.MASK)
        word = self._word(state, guess.token_id)
        return self._slot(position, word, look.GUESS + look.guess_step(guess.confidence))

    def _slot(self, position: int, text: str, style: int) -> Shown:
        """``text`` in its slot."""
        width = cell_len(text)
        slot = self._slots[position] = max(SLOT_WIDTH, width, self._slots[position])
        rest = self.glyphs.mask * (slot - width)
        return Shown((text,), (width,), rest, _opens(text), _closes(text), style)

    def _word(self, state: CanvasState, token_id: int) -> str:
        """A token alone, on one line."""
        piece = state.pieces.get(token_id)
        return printable("\ufffd" if piece is None else piece.decode(errors="replace"), self.glyphs)

    def _text(self, state: CanvasState, position: int, token_id: int) -> str:
        """A committed token's text among its neighbours; none if it is a control token."""
        if token_id in state.special:
            return ""
        piece = state.pieces.get(token_id)
        if piece is None:
            return "\ufffd"
        if not partial(piece):
            return piece.decode()
        self._partial.add(position)
        first, group = self._partial_group(state, position)
        return decode_each(group)[position - first]

    def _partial_group(self, state: CanvasState, position: int) -> tuple[int, list[bytes]]:
        """The run of tokens around ``position`` that are not valid UTF-8 alone, and where it starts."""

        def broken(at: int) -> bytes | None:
            token_id = state.tokens[at] if 0 <= at < len(state) else None
            piece = state.pieces.get(token_id) if token_id is not None else None
            return piece if piece and partial(piece) and token_id not in state.special else None

        first = last = position
        while broken(first - 1):
            first -= 1
        while broken(last + 1):
            last += 1
        return first, [broken(at) or b"" for at in range(first, last + 1)]

    def _wrap_from(self, position: int) -> set[int]:
        """Lay the lines out again for a change at ``position``; returns the lines that are different."""
        number = max(0, self.lines_of(position).start - 1)  # a shorter word may fit on the line before
        while not self._starts[number].word:
            number -= 1
        before, start = self.lines[number:], self._starts[number]
        lines, starts = _wrap(self.shown, start, self.width, self.glyphs.newline)
        self.lines[number:], self._starts[number:] = lines, starts
        return {
            number + index
            for index, line in enumerate(lines)
            if index >= len(before) or line != before[index]
        }


def _wrap(shown: list[Shown], start: Start, width: int, newline: str) -> tuple[list[Line], list[Start]]:
    """The lines from ``start`` to the end, and where each starts."""
    paper = _Paper(width, start)
    closed = False
    mark = cell_len(newline)
    for position in range(start.position, len(shown)):
        texts, widths, rest, opens, closes, _ = shown[position]
        if opens or closed:
            paper.place_word()
        first = start.part if position == start.position else 0
        for part in range(first, len(texts)):
            if part > first:
                paper.place_word()
                paper.mark(Span(position, newline, mark, Part.MARK))
                paper.begin(Start(position, part))
            paper.add(Span(position, texts[part], widths[part]), part)
        if rest:
            paper.add(Span(position, rest, len(rest), Part.REST), 0)
        closed = closes
    paper.place_word()
    return [*paper.lines, tuple(paper.line)], paper.starts


class _Paper:
    """Lines while they are written, word by word."""

    def __init__(self, width: int, start: Start) -> None:
        self.width = width
        self.lines: list[Line] = []
        self.starts = [start]
        self.line: list[Span] = []
        self.used = 0
        self.word: list[tuple[Span, int]] = []
        self.word_width = 0

    def begin(self, start: Start) -> None:
        """End the line and begin the next."""
        self.lines.append(tuple(self.line))
        self.starts.append(start)
        self.line = []
        self.used = 0

    def add(self, span: Span, part: int) -> None:
        """Append to the word that is being read."""
        self.word.append((span, part))
        self.word_width += span.width

    def mark(self, span: Span) -> None:
        """Put a mark at the end of the line, if there is room."""
        if self.used + span.width <= self.width:
            self.line.append(span)

    def place_word(self) -> None:
        """Put the word that was read on this line or the next."""
        if not self.word:
            return
        word, width = self.word, self.word_width
        self.word, self.word_width = [], 0
        first, part = word[0]
        if self.used and self.used + width > self.width:
            self.begin(Start(first.position, part, soft=True))
        if not self.used and self.starts[-1].soft and first.text.startswith(" "):
            text = first.text.lstrip(" ")
            spaces = len(first.text) - len(text)
            word[0] = (Span(first.position, text, first.width - spaces), part)
            width -= spaces
        if width <= self.width:
            self.line.extend(span for span, _ in word)
            self.used += width
        else:
            self._cut(word)

    def _cut(self, word: list[tuple[Span, int]]) -> None:
        """Spread a word that is longer than a line: between its tokens, or within one if it must be."""
        place, cut = (-1, 0), 0
        for span, part in word:
            cut = cut if place == (span.position, part) else 0
            place = (span.position, part)
            whole = span.width <= self.width
            for text in [span.text] if whole else chop(span.text, self.width):
                size = span.width if whole else cell_len(text)
                if self.used and self.used + size > self.width:
                    self.begin(Start(*place, cut, word=False, soft=True))
                self.line.append(Span(span.position, text, size, span.part))
                self.used += size
                cut += 1


def _opens(text: str) -> bool:
    """Whether a line may break before a token of this text."""
    return text[:1] == " " or _wide(text[:1])


def _closes(text: str) -> bool:
    """Whether a line may break after a token of this text."""
    return text[-1:] in {" ", "-", "–", "—", "/"} or _wide(text[-1:])


def _wide(character: str) -> bool:
    return not character.isascii() and cell_len(character) == 2
