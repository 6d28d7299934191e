"""The shipped themes can be read by people: contrast, order of the ramp, colour-blind eyes."""

import itertools

import pytest

from dllm_tui import theming
from dllm_tui.theming import Theme, contrast, luminance

THEMES = theming.shipped()
COLOURED = [theme for theme in THEMES.values() if not theme.ansi]

# Machado, Oliveira and Fernandes 2009, severity 1.0, on linear RGB.
BLINDNESS = {
    "protanopia": (
        (0.152286, 1.052583, -0.204868),
        (0.114503, 0.786281, 0.099216),
        (-0.003882, -0.048116, 1.051998),
    ),
    "deuteranopia": (
        (0.367322, 0.860646, -0.227968),
        (0.280085, 0.672501, 0.047413),
        (-0.011820, 0.042940, 0.968881),
    ),
    "tritanopia": (
        (1.255528, -0.076749, -0.178779),
        (-0.078411, 0.930809, 0.147602),
        (0.004733, 0.691367, 0.303900),
    ),
}


def oklab(colour: str, blindness: str | None = None) -> tuple[float, float, float]:
    """Ottosson 2020; distances of 0.02 are just noticeable."""
    rgb = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    rgb = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in rgb]
    if blindness:
        rgb = [
            min(1.0, max(0.0, sum(m * c for m, c in zip(row, rgb, strict=True))))
            for row in BLINDNESS[blindness]
        ]
    r, g, b = rgb
    long = (0.4122214708 * r + 0.5363325363 * g + 0.0514459929 * b) ** (1 / 3)
    medium = (0.2119034982 * r + 0.6806995451 * g + 0.1073969566 * b) ** (1 / 3)
    short = (0.0883024619 * r + 0.2817188376 * g + 0.6299787005 * b) ** (1 / 3)
    return (
        0.2104542553 * long + 0.7936177850 * medium - 0.0040720468 * short,
        1.9779984951 * long - 2.4285922050 * medium + 0.4505937099 * short,
        0.0259040371 * long + 0.7827717662 * medium - 0.8086757660 * short,
    )


def distance(one: str, other: str, blindness: str) -> float:
    pairs = zip(oklab(one, blindness), oklab(other, blindness), strict=True)
    return sum((a - b) ** 2 for a, b in pairs) ** 0.5


def named(theme: Theme) -> str:
    return theme.name


def test_there_is_one_for_everybody():
    assert len(THEMES) >= 6
    assert next(iter(THEMES)) == theming.DEFAULT
    assert any(theme.ansi for theme in THEMES.values())
    assert {theme.dark for theme in COLOURED} == {True, False}
    assert len({theme.title for theme in THEMES.values()}) == len(THEMES)


@pytest.mark.parametrize("theme", COLOURED, ids=named)
def test_text_can_be_read_wherever_it_stands(theme: Theme):
    grounds = ("background", "surface", "panel", "fresh", "block_a", "block_b")
    for ground in grounds:
        assert contrast(theme.foreground, getattr(theme, ground)) >= 4.5, ground
    for ground in ("background", "surface"):
        assert contrast(theme.muted, getattr(theme, ground)) >= 4.5, ground
    for text in ("accent", "success", "warning", "error", "changed"):
        assert contrast(getattr(theme, text), theme.background) >= 4.5, text


@pytest.mark.parametrize("theme", COLOURED, ids=named)
def test_the_background_is_as_dark_as_it_says(theme: Theme):
    assert (luminance(theme.background) < luminance(theme.foreground)) is theme.dark


@pytest.mark.parametrize("theme", COLOURED, ids=named)
def test_more_confidence_stands_out_more(theme: Theme):
    lights = [luminance(colour) for colour in theme.ramp]
    assert lights == sorted(lights, reverse=not theme.dark)
    ratios = [contrast(colour, theme.background) for colour in theme.ramp]
    assert all(later / earlier >= 1.1 for earlier, later in itertools.pairwise(ratios))
    assert ratios[0] >= 3
    assert contrast(theme.ramp[0], theme.fresh) >= 2.2
    assert ratios[-1] >= 12


@pytest.mark.parametrize("theme", COLOURED, ids=named)
def test_masks_guesses_and_blocks_show_and_keep_back(theme: Theme):
    for ground in ("background", "block_a", "block_b"):
        assert contrast(theme.mask, getattr(theme, ground)) >= 1.8, ground
    assert contrast(theme.mask, theme.background) < contrast(theme.guess, theme.background)
    assert contrast(theme.guess, theme.background) < contrast(theme.foreground, theme.background)
    assert contrast(theme.border, theme.background) >= 1.3
    assert theme.block_a != theme.block_b
    assert contrast(theme.fresh, theme.block_b) >= 1.1


def test_high_contrast_reaches_aaa():
    theme = THEMES["contrast"]
    texts = (theme.foreground, theme.muted, theme.accent, theme.success, theme.warning, theme.error)
    for colour in (*texts, theme.guess, theme.changed, *theme.ramp):
        assert contrast(colour, theme.background) >= 7, colour


@pytest.mark.parametrize("blindness", BLINDNESS)
def test_colour_blind_eyes_tell_the_signals_apart(blindness: str):
    theme = THEMES["cividis"]
    pairs = [
        ("accent", "changed"),
        ("accent", "error"),
        ("success", "error"),
        ("success", "warning"),
        ("warning", "error"),
    ]
    for one, other in pairs:
        assert distance(getattr(theme, one), getattr(theme, other), blindness) >= 0.08, (one, other)
    for low, high in itertools.pairwise(theme.ramp):
        assert distance(low, high, blindness) >= 0.02
