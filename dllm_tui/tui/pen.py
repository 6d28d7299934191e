"""What panels, bars and lines are drawn with: styles by meaning, computed once a theme.

Component classes of a style sheet would say the same, at the price of matching every rule against every one
of them whenever a class changes: half of the time to the first frame.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from rich.style import Style
from textual.color import Color
from textual.reactive import reactive
from textual.strip import Strip
from textual.widget import Widget

from dllm_tui.theming import Theme
from dllm_tui.tui import cells
from dllm_tui.tui.cells import Glyphs
from dllm_tui.tui.marks import ASCII, UNICODE, Marks


@dataclass(frozen=True)
class Pen:
    """Styles without a background, but for :attr:`lit` and :attr:`chip`: the widget's own shows through."""

    marks: Marks
    text: Style
    bold: Style
    muted: Style
    frame: Style
    """Lines that recede."""
    accent: Style
    lit: Style
    """The one of several that is chosen."""
    chip: Style
    """The others."""
    turned: Style
    """What a person has changed: turned knobs, the threshold line."""
    error: Style
    cursor: Style
    """Laid over what one stands on."""
    ramp: tuple[Style, ...]
    """Confidence, the least first."""

    @property
    def glyphs(self) -> Glyphs:
        """What stands for characters that can't be shown."""
        return cells.ASCII if self.marks is ASCII else cells.UNICODE

    @classmethod
    def of(cls, theme: Theme, *, plain: bool = False, colourless: bool = False) -> "Pen":
        """The pen of a theme.

        Args:
            theme: where the colours come from.
            plain: ASCII alone.
            colourless: colours can't be seen: what is chosen is inverted.
        """
        text, accent = _ink(theme.foreground), _ink(theme.accent)
        inverted = theme.ansi or colourless
        return cls(
            marks=ASCII if plain else UNICODE,
            text=text,
            bold=text + Style(bold=True),
            muted=_ink(theme.muted),
            frame=_ink(theme.border),
            accent=accent,
            lit=accent + Style(bold=True, reverse=True)
            if inverted
            else _ink(theme.background, theme.accent) + Style(bold=True),
            chip=text if inverted else _ink(theme.foreground, theme.border),
            turned=_ink(theme.changed),
            error=_ink(theme.error),
            cursor=Style(bold=True, reverse=True) if inverted else _ink(theme.foreground, theme.fresh),
            ramp=tuple(_ink(colour) for colour in theme.ramp),
        )


class Drawn(Widget):
    """A widget drawn line by line with a pen; set :attr:`pen` when the theme changes."""

    footer: ClassVar[Mapping[str, str]] = {}
    """Its actions that the footer names while it has the focus, each with a word."""

    pen: reactive[Pen] = reactive[Pen](None)  # pyright: ignore[reportArgumentType] (set before it is read)

    def __init__(self, pen: Pen, **more: Any) -> None:
        super().__init__(**more)
        self.set_reactive(Drawn.pen, pen)

    def finish(self, strip: Strip) -> Strip:
        """A line at the widget's width, on its background, without anything that could steer a terminal."""
        if not strip.text.isprintable():
            glyphs = self.pen.glyphs
            strip = Strip(segment._replace(text=cells.printable(segment.text, glyphs)) for segment in strip)
        return strip.adjust_cell_length(self.size.width).apply_style(self.rich_style)


def _ink(colour: str, background: str = "") -> Style:
    return Style.from_color(
        Color.parse(colour).rich_color, Color.parse(background).rich_color if background else None
    )
