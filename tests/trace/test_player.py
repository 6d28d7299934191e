"""The clock of a show: it never jumps, never leaves its range, and says the same whenever it is asked."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dllm_tui.events import Done, Header, RunStart, Step, Turn
from dllm_tui.trace.player import SPEEDS, Player, real_time, step_by_step, without_idling
from dllm_tui.trace.timeline import Timeline
from tests.trace import sample

SECONDS = st.floats(0, 100)
SPEED = st.sampled_from(SPEEDS)


class Clock:
    def __init__(self) -> None:
        self.time = 1000.0

    def __call__(self) -> float:
        return self.time


def player(clock: Clock, **options: object) -> Player:
    return Player(10.0, now=clock, **options)  # type: ignore[arg-type]


def test_it_starts_at_rest_at_its_start():
    show = player(Clock(), start=2.0)
    assert (show.position, show.playing, show.ended, show.live) == (2.0, False, False, False)


@given(speed=SPEED, times=st.lists(SECONDS, max_size=20))
def test_it_moves_at_its_speed_and_stops_at_its_end(speed: float, times: list[float]):
    clock = Clock()
    show = player(clock, speed=speed)
    show.play()
    passed = 0.0
    for time in times:
        clock.time += time
        passed += time
        assert show.position == pytest.approx(min(passed * speed, 10.0))
        assert show.ended == (show.position == 10.0)
        assert show.playing == (not show.ended)


OPERATION = st.one_of(
    st.tuples(st.just("wait"), SECONDS),
    st.tuples(st.just("speed"), SPEED),
    st.tuples(st.just("end"), SECONDS),
    st.tuples(st.just("seek"), st.floats(-10, 200)),
    st.tuples(st.sampled_from(["play", "pause", "toggle", "faster", "slower", "follow"]), st.just(0.0)),
)


@given(operations=st.lists(OPERATION, max_size=40), start=st.floats(0, 5), loop=st.booleans(), hold=SECONDS)
def test_whatever_is_done_to_it(operations: list[tuple[str, float]], start: float, loop: bool, hold: float):
    clock = Clock()
    show = player(clock, start=start, loop=loop, hold=hold)
    for name, value in operations:
        before = show.position
        match name:
            case "wait":
                clock.time += value
            case "speed" | "end":
                setattr(show, name, value)
            case "seek":
                show.seek(value)
            case _:
                getattr(show, name)()
        assert start <= show.position <= show.end
        assert show.position == show.position
        match name:
            case "wait" if not show.playing and not loop:
                assert show.ended or show.position == before
            case "speed" | "pause" | "faster" | "slower":
                assert show.position == pytest.approx(before)
            case "toggle" | "play" if before < show.end:
                assert show.position == pytest.approx(before)
            case "follow":
                assert show.position == show.end
            case "seek":
                sought = min(max(value, start), show.end)
                # without a hold, a loop begins anew as soon as it is at its end
                assert show.position == (
                    start if loop and show.playing and not hold and sought == show.end else sought
                )
                assert not show.live
            case _:
                pass
        assert not (show.live and show.ended)


def test_played_again_at_the_end_it_begins_anew():
    clock = Clock()
    show = player(clock, start=1.0)
    show.play()
    clock.time += 60
    assert show.ended
    show.toggle()
    clock.time += 2
    assert show.position == 3.0


@given(passed=st.floats(0, 1000))
def test_a_loop_holds_its_end_and_comes_round(passed: float):
    clock = Clock()
    show = player(clock, start=4.0, loop=True, hold=3.0)
    show.play()
    clock.time += passed
    assert show.position == pytest.approx(min(4.0 + passed % 9.0, 10.0), abs=1e-6)
    assert show.playing


def test_live_is_the_tail_until_somebody_moves():
    clock = Clock()
    show = player(clock)
    show.follow()
    show.end = 12.0
    assert (show.position, show.live, show.playing) == (12.0, True, True)
    show.speed = 0.5
    show.end = 20.0
    assert (show.position, show.live) == (20.0, True)
    show.seek(15.0)
    show.end = 30.0
    clock.time += 5
    assert (show.position, show.live, show.playing) == (15.0, False, False)
    show.play()
    clock.time += 4
    assert show.position == 17.0
    show.follow()
    show.pause()
    show.end = 40.0
    assert (show.position, show.live) == (30.0, False)


def test_a_show_that_grows_goes_on_from_where_it_waited():
    clock = Clock()
    show = player(clock)
    show.play()
    clock.time += 100
    show.end = 20.0
    assert show.position == 10.0
    clock.time += 3
    assert show.position == 13.0


def test_speeds_go_up_and_down_a_list():
    show = player(Clock())
    seen = [show.speed]
    for _ in SPEEDS:
        show.faster()
        seen.append(show.speed)
    assert seen[-1] == SPEEDS[-1] == 10
    for _ in range(2 * len(SPEEDS)):
        show.slower()
    assert show.speed == SPEEDS[0] == 0.1
    show.speed = 3.0
    show.faster()
    assert show.speed == 5.0


# Courses


def spoken(*times: float) -> Timeline:
    """Prompts at these times, each answered in half a second."""
    events = [Header()]
    for run, at in enumerate(times):
        events += [
            Turn(role="user", text="?", at=1e9 + at),
            RunStart(run=run, at=1e9 + at),
            Step(run=run, phase="denoise", nfe=1, t=0.25, length=1),
            Done(run=run, reason="stop", seconds=0.5),
        ]
    return Timeline(events)


def test_in_real_time_everything_is_when_it_was():
    timeline = spoken(0, 60)
    course = real_time(timeline)
    assert list(course.times) == pytest.approx([0, 0, 0, 0.25, 0.5, 60, 60, 60.25, 60.5])
    assert course.left_out == 0


@given(times=st.lists(SECONDS, min_size=1, max_size=10).map(sorted), longest=st.floats(0, 20))
def test_only_idle_time_is_shortened_and_what_is_left_out_is_told(times: list[float], longest: float):
    timeline = spoken(*times)
    whole, short = real_time(timeline), without_idling(timeline, longest)
    assert short.duration + short.left_out == pytest.approx(whole.duration)
    assert short.gaps == sum(
        timeline.times[4 * run + 1] - timeline.times[4 * run] > longest + 1e-12
        for run in range(1, len(times))
    )
    for event in range(1, len(timeline)):
        took, shown = (course.times[event] - course.times[event - 1] for course in (whole, short))
        assert shown == pytest.approx(min(took, longest) if timeline.idle[event] else took, abs=1e-6)


def test_step_by_step_every_step_stands_equally_long():
    timeline = Timeline(sample.session())
    course = step_by_step(timeline, 2.0)
    shown = [course.times[moment.event] for moment in timeline.moments]
    assert {later - sooner for sooner, later in pairwise(shown)} <= {2.0, 4.0}
    assert course.duration == 2.0 * (len(timeline.moments) + 3)


def test_counts_and_seconds_belong_together():
    course = real_time(Timeline(sample.session()))
    for count in range(len(course.times) + 1):
        assert course.count_at(course.second_of(count)) >= count
        assert course.second_of(course.count_at(course.second_of(count))) == course.second_of(count)
    assert course.second_of(0) == 0.0
    assert real_time(Timeline()).duration == 0.0
