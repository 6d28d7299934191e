"""From a theme to what a canvas is drawn with: all styles, computed once.

Colour never carries a meaning alone: masks are a glyph, guesses are italic, what was committed last is bold,
what was changed is underlined. Without colours (:attr:`Palette.plain`) dim and reverse do the rest, and a
guess stands between marks (:attr:`~dllm_tui.tui.cells.Glyphs.guess`), for not every terminal shows italic.
"""

from dataclasses import dataclass
from typing import Final

from rich.style import Style
from textual.color import Color

from dllm_tui.theming import RAMP_STEPS, Theme
from dllm_tui.tui.cells import UNICODE, Glyphs
from dllm_tui.tui.lens import Lens
from dllm_tui.tui.shape import Shape

MASK: Final = 0
GONE: Final = 1
GUESS: Final = 2
SETTLED: Final = GUESS + RAMP_STEPS
FRESH: Final = SETTLED + RAMP_STEPS
EDITED: Final = FRESH + RAMP_STEPS
CHANGED: Final = EDITED + RAMP_STEPS
MARK: Final = CHANGED + 1
BLANK: Final = MARK + 1
PLAIN: Final = BLANK + 1
LOOKS: Final = PLAIN + 1
"""How a cell can look: a number, so that a canvas compares and caches cheaply. Guesses, settled, fresh and
edited tokens have one look for every step of the ramp, e.g. ``SETTLED + ramp_step(0.8)``; a plain
one has one."""


def guess_step(confidence: float) -> int:
    """Step of fading for a guess, 0 … 7: by the root, for most masked positions are far from sure."""
    return min(RAMP_STEPS - 1, int(max(0.0, confidence) ** 0.5 * RAMP_STEPS))


@dataclass(frozen=True)
class Palette:
    """Everything that a canvas is drawn with."""

    theme: Theme
    glyphs: Glyphs
    plain: bool
    """Colours can't be relied on: attributes tell everything."""
    looks: tuple[Style, ...]
    """The :data:`LOOKS` styles on the background of every other block, then those of the blocks between."""
    bars: tuple[Style, Style]
    """The gutter beside finished blocks."""
    active_bar: Style
    """The gutter beside the block that is being denoised."""
    quiet: Style
    """Words about the canvas that are not on it."""
    lens: Lens = Lens.CONFIDENCE
    """What the colours of committed tokens tell."""
    shape: Shape = Shape.TEXT
    """What canvases are drawn as."""

    @property
    def layout(self) -> tuple[Glyphs, Lens, Shape]:
        """What decides where things stand on a canvas, and which look they have."""
        return self.glyphs, self.lens, self.shape

    @classmethod
    def of(cls, theme: Theme, *, plain: bool = False, glyphs: Glyphs = UNICODE) -> "Palette":
        """The palette of a theme.

        Args:
            theme: where the colours come from.
            plain: set where colours can't be seen (``NO_COLOR``, a monochrome terminal).
            glyphs: the marks that the terminal can show.
        """
        bars = (_fg(theme.border), _fg(theme.muted)) if theme.ansi else (_fg(theme.border), _fg(theme.mask))
        return cls(
            theme=theme,
            glyphs=glyphs,
            plain=plain,
            looks=_looks(theme, theme.block_a, plain) + _looks(theme, theme.block_b, plain),
            bars=bars,
            active_bar=_fg(theme.accent) + Style(bold=True),
            quiet=_fg(theme.muted),
        )


def _looks(theme: Theme, background: str, plain: bool) -> tuple[Style, ...]:
    tint = _on(background)
    looks = _plain_looks(theme) if plain else _colour_looks(theme, background)
    return tuple(tint + style for style in looks)


def _colour_looks(theme: Theme, background: str) -> tuple[Style, ...]:
    """Every look, where colours can be seen; its background only where it is not the block's."""
    ramp = tuple(_fg(colour) for colour in theme.ramp)
    wash, flash = _on(theme.fresh), _flash(theme, background)
    # A theme of the terminal's own colours has no wash: what is fresh is underlined there.
    fresh = wash + Style(bold=True, underline=theme.ansi or None)
    return (
        _fg(theme.mask),
        flash + Style(strike=True),
        *(_guess(theme, background, step) for step in range(RAMP_STEPS)),
        *ramp,
        *(style + fresh for style in ramp),
        *(style + Style(underline=True) for style in ramp),
        flash + Style(bold=True),
        _fg(theme.mask),
        Style.null(),
        _fg(theme.foreground),
    )


def _plain_looks(theme: Theme) -> tuple[Style, ...]:
    """Every look by attributes alone: the less sure half of the ramp is dim."""
    text, dim, flash = _fg(theme.foreground), Style(dim=True), Style(reverse=True)
    half = RAMP_STEPS // 2
    settled = (text + dim,) * half + (text,) * half
    return (
        text + dim,
        text + flash + Style(strike=True),
        *(text + dim + Style(italic=True),) * RAMP_STEPS,
        *settled,
        *(text + Style(bold=True, underline=True),) * RAMP_STEPS,
        *(style + Style(underline=True) for style in settled),
        text + flash + Style(bold=True),
        text + dim,
        text,
        text,
    )


def _guess(theme: Theme, background: str, step: int) -> Style:
    """A guess fades towards the background, and stays readable."""
    share = (step + 1) / RAMP_STEPS
    if theme.ansi:
        return _fg(theme.guess) + Style(italic=True, dim=share <= 0.5 or None)
    faded = Color.parse(background).blend(Color.parse(theme.guess), 0.3 + 0.7 * share)
    return _fg(faded.hex) + Style(italic=True)


def _flash(theme: Theme, background: str) -> Style:
    """For one step behind what was changed or taken back."""
    if theme.ansi:
        return _fg(theme.changed) + Style(reverse=True)
    wash = Color.parse(background).blend(Color.parse(theme.changed), 0.35)
    return _fg(theme.foreground) + _on(wash.hex)


def _fg(colour: str) -> Style:
    return Style.from_color(Color.parse(colour).rich_color)


def _on(colour: str) -> Style:
    return Style.from_color(bgcolor=Color.parse(colour).rich_color)
