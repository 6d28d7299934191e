"""The lean backbone is the transformers network, whatever the cache and the mask."""

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import (
    LlamaConfig,
    LlamaForCausalLM,
    Qwen2Config,
    Qwen2ForCausalLM,
    Qwen3Config,
    Qwen3ForCausalLM,
)

from dllm_tui.engine import linear
from dllm_tui.engine.geometry import Geometry
from dllm_tui.engine.lean import Adaptation, LeanBackbone
from dllm_tui.errors import CheckpointError

CPU = torch.device("cpu")
SIZES: dict[str, Any] = {
    "vocab_size": 97,
    "hidden_size": 48,
    "intermediate_size": 80,
    "num_hidden_layers": 3,
    "num_attention_heads": 6,
    "num_key_value_heads": 2,
    "max_position_embeddings": 256,
    "tie_word_embeddings": False,
}


def network(kind: str, **options: Any) -> Any:
    torch.manual_seed(1)
    sizes = {**SIZES, **options}
    if kind == "llama":
        made: Any = LlamaForCausalLM(LlamaConfig(**sizes))
    elif kind == "qwen2":
        made = Qwen2ForCausalLM(Qwen2Config(**sizes))
    else:
        made = Qwen3ForCausalLM(Qwen3Config(**sizes, head_dim=16))
    for parameter in made.parameters():  # biases and norms that differ from their neutral start
        torch.nn.init.normal_(parameter, mean=0.5 if parameter.ndim == 1 else 0.0, std=0.2)
    return made.eval()


def lean(made: Any, adaptation: Adaptation | None = None) -> LeanBackbone:
    config = made.config
    rope: Any = config.rope_parameters
    names = made.state_dict()
    geometry = Geometry(
        vocab_size=config.vocab_size,
        hidden_size=config.hidden_size,
        layers=config.num_hidden_layers,
        heads=config.num_attention_heads,
        kv_heads=config.num_key_value_heads,
        head_dim=getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads,
        intermediate_size=config.intermediate_size,
        norm_eps=config.rms_norm_eps,
        rope_theta=rope["rope_theta"],
        context_length=config.max_position_embeddings,
        tied_head=config.tie_word_embeddings,
        qkv_bias="model.layers.0.self_attn.q_proj.bias" in names,
        qk_norm="model.layers.0.self_attn.q_norm.weight" in names,
    )
    tensors = [(n, t) for n, t in names.items() if not (config.tie_word_embeddings and n == "lm_head.weight")]
    return LeanBackbone(geometry, tensors, device=CPU, dtype=torch.float32, adaptation=adaptation)


def reference(made: Any, ids: torch.Tensor, positions: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    with torch.inference_mode():
        return made(
            input_ids=ids[None], position_ids=positions[None], attention_mask=mask[None, None]
        ).logits[0]


@pytest.mark.parametrize("kind", ["llama", "qwen2", "qwen3"])
@pytest.mark.parametrize("tied", [False, True])
def test_causal_forward_is_the_transformers_network(kind: str, tied: bool):
    made = network(kind, tie_word_embeddings=tied)
    ids = torch.randint(0, 97, (23,))
    with torch.inference_mode():
        wanted = made(input_ids=ids[None]).logits[0]
    got = lean(made).forward(ids, torch.arange(23), causal=True)
    torch.testing.assert_close(got, wanted, atol=2e-4, rtol=0)


@pytest.mark.parametrize("kind", ["llama", "qwen2", "qwen3"])
def test_any_mask_and_any_positions(kind: str):
    made = network(kind)
    ids, positions = torch.randint(0, 97, (17,)), torch.randperm(40)[:17]
    mask = (torch.rand(17, 17) < 0.5) | torch.eye(17, dtype=torch.bool)
    wanted = reference(made, ids, positions, mask)
    got = lean(made).forward(ids, positions, mask=mask)
    torch.testing.assert_close(got, wanted, atol=2e-4, rtol=0)


@settings(max_examples=15, deadline=None)
@given(
    sizes=st.lists(st.integers(1, 6), min_size=2, max_size=4),
    capacity=st.integers(1, 40),
    peek=st.integers(0, 6),
)
def test_cached_forwards_equal_one_long_one(sizes: list[int], capacity: int, peek: int):
    """Chunk by chunk with the cache, with windows in between that leave no trace, at any capacity."""
    backbone = BACKBONES["llama"]
    ids = torch.arange(sum(sizes)) * 7 % 97
    whole = backbone.forward(ids, torch.arange(len(ids)), causal=True)
    cache = backbone.new_cache(capacity)
    at = 0
    for size in sizes:
        now = slice(at, at + size)
        got = backbone.forward(ids[now], torch.arange(at, at + size), cache=cache, causal=True, write_at=at)
        torch.testing.assert_close(got, whole[now], atol=2e-4, rtol=0)
        at += size
        assert cache.length == at
        seen = max(0, at - peek)
        backbone.forward(torch.arange(5), torch.arange(seen, seen + 5), cache=cache, context=seen)
        assert cache.length == at


BACKBONES = {"llama": lean(network("llama"))}


def test_a_window_sees_its_context_and_all_of_itself():
    made, count, context = network("llama"), 6, 11
    backbone = lean(made)
    ids = torch.randint(0, 97, (20,))
    cache = backbone.new_cache(32)
    backbone.forward(ids[:14], torch.arange(14), cache=cache, causal=True, write_at=0)
    window = torch.randint(0, 97, (count,))
    got = backbone.forward(
        window, torch.arange(context, context + count), cache=cache, context=context, rows=slice(2, 5)
    )
    mask = torch.ones(context + count, context + count).tril().bool()
    mask[context:, context:] = True
    joined = torch.cat([ids[:context], window])
    wanted = reference(made, joined, torch.arange(context + count), mask)[context:][2:5]
    torch.testing.assert_close(got, wanted, atol=2e-4, rtol=0)
    # The borrowed slots hold again what was there.
    after = backbone.forward(ids[14:], torch.arange(14, 20), cache=cache, causal=True, write_at=14)
    whole = backbone.forward(ids, torch.arange(20), causal=True)
    torch.testing.assert_close(after, whole[14:], atol=2e-4, rtol=0)


def test_slots_that_are_written_elsewhere_than_behind_the_context():
    """The dual cache replaces slots in the middle: the old ones are seen, the new ones stay."""
    backbone = BACKBONES["llama"]
    ids = torch.arange(12)
    cache = backbone.new_cache(12)
    backbone.forward(ids, torch.arange(12), cache=cache, write_at=0)
    other = torch.tensor([90, 91, 92])
    mask = torch.ones(3, 15, dtype=torch.bool)
    mask[:, 4:7] = False  # the old ones, hidden
    first = backbone.forward(other, torch.arange(4, 7), cache=cache, mask=mask, write_at=4)
    assert cache.length == 12
    again = backbone.forward(other, torch.arange(4, 7), cache=cache, mask=mask)
    torch.testing.assert_close(first, again)
    # A query of the very same values in the replaced slots: seen through the cache now.
    alone = backbone.forward(torch.tensor([5]), torch.tensor([12]), cache=cache)
    joined = backbone.new_cache(12)
    backbone.forward(ids, torch.arange(12), cache=joined, write_at=0)
    assert not torch.allclose(alone, backbone.forward(torch.tensor([5]), torch.tensor([12]), cache=joined))


def test_two_streams():
    """Masks are read by adapted weights and see everything; known tokens as ever, and see nothing behind."""
    made = network("llama", tie_word_embeddings=True)
    torch.manual_seed(5)
    mask_embedding = torch.randn(48)
    factors = {
        name: (torch.randn(weight.shape[1], 3) * 0.3, torch.randn(3, weight.shape[0]) * 0.3)
        for name, weight in made.named_parameters()
        if name.endswith("_proj.weight")
    }
    both = lean(made, Adaptation(factors, mask_embedding))
    assert both.vocab_size == 97
    ids, places = torch.randint(0, 97, (9,)), torch.arange(9)
    causal = torch.ones(9, 9, dtype=torch.bool).tril()
    torch.testing.assert_close(
        both.forward(ids, places, causal=True), reference(made, ids, places, causal), atol=2e-4, rtol=0
    )
    masked = torch.zeros(9, 1, dtype=torch.bool)
    masked[[3, 6, 7]] = True
    for name, (down, up) in factors.items():
        made.get_submodule(name.removesuffix(".weight")).register_forward_hook(
            lambda _, inputs, output, down=down, up=up: output + masked * (inputs[0] @ down @ up)
        )
    embedded = made.get_input_embeddings()(ids).detach()
    embedded[masked[:, 0]] = mask_embedding
    ids[masked[:, 0]] = 97  # the virtual mask id
    with torch.inference_mode():
        wanted = made(inputs_embeds=embedded[None], attention_mask=(causal | masked)[None, None]).logits[0]
    torch.testing.assert_close(both.forward(ids, places, noised=True), wanted, atol=2e-4, rtol=0)
    some = both.forward(ids, places, noised=True, rows=torch.tensor([2, 6]))
    torch.testing.assert_close(some, wanted[[2, 6]], atol=2e-4, rtol=0)


def test_bfloat16_stays_close():
    made = network("llama")
    names = list(made.state_dict().items())
    full = lean(made)
    half = LeanBackbone(full.geometry, names, device=CPU, dtype=torch.bfloat16)
    ids = torch.randint(0, 97, (12,))
    got, wanted = (b.forward(ids, torch.arange(12), causal=True) for b in (half, full))
    assert got.dtype == torch.float32
    assert torch.nn.functional.cosine_similarity(got, wanted).min() > 0.99


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda t: t.pop("model.norm.weight"), r"model\.norm\.weight' is missing"),
        (lambda t: t.update({"model.extra": torch.ones(1)}), "isn't known"),
        (lambda t: t.update({"lm_head.weight": torch.ones(3, 3)}), r"\(3, 3\); \(97, 48\) was expected"),
    ],
)
def test_wrong_tensors_are_named(change: Any, message: str):
    made = network("llama")
    tensors = dict(made.state_dict())
    geometry = lean(made).geometry
    change(tensors)
    with pytest.raises(CheckpointError, match=message):
        LeanBackbone(geometry, tensors.items(), device=CPU, dtype=torch.float32)


@pytest.mark.parametrize("rows", [1, 8, 40])
@pytest.mark.parametrize("with_bias", [False, True])
def test_packed_linear_equals_the_plain_one(rows: int, with_bias: bool):
    weight, x = torch.randn(96, 64), torch.randn(rows, 64)
    bias = torch.randn(96) if with_bias else None
    packed = linear.Linear(weight, bias)
    plain = linear.Linear(weight, bias, prepack=False)
    assert packed.packed == linear.can_prepack(CPU, torch.float32)
    assert not plain.packed
    torch.testing.assert_close(packed(x), plain(x), atol=1e-4, rtol=1e-5)
