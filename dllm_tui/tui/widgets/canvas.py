"""The canvas of one run: every position, masked or decided, as it stands. Drawn line by line (Line API)."""

from collections.abc import Iterable, Sequence

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from textual import events as ui
from textual.geometry import Region, Size
from textual.message import Message
from textual.selection import Selection
from textual.strip import Strip
from textual.widget import Widget

from dllm_tui.events import AnyEvent
from dllm_tui.tui import palette as look
from dllm_tui.tui.canvas_state import CanvasState
from dllm_tui.tui.flow import Flow
from dllm_tui.tui.palette import Palette
from dllm_tui.tui.shape import Shape
from dllm_tui.tui.wrap import Line, Part, Span

GUTTER = 2
"""Columns left of the text: the bar and a space."""

RIGHT = 3
"""The right button of a mouse."""

_CURSOR = Style(bold=True, reverse=True)
_MARKED = Style(underline=True, reverse=True)


class Canvas(Widget):
    """Shows a :class:`CanvasState`. Feed it with :meth:`fold`, or :meth:`show` another state.

    Args:
        palette: what it is drawn with, and as which shape.
        events: of the run; a heat map looks back at them.
    """

    DEFAULT_CSS = """
    Canvas { width: 1fr; height: auto; }
    """

    def __init__(
        self,
        palette: Palette,
        events: Sequence[AnyEvent] = (),
        *,
        id: str | None = None,  # noqa: A002 – Textual's name
        classes: str | None = None,
    ) -> None:
        super().__init__(id=id, classes=classes)
        self.state = CanvasState()
        self._events = events
        self._palette = palette
        self.flow = self._new_flow(80)
        self._strips: dict[int, Strip] = {}
        self._bar_styles: tuple[Style, Style, Style] | None = None
        self._height = 1
        self._cursor: int | None = None
        self._marked: frozenset[int] = frozenset()

    class Picked(Message):
        """A position was clicked."""

        def __init__(
            self, canvas: "Canvas", position: int, *, nfe: int | None = None, marking: bool = False
        ) -> None:
            super().__init__()
            self.canvas = canvas
            self.position = position
            self.nfe = nfe
            """The forward that was clicked, where columns are forwards."""
            self.marking = marking
            """With Ctrl, or the right button."""

    @property
    def cursor(self) -> int | None:
        """A position that stands out, for somebody looks at it closely."""
        return self._cursor

    @cursor.setter
    def cursor(self, position: int | None) -> None:
        if position != self._cursor:
            if self.flow.look_at(position):
                self._cursor = position
                self._redraw()
                return
            lines = {
                line for at in (self._cursor, position) if at is not None for line in self.flow.lines_of(at)
            }
            self._cursor = position
            for line in lines:
                self._strips.pop(line, None)
            self.refresh(*(Region(0, line, self.size.width, 1) for line in lines))

    def neighbour(self, position: int, lines: int) -> int:
        """The position so many lines below, about where this one is on its line."""
        return self.flow.neighbour(position, lines)

    def on_click(self, event: ui.Click) -> None:
        """Say which position it was."""
        at = self.flow.position_at(event.x - GUTTER, event.y)
        if at is not None and at < len(self.state) and self.text_selection is None:
            nfe = self.flow.forward_at(event.x - GUTTER)
            self.post_message(self.Picked(self, at, nfe=nfe, marking=event.ctrl or event.button == RIGHT))

    @property
    def palette(self) -> Palette:
        """What it is drawn with."""
        return self._palette

    @palette.setter
    def palette(self, palette: Palette) -> None:
        former = self._palette
        reflow = palette.layout != former.layout
        self._palette = palette
        if reflow:
            self.show(self.state)
        self.notify_style_update()
        self.refresh()

    def notify_style_update(self) -> None:
        """Draw anew: the background may be another."""
        super().notify_style_update()
        self._bar_styles = None
        self._strips.clear()

    @property
    def allow_select(self) -> bool:
        """Text can be selected once it stands still."""
        return self.state.done is not None

    def fold(self, events: Iterable[AnyEvent]) -> None:
        """Take in the run's next events and repaint the lines that they changed."""
        stood = self.allow_select
        self.state.fold(events)
        if self.allow_select != stood:
            self._strips.clear()  # lines that can be selected know their place
        self._update()

    def show(self, state: CanvasState) -> None:
        """Show another state, e.g. the same run at another step."""
        self.state = state
        self.flow = self._new_flow(self.flow.width)
        self.flow.look_at(self._cursor)
        self._redraw()

    @property
    def marked(self) -> frozenset[int]:
        """Positions that somebody has marked."""
        return self._marked

    @marked.setter
    def marked(self, positions: frozenset[int]) -> None:
        if positions != self._marked:
            self._marked = positions
            self._strips.clear()
            self.refresh()

    def _new_flow(self, width: int) -> Flow:
        palette = self._palette
        match palette.shape:
            case Shape.TEXT:
                return Flow(palette.glyphs, width, palette.lens)
            case Shape.GRID:
                from dllm_tui.tui.grid import Grid

                return Grid(palette.glyphs, width, palette.lens)
            case Shape.HEAT:
                from dllm_tui.tui.heat import Heat

                return Heat(palette.glyphs, width, palette.lens, self._events)

    def _redraw(self) -> None:
        """Draw all anew, whatever is known."""
        self._strips.clear()
        self._height = 1
        self._update()
        self.refresh(layout=True)

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
            return Strip.blank(self.size.width, self._bars[0])
        selection = self.text_selection
        if selection is not None and (span := selection.get_span(y)) is not None:
            return self._draw(y, span)
        strip = self._strips.get(y)
        if strip is None:
            strip = self._strips[y] = self._draw(y)
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

    def _draw(self, y: int, selected: tuple[int, int] | None = None) -> Strip:
        """A line; of its characters ``selected`` are marked (an end of ``-1`` is that of the line)."""
        line = self.flow.lines[y]
        width = sum([span.width for span in line])
        segments = self._segments(line)
        if self.allow_select:
            text = Strip(segments, width)
            if selected:
                text = self._mark(text, *selected)
            segments = list(text.apply_offsets(0, y))
        return Strip([self._bar(line), *segments], GUTTER + width)

    def _segments(self, line: Line) -> list[Segment]:
        """The spans of a line, those of one style joined."""
        segments: list[Segment] = []
        texts: list[str] = []
        now: Style | None = None
        for span in line:
            style = self._style(span)
            if style is not now:
                if texts:
                    segments.append(Segment("".join(texts), now))
                    texts = []
                now = style
            if span.text:
                texts.append(span.text)
        if texts:
            segments.append(Segment("".join(texts), now))
        return segments

    def _style(self, span: Span) -> Style:
        if span.look >= 0:
            return self._palette.looks[span.look]
        shown = self.flow.looks[span.position]
        if span.part:
            tint, kind = divmod(shown, look.LOOKS)
            if span.part is Part.MARK:
                kind = look.MARK if look.SETTLED <= kind < look.FRESH else kind
            else:
                kind = look.MASK if kind < look.SETTLED else look.BLANK
            shown = tint * look.LOOKS + kind
        style = self._palette.looks[shown]
        if span.position in self._marked:
            style += _MARKED
        return style + _CURSOR if span.position == self._cursor else style

    def _bar(self, line: Line) -> Segment:
        """The gutter: which block a line begins with, and whether the active one is on it."""
        glyphs, active = self._palette.glyphs, self.flow.active
        first, last = (line[0].position, line[-1].position) if line else (0, 0)
        if first < active.stop and active.start <= last:
            return Segment(glyphs.active_bar + " ", self._bars[2])
        block = self.state.blocks[first] if first < len(self.state) else 0
        return Segment(glyphs.bar + " ", self._bars[block % 2])

    @property
    def _bars(self) -> tuple[Style, Style, Style]:
        """The gutter on the background of the moment: every other block, those between, the active one."""
        if self._bar_styles is None:
            base, palette = self.rich_style, self._palette
            one, other = palette.bars
            self._bar_styles = (base + one, base + other, base + palette.active_bar)
        return self._bar_styles

    def _mark(self, strip: Strip, start: int, end: int) -> Strip:
        """A strip with the characters from ``start`` to ``end`` in the colours of a selection."""
        text = strip.text
        end = len(text) if end == -1 else end
        cuts = [cell_len(text[:start]), cell_len(text[:end]), strip.cell_length]
        before, marked, after = Segment.divide(strip, cuts)
        style = self.screen.get_component_rich_style("screen--selection")
        return Strip([*before, *Segment.apply_style(marked, post_style=style), *after], strip.cell_length)
