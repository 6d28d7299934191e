import re

import pytest

from dllm_tui import theming
from dllm_tui.events import Change, Done, Guess, Pieces, Step, decode
from dllm_tui.tui import palette as look
from dllm_tui.tui.canvas_state import CanvasState
from dllm_tui.tui.cells import ASCII
from dllm_tui.tui.palette import Palette
from dllm_tui.tui.widgets.canvas import Canvas
from tests.tui.scripted import STORY, Script
from tests.tui.stage import DATA, PALETTE, Stage

WORDS = {1: b"The", 2: b" lighthouse", 3: b" keeper", 4: b".", 5: b"\x1b[31m", 6: b"\n"}


def step(length, *changes, nfe=1, guesses=()):
    cells = tuple(Change(position=p, token_id=t, confidence=c) for p, t, c in changes)
    return Step(phase="denoise", nfe=nfe, length=length, changes=cells, guesses=tuple(guesses))


def style_at(app, x, y):
    return app.screen.get_style_at(x, y)


async def test_masks_guesses_and_tokens_are_drawn_with_their_styles():
    canvas = Canvas(PALETTE)
    async with Stage(canvas).run_test(size=(60, 10)) as pilot:
        canvas.fold(
            [
                Pieces(pieces=WORDS),
                step(4, (0, 1, 1.0), guesses=[Guess(position=1, token_id=2, confidence=0.6)]),
            ]
        )
        await pilot.pause()
        assert pilot.app.lines()[0] == "▎ The lighthouse ░░░░ ░░░░"
        looks = PALETTE.looks
        assert style_at(pilot.app, 2, 0).bgcolor == looks[look.FRESH].bgcolor
        assert style_at(pilot.app, 2, 0).bold
        assert style_at(pilot.app, 8, 0).italic
        assert style_at(pilot.app, 18, 0).color == looks[look.MASK].color
        canvas.fold([step(4, nfe=2)])
        await pilot.pause()
        assert style_at(pilot.app, 2, 0).color == looks[look.SETTLED + 7].color
        assert not style_at(pilot.app, 2, 0).bold


async def test_only_lines_that_changed_are_drawn():
    canvas = Canvas(PALETTE)
    async with Stage(canvas).run_test(size=(20, 30)) as pilot:
        canvas.fold([Pieces(pieces=WORDS), step(12, *((p, 2 + p % 2, 1.0) for p in range(12)))])
        canvas.fold([step(12, nfe=2)])
        await pilot.pause()
        drawn = []
        render_line = canvas.render_line
        canvas.render_line = lambda y: drawn.append(y) or render_line(y)
        canvas.fold([step(12, (5, 3, 0.3), nfe=3)])
        await pilot.pause()
        assert drawn == list(canvas.flow.lines_of(5))
        drawn.clear()
        canvas.fold([])
        await pilot.pause()
        assert drawn == []


async def test_it_is_as_high_as_its_lines_and_never_lower_while_it_runs():
    canvas = Canvas(PALETTE)
    async with Stage(canvas).run_test(size=(30, 20)) as pilot:
        canvas.fold([Pieces(pieces=WORDS), step(20)])
        await pilot.pause()
        high = canvas.size.height
        assert high == len(canvas.flow.lines) > 2
        canvas.fold([step(3, nfe=2)])
        await pilot.pause()
        assert canvas.size.height == high
        canvas.fold([Done(reason="stop")])
        await pilot.pause()
        assert canvas.size.height == 1


@pytest.mark.parametrize("width", [12, 20, 40, 80, 250])
async def test_it_flows_into_any_width(width):
    canvas = Canvas(PALETTE)
    async with Stage(canvas).run_test(size=(width, 60)) as pilot:
        canvas.fold(Script(STORY).events())
        await pilot.pause()
        shown = " ".join(line[2:].strip() for line in pilot.app.lines())
        assert re.sub(r"\s+", "", shown) == re.sub(r"\s+", "", STORY)


async def test_it_follows_a_new_size():
    canvas = Canvas(PALETTE)
    async with Stage(canvas).run_test(size=(80, 30)) as pilot:
        canvas.fold(Script(STORY).events())
        await pilot.pause()
        few = canvas.size.height
        await pilot.resize_terminal(40, 30)
        await pilot.pause()
        assert canvas.size.height > few


async def test_nothing_that_a_token_holds_reaches_the_terminal():
    canvas = Canvas(PALETTE)
    async with Stage(canvas).run_test(size=(40, 5)) as pilot:
        canvas.fold([Pieces(pieces=WORDS), step(3, (0, 5, 1.0), (1, 6, 1.0), (2, 4, 1.0))])
        await pilot.pause()
        assert pilot.app.lines()[:2] == ["▎ ␛[31m↵", "▎ ."]


async def test_another_palette_takes_effect_at_once():
    canvas = Canvas(PALETTE)
    async with Stage(canvas).run_test(size=(40, 5)) as pilot:
        canvas.fold([Pieces(pieces=WORDS), step(2, (0, 1, 1.0))])
        canvas.palette = Palette.of(theming.shipped()["paper"], glyphs=ASCII)
        await pilot.pause()
        assert pilot.app.lines()[0] == "| The ...."
        assert style_at(pilot.app, 8, 0).color == canvas.palette.looks[look.MASK].color


async def test_an_empty_canvas_draws_nothing():
    canvas = Canvas(PALETTE)
    async with Stage(canvas).run_test(size=(40, 5)) as pilot:
        assert pilot.app.text().strip() == ""


async def test_the_same_run_at_another_step_can_be_shown():
    events = Script(STORY).events()
    canvas = Canvas(PALETTE)
    async with Stage(canvas).run_test(size=(60, 20)) as pilot:
        canvas.fold(events)
        await pilot.pause()
        finished = pilot.app.lines()
        canvas.show(CanvasState.at(events, 7))
        await pilot.pause()
        assert any("░" in line for line in pilot.app.lines())
        canvas.show(CanvasState.at(events))
        await pilot.pause()
        assert pilot.app.lines() == finished


async def test_finished_text_can_be_selected_and_copied():
    canvas = Canvas(PALETTE)
    async with Stage(canvas).run_test(size=(40, 5)) as pilot:
        assert not canvas.allow_select
        canvas.fold([Pieces(pieces=WORDS), step(3, (0, 1, 1.0), (1, 2, 1.0), (2, 3, 1.0)), step(3, nfe=2)])
        await pilot.pause()
        canvas.fold([Done(reason="stop")])
        await pilot.pause()
        await pilot.mouse_down(canvas, offset=(6, 0))
        await pilot.hover(canvas, offset=(15, 0))
        await pilot.mouse_up(canvas, offset=(15, 0))
        await pilot.pause()
        assert pilot.app.screen.get_selected_text() == "lighthouse"


@pytest.mark.parametrize("name", ["smol-story", "smol-verify"])
async def test_real_runs_are_drawn_frame_by_frame(name):
    events = [decode(line) for line in (DATA / f"{name}.jsonl").read_bytes().splitlines()]
    canvas = Canvas(PALETTE)
    async with Stage(canvas).run_test(size=(60, 24)) as pilot:
        for event in events:
            canvas.fold([event])
            await pilot.pause()
        done = events[-1]
        text = b"".join(canvas.state.pieces[i] for i in done.token_ids if i not in canvas.state.special)
        shown = "".join(line[2:] for line in pilot.app.lines()).replace("↵", "")
        assert "".join(shown.split()) == "".join(text.decode().split())
