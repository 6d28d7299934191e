"""What the colours on a canvas can tell."""

import pytest

from dllm_tui.events import Step
from dllm_tui.theming import RAMP_STEPS
from dllm_tui.tui import palette as look
from dllm_tui.tui.canvas_state import CanvasState
from dllm_tui.tui.cells import UNICODE
from dllm_tui.tui.flow import Flow
from dllm_tui.tui.lens import Lens, openness_step, ramp_step
from dllm_tui.tui.widgets.canvas import Canvas
from dllm_tui.tui.widgets.legend import Legend
from tests.tui.app_helpers import answered, ask, make_app, said, until
from tests.tui.recorded import RecordedHost, events_of

STORY = events_of("smol-story")
LENSES = list(Lens)


def shades(lens: Lens, state: CanvasState) -> list[int | None]:
    return [lens.shade(state, at) for at in range(len(state))]


def test_every_shade_is_on_the_ramp():
    for count in range(0, len(STORY) + 1, 7):
        state = CanvasState.at(STORY, count)
        for lens in LENSES:
            assert all(shade is None or 0 <= shade < RAMP_STEPS for shade in shades(lens, state))


def test_confidence_is_that_of_the_commit():
    state = CanvasState.at(STORY)
    assert shades(Lens.CONFIDENCE, state) == [ramp_step(confidence) for confidence in state.confidences]


def test_earlier_steps_of_a_block_are_brighter():
    state = CanvasState.at(STORY)
    told = {}
    for event in STORY:
        if isinstance(event, Step):
            told.update({change.position: event.step for change in event.changes})
    for one, early in told.items():
        for other, late in told.items():
            if early < late:
                assert Lens.ORDER.shade(state, one) >= Lens.ORDER.shade(state, other)
    assert len(set(shades(Lens.ORDER, state))) > 4


def test_entropy_is_the_last_that_was_seen_before():
    state = CanvasState.at(STORY)
    seen = {}
    for event in STORY:
        if isinstance(event, Step):
            seen.update({guess.position: guess.entropy for guess in event.guesses})
    assert shades(Lens.ENTROPY, state) == [
        openness_step(seen[at]) if seen.get(at) is not None else None for at in range(len(state))
    ]
    assert None in shades(Lens.ENTROPY, state)
    assert openness_step(0.0) == RAMP_STEPS - 1
    assert openness_step(99.0) == 0


def test_tokens_fade_with_age():
    steps = [at for at, event in enumerate(STORY) if isinstance(event, Step)]
    ages = [Lens.AGE.shade(CanvasState.at(STORY, at + 1), 0) for at in steps]
    assert ages[0] == RAMP_STEPS - 1
    assert ages == sorted(ages, reverse=True)
    assert ages[-1] == 0


@pytest.mark.parametrize("lens", LENSES)
def test_growing_and_fresh_canvases_look_alike(lens):
    """A canvas that was there all the time shows the colours that one built now does."""
    state, flow = CanvasState(), Flow(UNICODE, 60, lens)
    for at, event in enumerate(STORY):
        state.fold([event])
        flow.update(state)
        if at % 9 == 0:
            now = Flow(UNICODE, 60, lens)
            now.update(CanvasState.at(STORY, at + 1))
            assert flow.looks == now.looks


def test_plain_has_no_colours():
    flow = Flow(UNICODE, 60, Lens.PLAIN)
    flow.update(CanvasState.at(STORY))
    assert {shown % look.LOOKS for shown in flow.looks} == {look.PLAIN}


async def test_one_key_goes_through_them_and_the_legend_says_which():
    app = make_app(RecordedHost(STORY))
    async with app.run_test(size=(110, 34)) as pilot:
        await ask(pilot, app)
        await answered(pilot, app)
        await pilot.press("f3")
        await until(pilot, lambda: app.query(Canvas))
        canvas, legend = app.query(Canvas).last(), app.query_one(Legend)
        told, seen = [], []
        for _ in LENSES:
            await pilot.pause()
            told.append(said(legend))
            seen.append([canvas.flow.looks[at] for at in range(len(canvas.state))])
            await pilot.press("alt+v")
        assert len({tuple(looks) for looks in seen}) == len(LENSES)
        words = ("settled", "step of the block", "entropy", "age", "plain text")
        assert all(word in line for word, line in zip(words, told, strict=True))
        await pilot.pause()
        assert said(legend) == told[0]
        assert [canvas.flow.looks[at] for at in range(len(canvas.state))] == seen[0]


async def test_by_name():
    app = make_app(RecordedHost(STORY))
    async with app.run_test(size=(110, 34)) as pilot:
        prompt = app.query_one("#prompt")
        prompt.replace_text("/colours age")
        await pilot.press("enter")
        await pilot.pause()
        assert "age" in said(app.query_one(Legend))
        prompt.replace_text("/colours taste")
        await pilot.press("enter")
        await pilot.pause()
        assert app.lens is Lens.AGE
        assert "confidence" in str(app.query_one("#above").visual)
