"""The canvas of one run: every position, masked or decided, as it stands. Drawn line by line (Line API)."""

from collections.abc import Iterable
from itertools import groupby

from rich.segment import Segment
from rich.style import Style
from textual.geometry import Region, Size
from textual.selection import Selection
from textual.strip import Strip
from textual.widget import Widget

from dllm_tui.events import AnyEvent
from dllm_tui.tui import palette as look
from dllm_tui.tui.canvas_state import CanvasState
from dllm_tui.tui.flow import Flow, Part, Span
from dllm_tui.tui.palette import Palette

GUTTER = 2
"""Columns left of the text: the bar and a space."""


class Canvas(Widget):
    """Shows a :class:`CanvasState`. Feed it with :meth:`fold`, or :meth:`show` another state."""

    DEFAULT_CSS = """
    Canvas { width: 1fr; height: auto; }
    """

    def __init__(self, palette: Palette, *, id: str | None = None, classes: str | None = None) -> None:  # noqa: A002 – Textual's name
        super().__init__(id=id, classes=classes)
        self.state = CanvasState()
        self.flow = Flow(palette.glyphs)
        self._palette = palette
        self._strips: dict[int, Strip] = {}
        self._height = 1

    @property
    def palette(self) -> Palette:
        """What it is drawn with."""
        return self._palette

    @palette.setter
    def palette(self, palette: Palette) -> None:
        reflow = palette.glyphs != self._palette.glyphs
        self._palette = palette
        if reflow:
            self.show(self.state)
        self._strips.clear()
        self.refresh()

    @property
    def allow_select(self) -> bool:
        """Text can be selected once it stands still."""
        return self.state.done is not None

    def fold(self, events: Iterable[AnyEvent]) -> None:
        """Take in the run's next events and repaint the lines that they changed."""
        self.state.fold(events)
        self._update()

    def show(self, state: CanvasState) -> None:
        """Show another state, e.g. the same run at another step."""
        self.state = state
        self.flow = Flow(self._palette.glyphs, self.flow.width)
        self._strips.clear()
        self._update()
        self.refresh()

    def get_content_width(self, container: Size, viewport: Size) -> int:
        """As wide as there is room."""
        return container.width

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        """Lines of the text in ``width`` columns; while the run goes on, never fewer than before."""
        if self.flow.resize(width - GUTTER - 1):
            self._strips.clear()
            self._height = 1
        self._height = self._wanted_height()
        return self._height

    def render_line(self, y: int) -> Strip:
        """The strip of one line, from the cache if nothing in it changed."""
        if y >= len(self.flow.lines) or not len(self.state):
            return Strip.blank(self.size.width, self.rich_style)
        strip = self._strips.get(y)
        if strip is None:
            strip = self._strips[y] = self._draw(y)
        selection = self.text_selection
        if selection is not None and (span := selection.get_span(y)) is not None:
            return self._select(strip, y, *span)
        return strip

    def get_selection(self, selection: Selection) -> tuple[str, str] | None:
        """The selected text as it is drawn."""
        return selection.extract(self.flow.text()), "\n"

    def _wanted_height(self) -> int:
        lines = len(self.flow.lines)
        return lines if self.state.done else max(lines, self._height)

    def _update(self) -> None:
        """Repaint what changed in the state, each line once."""
        former = len(self.flow.lines)
        changed = self.flow.update(self.state)
        changed.update(range(len(self.flow.lines), former))
        for line in changed:
            self._strips.pop(line, None)
        if self._wanted_height() != self._height:
            self.refresh(layout=True)
        elif changed:
            width = self.size.width
            self.refresh(*(Region(0, line, width, 1) for line in changed))

    def _draw(self, y: int) -> Strip:
        line = self.flow.lines[y]
        text = Strip(list(self._segments(line)), sum(span.width for span in line))
        if self.allow_select:
            text = text.apply_offsets(0, y)
        return Strip([self._bar(line), *text], GUTTER + text.cell_length).apply_style(self.rich_style)

    def _segments(self, line: Iterable[Span]) -> Iterable[Segment]:
        """The spans of a line, those of one style joined."""
        for style, spans in groupby(line, self._style):
            text = "".join(span.text for span in spans)
            if text:
                yield Segment(text, style)

    def _style(self, span: Span) -> Style:
        shown = self.flow.shown[span.position].look
        if span.part is Part.TEXT:
            return self._palette.looks[shown]
        tint, kind = divmod(shown, look.LOOKS)
        if span.part is Part.MARK:
            kind = look.MARK if look.SETTLED <= kind < look.FRESH else kind
        else:
            kind = look.MASK if kind < look.SETTLED else look.BLANK
        return self._palette.looks[tint * look.LOOKS + kind]

    def _bar(self, line: tuple[Span, ...]) -> Segment:
        """The gutter: which block a line begins with, and whether the active one is on it."""
        glyphs, positions = self._palette.glyphs, self.flow.active
        if any(span.position in positions for span in line):
            return Segment(glyphs.active_bar + " ", self._palette.active_bar)
        first = line[0].position if line else 0
        block = self.state.blocks[first] if first < len(self.state) else 0
        return Segment(glyphs.bar + " ", self._palette.bars[block % 2])

    def _select(self, strip: Strip, y: int, start: int, end: int) -> Strip:
        """A line with the selected characters ``start … end-1`` marked (``-1`` is its end)."""
        text = "".join(span.text for span in self.flow.lines[y])
        end = len(text) if end == -1 else end
        cuts = [GUTTER + Segment(text[:at]).cell_length for at in (start, end)]
        before, selected, after = strip.divide([*cuts, strip.cell_length])
        style = self.screen.get_component_rich_style("screen--selection")
        marked = Strip(Segment.apply_style(selected, post_style=style), selected.cell_length)
        return Strip.join([before, marked, after])
