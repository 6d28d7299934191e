"""Rules that pick positions: against naive walks, and for what must hold whatever the scores are."""

import itertools
import math

import pytest
import torch
from dllm_kernels.confidence import confidence
from hypothesis import given, settings
from hypothesis import strategies as st

from dllm_tui.engine import schedules, selection
from dllm_tui.engine.draws import Draws
from dllm_tui.engine.filters import keep_top_k, keep_top_p
from dllm_tui.engine.revision import InsertDelete
from dllm_tui.engine.scores import read as scores_of
from dllm_tui.families.family import Sampling
from dllm_tui.knobs import Knobs

# Few distinct scores, so that ties are common.
scores = st.lists(
    st.tuples(st.sampled_from([0.0, 0.05, 0.2, 0.5, 0.8, 0.95, 1.0]), st.booleans()), min_size=1, max_size=24
)


def tensors(cells: list[tuple[float, bool]]) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.tensor([score for score, _ in cells]), torch.tensor([masked for _, masked in cells])


def places(mask: torch.Tensor) -> list[int]:
    return mask.nonzero().flatten().tolist()


def walk_order(cells: list[tuple[float, bool]]) -> list[int]:
    """Candidates, best first, leftmost first among equals."""
    return sorted((i for i, (_, masked) in enumerate(cells) if masked), key=lambda i: (-cells[i][0], i))


@settings(deadline=None)
@given(scores, st.integers(0, 30), st.sampled_from([0.3, 0.5, math.inf]), st.booleans())
def test_commit_is_everything_above_the_threshold_and_the_best(cells, least, threshold, inclusive):
    score, masked = tensors(cells)
    passes = {
        i
        for i, (value, is_masked) in enumerate(cells)
        if is_masked and (value > threshold or (inclusive and value == threshold))
    }
    expected = passes | set(walk_order(cells)[:least])
    assert places(selection.commit(score, masked, threshold, least, inclusive=inclusive)) == sorted(expected)


@settings(deadline=None)
@given(scores, st.floats(0, 4))
def test_every_rule_commits_at_least_one_candidate_and_nothing_else(cells, value):
    score, masked = tensors(cells)
    for chosen in (
        selection.commit(score, masked, value),
        selection.stream(score, masked, value),
        selection.leftmost(masked, 1),
        selection.factor(score, masked, value),
        selection.entropy_bounded(score, masked, value),
        selection.entropy_bounded(score, masked, value, score=-score),
        selection.best_of_runs(score, masked, value, value),
        selection.commit(selection.penalise_distance(score, masked, value), masked, value),
    ):
        assert not (chosen & ~masked).any()
        assert chosen.any() == masked.any()


@settings(deadline=None)
@given(scores, st.floats(0, 2))
def test_factor_is_the_walk_down_the_confidences(cells, factor):
    score, masked = tensors(cells)
    order = walk_order(cells)
    taken = 0
    for place, index in enumerate(order, start=1):
        if place > 1 and cells[index][0] < torch.tensor(1 - factor / (place + 1)):
            break
        taken = place
    if taken >= len(order) - 1:
        taken = len(order)
    assert places(selection.factor(score, masked, factor)) == sorted(order[:taken])


@settings(deadline=None)
@given(scores, st.sampled_from([0.02, 0.13, 0.72, 1.33]))
def test_entropy_bounded_leaves_the_largest_out_of_the_sum(cells, bound):
    entropy, masked = tensors(cells)
    order = sorted((i for i, (_, is_masked) in enumerate(cells) if is_masked), key=lambda i: (cells[i][0], i))
    expected, total = [], 0.0
    for index in order:
        if total > bound:
            break
        expected.append(index)
        total += cells[index][0]
    assert places(selection.entropy_bounded(entropy, masked, bound)) == sorted(expected)


@settings(deadline=None)
@given(scores, st.sampled_from([0.1, 0.5, math.inf]), st.sampled_from([-math.inf, 0.1, 0.5]))
def test_best_of_runs_takes_one_of_each_run(cells, threshold, low):
    score, masked = tensors(cells)
    runs: list[list[int]] = []
    for index, (_, is_masked) in enumerate(cells):
        if is_masked and index and cells[index - 1][1]:
            runs[-1].append(index)
        elif is_masked:
            runs.append([index])
    leaders = {max(run, key=lambda i: (cells[i][0], -i)) for run in runs}
    expected = {i for i in leaders if cells[i][0] > low}
    expected |= {i for run in runs for i in run if cells[i][0] > threshold} | set(walk_order(cells)[:1])
    assert places(selection.best_of_runs(score, masked, threshold, low)) == sorted(expected)


@settings(deadline=None)
@given(scores)
def test_stream_ends_at_the_first_doubt(cells):
    score, masked = tensors(cells)
    expected = []
    for index, (value, is_masked) in enumerate(cells):
        if is_masked and value <= 0.5:
            break
        if is_masked:
            expected.append(index)
    expected = expected or places(masked)[:1]
    assert places(selection.stream(score, masked, 0.5)) == expected


@given(st.lists(st.tuples(st.integers(0, 2), st.booleans())))
def test_an_echo_is_what_the_undecided_neighbour_says(cells):
    token = torch.tensor([one for one, _ in cells], dtype=torch.int64)
    masked = torch.tensor([one for _, one in cells], dtype=torch.bool)
    expected = [at for at in range(1, len(cells)) if cells[at] == cells[at - 1] and cells[at][1]]
    assert places(selection.echoes(token, masked)) == expected


def test_hopeless_scores_still_make_progress():
    masked = torch.tensor([False, True, True])
    for hopeless in (-torch.inf, torch.nan):
        assert selection.commit(torch.full((3,), hopeless), masked).sum() == 1


def test_perturbed_order_is_a_draw_from_the_softmax():
    score = torch.tensor([0.0, 1.0, 2.0])
    uniform = torch.rand(20000, 3, generator=torch.Generator().manual_seed(0))
    first = torch.stack([selection.perturb(score, 0.5, row) for row in uniform]).argmax(-1)
    shares = torch.bincount(first, minlength=3) / len(uniform)
    torch.testing.assert_close(shares, (score / 0.5).softmax(-1), rtol=0, atol=0.015)


# --- where the references have a fault -------------------------------------------------------------------


def test_a_quota_never_reaches_into_the_prompt():
    """SDAR with fewer steps than the block overwrites the prompt when its quota exceeds the masks left."""
    confident_prompt = torch.tensor([0.99, 0.98, 0.97, 0.1])
    masked = torch.tensor([False, False, False, True])
    for quota in schedules.even(4, 2):
        assert places(selection.commit(confident_prompt, masked, least=quota)) == [3]


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_stop_tokens_that_wait_do_so_at_any_temperature(temperature):
    """LLaDA's ``confidence_eos_eot_inf`` holds the end-of-text token back at temperature 0 alone."""
    logits = torch.full((2, 8), -30.0)
    logits[0, 3] = logits[1, 5] = 30.0
    found = scores_of(
        logits, Knobs(temperature=temperature), sampling=Sampling(late=(3,)), draws=Draws(seed=0)
    )
    assert found.token.tolist() == [3, 5]
    assert found.confidence.tolist() == [0.0, pytest.approx(1.0)]


def test_a_predicted_mask_is_never_committed():
    """Where the mask is the best prediction, LLaDA 2.0 returns undecided cells and dInfer never ends."""
    mask_id = 5
    logits = torch.randn(6, 9, generator=torch.Generator().manual_seed(0))
    logits[:, mask_id] = 20
    read = confidence(logits, torch.tensor([mask_id]))
    masked = torch.ones(6, dtype=torch.bool)
    for step in range(6):
        chosen = selection.commit(read.confidence, masked, 0.9, inclusive=True)
        assert chosen.any(), step
        assert (read.token[chosen] != mask_id).all()
        masked &= ~chosen
    assert not masked.any()
    # What the model believes shows: the mask's part of the probability is not given to the others.
    assert (read.confidence < 1e-3).all()
    assert (read.margin < -0.9).all()


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 2**31), length=st.integers(1, 8), prompt=st.integers(0, 4), post=st.integers(0, 4))
def test_insert_delete_ends_and_leaves_nothing_open(seed, length, prompt, post):
    generator = torch.Generator().manual_seed(seed)
    mask_id, delete_id, split_id = 0, 1, 2
    ids = torch.cat([torch.arange(3, 3 + prompt), torch.full((length,), mask_id)])
    block = InsertDelete(
        ids, mask_id=mask_id, delete_id=delete_id, split_id=split_id, threshold=0.3, max_post_steps=post
    )
    for _ in range(block.ids.numel() + post + 2):
        before = block.ids.tolist()
        # Open loop: wild predictions, special tokens among them.
        after = block.step(torch.randn(ids.numel(), 8, generator=generator) * 4)
        assert len(after.ids) == ids.numel()
        assert after.ids[:prompt] == ids[:prompt].tolist()
        for cell, source in zip(after.ids, after.source, strict=True):
            assert source is not None or cell == mask_id
        if after.done:
            assert before == after.ids
            break
    else:
        pytest.fail("it does not end")
    assert not {mask_id, delete_id, split_id} & set(after.ids[prompt:])


# --- schedules -------------------------------------------------------------------------------------------


@settings(deadline=None)
@given(st.integers(0, 200), st.integers(1, 64))
def test_schedules_commit_every_mask(masks, steps):
    assert sum(schedules.even(masks, steps)) == masks
    assert len(schedules.even(masks, steps)) == steps
    assert sum(schedules.half_even(masks, steps)) == masks
    left = masks
    for step in range(steps):
        left -= schedules.dream(left, step, steps)
    assert left == 0
    left = masks
    for step in range(steps):
        left -= schedules.pace(left, steps - step)
    assert left == 0


@settings(deadline=None)
@given(st.floats(0, 1), st.integers(1, 64))
def test_adaptive_spends_steps_on_doubt(confidence, steps):
    count = schedules.adaptive(steps, confidence)
    assert 1 <= count <= steps
    assert count >= schedules.adaptive(steps, min(1.0, confidence + 0.1))
    assert schedules.adaptive(steps, 1.0) == 1
    assert schedules.adaptive(steps, 0.0) == steps


@given(scores, st.integers(1, 8))
def test_shared_doubt_takes_the_most_confident_up_to_its_share(cells, steps):
    confidence, masked = tensors(cells)
    taken = selection.shared_doubt(confidence, masked, steps)
    assert not (taken & ~masked).any()
    assert bool(taken.any()) == bool(masked.any())
    left = masked & ~taken
    if left.any() and taken.any():
        assert confidence[taken].min() >= confidence[left].max()
    if taken.sum() > 1:
        share = (1 - confidence)[masked].sum() / steps
        assert (1 - confidence)[taken].sum() <= share + 1e-5
    if steps == 1:
        assert torch.equal(taken, masked)


def test_shared_doubt_parts_the_sure_from_the_doubtful():
    confidence = torch.tensor([0.3, 0.98, 0.99, 0.97, 0.4])
    everywhere = torch.ones(5, dtype=torch.bool)
    assert places(selection.shared_doubt(confidence, everywhere, 4)) == [1, 2, 3]
    doubtful = torch.tensor([True, False, False, False, True])
    assert places(selection.shared_doubt(confidence, doubtful, 2)) == [4]


# --- filters ---------------------------------------------------------------------------------------------


@settings(deadline=None)
@given(st.integers(0, 2**31), st.integers(2, 200), st.floats(0.01, 0.99), st.integers(1, 20))
def test_filters_keep_the_best_and_no_more(seed, size, share, count):
    logits = torch.randn(3, size, generator=torch.Generator().manual_seed(seed)) * 3
    for row, kept in zip(logits, keep_top_k(logits, count), strict=True):
        assert set(places(kept.isfinite())) == set(row.topk(min(count, size)).indices.tolist())
    for row, kept in zip(logits, keep_top_p(logits, share), strict=True):
        chances = row.double().softmax(-1)
        held = chances[kept.isfinite()]
        assert held.sum() > share - 1e-5
        assert held.sum() - held.min() <= share + 1e-5
        assert kept.argmax() == row.argmax()


def test_analytic_chance_is_the_masked_row_of_the_staggered_score_and_the_transition():
    """SEDD's own formula, with matrices over all tokens and the mask (the last id)."""
    generator = torch.Generator().manual_seed(0)
    before, after = schedules.noise_level(0.8), schedules.noise_level(0.7)
    # Ratios near those of a good model, whose sum is 1 / (exp(noise) - 1).
    ratios = torch.rand(5, 9, generator=generator, dtype=torch.float64).softmax(-1) / math.expm1(before)
    score = torch.cat([ratios, torch.ones(5, 1, dtype=torch.float64)], -1)
    gone = before - after
    staggered = score * math.exp(gone)
    staggered[:, -1] += (1 - math.exp(gone)) * score.sum(-1)
    transition = torch.full((5, 10), -math.expm1(-gone), dtype=torch.float64)
    transition[:, -1] += math.exp(-gone)
    weights = staggered * transition
    torch.testing.assert_close(weights.sum(-1), torch.ones(5, dtype=torch.float64))
    chance = selection.analytic_chance(ratios.log().logsumexp(-1), before, after)
    torch.testing.assert_close(chance.unsqueeze(-1) * ratios.log().softmax(-1), weights[:, :-1])


def test_sedd_goes_from_all_noise_to_none():
    times = [schedules.sedd_times(step, 9, 1e-5) for step in range(9)]
    assert times[0][0] == 1.0
    assert times[-1] == (1e-5, 0.0)
    assert all(one[1] == pytest.approx(two[0]) for one, two in itertools.pairwise(times))
