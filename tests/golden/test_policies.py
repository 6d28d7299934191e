"""Policies against tables that the reference implementations gave: exactly, step by step.

A case names its policy; ``CHECKS`` says which of our functions it is, and how the reference's knobs map to
ours. What ours does where a reference has a fault is tested in ``tests/engine``.
"""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from dllm_kernels.confidence import Confidence, confidence
from torch import Tensor

from dllm_tui.engine import schedules, selection
from dllm_tui.engine.filters import keep_top_k, keep_top_p
from dllm_tui.engine.revision import EditBudget, InsertDelete, edits, repel_left
from tests.golden.cases import Case


def test_policy(policy_case: Case) -> None:
    """Every ``policy`` case of every folder."""
    name = policy_case.policy
    check = CHECKS.get(name)
    assert check, f"{policy_case.id}: there is no check for policy {name!r}"
    check(policy_case)


# --- schedules -------------------------------------------------------------------------------------------


def check_even(case: Case) -> None:
    for (masks, steps), expected in zip(case.inputs["masks_steps"], case.expected["counts"], strict=True):
        assert schedules.even(masks, steps) == expected, f"{case.id}: {masks} masks in {steps} steps"


def check_keyed(
    schedule: Callable[..., list[Any]], convert: Callable[[str], float]
) -> Callable[[Case], None]:
    """Tables whose keys are the arguments, joined by commas."""

    def check(case: Case) -> None:
        for key, expected in case.expected.items():
            assert schedule(*(convert(part) for part in key.split(","))) == expected, f"{case.id}: {key}"

    return check


def temperatures(low: float, high: float, steps: float) -> list[float]:
    count = int(steps)
    return [schedules.temperature(step, count, low, high) for step in range(count)]


# --- one step --------------------------------------------------------------------------------------------

Rule = Callable[[Case, Confidence, Tensor], Tensor]
"""Case, what the logits say, masked: gives the positions to commit."""


def check_step(rule: Rule, shift: int = 0, excludes_mask: bool = True) -> Callable[[Case], None]:
    """One step on an input: the predictions, what is committed, the ids after it."""

    def check(case: Case) -> None:
        ids, mask_id = case.given("ids"), case.knobs["mask_token_id"]
        logits = shifted(case.given("logits"), shift)
        read = confidence(logits, torch.tensor([mask_id]) if excludes_mask else None)
        masked = ids == mask_id
        written = rule(case, read, masked)
        for name, ours in {
            "x0": torch.where(masked, read.token, ids),
            "transfer": written.to(torch.int64),
            "ids": torch.where(written, read.token, ids),
        }.items():
            if name in case.expected:
                assert ours.tolist() == case.result(name).tolist(), f"{case.id}: {name}"
        if "committed" in case.expected:
            assert int(written.sum()) == case.expected["committed"], case.id

    return check


def shifted(logits: Tensor, shift: int) -> Tensor:
    return torch.cat([logits[:1], logits[:-1]]) if shift else logits


def top_k(case: Case, read: Confidence, masked: Tensor) -> Tensor:
    return selection.commit(read.confidence, masked, least=case.knobs["k"])


def fast_dllm_threshold(case: Case, read: Confidence, masked: Tensor) -> Tensor:
    return selection.commit(read.confidence, masked, case.knobs["threshold"], inclusive=True)


def fast_dllm_factor(case: Case, read: Confidence, masked: Tensor) -> Tensor:
    return selection.factor(read.confidence, masked, case.knobs["factor"])


def d3llm_entropy(case: Case, read: Confidence, masked: Tensor) -> Tensor:
    return selection.commit(-read.entropy, masked, -case.knobs["entropy_threshold"], inclusive=True)


def dinfer_threshold(case: Case, read: Confidence, masked: Tensor) -> Tensor:
    """The reference leaves out positions whose best prediction is the mask: here they are no candidates."""
    masked = masked & (read.token != case.knobs["mask_token_id"])
    return selection.commit(read.confidence, masked, case.knobs["threshold"], inclusive=True)


def dinfer_hierarchy(case: Case, read: Confidence, masked: Tensor) -> Tensor:
    threshold, low = case.knobs["threshold"], case.knobs["low_threshold"]
    return selection.best_of_runs(
        read.confidence,
        masked,
        selection.NEVER if threshold is None else threshold,
        -selection.NEVER if low is None else low,
    )


def eb_sampler(case: Case, read: Confidence, masked: Tensor) -> Tensor:
    return selection.entropy_bounded(read.entropy, masked, case.knobs["gamma"], score=read.confidence)


# --- many steps over one canvas --------------------------------------------------------------------------


def check_credit(case: Case) -> None:
    knobs, ids = case.knobs, case.given("ids").clone()
    mask = torch.tensor([knobs["mask_token_id"]])
    tables = case.given("logits")
    table = torch.zeros_like(tables[0])
    for step, logits in enumerate(tables):
        masked = ids == mask
        raw = confidence(logits)
        table = selection.credit(
            table, raw.token, raw.confidence, gamma=knobs["boost_gamma"], decay=knobs["decay_beta"]
        )
        read = confidence(selection.with_credit(logits, table, knobs["credit_alpha"]), mask)
        written = selection.commit(read.confidence, masked, knobs["threshold"], inclusive=True)
        ids = torch.where(written, read.token, ids)
        same_step(case, step, "ids_per_step", ids)


def dream_score(policy: str, logits: Tensor, knobs: dict[str, Any]) -> tuple[Tensor, Tensor]:
    """Dream filters before the softmax, at temperature 0 too: the filters change the confidences."""
    logits = filtered(logits, knobs)
    read = confidence(logits, torch.tensor([knobs["mask_token_id"]]))
    score = {"maskgit_plus": read.confidence, "topk_margin": read.margin, "entropy": -read.entropy}[policy]
    return read.token, score


def filtered(logits: Tensor, knobs: dict[str, Any]) -> Tensor:
    if knobs["top_p"] is not None:
        logits = keep_top_p(logits, knobs["top_p"])
    if knobs["top_k"] is not None:
        logits = keep_top_k(logits, knobs["top_k"])
    return logits


def check_dream(case: Case) -> None:
    knobs, mask_id = case.knobs, case.knobs["mask_token_id"]
    ids = torch.tensor(case.inputs["prompt"] + [mask_id] * case.inputs["gen_length"])
    tables, steps = case.given("logits"), knobs["steps"]
    for step in range(steps):
        logits = shifted(tables[0 if knobs["same_logits_every_step"] else step], knobs["logit_shift"])
        masked = ids == mask_id
        count = schedules.dream(int(masked.sum()), step, steps, knobs["eps"])
        assert count == case.expected["committed_per_step"][step], f"{case.id}: step {step}"
        token, score = dream_score(case.policy.removeprefix("dream_"), logits, knobs)
        ids = torch.where(selection.commit(score, masked, least=count), token, ids)
        same_step(case, step, "ids_per_step", ids)


def check_low_confidence(case: Case) -> None:
    """``done`` is reported by the step that finds no mask: its forward keeps the block's keys and values."""
    knobs, ids = case.knobs, case.given("ids").clone()
    mask = torch.tensor([knobs["mask_token_id"]])
    for step, logits in enumerate(case.given("logits")):
        masked = ids == mask
        assert bool(masked.any()) != case.expected["done"][step], f"{case.id}: done in step {step}"
        read = confidence(logits, mask)
        ids = torch.where(selection.commit(read.confidence, masked, knobs["threshold"]), read.token, ids)
        same_step(case, step, "ids_per_step", ids)


def check_joint(case: Case) -> None:
    knobs, ids = case.knobs, case.given("ids").clone()
    mask = torch.tensor([knobs["mask_token_id"]])
    generated = ids == mask
    budget = EditBudget(knobs["max_post_edit_steps"])
    for step, logits in enumerate(case.given("logits")):
        masked = ids == mask
        done = not budget.allows(int(masked.sum()))
        if not done:
            repelled = repel_left(logits, ids, knobs["penalty_lambda"])
            read = confidence(repelled, mask)
            fills = selection.commit(read.confidence, masked, knobs["threshold"])
            changed = edits(read.token, read.confidence, ids, generated & ~masked, knobs["edit_threshold"])
            done = not (fills | changed).any()
            ids = torch.where(fills | changed, read.token, ids)
        assert done == case.expected["done"][step], f"{case.id}: done in step {step}"
        same_step(case, step, "ids_per_step", ids)


def check_insert_delete(case: Case) -> None:
    knobs = case.knobs
    block = InsertDelete(
        case.given("ids").clone(),
        mask_id=knobs["mask_token_id"],
        delete_id=knobs["delete_token_id"],
        split_id=knobs["split_token_id"],
        threshold=knobs["threshold"],
        edit_threshold=knobs["edit_threshold"],
        max_post_steps=knobs["max_post_edit_steps"],
    )
    for step, logits in enumerate(case.given("logits")):
        before = block.ids.tolist()
        after = block.step(logits)
        where = f"{case.id}: step {step}"
        same_step(case, step, "ids_per_step", block.ids)
        same_step(case, step, "is_orig_mask_per_step", block.original.to(torch.int64))
        assert block.post_steps == case.expected["post_edit_steps"][step], where
        assert after.done == case.expected["done"][step], where
        # A cell that has a source and kept its token is where the reflow says it is.
        assert after.ids == block.ids.tolist(), where
        assert all(
            source is not None or token == knobs["mask_token_id"]
            for token, source in zip(after.ids, after.source, strict=True)
        ), where
        assert not after.done or before == after.ids, where


# --- DiffusionGemma and WeDLM ----------------------------------------------------------------------------


def check_accept(case: Case) -> None:
    for number, row in enumerate(case.expected):
        entropy = confidence(case.stored(row["logits"])).entropy
        everywhere = torch.ones_like(entropy, dtype=torch.bool)
        accepted = selection.entropy_bounded(entropy, everywhere, row["entropy_bound"])
        assert accepted.tolist() == row["accepted_mask"], f"{case.id}: row {number}"


def check_stop(case: Case) -> None:
    for number, row in enumerate(case.expected):
        limits = row["stability_threshold"], row["confidence_threshold"]
        stop = selection.StableAndConfident(*limits)
        for call_number, call in enumerate(row["calls"]):
            if call["reset_before"]:
                stop = selection.StableAndConfident(*limits)
            entropy = confidence(case.stored(call["logits"])).entropy
            assert entropy.mean().item() == pytest.approx(call["mean_entropy"], abs=2e-6)
            stopped = stop(torch.tensor(call["argmax_canvas"]), entropy)
            assert stopped == call["stop"], f"{case.id}: row {number}, call {call_number}"


def check_wedlm(case: Case) -> None:
    for number, row in enumerate(case.expected):
        read = confidence(case.stored(row["logits"]))
        torch.testing.assert_close(read.entropy, case.stored(row["entropy"]), rtol=0, atol=2e-6)
        window = torch.tensor(row["mask_indices"])
        size = int(window[-1]) + 1
        masked = torch.zeros(size, dtype=torch.bool).index_fill(0, window, True)
        score = torch.zeros(size).index_copy(0, window, -read.entropy)
        score = selection.penalise_distance(score, masked, row["pos_penalty_factor"])
        limit = row["entropy_threshold"]
        filled = selection.commit(score, masked, selection.NEVER if limit is None else -limit)[window]
        assert filled.nonzero().flatten().tolist() == row["fill"], f"{case.id}: row {number}"
        assert read.token[filled].tolist() == row["tokens"], f"{case.id}: row {number}"


def same_step(case: Case, step: int, name: str, ours: Tensor) -> None:
    expected = case.result(name)[step].to(torch.int64)
    assert ours.tolist() == expected.tolist(), f"{case.id}: {name} differs in step {step}"


CHECKS: dict[str, Callable[[Case], None]] = {
    "llada_transfer_schedule": check_even,
    "transfer_counts": check_keyed(schedules.half_even, int),
    "keep_counts": check_keyed(schedules.rnd1_kept, int),
    "temperature_schedule": check_keyed(temperatures, float),
    "low_confidence_topk": check_step(top_k),
    "fast_dllm_threshold": check_step(fast_dllm_threshold),
    "fast_dllm_factor": check_step(fast_dllm_factor),
    "d3llm_entropy": check_step(d3llm_entropy),
    "dinfer_threshold": check_step(dinfer_threshold, excludes_mask=False),
    "dinfer_hierarchy": check_step(dinfer_hierarchy),
    "dinfer_credit": check_credit,
    "eb_sampler": check_step(eb_sampler, shift=1),
    "dream_maskgit_plus": check_dream,
    "dream_topk_margin": check_dream,
    "dream_entropy": check_dream,
    "llada2_low_confidence": check_low_confidence,
    "llada2_joint_threshold": check_joint,
    "llada2_joint_threshold_indel": check_insert_delete,
    "accept_canvas": check_accept,
    "stable_and_confident": check_stop,
    "sampler_tables": check_wedlm,
}
