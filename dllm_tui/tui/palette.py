"""From a theme to what is drawn with: styles of the canvas, computed once, and a theme for Textual.

Colour never carries a meaning alone: masks are a glyph, guesses are italic, what was committed last is bold,
what was changed is underlined. Without colours (:attr:`Palette.plain`) dim and reverse do the rest.
"""

from dataclasses import dataclass
from typing import Final

from rich.style import Style
from textual.color import Color
from textual.theme import Theme as TextualTheme

from dllm_tui.theming import RAMP_STEPS, Theme
from dllm_tui.tui.cells import UNICODE, Glyphs

LOWEST_CONFIDENCE: Final = 0.2
"""Confidence at which the ramp begins; it ends at 1."""

MASK: Final = 0
MARK: Final = 1
CHANGED: Final = 2
GONE: Final = 3
GUESS: Final = 4
SETTLED: Final = GUESS + RAMP_STEPS
FRESH: Final = SETTLED + RAMP_STEPS
EDITED: Final = FRESH + RAMP_STEPS
LOOKS: Final = EDITED + RAMP_STEPS
"""How a cell can look: a number, so that a canvas compares and caches cheaply. From :data:`GUESS` on, each
kind of cell has one look for every step of the ramp, e.g. ``SETTLED + ramp_step(0.8)``."""


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
    looks: tuple[tuple[Style, ...], tuple[Style, ...]]
    """The :data:`LOOKS` styles, on the background of every other block and of those between."""
    tints: tuple[Style, Style]
    """The two backgrounds alone."""
    bars: tuple[Style, Style]
    """The gutter beside finished blocks."""
    active_bar: Style
    """The gutter beside the block that is being denoised."""
    ramp: tuple[Style, ...]
    """The colours of the ramp as foregrounds, the least confident first."""

    @classmethod
    def of(cls, theme: Theme, *, plain: bool = False, glyphs: Glyphs = UNICODE) -> "Palette":
        """The palette of a theme.

        Args:
            theme: where the colours come from.
            plain: set where colours can't be seen (``NO_COLOR``, a monochrome terminal).
            glyphs: the marks that the terminal can show.
        """
        tints = (_on(theme.block_a), _on(theme.block_b))
        bars = (_fg(theme.border), _fg(theme.muted)) if theme.ansi else (_fg(theme.border), _fg(theme.mask))
        return cls(
            theme=theme,
            glyphs=glyphs,
            plain=plain,
            looks=(_looks(theme, theme.block_a, plain), _looks(theme, theme.block_b, plain)),
            tints=tints,
            bars=bars,
            active_bar=_fg(theme.accent) + Style(bold=True),
            ramp=tuple(_fg(colour) for colour in theme.ramp),
        )


def to_textual(theme: Theme) -> TextualTheme:
    """The theme as Textual takes it.

    Beside Textual's own variables, style sheets can use ``$muted``, ``$frame`` (lines that recede), ``$mask``,
    ``$guess``, ``$fresh``, ``$changed``, ``$block-a``, ``$block-b``, ``$on-accent`` (text on the accent colour)
    and ``$ramp-0`` … ``$ramp-7``.
    """
    # on the terminal's own colours nothing is known of the background: what stands out is inverted there
    on_accent = "ansi_default" if theme.ansi else theme.background
    inverse = "reverse" if theme.ansi else "none"
    variables = {
        "muted": theme.muted,
        "frame": theme.border,
        "mask": theme.mask,
        "guess": theme.guess,
        "fresh": theme.fresh,
        "changed": theme.changed,
        "block-a": theme.block_a,
        "block-b": theme.block_b,
        "border": theme.accent,
        "border-blurred": theme.border,
        "on-accent": on_accent,
        "text-muted": theme.muted,
        "text-disabled": theme.muted,
        "block-cursor-foreground": theme.accent if theme.ansi else theme.background,
        "block-cursor-background": "ansi_default" if theme.ansi else theme.accent,
        "block-cursor-text-style": "bold reverse" if theme.ansi else "bold",
        "block-cursor-blurred-foreground": theme.foreground,
        "block-cursor-blurred-background": theme.fresh,
        "block-hover-background": theme.fresh,
        "input-cursor-foreground": on_accent,
        "input-cursor-background": "ansi_default" if theme.ansi else theme.accent,
        "input-cursor-text-style": inverse,
        "input-selection-background": "ansi_default" if theme.ansi else theme.fresh,
        "input-selection-foreground": theme.foreground,
        "scrollbar": theme.border,
        "scrollbar-hover": theme.muted,
        "scrollbar-active": theme.accent,
        "scrollbar-background": theme.background,
        "scrollbar-background-hover": theme.background,
        "scrollbar-background-active": theme.background,
        "scrollbar-corner-color": theme.background,
        **{f"ramp-{step}": colour for step, colour in enumerate(theme.ramp)},
    }
    return TextualTheme(
        name=theme.name,
        primary=theme.accent,
        secondary=theme.accent,
        accent=theme.accent,
        warning=theme.warning,
        error=theme.error,
        success=theme.success,
        foreground=theme.foreground,
        background=theme.background,
        surface=theme.surface,
        panel=theme.panel,
        boost="ansi_default" if theme.ansi else None,
        dark=theme.dark,
        ansi=theme.ansi,
        variables=variables,
    )


def _looks(theme: Theme, background: str, plain: bool) -> tuple[Style, ...]:
    tint = _on(background)
    flash = _flash(theme, plain)
    shared = (
        _fg(theme.mask) + tint,
        _fg(theme.mask) + tint,
        flash,
        flash + Style(strike=True),
    )
    steps = range(RAMP_STEPS)
    settled = tuple(
        _fg(theme.ramp[step]) + tint + Style(dim=plain and step < RAMP_STEPS // 2 or None) for step in steps
    )
    wash = _on(theme.fresh)
    looks = (
        *shared,
        *(_guess(theme, background, step) for step in steps),
        *settled,
        *(_fg(theme.ramp[step]) + wash + Style(bold=True) for step in steps),
        *(style + Style(underline=True) for style in settled),
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


def _flash(theme: Theme, plain: bool) -> Style:
    """For one step behind what was changed or taken back."""
    if plain or theme.ansi:
        return _fg(theme.changed) + Style(reverse=True)
    background = Color.parse(theme.background).blend(Color.parse(theme.changed), 0.35)
    return _fg(theme.foreground) + _on(background.hex)


def _fg(colour: str) -> Style:
    return Style.from_color(Color.parse(colour).rich_color)


def _on(colour: str) -> Style:
    return Style.from_color(bgcolor=Color.parse(colour).rich_color)
