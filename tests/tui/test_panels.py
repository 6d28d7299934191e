"""Charts, the status line and the footer, as they are drawn."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from textual.app import App

from dllm_tui.ports import HostState
from dllm_tui.tui.marks import UNICODE
from dllm_tui.tui.metrics import Reading
from dllm_tui.tui.widgets.footer import Item, fitting
from dllm_tui.tui.widgets.meters import Meters, bars, duration
from dllm_tui.tui.widgets.status import StatusLine
from tests.fakes import MODEL
from tests.tui.app_helpers import ASCII_PEN, PEN, said


def test_a_chart_by_hand():
    assert bars([0, 1, 2, 4], 4, 1, "▁▂▃▄▅▆▇█") == [" ▂▄█"]
    assert bars([0, 1, 2, 4], 4, 2, "▁▂▃▄▅▆▇█") == ["   █", " ▄██"]


@given(st.lists(st.floats(-5, 50), max_size=30), st.floats(0.1, 50), st.integers(1, 6))
def test_a_chart_fills_its_room_and_shows_what_is_there(values, top, rows):
    chart = bars(values, top, rows, UNICODE.bars)
    assert len(chart) == rows
    assert {len(row) for row in chart} == {len(values)}
    for column, value in enumerate(values):
        assert (chart[-1][column] != " ") == (value > 0)


@pytest.mark.parametrize(("seconds", "text"), [(0.0384, "38 ms"), (0.0031, "3.1 ms"), (2.04, "2.0 s")])
def test_durations(seconds, text):
    assert " ".join(duration(seconds)) == text


class Board(App[None]):
    CSS = "Meters { height: 12; } StatusLine { height: 1; }"

    def __init__(self, widget) -> None:
        super().__init__()
        self.widget = widget

    def compose(self):
        yield self.widget


READING = Reading(
    tokens=34,
    masks=6,
    nfe=12,
    seconds=1.1,
    step=3,
    steps=8,
    block=2,
    seconds_per_forward=0.038,
    threshold=0.7,
    per_forward=(1, 2, 4, 0),
    lowest=(0.9, 0.3, 1.0),
)


async def test_meters_name_what_they_count():
    app = Board(Meters(PEN))
    async with app.run_test(size=(40, 14)) as pilot:
        app.widget.reading = READING
        await pilot.pause()
        text = said(app.widget)
        for part in (
            "30.9 tok/s",
            "2.83 tok/forward",
            "step 3/8",
            "block 3",
            "NFE 12",
            "38 ms/fwd",
            "masks 6",
        ):
            assert part in text
        assert "0.70" in text
        assert "┈" in text


@pytest.mark.parametrize(
    ("width", "line"),
    [
        (40, "38 ms/fwd   tokens 128   masks 32"),
        (30, "38 ms/fwd tokens 128 masks 32"),
        (28, "38 ms/fwd   tokens 128"),
        (12, "38 ms/fwd"),
    ],
)
async def test_meters_never_part_a_number_from_its_name(width, line):
    app = Board(Meters(PEN))
    async with app.run_test(size=(width, 12)) as pilot:
        app.widget.reading = Reading(tokens=128, masks=32, nfe=123, seconds=4.0, seconds_per_forward=0.038)
        await pilot.pause()
        assert said(app.widget).splitlines()[2] == line


async def test_meters_without_a_run_show_no_numbers():
    app = Board(Meters(PEN))
    async with app.run_test(size=(40, 14)) as pilot:
        await pilot.pause()
        assert not any(character.isdigit() for character in said(app.widget))


async def test_meters_show_confidence_first_where_there_is_room_for_one_chart():
    app = Board(Meters(PEN))
    async with app.run_test(size=(40, 5)) as pilot:
        app.widget.styles.height = 5
        app.widget.reading = READING
        await pilot.pause()
        title, chart = said(app.widget).splitlines()[3:]
        assert title == "lowest confidence taken  ┈┈ 0.70"
        assert chart.startswith("▇▂█┈")


@pytest.mark.parametrize(("width", "height"), [(40, 3), (20, 5), (8, 12), (3, 2), (100, 30)])
async def test_meters_fit_any_room(width, height):
    app = Board(Meters(ASCII_PEN))
    async with app.run_test(size=(width, height)) as pilot:
        app.widget.reading = READING
        app.widget.styles.height = height
        await pilot.pause()
        assert all(app.widget.render_line(y).cell_length == app.widget.size.width for y in range(height))
        assert said(app.widget).isascii()


@pytest.mark.parametrize(
    ("state", "text"),
    [
        (HostState(phase="ready", model=MODEL), "ready"),
        (HostState(phase="loading", requested="smol"), "loading"),
        (HostState(phase="fetching", requested="smol", progress=0.5), "downloading 50% ━━━━━━──────"),
        (HostState(phase="failed"), "failed"),
        (HostState(), "no model"),
    ],
)
@pytest.mark.parametrize("width", [20, 45, 80, 120])
async def test_the_status_line_says_what_goes_on_at_any_width(state, text, width):
    app = Board(StatusLine(PEN))
    async with app.run_test(size=(width, 3)) as pilot:
        app.widget.state = state
        await pilot.pause()
        line = app.widget.render_line(0)
        assert line.cell_length == width
        if width >= 45:
            assert text in line.text


@given(st.lists(st.integers(1, 12), min_size=1, max_size=10), st.integers(0, 80))
def test_the_footer_keeps_what_leads_to_all_others(sizes, width):
    items = [Item(str(n), "k" * size, "w") for n, size in enumerate(sizes)]
    kept = fitting(items, width)
    assert kept[-1] == items[-1]
    assert len(kept) == 1 or sum(item.width + 2 for item in kept) <= width
    assert [item for item in items if item in kept] == kept
