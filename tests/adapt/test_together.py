"""Many decoders on one network say what each would say alone."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import pytest
import torch

from dllm_tui.adapt.network import Network
from dllm_tui.adapt.validation import settings, table
from dllm_tui.engine import Engine
from dllm_tui.engine.model import Model
from dllm_tui.engine.together import Together
from dllm_tui.errors import EngineError
from dllm_tui.events import Done, ModelInfo
from dllm_tui.families import smol
from dllm_tui.knobs import Knobs
from tests.adapt.tiny import CPU, KINDS, backbone, geometry, stirred, weights

torch.set_num_threads(1)


def made(kind: str = "llama") -> Model:
    g = geometry(kind, hidden_size=64, head_dim=16)
    tensors = weights(g)
    network = backbone(g, tensors, stirred(Network(g, tensors, CPU, torch.float32)))
    info = ModelInfo(id="tiny", family="smol", context_length=g.context_length)
    return Model(
        family=smol.FAMILY, backbone=network, mask_id=g.vocab_size, stop_ids=frozenset({0}), info=info
    )


def shared(model: Model) -> tuple[Together, Engine]:
    together = Together(model.backbone)  # type: ignore[arg-type]
    return together, Engine(replace(model, backbone=together))


def answer(engine: Engine, prompt: list[int], knobs: Knobs) -> Done:
    *_, done = engine.generate(prompt, knobs)
    assert isinstance(done, Done)
    return done


@pytest.mark.parametrize("kind", KINDS)
def test_decoders_together_decode_as_each_alone(kind: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("dllm_tui.engine.together.ROWS", 40)  # several forwards for the prompts
    model = made(kind)
    plain = Knobs(temperature=0.0, steps=64, seed=0, max_new_tokens=20)
    works = [
        ([1 + (7 * n + i) % 39 for i in range(5 + 9 * n)], plain.replace(**more))
        for n, more in enumerate(
            (
                {"policy": "streaming", "block_size": 8, "threshold": 0.1},
                {"policy": "verify", "block_size": 4, "steps": 1},
                {"policy": "confidence", "block_size": 16, "steps": 3, "max_new_tokens": 9},
                {"policy": "streaming", "block_size": 5, "threshold": 0.9, "temperature": 0.8},
            )
        )
    ]
    together, engine = shared(model)
    found = together.run([partial(answer, engine, *work) for work in works])
    for done, (prompt, knobs) in zip(found, works, strict=True):
        alone = answer(Engine(model), prompt, knobs)
        assert (done.token_ids, done.nfe_by_phase) == (alone.token_ids, alone.nfe_by_phase)
        ids = [*prompt, *done.token_ids]
        (said,) = together.run([partial(engine.logits, ids)])
        torch.testing.assert_close(said, Engine(model).logits(ids), atol=2e-5, rtol=1e-4)


def test_what_one_work_raises_is_raised_and_the_others_end():
    together, engine = shared(made())

    def wrong() -> Done:
        engine.logits([3])
        raise ValueError("wrong")

    right: Callable[[], Done] = partial(answer, engine, [1, 2, 3], Knobs(max_new_tokens=12))
    with pytest.raises(ValueError, match="wrong"):
        together.run([right, wrong, right])


def test_a_forward_that_fails_ends_them_all(monkeypatch: pytest.MonkeyPatch):
    model = made()
    together, engine = shared(model)
    monkeypatch.setattr(
        model.backbone, "forward_together", lambda requests: (_ for _ in ()).throw(KeyboardInterrupt)
    )
    with pytest.raises(KeyboardInterrupt):
        together.run([partial(answer, engine, [1, 2], Knobs())] * 3)


def test_a_table_of_what_was_decoded(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("dllm_tui.adapt.validation.AT_ONCE", 2)
    model = made()
    prompts = [[1, 2, 3], [4, 5], [6, 7, 8, 9]]
    told: list[float] = []
    rows = list(
        table(model, prompts, settings((4,), (0.5,)), tokens=12, told=lambda _, done: told.append(done))
    )
    assert [row.name for row in rows] == ["streaming, block 4, threshold 0.5", "verify, block 4"]
    assert told == sorted(told)
    knobs = [knobs.replace(max_new_tokens=12) for knobs in settings((4,), (0.5,)).values()]
    for row, now in zip(rows, knobs, strict=True):
        answers = [answer(Engine(model), prompt, now) for prompt in prompts]
        denoised = sum(done.nfe_by_phase["denoise"] for done in answers)
        assert row.answers == 3
        assert row.tokens == sum(done.tokens for done in answers)
        assert row.denoising == pytest.approx(row.tokens / denoised)
    # What verify keeps, the base would have said, and greedily.
    assert rows[1].greedy == 1.0
    assert rows[1].likelihood >= rows[0].likelihood
    other = replace(model, family=replace(model.family, two_streams=False))
    with pytest.raises(EngineError, match="no adapted model"):
        next(table(other, prompts, settings((4,), (0.5,))))
