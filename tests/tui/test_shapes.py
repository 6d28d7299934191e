"""Canvases as a grid and as a heat map: what stands where, what moves, what is drawn again."""

import threading

import pytest

from dllm_tui.events import Step
from dllm_tui.settings import Settings
from dllm_tui.tui import cells
from dllm_tui.tui import palette as look
from dllm_tui.tui.canvas_state import CanvasState
from dllm_tui.tui.grid import Grid
from dllm_tui.tui.heat import Heat
from dllm_tui.tui.history import Blocks, Trail
from dllm_tui.tui.lens import Lens
from dllm_tui.tui.shape import Shape
from dllm_tui.tui.widgets.canvas import GUTTER, Canvas
from dllm_tui.tui.widgets.inspector import Inspector
from dllm_tui.tui.widgets.legend import Legend
from tests.tui.app_helpers import answered, ask, make_app, said, until
from tests.tui.recorded import RecordedHost, events_of
from tests.tui.scripted import Script
from tests.tui.test_inspector import with_alternatives

STORY = events_of("smol-story")
VERIFY = events_of("smol-verify")
STRANGE = "한글 e\u0301 \x1b[31m\ttab 👩‍👩‍👧 \n\n\u202eend of it, and ordinary words to the end"


def lines(flow) -> list[str]:
    return ["".join(span.text for span in line) for line in flow.lines]


def widths(flow) -> list[int]:
    return [sum(span.width for span in line) for line in flow.lines]


def drawn(flow_of, events, count=None) -> tuple:
    state = CanvasState.at(events, count)
    flow = flow_of(events)
    flow.update(state)
    return flow, state


def grid(width=69):
    return lambda events: Grid(cells.UNICODE, width)


def heat(width=69, glyphs=cells.ASCII, lens=Lens.CONFIDENCE):
    return lambda events: Heat(glyphs, width, lens, events)


# -- grid


@pytest.mark.parametrize("width", [20, 36, 69, 120, 240])
@pytest.mark.parametrize("text", [STRANGE, "The lighthouse keeper was a gruff but lovable man."])
def test_no_position_of_a_grid_ever_moves(width, text):
    events = Script(text).events(block_size=8)
    flow, state = grid(width)([]), CanvasState()
    places: dict[int, tuple[int, int]] = {}
    for event in events:
        state.fold([event])
        flow.update(state)
        for row, line in enumerate(flow.lines):
            x = 0
            for span in line:
                if span.look < 0 and span.text.strip():
                    where = (row, (x - 5) // flow.cell)
                    assert places.setdefault(span.position, where) == where
                x += span.width
            assert x <= width
            assert all(text.isprintable() for text in (span.text for span in line))
    assert len(places) >= len(state) - 1


def test_a_step_redraws_the_rows_of_what_changed_alone():
    flow, state = grid()([]), CanvasState()
    for event in STORY:
        before = lines(flow)
        state.fold([event])
        changed = flow.update(state)
        if isinstance(event, Step) and len(state) > 40:
            assert len(changed) <= 5, "the active block, and the one before"
            assert {row for row in range(len(before)) if before[row] != lines(flow)[row]} <= changed


def test_a_grid_tells_position_and_neighbours():
    flow, _ = drawn(grid(), STORY)
    assert flow.count == 8
    assert lines(flow)[1].startswith("   9 ")
    for position in (0, 7, 8, 95):
        row = flow.lines_of(position).start
        assert flow.position_at(5 + position % 8 * flow.cell, row) == position
    assert flow.position_at(0, 0) is None
    assert flow.neighbour(3, 1) == 11
    assert flow.neighbour(3, -1) == 3
    assert flow.resize(30)
    assert flow.count == 4
    assert len(flow.lines) == 24


# -- heat map


def test_a_heat_map_tells_every_step_of_a_block():
    flow, _ = drawn(heat(), VERIFY)
    assert flow.look_at(0)
    text = lines(flow)
    assert text[0].split() == ["block", "1", "1", "5", "c"]
    assert text[2].split()[1:] == ["capital", "@@" + "##" * 7]
    assert text[8].endswith("@@xx")
    assert text[7].endswith("!!")
    assert len(text) == 9
    assert set(widths(flow)[1:]) == {widths(flow)[1]}


@pytest.mark.parametrize("width", [30, 69, 240])
def test_what_is_drawn_step_by_step_is_what_is_drawn_at_once(width):
    flow, state = heat(width)(STORY), CanvasState()
    for at, event in enumerate(STORY, start=1):
        state.fold([event])
        changed = flow.update(state)
        before = lines(flow)
        if isinstance(event, Step) and at % 5 == 0:
            again, _ = drawn(heat(width), STORY, at)
            assert lines(again) == before, at
        assert all(row < max(len(before), 40) for row in changed)
        assert max(widths(flow)) <= width


def test_earlier_steps_show_what_was_known_then_and_blocks_can_be_chosen():
    flow, _ = drawn(heat(), STORY)
    assert flow.look_at(20)
    assert lines(flow)[0].startswith("block 2")
    columns = flow._columns
    assert flow.lines_of(20).start == 20 - 16 + 1
    assert flow.lines_of(3) == range(0)
    assert flow.position_at(10, 5) == 20
    assert flow.forward_at(flow.head) == columns[0].nfe
    assert flow.forward_at(0) is None
    early = next(at for at, event in enumerate(STORY, start=1) if isinstance(event, Step) and event.nfe == 14)
    flow.update(CanvasState.at(STORY, early))
    assert len(flow._columns) < len(columns)
    assert flow._columns == columns[: len(flow._columns)]


def test_a_heat_map_is_coloured_by_confidence_or_entropy():
    looks = {}
    for lens in (Lens.CONFIDENCE, Lens.ENTROPY, Lens.PLAIN):
        flow, _ = drawn(heat(lens=lens), STORY)
        flow.look_at(0)
        looks[lens] = [span.look % look.LOOKS for line in flow.lines for span in line]
    assert len(set(looks[Lens.CONFIDENCE])) > 5
    assert looks[Lens.CONFIDENCE] != looks[Lens.ENTROPY]
    assert look.PLAIN in looks[Lens.PLAIN]


def test_a_cell_that_was_decided_before_its_block_began_keeps_its_entropy():
    """The first of a block is often found by the forward before."""
    told, blocks = with_alternatives(STORY), Blocks()
    blocks.read(told, len(told))
    first, *_ = Trail(blocks.spans[0]).read(told, len(told))
    assert first.spots[0].entropy == 1.5


# -- in the app


@pytest.mark.parametrize("size", [(80, 24), (110, 34), (250, 80)])
@pytest.mark.parametrize("plain", [False, True])
async def test_a_key_goes_through_the_shapes(size, plain):
    app = make_app(RecordedHost(STORY), settings=Settings(plain=plain))
    async with app.run_test(size=size) as pilot:
        await ask(pilot, app)
        await answered(pilot, app)
        await pilot.press("alt+g")
        await until(pilot, lambda: app.query(Canvas) and app.query(Canvas).last().is_attached)
        canvas = app.query(Canvas).last()
        assert isinstance(canvas.flow, Grid)
        await pilot.press("alt+g", "f4")
        await pilot.pause()
        assert isinstance(canvas.flow, Heat)
        legend = said(app.query_one(Legend))
        assert "committed" in legend
        text = said(canvas)
        assert "block" in text
        assert text.isascii() or not plain
        await pilot.press("home", "down")
        await pilot.pause()
        assert app.query_one(Inspector).position == 1
        assert "block 1" in said(canvas)
        await pilot.press("alt+g")
        await pilot.pause()
        assert app.shape is Shape.TEXT


async def test_a_run_is_seen_as_a_heat_map_while_it_goes_on_and_a_click_goes_to_a_step():
    gate = threading.Semaphore(6)
    app = make_app(RecordedHost(STORY, gate=gate))
    async with app.run_test(size=(110, 34)) as pilot:
        await ask(pilot, app)
        await until(pilot, lambda: app._chat.timeline.scrub.last == 5)
        await pilot.press("alt+g", "alt+g")
        await pilot.pause()
        canvas = app.query(Canvas).last()
        assert len(canvas.flow._columns) == 5
        gate.release(2)
        await until(pilot, lambda: len(canvas.flow._columns) == 7)
        row = canvas.flow.lines_of(3).start
        await pilot.click(canvas, offset=(GUTTER + canvas.flow.head + 2 * canvas.flow.scale, row))
        await pilot.pause()
        assert app.query_one(Inspector).position == 3
        assert app._chat.timeline.scrub.moment == 3
        assert len(canvas.flow._columns) == 3
        gate.release(100)
        await answered(pilot, app)


async def test_a_slash_command_names_the_shape():
    app = make_app(RecordedHost(STORY))
    async with app.run_test(size=(110, 34)) as pilot:
        await ask(pilot, app)
        await answered(pilot, app)
        await ask(pilot, app, "/shape heat")
        await pilot.pause()
        assert app.shape is Shape.HEAT
        await ask(pilot, app, "/shape cube")
        await pilot.pause()
        assert app.shape is Shape.HEAT
