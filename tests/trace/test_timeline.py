"""A session laid out in time: columns, marks, the cursor's moves, and where things are."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dllm_tui.events import (
    AnyEvent,
    BlockStart,
    Canvas,
    Change,
    Commit,
    Done,
    Header,
    KnobChange,
    RunStart,
    Step,
    Turn,
)
from dllm_tui.trace.timeline import PAUSE, Checkpoints, Mark, Timeline
from tests.trace import sample

PHASES = {"p": "prefill", "d": "denoise", "c": "commit"}


def step(
    phase: str, length: int, *changes: tuple[int, int | None, str], block: int = 0, t: float = 0.0
) -> Step:
    return Step(
        phase=PHASES[phase],  # type: ignore[arg-type]
        nfe=1,
        block=block,
        t=t,
        length=length,
        changes=tuple(Change(position=at, token_id=token, kind=kind) for at, token, kind in changes),  # type: ignore[arg-type]
    )


def timeline(*events: AnyEvent) -> Timeline:
    return Timeline([RunStart(), *events])


def test_a_column_for_every_step_that_can_be_seen():
    line = timeline(
        step("p", 0),
        BlockStart(block=0, start=0, end=2),
        step("d", 2, (0, 5, "fill")),
        step("d", 2),
        step("c", 2),
        step("c", 3, (2, 6, "fill"), block=1),
        step("d", 3, block=1),
    )
    assert [moment.event for moment in line.moments] == [3, 4, 6, 7]
    assert [moment.committed for moment in line.moments] == [1, 0, 1, 0]
    assert [moment.opens for moment in line.moments] == [True, False, True, False]


@pytest.mark.parametrize(
    ("second", "committed", "mark"),
    [
        (step("d", 3, (2, 9, "fill")), 1, Mark.NONE),
        (step("d", 3, (0, 9, "edit")), 0, Mark.EDIT),
        (step("d", 3, (0, 9, "fill")), 0, Mark.EDIT),
        (step("d", 3, (0, 5, "fill")), 0, Mark.NONE),
        (step("d", 3, (0, None, "remask"), (2, 7, "fill")), 1, Mark.REMASK),
        (step("c", 3, (1, None, "remask")), 0, Mark.REJECT),
        (step("c", 3, (1, 8, "fill")), 0, Mark.REJECT),
        (step("c", 4, (3, 8, "fill")), 1, Mark.NONE),
        (step("d", 3, (0, 9, "edit"), (1, None, "remask")), 0, Mark.EDIT | Mark.REMASK),
    ],
)
def test_what_a_step_did(second: Step, committed: int, mark: Mark):
    line = timeline(step("d", 3, (0, 5, "fill"), (1, 6, "fill")), second)
    assert (line.moments[1].committed, line.moments[1].marks) == (committed, mark)


def test_a_turned_knob_is_marked_where_it_holds():
    line = timeline(step("d", 1), KnobChange(changes={"threshold": 0.5}), step("d", 1), step("d", 1))
    assert [moment.marks for moment in line.moments] == [Mark.NONE, Mark.KNOBS, Mark.NONE]


def test_the_cursor_goes_by_steps_and_blocks_and_stays_on_the_line():
    steps = [step("d", 9, block=block) for block in (0, 0, 0, 1, 1, 2)]
    line = timeline(*steps)
    assert [line.step(at, 1) for at in range(6)] == [1, 2, 3, 4, 5, 5]
    assert [line.step(at, -1) for at in range(6)] == [0, 0, 1, 2, 3, 4]
    assert [line.block(at, 1) for at in range(6)] == [3, 3, 3, 5, 5, 5]
    assert [line.block(at, -1) for at in range(6)] == [0, 0, 0, 0, 3, 3]
    empty = Timeline()
    assert (empty.step(-1, 1), empty.block(-1, -1), empty.count_after(-1)) == (-1, -1, 0)


def test_a_moment_has_all_that_came_before_the_next():
    events: list[AnyEvent] = [
        RunStart(),
        BlockStart(block=0, start=0, end=1),
        step("d", 1, (0, 5, "fill"), t=1.0),
        step("c", 1, t=2.0),
        Commit(block=0, start=0, end=1),
        BlockStart(block=1, start=1, end=2),
        KnobChange(changes={}),
        step("d", 2, (1, 6, "fill"), block=1, t=3.0),
        Done(reason="stop"),
        Turn(role="assistant", text="", run=0),
    ]
    line = Timeline(events)
    assert [line.count_after(moment) for moment in (-1, 0, 1)] == [0, 5, len(events)]
    assert [line.moment_of(count) for count in range(len(events) + 1)] == [-1] * 3 + [0] * 5 + [1] * 3
    assert [line.moment_at(time) for time in (0.0, 0.99, 1.0, 2.0, 3.0, 99.0)] == [-1, -1, 0, 0, 1, 1]


@given(columns=st.integers(0, 40), steps=st.integers(0, 60), data=st.data())
def test_buckets_hold_every_moment_once(columns: int, steps: int, data: st.DataObject):
    line = timeline(*(step("d", 60, (at, 5, "fill"), block=at // 7) for at in range(steps)))
    start = data.draw(st.integers(0, steps))
    buckets = line.buckets(columns, start)
    assert len(buckets) == min(columns, steps - start)
    if buckets:
        assert [at for bucket in buckets for at in range(bucket.first, bucket.stop)] == list(
            range(start, steps)
        )
        sizes = {bucket.stop - bucket.first for bucket in buckets}
        assert max(sizes) - min(sizes) <= 1
        assert sum(bucket.committed for bucket in buckets) == steps - start
        assert {bucket.peak for bucket in buckets} == {1}
        assert sum(bucket.opens for bucket in buckets) <= sum(m.opens for m in line.moments[start:])


def test_a_session_knows_its_runs_blocks_and_turns():
    line = Timeline(sample.session())
    assert [(span.run, span.moments, span.reason) for span in line.runs.values()] == [
        (run, 2, "stop") for run in range(4)
    ]
    assert [block.run for block in line.blocks] == [0, 1, 2, 3]
    events = sample.session()
    for count in range(len(events) + 1):
        turns: list[Turn] = []
        for event in events[:count]:
            if isinstance(event, Turn):
                turns = [*turns[: event.replaces], event]
        assert [events[said.event] for said in line.turns_at(count)] == turns


def test_it_grows_as_its_run_does():
    events = sample.session()
    growing = Timeline()
    for count, event in enumerate(events):
        growing.add(event)
        whole = Timeline(events[: count + 1])
        assert growing.moments == whole.moments
        assert growing.times == whole.times
        last = len(whole.moments) - 1
        assert growing.count_after(last) == (count + 1 if whole.moments else 0)


def test_lanes_that_overlap():
    one, other = ([event for event in sample.run(run) if not isinstance(event, KnobChange)] for run in (0, 1))
    line = Timeline([event for pair in zip(one, other, strict=True) for event in pair])
    assert [moment.run for moment in line.moments] == [0, 1, 0, 1]
    assert [moment.committed for moment in line.moments] == [1, 1, 2, 2]


# Time


def test_without_clock_times_a_prompt_comes_after_a_pause():
    line = Timeline(
        [
            Header(),
            Turn(role="user", text=""),
            RunStart(),
            Done(reason="stop", seconds=2.0),
            Turn(role="assistant", text="", run=0),
            Turn(role="user", text=""),
            RunStart(run=1),
        ]
    )
    assert list(line.times) == [0, 0, 0, 2, 2, 2 + PAUSE, 2 + PAUSE]
    assert list(line.idle) == [True, True, True, False, True, True, True]


def test_clock_times_count_within_a_sitting():
    line = Timeline(
        [
            Header(),
            Turn(role="user", text="", at=5000.0),
            RunStart(at=5001.0),
            Done(reason="stop", seconds=2.0),
            Turn(role="user", text="", at=5060.0),
            Header(),
            Turn(role="user", text="", at=9000.0),
            RunStart(run=1, at=9000.5),
        ]
    )
    assert list(line.times) == [0, 0, 1, 3, 60, 60, 60 + PAUSE, 60.5 + PAUSE]


TIME = st.one_of(st.none(), st.floats(0, 1e300))


@given(ats=st.lists(TIME, max_size=12), ts=st.floats(0, 1e300))
def test_time_never_runs_backwards(ats: list[float | None], ts: float):
    line = Timeline()
    for run, at in enumerate(ats):
        line.extend([Turn(role="user", text="", at=at), RunStart(run=run, at=at)])
        line.extend([Step(run=run, phase="denoise", nfe=1, t=ts, length=0)])
        if run % 2:
            line.add(Done(run=run, reason="stop", seconds=ts))
        if run % 3 == 0:
            line.add(Header())
    assert list(line.times) == sorted(line.times)
    assert all(math.isfinite(time) for time in line.times)


# Folding


@given(counts=st.lists(st.integers(0, 200), max_size=30), every=st.integers(1, 50))
def test_checkpoints_are_the_fold(counts: list[int], every: int):
    events = [step("d", at + 1, (at, at, "fill")) for at in range(150)]
    folded: list[int] = []

    def fold(canvas: list[int | None], part: object) -> None:
        for event in part:  # type: ignore[attr-defined]
            folded.append(event.length)
            canvas[:] = [*canvas, event.changes[0].token_id]

    states = Checkpoints(events, new=list[int | None], fold=fold, copy=list, every=every)
    for count in counts:
        folded.clear()
        state = states.at(count)
        assert state == list(range(min(count, 150)))
        state.append(-1)  # the caller's own
    folded.clear()
    states.at(60)
    assert len(folded) <= every or not counts or max(counts) < 60


def test_a_canvas_at_a_cursor():
    events = sample.session()
    line = Timeline(events)
    canvas = Canvas()
    for event in events[: line.count_after(1)]:
        if isinstance(event, Step):
            canvas.apply(event)
    assert canvas.cells == [5, 6, 7]
