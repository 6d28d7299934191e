"""Numbers from events: against what the run itself says at its end, and by hand."""

import pytest

from dllm_tui.events import BlockStart, Change, Commit, Done, Guess, KnobChange, RunStart, Step
from dllm_tui.knobs import Knobs, LiveKnobs
from dllm_tui.tui.canvas_state import CanvasState
from dllm_tui.tui.metrics import Effects, Meter
from tests.fakes import FakeHost


def run_of(**knobs: object) -> list[object]:
    host = FakeHost()
    run = host.generate([], LiveKnobs(Knobs(**knobs)))
    assert run.wait(10)
    return run.events


def fill(*positions: int, confidence: float = 1.0) -> tuple[Change, ...]:
    return tuple(Change(position=p, token_id=5, confidence=confidence) for p in positions)


@pytest.mark.parametrize("steps", [1, 4, 32])
def test_the_end_agrees_with_what_the_run_says(steps):
    events = run_of(steps=steps)
    meter = Meter()
    for event in events[:-1]:
        meter.fold([event])
    before, done = meter.reading, events[-1]
    assert isinstance(done, Done)
    assert (before.tokens, before.nfe, before.masks) == (done.tokens, done.nfe, 0)
    assert sum(before.per_forward) == done.tokens
    assert len(before.per_forward) == done.nfe_by_phase["denoise"] + done.nfe_by_phase["commit"]
    meter.fold([done])
    assert meter.reading.tokens_per_forward == pytest.approx(done.tokens / done.nfe)
    assert meter.reading.tokens_per_second == pytest.approx(done.tokens / done.seconds)
    assert meter.reading.reason == "stop"


def test_all_at_once_is_as_one_by_one():
    events = run_of()
    one, all_ = Meter(), Meter()
    for event in events:
        one.fold([event])
    all_.fold(events)
    assert one.reading == all_.reading


def test_a_reading_by_hand():
    meter = Meter()
    meter.fold(
        [
            RunStart(knobs=Knobs(steps=4, threshold=0.8, block_size=4).to_dict()),
            Step(phase="prefill", nfe=1, t=0.5, seconds=0.5, length=0),
            BlockStart(block=0, start=0, end=4),
            Step(phase="denoise", block=0, step=1, nfe=2, t=0.6, seconds=0.1, length=4, changes=fill(0, 1)),
            Step(
                phase="denoise", block=0, step=2, nfe=3, t=1.0, seconds=0.3, length=4,
                changes=(*fill(2, confidence=0.4), Change(position=0, token_id=None, kind="remask")),
            ),
        ]
    )  # fmt: skip
    reading = meter.reading
    assert (reading.tokens, reading.masks, reading.nfe) == (2, 2, 3)
    assert (reading.step, reading.steps, reading.block) == (2, 4, 0)
    assert reading.per_forward == (2, 0)
    assert reading.lowest == (1.0, 0.4)
    assert reading.seconds_per_forward == pytest.approx(0.2)
    assert reading.tokens_per_second == pytest.approx(2.0)
    assert reading.threshold == 0.8


def test_noise_is_nothing_found():
    """Without a mask every cell holds a token from the start; what counts are those that stay."""
    laid = tuple(Change(position=p, token_id=p, confidence=0.0, kind="renoise") for p in range(5))
    guesses = tuple(Guess(position=p, token_id=9, confidence=0.5) for p in range(3))
    meter, state = Meter(), CanvasState()
    steps = [
        Step(phase="prefill", nfe=1, t=0.1, length=3, changes=laid[:3]),
        Step(phase="denoise", block=0, step=1, nfe=2, t=0.2, length=3, changes=laid[1:3], guesses=guesses),
        Step(phase="denoise", block=0, step=2, nfe=3, t=0.3, length=3, changes=fill(0, 2)),
        Step(phase="commit", nfe=4, t=0.4, length=5, changes=laid[3:]),
    ]
    found: list[tuple[int, int]] = []
    for step in steps:
        meter.fold([step])
        state.fold([step])
        assert state.found == meter.reading.tokens
        found.append((meter.reading.tokens, meter.reading.masks))
    assert found == [(0, 3), (0, 3), (3, 0), (3, 2)]
    assert meter.reading.per_forward == (0, 3, 0)


def test_a_turned_knob_shows():
    meter = Meter()
    meter.fold([RunStart(knobs=Knobs().to_dict()), KnobChange(changes={"threshold": 0.5, "steps": 3})])
    assert (meter.reading.threshold, meter.reading.steps) == (0.5, 3)


def test_nothing_divides_by_nothing():
    reading = Meter().reading
    assert (reading.tokens_per_second, reading.tokens_per_forward) == (0, 0)


def block(number: int, steps: int, size: int = 8) -> list[object]:
    start = number * size
    end = start + size
    return [
        BlockStart(block=number, start=start, end=end),
        *(Step(phase="denoise", block=number, step=s, nfe=s, length=end) for s in range(1, steps + 1)),
        Step(phase="commit", block=number, nfe=steps + 1, length=end),
        Commit(block=number, start=start, end=end),
    ]


def test_effects_compare_two_settings():
    effects, high, low = Effects(), Knobs(threshold=0.9), Knobs(threshold=0.5)
    effects.fold([RunStart(knobs=high.to_dict()), *block(0, 7), *block(1, 7)])
    assert effects.tokens_per_forward(high) == 1.0
    assert effects.tokens_per_forward(low) is None
    assert effects.comparison("threshold", low) is None
    effects.fold([RunStart(knobs=low.to_dict()), *block(0, 3), *block(1, 3)])
    assert effects.tokens_per_forward(low) == 2.0
    assert effects.comparison("threshold", low) == (0.9, 2.0)
    assert effects.comparison("threshold", high) == (0.5, 0.5)
    assert effects.comparison("steps", low) is None


def test_too_little_is_not_said():
    effects, knobs = Effects(), Knobs()
    effects.fold([RunStart(knobs=knobs.to_dict()), *block(0, 7)])
    assert effects.tokens_per_forward(knobs) is None


def test_a_block_during_which_a_knob_was_turned_counts_for_none():
    effects, high, low = Effects(), Knobs(threshold=0.9), Knobs(threshold=0.5)
    turned = block(1, 7)
    turned.insert(3, KnobChange(changes={"threshold": 0.5}))
    effects.fold([RunStart(knobs=high.to_dict()), *block(0, 7), *turned, *block(2, 3), *block(3, 3)])
    assert effects.tokens_per_forward(high) is None
    assert effects.tokens_per_forward(low) == 2.0
