"""Layers over several GPUs. No test machine has two: plans are checked by numbers, the rest on one device."""

from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from dllm_tui.engine import networks
from dllm_tui.engine.spread import SPARE, SpreadBackbone, layer_of, plan
from dllm_tui.families import layout_for
from dllm_tui.families.layout import Network
from tests.golden.cases import DATA
from tests.loading.checkpoints import CPU

GB = 1 << 30


def test_plan_fills_devices_evenly() -> None:
    assert plan([GB] * 8, GB, [6 * GB, 6 * GB]) == [0] * 4 + [1] * 4
    assert plan([GB] * 9, 0, [5 * GB, 5 * GB, 5 * GB]) == [0] * 3 + [1] * 3 + [2] * 3
    assert plan([GB] * 8, 0, [20 * GB, 2 * GB]) == [0] * 8 or set(plan([GB] * 8, 0, [20 * GB, 2 * GB])) == {
        0,
        1,
    }


def test_plan_says_no() -> None:
    assert plan([GB] * 8, 0, [4 * GB, 4 * GB]) is None
    assert plan([GB], 5 * GB, [4 * GB, 40 * GB]) is None


@given(
    st.lists(st.integers(1, 4), min_size=1, max_size=20),
    st.integers(0, 5),
    st.lists(st.integers(0, 30), min_size=1, max_size=4),
)
def test_a_plan_keeps_to_order_and_memory(layers: list[int], home: int, free: list[int]) -> None:
    placed = plan([size * GB for size in layers], home * GB, [size * GB for size in free])
    if placed is None:
        return
    assert placed == sorted(placed)
    for device, room in enumerate(free):
        used = sum(size for size, place in zip(layers, placed, strict=True) if place == device)
        used += home if device == 0 else 0
        assert used <= room * (1 - SPARE) + 1e-9


def test_layers_by_name() -> None:
    assert layer_of("model.layers.12.mlp.experts.gate_up_proj") == 12
    assert layer_of("model.embed_tokens.weight") is None
    assert layer_of("lm_head.weight") is None


def network_of(family: str) -> tuple[Any, Network]:
    from dllm_tui.engine.checkpoint import Directory

    directory = Directory(DATA / family)
    layout = layout_for(directory.config, family)
    network = layout.network(directory.config)
    module = networks.build(network, torch.float32)
    networks.fill(module, network, layout.place, directory.tensors(), lambda _: CPU)
    return module, network


@pytest.mark.parametrize("family", ["llada2", "rnd1", "sdar"])
def test_two_runs_of_layers_are_one_model(family: str) -> None:
    module, _ = network_of(family)
    whole = networks.backbone(module)
    parted = SpreadBackbone(module)
    assert parted.runs == [(CPU, 0, module.config.num_hidden_layers)]
    parted.runs = [(CPU, 0, 1), (CPU, 1, module.config.num_hidden_layers - 1)]
    ids, places = torch.arange(16), torch.arange(16)
    caches = [network.new_cache(16) for network in (whole, parted)]
    for span in (slice(0, 6), slice(6, 12)):
        one, other = (
            network.forward(ids[span], places[span], cache=cache, write_at=span.start)
            for network, cache in zip((whole, parted), caches, strict=True)
        )
        torch.testing.assert_close(one, other)
    for cache in caches:
        cache.truncate(9)
    one, other = (
        network.forward(ids[9:], places[9:], cache=cache, causal=True)
        for network, cache in zip((whole, parted), caches, strict=True)
    )
    torch.testing.assert_close(one, other)
    assert [cache.length for cache in caches] == [9, 9]


def test_inputs_are_carried_to_their_layer() -> None:
    module, _ = network_of("sdar")
    parted = SpreadBackbone(module)
    layer = parted.network.model.layers[1].to("meta")
    hidden, cosine = torch.ones(1, 3, 48), torch.ones(1, 3, 12)
    out = layer(hidden, position_embeddings=(cosine, cosine), attention_mask=None)
    assert out.device.type == "meta"


def test_spread_only_where_one_gpu_is_too_small(monkeypatch: pytest.MonkeyPatch) -> None:
    _, network = network_of("llada2")
    first = torch.device("cuda", 0)
    free = {"cuda:0": GB, "cuda:1": GB}
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda gpu: (free[str(gpu)], GB))
    assert networks.spread(network, torch.device("cpu"), torch.float32) is None
    assert networks.spread(network, first, torch.float32) is None
    free.update({"cuda:0": 280_000, "cuda:1": 280_000})  # the model has 355 kB
    place = networks.spread(network, first, torch.float32)
    assert place
    assert place("model.embed_tokens.weight") == place("lm_head.weight") == first
    assert place("model.layers.0.mlp.down_proj.weight") == first
    assert str(place("model.layers.2.mlp.gate.weight")) == "cuda:1"
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    assert networks.spread(network, first, torch.float32) is None
