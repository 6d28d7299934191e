"""A canvas as a heat map of one block: a row for every position, a column for every step. Pure."""

from collections.abc import Sequence

from rich.cells import cell_len

from dllm_tui.events import AnyEvent
from dllm_tui.tui import palette as look
from dllm_tui.tui.canvas_state import CanvasState
from dllm_tui.tui.cells import Glyphs, chop
from dllm_tui.tui.flow import Flow
from dllm_tui.tui.history import Blocks, BlockSpan, Column, Spot, Trail, What
from dllm_tui.tui.lens import Lens, openness_step, ramp_step
from dllm_tui.tui.wrap import Line, Span

NUMBER = 4
"""Columns of a position's number."""
NAME = 12
"""Columns of its token, as it stands."""
SHORT = 7
"""The same where there is little room."""
NARROW = 50
"""Columns from which names have all their room."""
EVERY = 5
"""Steps between two numbers of the ruler."""


class Heat(Flow):
    """The rows of the block that is looked at: of the position in question, else the last that changed.

    Args:
        glyphs: what cells are drawn with.
        width: in columns.
        lens: entropy, or else confidence is what the colours tell.
        events: of the run.
    """

    def __init__(self, glyphs: Glyphs, width: int, lens: Lens, events: Sequence[AnyEvent] = ()) -> None:
        super().__init__(glyphs, width, lens)
        self._events = events
        self._blocks = Blocks()
        self._focus: int | None = None
        self._trail: Trail | None = None
        self._columns: list[Column] = []
        self._cells: list[list[Span]] = []
        """By row, a span for each of the columns."""
        self._state = CanvasState()

    @property
    def head(self) -> int:
        """Columns before the map."""
        return NUMBER + 1 + (NAME if self.width >= NARROW else SHORT) + 1

    @property
    def scale(self) -> int:
        """Columns of the terminal that a step has."""
        return 2 if 2 * len(self._columns) <= self.width - self.head else 1

    @property
    def first(self) -> int:
        """The first step that there is room for."""
        return max(0, len(self._columns) - max(1, (self.width - self.head) // self.scale))

    def update(self, state: CanvasState) -> set[int]:
        """Take over what changed in ``state``, and what the run's events tell of its steps."""
        super().update(state)
        self._state = state
        if state.count < self._blocks.count:
            self._blocks, self._trail = Blocks(), None
        self._blocks.read(self._events, state.count)
        return self._show_block()

    def resize(self, width: int) -> bool:
        """Take rows of ``width`` columns; whether that changed anything."""
        if width == self.width or width < 1:
            return False
        self.width = width
        self._show_block(anew=True)
        return True

    def look_at(self, position: int | None) -> bool:
        """Show the block of a position; whether it is another one."""
        self._focus = position
        before = self._trail
        changed = self._show_block()
        return self._trail is not before or bool(changed)

    def lines_of(self, position: int) -> range:
        """The row of a position; none where its block isn't shown."""
        span = self._span
        if span is None or not span.start <= position < span.end:
            return range(0)
        row = position - span.start + 1
        return range(row, row + 1) if row < len(self.lines) else range(0)

    def position_at(self, x: int, line: int) -> int | None:
        """The position of a row."""
        span = self._span
        return span.start + line - 1 if span and 1 <= line < len(self.lines) and x >= 0 else None

    def forward_at(self, x: int) -> int | None:
        """The forward that a column stands for."""
        at = self.first + (x - self.head) // self.scale
        return self._columns[at].nfe if x >= self.head and at < len(self._columns) else None

    def neighbour(self, position: int, lines: int) -> int:
        """The position so many rows below, in the next block if need be."""
        return min(max(position + lines, 0), max(len(self._state) - 1, 0))

    @property
    def _span(self) -> BlockSpan | None:
        return self._trail.span if self._trail else None

    def _wrap(self, first: int, last: int) -> set[int]:
        """Nothing flows: rows are made by :meth:`_show_block`."""
        return set()

    def _lines_of_all(self, positions: list[int]) -> set[int]:
        return set()

    def _active_lines(self) -> range:
        return range(0)

    def _show_block(self, *, anew: bool = False) -> set[int]:
        """Bring the rows up to date; returns those that are different."""
        state, spans = self._state, self._blocks.spans
        if not spans:
            self._trail, self.lines = None, [()]
            return set()
        focus = self._focus if self._focus is not None else max(state.fresh, default=None)
        index = len(spans) - 1 if focus is None else self._blocks.of(focus)
        span, scale = spans[index], self.scale
        if self._trail is None or self._trail.span is not span:
            self._trail, self._columns = Trail(span), []
            self._cells = [[] for _ in range(span.start, span.end)]
        last = spans[index + 1].event if index + 1 < len(spans) else state.count
        new = self._trail.read(self._events, min(last, state.count))
        self._columns += new
        if anew or self.scale != scale:
            self._cells = [[] for _ in range(span.start, span.end)]
            new = self._columns
        for column in new:
            for row, spot in enumerate(column.spots):
                self._cells[row].append(self._cell(span, row, spot))
        former = self.lines
        self.lines = [self._ruler(index), *(self._row(span, row) for row in range(span.end - span.start))]
        longer = range(min(len(former), len(self.lines)), max(len(former), len(self.lines)))
        return {row for row, (a, b) in enumerate(zip(former, self.lines, strict=False)) if a != b} | set(
            longer
        )

    def _row(self, span: BlockSpan, row: int) -> Line:
        position, room = span.start + row, self.head - NUMBER - 2
        number = Span(position, f"{position + 1:>{NUMBER}} ", NUMBER + 1, look=look.MASK)
        text, shown = "", look.BLANK
        if position < len(self._state):
            lines = self._slots[position].word.piece.lines
            text = chop((lines[0] + self.glyphs.newline * (len(lines) > 1)).strip(" "), room)[0]
            shown = -1 if text else look.BLANK
        name = Span(position, text + " " * (room - cell_len(text)), room, look=shown)
        return (number, name, Span(position, " ", 1, look=look.BLANK), *self._cells[row][self.first :])

    def _ruler(self, index: int) -> Line:
        """Which block it is, and the numbers of its steps."""
        span = self._blocks.spans[index]
        title = f"block {span.number + 1}"
        line = f"{title:<{self.head}}"[: self.head]
        for at in range(self.first, len(self._columns)):
            step = self._columns[at].step
            x = self.head + (at - self.first) * self.scale
            if (step in {0, 1} or step % EVERY == 0) and len(line) <= x:
                line += " " * (x - len(line)) + (str(step) if step else self._columns[at].phase[0])
        line = line[: self.width]
        return (Span(span.start, line, len(line), look=look.MASK),)

    def _cell(self, span: BlockSpan, row: int, spot: Spot) -> Span:
        position, tint = span.start + row, look.LOOKS * (span.number % 2)
        glyph, kind = self._glyph(spot), self._look(spot)
        return Span(position, glyph * self.scale, self.scale, look=kind + tint)

    def _glyph(self, spot: Spot) -> str:
        glyphs = self.glyphs
        if spot.what is What.GUESSED:
            return glyphs.levels[min(int(spot.confidence * len(glyphs.levels)), len(glyphs.levels) - 1)]
        return {
            What.ABSENT: " ",
            What.MASKED: glyphs.unguessed,
            What.COMMITTED: glyphs.committed,
            What.STANDS: glyphs.full,
            What.CHANGED: glyphs.changed,
            What.REMASKED: glyphs.remasked,
            What.GIVEN: glyphs.given,
        }[spot.what]

    def _look(self, spot: Spot) -> int:
        if spot.what in {What.ABSENT, What.MASKED}:
            return look.BLANK if spot.what is What.ABSENT else look.MASK
        if spot.what is What.REMASKED:
            return look.CHANGED
        if self.lens is Lens.PLAIN:
            return look.PLAIN
        if self.lens is Lens.ENTROPY:
            if spot.entropy is None:
                return look.PLAIN
            shade = openness_step(spot.entropy)
        else:
            shade = ramp_step(spot.confidence)
        if spot.what is What.GUESSED:
            guess = shade if self.lens is Lens.ENTROPY else look.guess_step(spot.confidence)
            return look.GUESS + guess
        return (look.EDITED if spot.what is What.CHANGED else look.SETTLED) + shade
