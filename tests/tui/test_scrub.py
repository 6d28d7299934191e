"""The cursor over the steps of a run, without a widget."""

import msgspec
import pytest

from dllm_tui.events import BlockStart, Canvas, Change, Kind, KnobChange, RunStart, Step
from dllm_tui.trace.player import STEP_SECONDS
from dllm_tui.tui.canvas_state import CanvasState
from dllm_tui.tui.scrub import Scrub
from tests.tui.recorded import events_of


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def scrub_of(events, clock=None) -> Scrub:
    scrub = Scrub(events, now=clock or Clock())
    scrub.grow()
    return scrub


def halfway(events) -> list:
    """Of a run that goes on."""
    return events[: len(events) // 2]


@pytest.mark.parametrize("name", ["smol-story", "smol-verify"])
def test_every_step_shows_the_canvas_as_it_was(name):
    events = events_of(name)
    scrub = scrub_of(events)
    for at, moment in enumerate(scrub.timeline.moments):
        scrub.go(at)
        canvas = Canvas()
        for event in events[: moment.event + 1]:
            if isinstance(event, Step):
                canvas.apply(event)
        assert scrub.canvas.tokens == canvas.cells
        assert scrub.reading.nfe >= moment.nfe
        assert scrub.reading.tokens == sum(token is not None for token in canvas.cells) or at == scrub.last


def test_states_are_independent():
    scrub = scrub_of(events_of("smol-story"))
    scrub.go(5)
    state = scrub.canvas
    state.fold(scrub.events[scrub.count :])
    assert state.done
    assert scrub.canvas.done is None
    assert scrub.canvas.tokens == CanvasState.at(scrub.events, scrub.count).tokens


def test_steps_and_blocks():
    scrub = scrub_of(events_of("smol-story"))
    assert scrub.moment is None
    scrub.step(1)
    assert scrub.moment is None
    scrub.step(-1)
    assert scrub.moment == scrub.last - 1
    scrub.step(5)
    assert scrub.moment == scrub.last
    scrub.block(-1)
    assert scrub.timeline.moments[scrub.moment].opens
    scrub.go(0)
    scrub.step(-1)
    assert scrub.moment == 0
    scrub.block(1)
    assert scrub.timeline.moments[scrub.moment].block == 1


def test_nothing_to_scrub():
    scrub = scrub_of([])
    for move in (scrub.toggle, lambda: scrub.step(-1), lambda: scrub.block(1), lambda: scrub.go(3)):
        move()
        assert scrub.moment is None
    assert not scrub.tick()
    assert scrub.note == ""


def test_a_run_that_goes_on_is_not_followed_until_one_returns():
    events = events_of("smol-story")
    seen = halfway(events)
    scrub = scrub_of(seen)
    scrub.step(-1)
    at = scrub.moment
    seen += events[len(seen) :]
    assert scrub.grow()
    assert scrub.moment == at
    assert scrub.last > at + 5
    scrub.to_newest()
    assert scrub.count == len(events)


def test_beyond_the_last_step_of_a_run_that_goes_on_is_the_newest():
    scrub = scrub_of(halfway(events_of("smol-story")))
    scrub.step(-1)
    scrub.step(1)
    assert scrub.moment == scrub.last
    scrub.step(1)
    assert scrub.moment is None


def test_playing_takes_as_long_as_the_run_did():
    clock = Clock()
    scrub = scrub_of(events_of("smol-story"), clock)
    times = [moment.time for moment in scrub.timeline.moments]
    scrub.toggle()
    assert (scrub.moment, scrub.playing) == (0, True)
    for target in (3, 4, 11):
        clock.now = times[target] - times[0] - 0.001
        scrub.tick()
        assert scrub.moment == target - 1
        clock.now += 0.002
        assert scrub.tick()
        assert scrub.moment == target
    clock.now += 1000
    assert scrub.tick()
    assert (scrub.moment, scrub.playing) == (scrub.last, False)


def test_paces():
    clock = Clock()
    scrub = scrub_of(events_of("smol-story"), clock)
    times = [moment.time for moment in scrub.timeline.moments]
    scrub.faster()
    scrub.toggle()
    assert scrub.pace == 2
    clock.now = (times[5] - times[0]) / 2 + 0.001
    scrub.tick()
    assert scrub.moment == 5
    for _ in range(9):
        scrub.slower()
    assert scrub.pace is None
    assert scrub.playing
    assert scrub.moment == 5
    clock.now += STEP_SECONDS * 3 + 0.001
    scrub.tick()
    assert scrub.moment == 8
    scrub.toggle()
    assert not scrub.playing
    for _ in range(20):
        scrub.faster()
    assert scrub.pace == 10


def test_playing_that_catches_up_with_a_run_follows_it():
    clock = Clock()
    scrub = scrub_of(halfway(events_of("smol-story")), clock)
    scrub.go(2)
    scrub.toggle()
    clock.now = 1000
    assert scrub.tick()
    assert scrub.moment is None


def test_space_holds_a_run_that_goes_on():
    scrub = scrub_of(halfway(events_of("smol-story")))
    scrub.toggle()
    assert (scrub.moment, scrub.playing) == (scrub.last, False)


def test_what_was_marked():
    events = events_of("smol-story")
    steps = [at for at, event in enumerate(events) if isinstance(event, Step)]
    events.insert(steps[9], KnobChange(run=0, t=3.0, changes={"threshold": 0.7, "block_size": 12}))
    scrub = scrub_of(events)
    assert scrub.note == "threshold 0.50 → 0.70, block 16 → 12"
    scrub.go(0)
    assert scrub.note == ""
    scrub.go(scrub.last)
    assert scrub.note.startswith("threshold")


def test_what_verify_rejected():
    events = events_of("smol-verify")
    assert scrub_of(events).note == "verify rejected 2"


def test_what_was_edited_and_remasked():
    events = events_of("smol-verify")
    for at, event in enumerate(events):
        if isinstance(event, Step) and event.phase == "commit" and event.changes:
            events[at] = msgspec.structs.replace(event, phase="denoise", step=9)
    assert scrub_of(events).note == "1 remasked, 1 edited"


def test_cells_that_came_went_and_moved_are_not_called_edited():
    kinds: tuple[Kind, ...] = ("insert", "delete", "shift", "shift", "edit")
    tokens = (None, 7, 8, None, 9)
    fill = tuple(Change(position=at, token_id=at) for at in range(5))
    after = tuple(
        Change(position=at, token_id=token, kind=kind)
        for at, (token, kind) in enumerate(zip(tokens, kinds, strict=True))
    )
    events = [
        RunStart(),
        BlockStart(block=0, start=0, end=5),
        *(
            Step(phase="denoise", step=nfe, nfe=nfe, t=0.1 * nfe, length=5, changes=changes)
            for nfe, changes in enumerate((fill, after), start=1)
        ),
    ]
    assert scrub_of(events).note == "1 edited, 1 inserted, 1 deleted, 2 moved"
