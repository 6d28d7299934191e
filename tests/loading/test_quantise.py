"""Weights in fewer bits. The library runs on processors too, which is where its use is tested."""

from typing import Any

import pytest
import torch

from dllm_tui.engine import networks, quantise
from dllm_tui.engine.api import Engine
from dllm_tui.engine.checkpoint import Directory
from dllm_tui.errors import EngineError
from dllm_tui.families import layout_for
from tests.golden.cases import DATA
from tests.loading.checkpoints import CPU


def test_int8_stays_close(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torchao")
    directory = Directory(DATA / "sdar")
    layout = layout_for(directory.config, "sdar")
    network = layout.network(directory.config)
    module: Any = networks.build(network, torch.bfloat16)
    networks.fill(module, network, layout.place, directory.tensors(), lambda _: CPU)
    ids = torch.arange(12)
    before = networks.backbone(module).forward(ids, ids)
    head = module.lm_head.weight.clone()
    small = networks.backbone(quantise.quantise(module, "int8", CPU))
    after = small.forward(ids, ids)
    assert not torch.equal(after, before)
    assert torch.nn.functional.cosine_similarity(after, before).min() > 0.99
    assert torch.equal(module.lm_head.weight, head)
    assert "Int8" in type(module.model.layers[0].mlp.down_proj.weight).__name__


def test_what_it_is_not_for(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(EngineError, match="for CUDA GPUs"):
        Engine.load(DATA / "sdar", device="cpu", dtype="int8")
    with pytest.raises(EngineError, match="smol"):
        Engine.load("smol", device="cpu", dtype="int4")
    gpu = torch.device("cuda", 0)
    with pytest.raises(EngineError, match="Glm4MoeForCausalLM"):
        quantise.check("Glm4MoeForCausalLM", gpu)

    def missing() -> None:
        raise ImportError

    monkeypatch.setattr(quantise, "_torchao", missing)
    with pytest.raises(EngineError, match="need torchao"):
        quantise.check("Qwen3ForCausalLM", gpu)
