"""The numbers of a run while it goes on, and as they stood at its end."""

from collections.abc import Sequence

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from textual.geometry import Region, Size
from textual.reactive import reactive
from textual.strip import Strip

from dllm_tui.tui.lens import ramp_step
from dllm_tui.tui.metrics import Reading
from dllm_tui.tui.pen import Drawn, Pen

REASONS = {
    "stop": "",
    "length": "length reached",
    "context": "context full",
    "cancelled": "stopped",
    "error": "failed",
}


def bars(values: Sequence[float], top: float, rows: int, signs: str) -> list[str]:
    """A bar chart of one column a value, as text rows from the top down.

    Args:
        values: heights; below 0 counts as 0.
        top: the height of a full column.
        rows: rows of the chart.
        signs: the signs of a cell's heights, the lowest first.
    """
    levels = len(signs)
    heights = [round(min(max(value, 0.0) / top, 1.0) * rows * levels) if top > 0 else 0 for value in values]
    return [
        "".join(
            " " if height <= base else signs[min(height - base, levels) - 1]
            for height in (
                max(height, 1) if value > 0 else height for height, value in zip(heights, values, strict=True)
            )
        )
        for base in (levels * row for row in reversed(range(rows)))
    ]


def duration(seconds: float) -> tuple[str, str]:
    """A time and its unit, with about two digits: ``38`` and ``ms``."""
    if seconds >= 1:
        return f"{seconds:.1f}", "s"
    milliseconds = seconds * 1000
    return (f"{milliseconds:.0f}" if milliseconds >= 10 else f"{milliseconds:.1f}"), "ms"


class Meters(Drawn):
    """Draws a :class:`~dllm_tui.tui.metrics.Reading`, line by line."""

    reading: reactive[Reading | None] = reactive[Reading | None](None, repaint=False)

    def __init__(self, pen: Pen) -> None:
        super().__init__(pen, id="meters")
        self.border_title = "now"
        self.then = ""
        """When the numbers are of, where that is not now."""
        self._lines: list[Strip] = []
        self._laid_out: tuple[Size, Pen] | None = None

    def watch_reading(self, reading: Reading | None) -> None:
        """Draw the lines that changed, and say in the frame whether these are the numbers of now."""
        ended = reading is not None and reading.reason is not None
        title = self.then or ("last answer" if ended else "now")
        subtitle = REASONS[reading.reason] if reading and reading.reason else ""
        if (title, subtitle) != (self.border_title, self.border_subtitle):
            self.border_title, self.border_subtitle = title, subtitle
        before, lines = self._lines, self._lay_out()
        if len(before) != len(lines):
            self.refresh()
            return
        width = self.size.width
        pairs = enumerate(zip(before, lines, strict=True))
        if changed := [Region(0, y, width, 1) for y, (old, new) in pairs if old != new]:
            self.refresh(*changed)

    def render_lines(self, crop):  # noqa: ANN001, ANN201 # pyright: ignore
        """Lay the lines out where size or pen are new, then as Textual does."""
        if self._laid_out != (self.size, self.pen):
            self._lay_out()
        return super().render_lines(crop)

    def render_line(self, y: int) -> Strip:
        """One of the lines laid out."""
        return self.finish(self._lines[y] if y < len(self._lines) else Strip([]))

    def _lay_out(self) -> list[Strip]:
        self._laid_out = self.size, self.pen
        self._lines = self._layout()
        return self._lines

    def _layout(self) -> list[Strip]:
        reading, width, height = self.reading, self.size.width, self.size.height
        lines = self._numbers(reading or Reading(), known=reading is not None)
        if reading is None or width < 8:
            return lines
        room = height - len(lines)
        if room >= 4:
            gap = [Strip([])] if room >= 5 else []
            rows = 1 if room < 8 else 2 if room < 11 else 3
            lines += (
                gap
                + self._gains(reading, width, rows)
                + (gap if room >= 8 else [])
                + self._confidence(reading, width, rows)
            )
        elif room >= 2:
            lines += [Strip([])] * (room - 2) + self._confidence(reading, width, 1)
        return lines

    def _numbers(self, reading: Reading, *, known: bool) -> list[Strip]:
        none = self.pen.marks.dot
        time, unit = duration(reading.seconds_per_forward) if reading.seconds_per_forward else (none, "ms")
        step = f"{reading.step}/{reading.steps}" if known and reading.steps else none
        counts = (reading.block + 1, reading.nfe, reading.tokens, reading.masks)
        block, nfe, tokens, masks = (str(count) if known else none for count in counts)
        return [
            self._line(
                (f"{reading.tokens_per_second:.1f}" if reading.seconds else none, " tok/s"),
                (f"{reading.tokens_per_forward:.2f}" if reading.nfe else none, " tok/forward"),
                gap=5,
            ),
            self._line(("", "step ", step), ("", "block ", block), ("", "NFE ", nfe)),
            self._line((time, f" {unit}/fwd"), ("", "tokens ", tokens), ("", "masks ", masks)),
        ]

    def _line(self, *figures: tuple[str, ...], gap: int = 3) -> Strip:
        """Figures beside each other, each of values and labels by turns, a value first.

        Where they are too wide they move together, and then the last ones are left out whole.
        """
        width, sizes = self.size.width, [sum(map(cell_len, figure)) for figure in figures]
        count = len(figures)
        while count > 1 and sum(sizes[:count]) + count - 1 > width:
            count -= 1
        if count > 1:
            gap = min(gap, (width - sum(sizes[:count])) // (count - 1))
        segments: list[Segment] = []
        for figure in figures[:count]:
            if segments:
                segments.append(Segment(" " * gap, self.pen.muted))
            styles = (self.pen.bold, self.pen.muted, self.pen.bold)
            segments += [Segment(part, style) for part, style in zip(figure, styles, strict=False) if part]
        return Strip(segments)

    def _gains(self, reading: Reading, width: int, rows: int) -> list[Strip]:
        shown = reading.per_forward[-width:]
        style = self.pen.accent
        chart = bars(shown, max([*shown, 1]), rows, self.pen.marks.bars)
        peak = f"  at most {max(shown)}" if shown else ""
        return [
            self._line(("", "tokens per forward" + peak)),
            *(Strip([Segment(row, style)]) for row in chart),
        ]

    def _confidence(self, reading: Reading, width: int, rows: int) -> list[Strip]:
        level = self.pen.turned
        label = self.pen.muted
        shown = reading.lowest[-width:]
        styles = [self.pen.ramp[ramp_step(value)] for value in shown]
        chart = bars(shown, 1.0, rows, self.pen.marks.bars)
        mark = rows - 1 - min(int(reading.threshold * rows), rows - 1)
        title = [
            Segment("lowest confidence taken  ", label),
            Segment(f"{self.pen.marks.level * 2} {reading.threshold:.2f}", level),
        ]
        return [
            Strip(title),
            *(
                self._row(row, styles, width, level if index == mark else None)
                for index, row in enumerate(chart)
            ),
        ]

    def _row(self, row: str, styles: Sequence[Style], width: int, level: Style | None) -> Strip:
        segments = [
            Segment(self.pen.marks.level, level) if sign == " " and level else Segment(sign, style)
            for sign, style in zip(row, styles, strict=True)
        ]
        if level:
            segments.append(Segment(self.pen.marks.level * (width - len(row)), level))
        return Strip(segments, sum(cell_len(segment.text) for segment in segments))
