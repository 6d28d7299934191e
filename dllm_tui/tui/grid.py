"""A canvas as a grid: every token has a cell of the same width, so that nothing ever moves. Pure."""

from rich.cells import cell_len

from dllm_tui.tui import palette as look
from dllm_tui.tui.canvas_state import CanvasState
from dllm_tui.tui.cells import chop, piece_of
from dllm_tui.tui.flow import Flow, Slot, Word
from dllm_tui.tui.wrap import Line, Part, Shown, Span

LEAST = 6
"""Columns of a cell, the blank behind its text included, that a row has at least."""
MOST = 12
ROWS = (64, 32, 16, 8, 4, 2, 1)
"""Cells of a row: powers of two, as most blocks are."""
LABEL = 5
"""Columns before a row: the number of its first position."""


class Grid(Flow):
    """The rows of one canvas at one width."""

    @property
    def count(self) -> int:
        """Cells of a row."""
        return next((count for count in ROWS if (self.width - LABEL) // count >= LEAST), 1)

    @property
    def cell(self) -> int:
        """Columns of a cell."""
        return max(2, min((self.width - LABEL) // self.count, MOST))

    def resize(self, width: int) -> bool:
        """Take rows of ``width`` columns; whether that changed anything."""
        if width == self.width or width < 1:
            return False
        self.width = width
        self._shown = [self._place(position, slot) for position, slot in enumerate(self._slots)]
        self._wrap(0, len(self._shown))
        return True

    def lines_of(self, position: int) -> range:
        """The row of a position."""
        row = position // self.count
        return range(row, row + 1)

    def position_at(self, x: int, line: int) -> int | None:
        """The position at a column of a row, or ``None`` beside the cells."""
        at = (x - LABEL) // self.cell
        position = line * self.count + at
        inside = 0 <= at < self.count and 0 <= line < len(self.lines) and position < len(self._shown)
        return position if inside else None

    def neighbour(self, position: int, lines: int) -> int:
        """The position so many rows below."""
        below = position + lines * self.count
        return below if 0 <= below < len(self._shown) else position

    def _wrap(self, first: int, last: int) -> set[int]:
        """Lay out the rows of positions from ``first`` to ``last``; returns those that are different."""
        count, total = self.count, len(self._shown)
        rows = -(-total // count)
        former = len(self.lines)
        del self.lines[max(rows, 1) :]
        self.lines += [()] * (rows - len(self.lines))
        changed = range(first // count, min(last // count + 1, rows))
        for row in changed:
            start = row * count
            label = Span(start, f"{start + 1:>{LABEL - 1}} ", LABEL, look=look.MASK)
            cells = (span for shown in self._shown[start : start + count] for span in shown.lines[0])
            self.lines[row] = (label, *cells)
        if not rows:
            self.lines[0] = ()
        return {*changed, *range(rows, former)}

    def _lines_of_all(self, positions: list[int]) -> set[int]:
        return {position // self.count for position in positions}

    def _place(self, position: int, slot: Slot) -> Shown:
        """A cell: the beginning of its text, and a blank."""
        room = self.cell - 1
        first, *more = slot.word.piece.lines
        text = first.lstrip(" ") or first[-1:]
        text = chop(text + self.glyphs.newline * bool(more), room)[0]
        width = cell_len(text)
        blank = Span(position, " ", 1, look=look.BLANK)
        if slot.filler != self.glyphs.mask:
            cell: Line = (Span(position, text + " " * (room - width), room), blank)
        elif width < room:
            rest = Span(position, slot.filler * (room - width), room - width, Part.REST)
            cell = (Span(position, text, width), rest, blank)
        else:
            cell = (Span(position, text, width), blank)
        return Shown((cell,), self.cell, False, False)

    def _word(self, state: CanvasState, position: int, token_id: int) -> Word:
        """Control tokens are seen here: every position has its token."""
        if token_id in state.special and token_id in state.pieces:
            return Word(piece_of(state.pieces[token_id].decode(errors="replace"), self.glyphs), False, False)
        return super()._word(state, position, token_id)
