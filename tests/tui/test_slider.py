"""The slider: what it shows, and what keys and mouse ask for."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st
from textual import events
from textual.app import App, ComposeResult

from dllm_tui.knobs import KNOBS
from dllm_tui.tui.pen import Pen
from dllm_tui.tui.widgets.knob import Turned
from dllm_tui.tui.widgets.slider import Slider, place, stepped
from tests.tui.app_helpers import ASCII_PEN, PEN, said

SNAPS = st.lists(st.integers(0, 1000), min_size=2, max_size=20, unique=True).map(lambda x: tuple(sorted(x)))


@given(SNAPS)
def test_snaps_stand_evenly(snaps):
    places = [place(snap, snaps) for snap in snaps]
    assert places[0] == 0
    assert places[-1] == 1
    assert all(abs(b - a - 1 / (len(snaps) - 1)) < 1e-9 for a, b in itertools.pairwise(places))


@given(SNAPS, st.floats(-10, 2000), st.floats(-10, 2000))
def test_more_is_never_further_left(snaps, one, other):
    low, high = sorted((one, other))
    assert 0 <= place(low, snaps) <= place(high, snaps) <= 1


@given(SNAPS, st.floats(-10, 2000), st.integers(-30, 30).filter(bool))
def test_a_step_reaches_a_snap_in_its_direction(snaps, value, by):
    new = stepped(value, snaps, by)
    assert new in snaps
    if snaps[0] <= value <= snaps[-1]:
        assert (new - value) * by >= 0


@given(SNAPS, st.data())
def test_a_step_there_and_back(snaps, data):
    index = data.draw(st.integers(0, len(snaps) - 2))
    assert stepped(stepped(snaps[index], snaps, 1), snaps, -1) == snaps[index]


class Board(App[None]):
    """One slider that does what is asked of it."""

    CSS = "Slider { width: 40; height: 2; }"

    def __init__(self, name: str, pen: Pen = PEN) -> None:
        super().__init__()
        self.slider = Slider(pen, KNOBS[name])
        self.asked: list[object] = []

    def compose(self) -> ComposeResult:
        yield self.slider

    def on_mount(self) -> None:
        self.slider.show(KNOBS[self.slider.knob.name].default, "what it does")

    def on_turned(self, event: Turned) -> None:
        self.asked.append(event.value)
        self.slider.show(event.value, "what it does")


@pytest.mark.parametrize(
    ("name", "pressed", "value"),
    [
        ("steps", ["right"], 12),
        ("steps", ["left"], 6),
        ("steps", ["plus"], 12),
        ("steps", ["shift+right"], 24),
        ("steps", ["home"], 1),
        ("steps", ["end"], 128),
        ("steps", ["1", "0", "0", "enter"], 100),
        ("steps", ["1", "0", "backspace", "enter"], 1),
        ("steps", ["right", "right", "backspace"], 8),
        ("steps", ["7", "enter", "right"], 8),
        ("steps", ["7", "enter", "left"], 6),
        ("threshold", ["0", "full_stop", "5", "5", "enter"], 0.55),
        ("threshold", ["left"], pytest.approx(0.85)),
        ("seed", ["7", "enter"], 7),
    ],
)
async def test_keys(name, pressed, value):
    app = Board(name)
    async with app.run_test(size=(60, 4)) as pilot:
        await pilot.press(*pressed)
        await pilot.pause()
        assert app.slider.value == value


async def test_keys_that_come_all_at_once_all_count():
    app = Board("steps")
    async with app.run_test(size=(60, 4)) as pilot:
        for _ in range(4):
            app.slider.post_message(events.Key("left", None))
        app.slider.action_less()
        app.slider.action_less()
        assert app.slider.value == 4
        await pilot.pause()
        assert app.asked[-1] == app.slider.value


async def test_escape_throws_a_typed_number_away():
    app = Board("steps")
    async with app.run_test(size=(60, 4)) as pilot:
        await pilot.press("9", "9")
        assert "99_" in said(app.slider)
        await pilot.press("escape", "enter")
        await pilot.pause()
        assert not app.asked
        assert "99" not in said(app.slider)


async def test_a_wrong_number_says_what_is_right():
    app = Board("threshold")
    async with app.run_test(size=(60, 4)) as pilot:
        await pilot.press("7", "enter")
        await pilot.pause()
        assert not app.asked
        assert "must be a number from 0 to 1" in said(app.slider)
        await pilot.press("left")
        await pilot.pause()
        assert "must be" not in said(app.slider)


async def test_click_drag_and_double_click():
    app = Board("steps")
    async with app.run_test(size=(60, 4)) as pilot:
        await pilot.click(app.slider, offset=(12, 0))
        assert app.slider.value == 1
        await pilot.mouse_down(app.slider, offset=(12, 0))
        await pilot.hover(app.slider, offset=(32, 0))
        assert app.slider.value == 128
        await pilot.hover(app.slider, offset=(5, 0))
        assert app.slider.value == 1
        await pilot.mouse_up(app.slider, offset=(5, 0))
        await pilot.hover(app.slider, offset=(32, 0))
        assert app.slider.value == 1
        await pilot.click(app.slider, offset=(20, 0), times=2)
        assert app.slider.value == 8


async def test_the_wheel_turns_over_the_bar_alone():
    app = Board("steps")
    async with app.run_test(size=(60, 4)) as pilot:
        for y, value in ((1, 8), (0, 12)):
            app.slider.post_message(
                events.MouseScrollUp(app.slider, 20, y, 0, 0, 0, shift=False, meta=False, ctrl=False)
            )
            await pilot.pause()
            assert app.slider.value == value


async def test_a_knob_the_model_lacks_can_not_be_turned():
    app = Board("steps")
    async with app.run_test(size=(60, 4)) as pilot:
        app.slider.reason = "not in this family"
        await pilot.pause()
        assert "not in this family" in said(app.slider)
        assert not app.slider.focusable
        await pilot.click(app.slider, offset=(30, 0))
        await pilot.click(app.slider, offset=(30, 0), times=2)
        assert not app.asked


async def test_a_long_reason_is_told_whole_or_seen_to_be_cut():
    app = Board("steps")
    reason = "Each SDAR checkpoint was trained on blocks of one size."
    async with app.run_test(size=(36, 6)) as pilot:
        app.slider.styles.height = "auto"
        app.slider.reason = reason
        await pilot.pause()
        assert " ".join(said(app.slider).split()).endswith(reason)
        app.slider.styles.height = 1
        await pilot.pause()
        assert said(app.slider).startswith("steps       Each SDAR")
        assert said(app.slider).rstrip().endswith("…")


async def test_ascii():
    app = Board("steps", pen=ASCII_PEN)
    async with app.run_test(size=(60, 4)) as pilot:
        await pilot.pause()
        line = said(app.slider).splitlines()[0]
        assert line.isascii()
        assert line.startswith("steps       =")
        assert line.endswith("8")


@pytest.mark.parametrize("width", [1, 5, 12, 20, 21, 40, 100])
async def test_it_never_draws_beyond_its_width(width):
    app = Board("steps")
    async with app.run_test(size=(120, 4)) as pilot:
        app.slider.styles.width = width
        await pilot.pause()
        for y in range(2):
            assert app.slider.render_line(y).cell_length == width
