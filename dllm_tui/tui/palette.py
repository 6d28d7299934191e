"""From a theme to what a canvas is drawn with: all styles, computed once.

Colour never carries a meaning alone: masks are a glyph, guesses are italic, what was committed last is bold,
what was changed is underlined. Without colours (:attr:`Palette.plain`) dim and reverse do the rest.
"""

from dataclasses import dataclass
from typing import Final

from rich.style import Style
from textual.color import Color

from dllm_tui.theming import RAMP_STEPS, Theme
from dllm_tui.tui.cells import UNICODE, Glyphs

LOWEST_CONFIDENCE: Final = 0.2
"""Confidence at which the ramp begins; it ends at 1."""

MASK: Final = 0
GONE: Final = 1
GUESS: Final = 2
SETTLED: Final = GUESS + RAMP_STEPS
FRESH: Final = SETTLED + RAMP_STEPS
EDITED: Final = FRESH + RAMP_STEPS
CHANGED: Final = EDITED + RAMP_STEPS
MARK: Final = CHANGED + 1
BLANK: Final = MARK + 1
LOOKS: Final = BLANK + 1
"""How a cell can look: a number, so that a canvas compares and caches cheaply. Guesses, settled, fresh and
edited tokens have one look for every step of the ramp, e.g. ``SETTLED + ramp_step(0.8)``."""


def ramp_step(confidence: float) -> int:
    """Step of the ramp for a committed token, 0 … 7."""
    share = (confidence - LOWEST_CONFIDENCE) / (1 - LOWEST_CONFIDENCE)
    return min(RAMP_STEPS - 1, max(0, int(share * RAMP_STEPS)))


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
    ramp: tuple[Style, ...]
    """The colours of the ramp as foregrounds, the least confident first."""
    quiet: Style
    """Words about the canvas that are not on it."""

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
            ramp=tuple(_fg(colour) for colour in theme.ramp),
            quiet=_fg(theme.muted),
        )


def _looks(theme: Theme, background: str, plain: bool) -> tuple[Style, ...]:
    tint, wash, flash = _on(background), _on(theme.fresh), _flash(theme, background, plain)
    unwashed = plain or theme.ansi
    steps = range(RAMP_STEPS)
    ramp = tuple(_fg(colour) for colour in theme.ramp)
    settled = tuple(
        ramp[step] + tint + Style(dim=(plain and step < RAMP_STEPS // 2) or None) for step in steps
    )
    looks = (
        _fg(theme.mask) + tint,
        flash + Style(strike=True),
        *(_guess(theme, background, step) for step in steps),
        *settled,
        *(style + wash + Style(bold=True, underline=unwashed or None) for style in ramp),
        *(style + Style(underline=True) for style in settled),
        flash + Style(bold=True),
        _fg(theme.mask) + tint,
        tint,
    )
    assert len(looks) == LOOKS
    return looks


def _guess(theme: Theme, background: str, step: int) -> Style:
    """A guess fades towards the background, and stays readable."""
    share = (step + 1) / RAMP_STEPS
    if theme.ansi:
        return _fg(theme.guess) + _on(background) + Style(italic=True, dim=share <= 0.5 or None)
    faded = Color.parse(background).blend(Color.parse(theme.guess), 0.3 + 0.7 * share)
    return _fg(faded.hex) + _on(background) + Style(italic=True)


def _flash(theme: Theme, background: str, plain: bool) -> Style:
    """For one step behind what was changed or taken back."""
    if plain or theme.ansi:
        return _fg(theme.changed) + _on(background) + Style(reverse=True)
    wash = Color.parse(background).blend(Color.parse(theme.changed), 0.35)
    return _fg(theme.foreground) + _on(wash.hex)


def _fg(colour: str) -> Style:
    return Style.from_color(Color.parse(colour).rich_color)


def _on(colour: str) -> Style:
    return Style.from_color(bgcolor=Color.parse(colour).rich_color)
