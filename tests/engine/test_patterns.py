"""The patterns beyond blocks: given cells, parts, approximate caches, sliding windows, cells that move.

What the references' traces (``tests/golden``) can't show, on the tiny random network.
"""

from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from dllm_tui.engine import Engine
from dllm_tui.engine.canvas import Canvas
from dllm_tui.engine.revision import Reflow
from dllm_tui.errors import EngineError
from dllm_tui.events import BlockStart, Commit, Done, Step
from dllm_tui.events import Canvas as Rebuilt
from dllm_tui.families.family import Attention, Revision
from dllm_tui.knobs import Knobs
from tests.engine import reference
from tests.engine.tiny import REAL_MASK, STOP, TinyNet, tiny_model

PROMPT = [9, 30, 12, 7, 41]


def knobs(**changes) -> Knobs:
    return Knobs(steps=32, block_size=4, threshold=0.5, max_new_tokens=12).replace(**changes)


def run(model, setting, prompt=PROMPT, **options) -> tuple[list[Step], Done]:
    events = list(Engine(model).generate(prompt, setting, **options))
    canvas = Rebuilt()
    for event in events:
        if isinstance(event, Step):
            canvas.apply(event)
    done = events[-1]
    assert [cell for cell in canvas.cells if cell is not None][: done.tokens] == list(done.token_ids)
    return [event for event in events if isinstance(event, Step)], done


def full(**switches):
    model = tiny_model(attention=Attention.FULL)
    return replace(model, family=replace(model.family, **switches))


# --- given cells -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("pattern", ["full", "block-causal", "two streams", "verify"])
def test_given_cells_stay_and_are_told_from_found_ones(pattern):
    model = (
        full()
        if pattern == "full"
        else tiny_model(two_streams=pattern in ("two streams", "verify"), grid=None)
    )
    frame = (None, 20, None, None, 21, 22, None, None, 23)
    setting = knobs(policy="verify" if pattern == "verify" else "confidence")
    steps, done = run(model, setting, frame=frame)
    assert [done.token_ids[i] for i in (1, 4, 5, 8)] == [20, 21, 22, 23]
    kinds = {change.position: change.kind for step in steps for change in step.changes}
    assert {place for place, kind in kinds.items() if kind == "fix"} == {1, 4, 5, 8}
    assert len(done.token_ids) == 12


def test_a_frame_longer_than_the_answer_or_of_unknown_ids_is_refused():
    with pytest.raises(EngineError, match="13 cells"):
        Engine(full()).generate(PROMPT, knobs(), frame=[None] * 13)
    with pytest.raises(EngineError, match="unknown"):
        Engine(full()).generate(PROMPT, knobs(), frame=[4, 9999])


# --- blocks in parts, overlapping blocks -----------------------------------------------------------------


@pytest.mark.parametrize("cache", ["auto", "dual"])
@pytest.mark.parametrize("shift", [0, 1])
def test_a_block_in_parts_is_filled_part_by_part(cache, shift):
    model = tiny_model(grid=8, shift=shift)
    steps, done = run(model, knobs(block_size=4, threshold=1.0, steps=2, cache=cache, max_new_tokens=16))
    assert len(done.token_ids) == 16
    filled = [sorted(change.position for change in step.changes) for step in steps if step.phase == "denoise"]
    first = len(PROMPT)  # parts lie on the grid, which counts from the beginning of the prompt
    for places in filled:
        assert len({(place + first) // 4 for place in places}) == 1, "a step stays in one part"
    order = [(places[0] + first) // 4 for places in filled]
    assert order == sorted(order)
    # Each part has its own two steps (but one where the prompt or a seed leaves a single cell).
    assert max(order.count(part) for part in order) == 2


def test_overlapping_blocks_begin_when_enough_is_decided():
    model = full(overlap=0.5)
    steps, done = run(model, knobs(policy="low-entropy", schedule="free", entropy_bound=0.0, steps=4096))
    assert len(done.token_ids) == 12
    decided = set()
    for step in steps:
        begun = 1
        while begun < 3 and len([p for p in decided if (begun - 1) * 4 <= p < begun * 4]) >= 2:
            begun += 1
        new = {change.position for change in step.changes}
        assert all(place < begun * 4 for place in new)
        first_open = next(place for place in range(12) if place not in decided) // 4
        assert any(place // 4 == first_open for place in new), "the first block that isn't full moves on"
        decided |= new


# --- approximate caches ----------------------------------------------------------------------------------


@pytest.mark.parametrize("cache", ["prefix", "dual"])
@pytest.mark.parametrize("shift", [0, 1])
def test_an_approximate_cache_is_exact_where_nothing_is_old(cache, shift):
    """One step a block: every forward reads everything."""
    model = full(shift=shift)
    setting = knobs(steps=1)
    assert run(model, setting.replace(cache=cache))[1].token_ids == run(model, setting)[1].token_ids


@pytest.mark.parametrize("cache", ["prefix", "dual"])
@pytest.mark.parametrize("shift", [0, 1])
def test_an_approximate_cache_reads_less_and_still_fills_everything(cache, shift):
    model = full(shift=shift)
    read = []
    forward = model.backbone.forward

    def watched(ids, *rest, **options):
        read.append(ids.numel())
        return forward(ids, *rest, **options)

    model.backbone.forward = watched
    _, done = run(model, knobs(steps=4, threshold=1.0, cache=cache))
    assert len(done.token_ids) == 12
    assert REAL_MASK not in done.token_ids
    whole = len(PROMPT) + 12
    block = 4 + shift
    expected: list[int] = []
    for at in (0, 4, 8):
        rest = block if cache == "dual" else whole - len(PROMPT) - at + shift
        expected += [whole, rest, rest, rest]
    assert read == expected


# --- a sliding window ------------------------------------------------------------------------------------


def test_a_sliding_window_caches_what_a_whole_forward_would_see():
    """Every step's predictions equal those of one uncached forward over the reordered sequence."""
    net = TinyNet(seed=3)
    model = tiny_model(net, attention=Attention.REORDERED)
    setting = knobs(policy="low-entropy", schedule="free", entropy_bound=1.0, steps=4096, block_size=6)
    events = list(Engine(model).generate(PROMPT, setting))
    ids: list[int | None] = list(PROMPT)
    for event in events:
        if isinstance(event, BlockStart):
            ids += [None] * (len(PROMPT) + event.end - len(ids))
        if not isinstance(event, Step) or event.phase != "denoise":
            continue
        order = [i for i, cell in enumerate(ids) if cell is not None]
        order += [i for i, cell in enumerate(ids) if cell is None]
        cells = [REAL_MASK if ids[i] is None else ids[i] for i in order]
        sees = torch.ones(len(order), len(order)).tril().bool()
        logits = net.everything(cells, sees, positions=order)
        logits[:, REAL_MASK] = -torch.inf
        best = dict(zip(order, logits.argmax(-1).tolist(), strict=True))
        for change in event.changes:
            assert change.token_id == best[change.position + len(PROMPT)]
            ids[change.position + len(PROMPT)] = change.token_id
    assert isinstance(events[-1], Done)
    assert len(events[-1].token_ids) == 12
    starts = [event.start for event in events if isinstance(event, Commit)]
    assert starts == sorted(set(starts))


# --- cells that come and go ------------------------------------------------------------------------------


@settings(max_examples=25)
@given(seed=st.integers(0, 10_000), edit_steps=st.integers(0, 5))
def test_inserting_and_deleting_ends_and_every_change_is_told(seed, edit_steps):
    net = TinyNet(seed=seed, scale=0.7)
    net.bias[4] = net.bias[5] = 1.5  # deletes and splits are common
    model = tiny_model(net, grid=4, revision=Revision.INSERT_DELETE)
    model = replace(model, delete_id=4, split_id=5, family=replace(model.family, edit_steps=edit_steps))
    steps, done = run(model, knobs(threshold=0.3, edit_threshold=0.1))
    assert len(done.token_ids) == 12
    assert not {4, 5, REAL_MASK} & set(done.token_ids)
    blocks = [step for step in steps if step.phase == "denoise"]
    for index in range(max(step.block for step in blocks) + 1):
        assert sum(step.block == index for step in blocks) <= 4 + edit_steps + 2


def test_cells_that_move_say_how():
    canvas = Canvas([1], mask_id=0)
    canvas.resize(5)
    canvas.put(1, torch.tensor([10, 11, 12, 13]), torch.ones(4, dtype=torch.bool), torch.ones(4))
    before = canvas.shown()
    chances = torch.full((4, 20), 0.25)
    # 10 stays, 11 is deleted, 12 closes up and gets a mask before it, 13 is edited.
    canvas.reflow(1, Reflow([10, 0, 12, 14], [0, None, 2, 3], done=False), chances)
    told = {change.position: (change.token_id, change.kind) for change in canvas.changes_since(before)}
    assert told == {1: (None, "insert"), 3: (14, "edit")}
    before = canvas.shown()
    canvas.reflow(1, Reflow([10, 12, 14, 0], [0, 2, 3, None], done=False, padding=1), chances)
    told = {change.position: (change.token_id, change.kind) for change in canvas.changes_since(before)}
    assert told == {1: (12, "delete"), 2: (14, "shift"), 3: (None, "shift")}


# --- policies in the loop --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "policy", ["factor", "runs", "credit", "adaptive", "eb", "low-entropy", "origin", "ancestral", "analytic"]
)
@pytest.mark.parametrize(
    "schedule", ["pace", "llada", "quota", "dllm", "dream", "mdlm", "bd3lm", "rnd1", "free"]
)
def test_every_policy_fills_the_answer_on_every_schedule(policy, schedule):
    _, done = run(full(), knobs(policy=policy, schedule=schedule, steps=5, temperature=0.5, seed=3))
    assert len(done.token_ids) == 12
    assert done.nfe <= 15


def test_a_step_that_commits_nothing_costs_a_forward_only_where_it_would_tell_something_new():
    setting = knobs(schedule="mdlm", steps=64, block_size=12, temperature=1.0, seed=1)
    origin, ancestral = (run(full(), setting.replace(policy=name))[1] for name in ("origin", "ancestral"))
    assert ancestral.nfe <= 12 < origin.nfe


def test_picking_with_a_temperature_changes_the_order_alone():
    steps, _ = run(full(), knobs(steps=12, threshold=1.0, block_size=12, seed=5))
    drawn, _ = run(full(), knobs(steps=12, threshold=1.0, block_size=12, seed=5, pick_temperature=5.0))
    orders = [[change.position for step in run_ for change in step.changes] for run_ in (steps, drawn)]
    assert orders[0] != orders[1]
    assert sorted(orders[0]) == sorted(orders[1]) == list(range(12))


def test_guidance_pushes_away_from_what_the_model_says_without_the_prompt():
    plain, guided = (run(full(), knobs(cfg_scale=scale))[1] for scale in (0.0, 3.0))
    assert plain.token_ids != guided.token_ids
    blocks = tiny_model(grid=4)
    assert len(run(blocks, knobs(cfg_scale=2.0))[1].token_ids) == 12


# --- where the references have a fault -------------------------------------------------------------------


def test_a_stop_token_in_the_prompt_ends_nothing():
    """LLaDA 2.0's early stop finds it, and returns an empty answer."""
    prompt = [9, STOP, 12, STOP, 41]
    for model in (full(), tiny_model(grid=4)):
        plain = run(model, knobs(), prompt)[1].token_ids
        stopping = replace(model, stop_ids=frozenset({STOP}))
        answer = run(stopping, knobs(), prompt)[1].token_ids
        assert len(answer) > 0
        assert answer == plain[: len(answer)]


@pytest.mark.parametrize("revision", [Revision.MONOTONE, Revision.EDIT])
def test_a_model_that_always_predicts_the_mask_still_answers(revision):
    """LLaDA 2.0 returns undecided cells then, and LLaDA 2.1 may never end."""
    net = TinyNet()
    net.bias[REAL_MASK] = 50.0
    _, done = run(tiny_model(net, grid=4, revision=revision), knobs(threshold=0.9, edit_threshold=0.0))
    assert len(done.token_ids) == 12
    assert REAL_MASK not in done.token_ids


def test_edits_that_never_settle_end_with_their_budget():
    net = TinyNet(scale=0.2)
    model = tiny_model(net, grid=4, revision=Revision.EDIT)
    model = replace(model, family=replace(model.family, edit_steps=3))
    steps, _ = run(model, knobs(threshold=0.0, edit_threshold=0.0))
    for index in range(4):
        assert sum(step.block == index and step.phase == "denoise" for step in steps) <= 4 + 3


@pytest.mark.parametrize("shift", [0, 1])
def test_a_prompt_of_exactly_one_block_is_seen(shift):
    """Fast-dLLM v2 loses it."""
    net, prompt = TinyNet(seed=2), PROMPT[:4]
    expected = reference.one_stream(
        net,
        prompt,
        size=4,
        count=12,
        policy="confidence",
        steps=6,
        threshold=0.5,
        shift=shift,
        pattern="absolute",
    )
    answer = run(tiny_model(net, grid=4, shift=shift), knobs(steps=6), prompt)[1].token_ids
    assert list(answer) == expected
