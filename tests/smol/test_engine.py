"""The default model through the engine: what its makers recorded, step by step, and lossless verify."""

import json
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest
import torch

from dllm_tui.engine import Engine
from dllm_tui.engine.model import Model
from dllm_tui.events import BlockStart, Done, Step
from dllm_tui.knobs import Knobs

CHECK = json.loads(Path(__file__).with_name("check.json").read_text())["cases"]

pytestmark = pytest.mark.model


@pytest.mark.parametrize("case", CHECK, ids=lambda case: case["policy"] + " " + case["question"])
def test_decodes_as_recorded(model: Model, case: dict[str, Any]):
    """Every step of every block, and the answer.

    The record's decoder fills a block to its end whatever happens; the engine leaves it as soon as the
    answer is there: at a stop token with no mask before it, or at the length asked for. What it does until
    then must be the same.
    """
    knobs = Knobs(
        steps=64,
        block_size=case["block_size"],
        threshold=case["threshold"],
        policy=case["policy"],
        max_new_tokens=case["max_new_tokens"],
    )
    starts, ours = {}, []
    done = None
    for event in Engine(model).generate(case["prompt"], knobs):
        if isinstance(event, BlockStart):
            starts[event.block] = event.start
        elif isinstance(event, Step) and event.phase == "denoise":
            ours.append((starts[event.block], event.changes))
        elif isinstance(event, Done):
            done = event
    assert done is not None
    assert list(done.token_ids) == case["answer"]
    assert done.reason == ("stop" if case["answer"][-1] in model.stop_ids else "length")

    recorded = [step for step in case["trace"] if step["phase"] == "denoise"]
    theirs = {start: list(steps) for start, steps in groupby(recorded, key=lambda step: step["block_start"])}
    for start, steps in groupby(ours, key=lambda step: step[0]):
        for (_, changes), step in zip(steps, theirs[start], strict=False):
            wanted = sorted((start + at, token, sure) for at, token, sure in step["committed"])
            assert [(c.position, c.token_id) for c in changes] == [(at, token) for at, token, _ in wanted]
            for change, (_, _, sure) in zip(changes, wanted, strict=True):
                assert change.confidence == pytest.approx(sure, abs=2e-4)
    # Where nothing cut the last block short, the forwards are the same to the last.
    if done.reason == "length" and case["policy"] != "verify":
        assert done.nfe_by_phase == case["nfe"]
    assert done.nfe_by_phase["prefill"] == 1
    assert done.nfe_by_phase["denoise"] <= case["nfe"]["denoise"]


@pytest.mark.parametrize(("size", "steps"), [(8, 1), (5, 2)])
def test_verify_equals_greedy_decoding_of_the_base(model: Model, size: int, steps: int):
    prompt = CHECK[3]["prompt"]
    backbone = model.backbone
    cache = backbone.new_cache(256)
    ids, expected = torch.tensor(prompt), []
    for _ in range(24):
        at = len(prompt) + len(expected)
        positions = torch.arange(at - len(ids), at)
        logits = backbone.forward(
            ids, positions, cache=cache, context=at - len(ids), write_at=at - len(ids), causal=True
        )
        expected.append(int(logits[-1].argmax()))
        ids = torch.tensor(expected[-1:])
    knobs = Knobs(policy="verify", block_size=size, steps=steps, max_new_tokens=24)
    done = list(Engine(model).generate(prompt, knobs))[-1]
    assert isinstance(done, Done)
    assert list(done.token_ids) == expected
    assert done.nfe_by_phase["denoise"] <= steps * done.nfe_by_phase["commit"]
