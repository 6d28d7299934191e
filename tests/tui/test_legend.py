import pytest

from dllm_tui.theming import RAMP_STEPS
from dllm_tui.tui.cells import ASCII, COLOURLESS
from dllm_tui.tui.lens import Lens, ramp_step
from dllm_tui.tui.palette import Palette
from dllm_tui.tui.widgets.legend import Legend
from tests.tui.stage import PALETTE, THEME, Stage


async def legend(width, palette=PALETTE):
    async with Stage(Legend(palette)).run_test(size=(width, 3)) as pilot:
        await pilot.pause()
        return pilot.app.lines()[0]


async def test_it_names_every_look():
    line = await legend(120)
    for word in ("masked", "guess", "fresh", "settled ████████", "edited", "taken back"):
        assert word in line


@pytest.mark.parametrize("width", [1, 10, 24, 40, 60, 80])
async def test_what_does_not_fit_is_left_out_whole(width):
    line = await legend(width)
    assert len(line) <= width
    whole = [entry.strip() for entry in (await legend(200)).split("   ")]
    assert {entry.strip() for entry in line.split("   ")} <= {*whole, ""}


async def test_without_colours_it_shows_what_is_drawn():
    line = await legend(120, Palette.of(THEME, plain=True, glyphs=COLOURLESS))
    assert "░guess░" in line
    assert "settled below 0.6 from 0.6" in line
    assert "█" not in line


def test_halves_are_those_of_the_ramp():
    lower, upper = Lens.CONFIDENCE.halves
    least = float(lower.removeprefix("below "))
    assert upper == f"from {least:g}"
    assert ramp_step(least - 0.01) < RAMP_STEPS // 2 <= ramp_step(least + 1e-9)


async def test_it_speaks_ascii_where_the_terminal_does():
    line = await legend(120, Palette.of(THEME, glyphs=ASCII))
    assert ". masked" in line
    assert "########" in line
    assert line.isascii()
