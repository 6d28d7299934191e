import pytest

from dllm_tui import theming
from dllm_tui.tui import palette as look
from dllm_tui.tui.lens import ramp_step
from dllm_tui.tui.palette import Palette, guess_step

THEMES = theming.shipped()
KINDS = {
    "mask": look.MASK,
    "guess": look.GUESS + 4,
    "settled": look.SETTLED + 7,
    "fresh": look.FRESH + 7,
    "edited": look.EDITED + 7,
    "changed": look.CHANGED,
    "gone": look.GONE,
}


def attributes(style):
    return tuple(
        bool(getattr(style, name)) for name in ("bold", "dim", "italic", "underline", "reverse", "strike")
    )


def test_the_ramp_begins_low_and_ends_at_certainty():
    assert [ramp_step(c) for c in (0, 0.2, 0.31, 0.51, 0.76, 0.95, 1.0, 1.001)] == [0, 0, 1, 3, 5, 7, 7, 7]
    steps = [ramp_step(i / 100) for i in range(101)]
    assert steps == sorted(steps)
    assert set(steps) == set(range(8))


def test_guesses_rise_by_the_root_since_masked_confidence_is_low():
    assert [guess_step(c) for c in (0, 0.1, 0.25, 0.5, 1)] == [0, 2, 4, 5, 7]


@pytest.mark.parametrize("theme", THEMES.values(), ids=THEMES)
@pytest.mark.parametrize("plain", [False, True], ids=["colour", "plain"])
def test_there_is_a_style_for_every_look_on_both_tints(theme, plain):
    assert len(Palette.of(theme, plain=plain).looks) == 2 * look.LOOKS


@pytest.mark.parametrize("theme", THEMES.values(), ids=THEMES)
def test_without_colours_attributes_tell_what_is_what(theme):
    looks = Palette.of(theme, plain=True).looks
    told = {name: attributes(looks[kind]) for name, kind in KINDS.items() if name != "mask"}  # it has a glyph
    assert len(set(told.values())) == len(told)
    sure, unsure = looks[look.SETTLED + 7], looks[look.SETTLED]
    assert attributes(sure) != attributes(unsure)


@pytest.mark.parametrize("theme", THEMES.values(), ids=THEMES)
def test_with_colours_the_kinds_still_differ_by_more_than_colour(theme):
    looks = Palette.of(theme).looks
    assert looks[KINDS["guess"]].italic
    assert looks[KINDS["fresh"]].bold
    assert looks[KINDS["edited"]].underline
    assert looks[KINDS["gone"]].strike


@pytest.mark.parametrize("theme", [t for t in THEMES.values() if not t.ansi], ids=lambda t: t.name)
def test_guesses_fade_towards_the_background_and_stay_readable(theme):
    looks = Palette.of(theme).looks
    contrasts = [
        theming.contrast(looks[look.GUESS + step].color.triplet.hex, theme.block_a) for step in range(8)
    ]
    assert contrasts == sorted(contrasts)
    assert contrasts[guess_step(0.15)] > 1.5


def test_a_terminal_theme_asks_for_the_terminals_own_colours():
    styles = Palette.of(THEMES["terminal"]).looks
    assert all(style.color is None or style.color.triplet is None for style in styles)
    assert all(style.bgcolor is None or style.bgcolor.triplet is None for style in styles)
