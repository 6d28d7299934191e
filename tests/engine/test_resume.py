"""Going on from a canvas: the same answer where nothing was changed, and what a person set stays."""

from dataclasses import replace
from functools import cache

import pytest
import torch

from dllm_tui.branching import BranchError, origin_of
from dllm_tui.engine import Engine
from dllm_tui.engine.load import load_checkpoint
from dllm_tui.errors import EngineError
from dllm_tui.events import BlockStart, Canvas, Commit, Done, RunStart, Step
from dllm_tui.families.family import Attention, Noise, Revision
from dllm_tui.knobs import Knobs
from dllm_tui.ports import Kept, Origin
from tests.engine import reference
from tests.engine.tiny import STOP, TinyNet, tiny_model
from tests.golden.cases import DATA

PROMPT = [9, 30, 12, 7, 41]
CHECKPOINTS = ("llada", "dream", "sdar", "fast_dllm_v2", "llada2", "llada21", "wedlm", "a2d_bd3lm")
"""Tiny random checkpoints of real architectures, loaded as any checkpoint is."""


def knobs(**changes) -> Knobs:
    return Knobs(steps=6, block_size=4, threshold=0.6, max_new_tokens=14).replace(**changes)


def full(net=None, **switches):
    model = tiny_model(net, attention=Attention.FULL)
    return replace(model, family=replace(model.family, **switches))


MODELS = {
    "two streams": lambda: tiny_model(two_streams=True),
    "two streams with a stop": lambda: tiny_model(
        TinyNet(seed=3, stop_bias=6.0), two_streams=True, stops=frozenset({STOP})
    ),
    "absolute grid": lambda: tiny_model(grid=4),
    "absolute grid, shift": lambda: tiny_model(grid=4, shift=1),
    "grid from the response": lambda: tiny_model(grid=4, response_grid=True),
    "blocks in parts": lambda: tiny_model(grid=8, shift=1),
    "edits": lambda: tiny_model(grid=4, revision=Revision.EDIT),
    "full": full,
    "full, shift": lambda: full(shift=1),
    "overlapping": lambda: full(overlap=0.5),
    "sliding": lambda: tiny_model(attention=Attention.REORDERED),
}


def run(engine, setting, prompt=PROMPT, **options):
    return list(engine.generate(prompt, setting, run=3, **options))


def moments(events) -> list[int]:
    """Counts of events at which a person may stand: behind each step, with what belongs to it."""
    return [
        at + 1
        for at, event in enumerate(events)
        if isinstance(event, Step | Commit) and not isinstance(events[at + 1], Commit)
    ]


def found(step: Step) -> list[tuple[int, int | None]]:
    return [(change.position, change.token_id) for change in step.changes]


def rebuilt(events) -> Canvas:
    canvas = Canvas()
    for event in events:
        if isinstance(event, Step):
            canvas.apply(event)
    return canvas


def resume(engine, events, count, setting, edits=None, prompt=PROMPT):
    origin = origin_of(events, count, edits)
    branch = run(engine, setting, prompt, origin=origin)
    start, done = branch[0], branch[-1]
    assert isinstance(start, RunStart)
    assert (start.parent, start.parent_nfe) == (3, origin.nfe)
    cells = rebuilt(branch).cells
    assert [cell for cell in cells if cell is not None][: done.tokens] == list(done.token_ids)
    return branch


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("schedule", ["pace", "llada"])
def test_from_any_step_without_a_change_comes_the_same_answer(name, schedule):
    engine, setting = Engine(MODELS[name]()), knobs(schedule=schedule)
    events = run(engine, setting)
    steps = [event for event in events if isinstance(event, Step)]
    for count in moments(events):
        branch = resume(engine, events, count, setting)
        assert branch[-1].token_ids == events[-1].token_ids, count
        assert isinstance(branch[-1], Done)
        assert branch[-1].reason == events[-1].reason
        # what is still to be done is done in the same steps
        left = [event for event in events[count:] if isinstance(event, Step) and event.phase == "denoise"]
        done = [event for event in branch if isinstance(event, Step) and event.phase == "denoise"]
        if name == "edits" and len(done) == len(left) + 1:
            assert not found(done.pop(0)), "only asked once more whether the block may stay as it is"
        assert [(s.block, s.step) for s in done] == [(s.block, s.step) for s in left], count
        assert [found(step) for step in done] == [found(step) for step in left]
    assert len(steps) > 4


@pytest.mark.parametrize("name", MODELS)
def test_the_first_step_is_the_canvas_that_is_taken_over(name):
    engine, setting = Engine(MODELS[name]()), knobs()
    events = run(engine, setting)
    count = moments(events)[4]
    branch = resume(engine, events, count, setting)
    before = rebuilt(events[:count])
    first = next(event for event in branch if isinstance(event, Step))
    assert (first.phase, first.nfe) == ("prefill", 0)
    assert {change.kind for change in first.changes} == {"keep"}
    after = rebuilt([first])
    assert after.cells == before.cells
    known = [at for at, cell in enumerate(after.cells) if cell is not None]
    assert [after.confidences[at] for at in known] == [before.confidences[at] for at in known]
    blocks = [(e.block, e.start) for e in branch if isinstance(e, BlockStart)]
    assert blocks[: len(blocks)] == [(number, start) for number, start in enumerate(s for _, s in blocks)]
    if name != "edits":
        assert branch[-1].given == sum(cell is not None for cell in before.cells)
    assert branch[-1].nfe == sum(branch[-1].nfe_by_phase.values())


@pytest.mark.parametrize("name", [name for name in MODELS if "stop" not in name])
def test_what_a_person_sets_stays_and_what_is_remasked_is_found_again(name):
    engine, setting = Engine(MODELS[name]()), knobs(edit_threshold=0.0)
    events = run(engine, setting)
    before = rebuilt(events).cells
    edits = {5: 20, 6: None, 9: 21, 11: 22}
    branch = resume(engine, events, len(events), setting, edits)
    done = branch[-1]
    assert [done.token_ids[at] for at in (5, 9, 11)] == [20, 21, 22]
    assert len(done.token_ids) == len(before)
    assert list(done.token_ids[:3]) == before[:3]
    kinds = {
        change.position: change.kind
        for event in branch
        if isinstance(event, Step)
        for change in event.changes
    }
    assert {place for place, kind in kinds.items() if kind == "fix"} == {5, 9, 11}
    again = resume(engine, branch, len(branch), setting, {6: None})
    assert [again[-1].token_ids[at] for at in (5, 9, 11)] == [20, 21, 22], "what was set once stays set"
    taken_back = origin_of(branch, len(branch), {5: None})
    assert taken_back.cells[5] is None


def test_words_beyond_the_canvas_are_given_when_their_block_begins():
    engine, setting = Engine(tiny_model(two_streams=True)), knobs()
    events = run(engine, setting)
    count = moments(events)[0]
    done = resume(engine, events, count, setting, {10: 20, 11: 21})[-1]
    assert done.token_ids[10:12] == (20, 21)


def test_verify_goes_on_as_greedy_decoding_does():
    net = TinyNet(seed=5)
    engine, setting = Engine(tiny_model(net, two_streams=True)), knobs(policy="verify", max_new_tokens=23)
    events = run(engine, setting)
    expected = reference.greedy(net, PROMPT, 23, STOP)
    for count in moments(events):
        assert list(resume(engine, events, count, setting)[-1].token_ids) == expected


def test_a_longer_answer_goes_on_where_the_limit_was():
    engine = Engine(tiny_model(two_streams=True))
    events = run(engine, knobs(max_new_tokens=12))
    assert events[-1].reason == "length"
    longer = knobs(max_new_tokens=20)
    branch = resume(engine, events, len(events), longer)
    assert branch[-1].token_ids == run(engine, longer)[-1].token_ids


def test_a_stopped_run_goes_on():
    engine, setting = Engine(tiny_model(two_streams=True)), knobs()
    whole = run(engine, setting)
    asked = iter(range(100))
    events = run(engine, setting, should_stop=lambda: next(asked) > 6)
    assert events[-1].reason == "cancelled"
    branch = resume(engine, events, len(events), setting)
    assert branch[-1].token_ids == whole[-1].token_ids


def test_a_finished_answer_has_nothing_to_go_on_with():
    engine = Engine(MODELS["two streams with a stop"]())
    events = run(engine, knobs(max_new_tokens=60))
    assert events[-1].reason == "stop"
    with pytest.raises(BranchError, match="finished"):
        origin_of(events, len(events))


@pytest.mark.parametrize(
    "switch", [{"noise": Noise.UNIFORM}, {"revision": Revision.INSERT_DELETE}], ids=["noise", "insert-delete"]
)
def test_where_no_cell_has_a_place_no_run_goes_on(switch):
    model = full(**switch)
    with pytest.raises(EngineError, match="Tiny"):
        Engine(model).generate(PROMPT, knobs(), origin=origin())


def origin(**changes) -> Origin:
    fields = {"run": 0, "nfe": 1, "prompt_tokens": 5, "cells": (Kept(4), Kept(5), None, None), **changes}
    return Origin(**fields)


@pytest.mark.parametrize(
    "broken",
    [
        {"prompt_tokens": 6},
        {"start": 2},
        {"start": 2, "blocks": (1,)},
        {"start": 3, "blocks": (0,)},
        {"start": 9, "blocks": (0,)},
        {"cells": (Kept(999_999),)},
        {"cells": (None,) * 900},
    ],
)
def test_an_origin_that_can_not_be_is_refused(broken):
    with pytest.raises(EngineError):
        Engine(tiny_model(two_streams=True)).generate(PROMPT, knobs(), origin=origin(**broken))


@cache
def checkpoint(name: str) -> Engine:
    model = load_checkpoint(DATA / name, torch.device("cpu"), torch.float32)
    # tiny vocabularies: the mask that the real ones have is beyond them
    mask_id = min(model.mask_id or 0, model.backbone.vocab_size - 1)
    return Engine(replace(model, mask_id=mask_id, stop_ids=frozenset()))


@pytest.mark.parametrize("name", CHECKPOINTS)
def test_real_checkpoints_go_on_from_any_step(name):
    engine = checkpoint(name)
    prompt = list(range(5, 12))
    setting = engine.defaults.replace(max_new_tokens=24, steps=6, temperature=0.0, seed=1)
    events = run(engine, setting, prompt)
    counts = moments(events)
    for count in counts[:: max(1, len(counts) // 4)]:
        branch = resume(engine, events, count, setting, prompt=prompt)
        assert branch[-1].token_ids == events[-1].token_ids
    last = len(events[-1].token_ids)
    edits = {2: 20, 3: None, last - 1: 21}
    done = resume(engine, events, len(events), setting, edits, prompt=prompt)[-1]
    assert done.token_ids[2] == 20
