"""The default model through the engine: what a slow reference does, step by step, and lossless verify."""

import json
from pathlib import Path

import pytest
import torch

from dllm_tui.engine import Engine
from dllm_tui.engine.model import Model
from dllm_tui.events import Done, Step
from dllm_tui.knobs import Knobs
from tests.smol.reference import Reference

CASES = json.loads(Path(__file__).with_name("answers.json").read_text())

pytestmark = pytest.mark.model


@pytest.mark.parametrize(
    ("case", "policy", "size", "threshold", "count"),
    [(0, "streaming", 8, 0.3, 16), pytest.param(1, "confidence", 5, 0.5, 10, marks=pytest.mark.slow)],
)
def test_decodes_as_the_slow_reference(
    model: Model, reference: Reference, case: int, policy: str, size: int, threshold: float, count: int
):
    """Every step of every block, and the answer."""
    prompt = CASES[case]["prompt"]
    answer, expected = reference.decode(
        prompt, size=size, count=count, threshold=threshold, leftmost=policy == "streaming"
    )
    knobs = Knobs(steps=64, block_size=size, threshold=threshold, policy=policy, max_new_tokens=count)
    ours, done = [], None
    for event in Engine(model).generate(prompt, knobs):
        if isinstance(event, Step) and event.phase == "denoise":
            ours.append(event.changes)
        elif isinstance(event, Done):
            done = event
    assert done is not None
    assert list(done.token_ids) == answer
    assert len(ours) == len(expected)
    for changes, wanted in zip(ours, expected, strict=True):
        assert [(c.position, c.token_id) for c in changes] == [(at, token) for at, token, _ in wanted]
        for change, (_, _, sure) in zip(changes, wanted, strict=True):
            assert change.confidence == pytest.approx(sure, abs=5e-4)


@pytest.mark.parametrize(("size", "steps"), [(8, 1), (5, 2)])
def test_verify_equals_greedy_decoding_of_the_base(model: Model, size: int, steps: int):
    prompt = CASES[3]["prompt"]
    backbone = model.backbone
    cache = backbone.new_cache(256)
    ids, expected = torch.tensor(prompt), []
    for _ in range(16):
        at = len(prompt) + len(expected)
        positions = torch.arange(at - len(ids), at)
        logits = backbone.forward(
            ids, positions, cache=cache, context=at - len(ids), write_at=at - len(ids), causal=True
        )
        expected.append(int(logits[-1].argmax()))
        ids = torch.tensor(expected[-1:])
    knobs = Knobs(policy="verify", block_size=size, steps=steps, max_new_tokens=16)
    done = list(Engine(model).generate(prompt, knobs))[-1]
    assert isinstance(done, Done)
    assert list(done.token_ids) == expected
    assert done.nfe_by_phase["denoise"] <= steps * done.nfe_by_phase["commit"]
