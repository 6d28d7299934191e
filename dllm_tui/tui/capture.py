"""What a running app shows, as a frozen frame: every colour resolved, every character in its cell."""

from functools import lru_cache
from typing import Any

from rich.cells import split_graphemes
from rich.color import Color
from rich.segment import Segment
from rich.style import Style
from textual.app import App

from dllm_tui.theming import Theme
from dllm_tui.trace.frames import Cell, Frame, Look, Row, mix

DIM = 0.5
"""How far dim text goes towards its background."""


class Camera:
    """Takes frames of an app.

    Args:
        app: what runs.
        theme: what it is drawn in. Where that is the terminal's own colours, they are Textual's idea of them.
    """

    def __init__(self, app: App[Any], theme: Theme) -> None:
        self._app = app
        self._terminal = app.ansi_theme
        self.palette = tuple(_number(self._terminal.ansi_colors[number]) for number in range(16))
        """The sixteen colours of a terminal."""
        own, terminal = (theme.foreground, theme.background), self._terminal
        self.foreground, self.background = (
            (_number(terminal.foreground_color), _number(terminal.background_color))
            if theme.ansi
            else (int(colour[1:], 16) for colour in own)
        )
        self._look = lru_cache(maxsize=4096)(self._resolve)
        self._row = lru_cache(maxsize=4096)(self._read)

    def take(self) -> Frame:
        """The screen as it stands; parts that have not been laid out are as they were before."""
        width, height = self._app.size
        strips = self._app.screen._compositor.render_strips(self._app.size)  # pyright: ignore[reportPrivateUsage] (nothing public gives cells)
        rows = [self._row(tuple(strip), width) for strip in strips[:height]]
        return Frame((*rows, *[self._row((), width)] * (height - len(rows))))

    def _read(self, segments: tuple[Segment, ...], width: int) -> Row:
        cells: list[Cell] = []
        for text, style, control in segments:
            if control:
                continue
            look = self._look(style)
            for start, end, size in split_graphemes(text)[0]:
                if size:
                    cells.append((text[start:end], look))
                    cells.extend([("", look)] * (size - 1))
        blank = (" ", self._look(None))
        return tuple(cells[:width]) + (blank,) * (width - len(cells))

    def _resolve(self, style: Style | None) -> Look:
        style = style or Style.null()
        fg = self._colour(style.color, self.foreground, foreground=True)
        bg = self._colour(style.bgcolor, self.background, foreground=False)
        if style.reverse:
            fg, bg = bg, fg
        return Look(
            fg=mix(fg, bg, DIM) if style.dim else fg,
            bg=bg,
            bold=bool(style.bold),
            italic=bool(style.italic),
            underline=bool(style.underline),
            strike=bool(style.strike),
        )

    def _colour(self, colour: Color | None, default: int, *, foreground: bool) -> int:
        if colour is None or colour.is_default:
            return default
        return _number(colour.get_truecolor(self._terminal, foreground))


def _number(colour: tuple[int, int, int]) -> int:
    red, green, blue = colour
    return red << 16 | green << 8 | blue
