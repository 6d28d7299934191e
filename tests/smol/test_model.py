"""The default model itself: what it computes is what its makers recorded."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import LlamaConfig, LlamaForCausalLM

from dllm_tui.engine.adapter_load import assemble
from dllm_tui.engine.gguf import GGUF
from dllm_tui.engine.model import Model
from dllm_tui.errors import CheckpointError
from dllm_tui.families import smol
from dllm_tui.session import Message

CHECK = json.loads(Path(__file__).with_name("check.json").read_text())["cases"]
CPU = torch.device("cpu")

pytestmark = pytest.mark.model


@pytest.mark.parametrize("case", CHECK, ids=lambda case: case["question"])
def test_prompts_and_answers(model: Model, case: dict[str, Any]):
    words = model.tokenizer
    assert words is not None
    assert words.encode_chat([Message("user", case["question"])]) == case["prompt"]
    assert b"".join(words.piece(i) for i in case["answer"]).decode() == case["text"]
    assert model.stop_ids == {2}


def test_clean_stream_is_the_llama_of_transformers(model: Model, base: Path):
    file = GGUF(base)
    g = file.geometry()
    config = LlamaConfig(
        vocab_size=g.vocab_size,
        hidden_size=g.hidden_size,
        intermediate_size=g.intermediate_size,
        num_hidden_layers=g.layers,
        num_attention_heads=g.heads,
        num_key_value_heads=g.kv_heads,
        rms_norm_eps=g.norm_eps,
        rope_parameters={"rope_type": "default", "rope_theta": g.rope_theta},
        max_position_embeddings=g.context_length,
        tie_word_embeddings=True,
    )
    stock: Any = LlamaForCausalLM.from_pretrained(None, config=config, state_dict=dict(file.tensors()))
    ids = torch.tensor(CHECK[2]["prompt"] + CHECK[2]["answer"])
    with torch.inference_mode():
        wanted = stock(input_ids=ids[None]).logits[0]
    got = model.backbone.forward(ids, torch.arange(len(ids)), causal=True)
    torch.testing.assert_close(got, wanted, atol=2e-4, rtol=0)


def test_first_window_has_the_recorded_confidences(model: Model):
    """The noised stream, step by step, for a whole block."""
    case = CHECK[0]
    prompt, size = case["prompt"], case["block_size"]
    network = model.backbone
    cache = network.new_cache(len(prompt) + size)
    ids = torch.tensor(prompt)
    last = network.forward(
        ids, torch.arange(len(ids)), cache=cache, causal=True, write_at=0, rows=slice(-1, None)
    )
    block = [int(last.argmax())] + [network.vocab_size] * (size - 1)
    start = len(prompt)
    for step in (s for s in case["trace"] if s["phase"] == "denoise" and s["block_start"] == 0):
        window = torch.tensor([prompt[-1], *block[:-1]])
        positions = torch.arange(start - 1, start + size - 1)
        logits = network.forward(window, positions, noised=True, cache=cache, context=start - 1)
        confidence, best = logits.softmax(-1).max(-1)
        for position, token, recorded in step["committed"]:
            assert best[position] == token
            assert confidence[position] == pytest.approx(recorded, abs=2e-4)
            block[position] = token
    assert block == case["answer"][:size]


def test_what_it_says_of_itself(model: Model):
    info = model.info
    assert (info.id, info.family, info.context_length, info.parameters) == ("smol", "smol", 8192, 134_515_008)
    assert info.policies[0] == smol.FAMILY.defaults.policy
    assert info.tokenizer_sha256


def test_adapter_of_another_base_is_refused(base: Path):
    with pytest.raises(CheckpointError, match=r"is made for SmolLM2.*SHA-256"):
        assemble(base, "0" * 64, CPU, torch.float32)


@pytest.mark.parametrize("damage", ["missing", "shape", "nan", "cut", "other", "rank", "scale"])
def test_damaged_adapters_are_told(base: Path, tmp_path: Path, damage: str):
    path = tmp_path / "adapter.safetensors"
    tensors, about = load_file(smol.ADAPTER), {"format": "dllm-adapter", "base_sha256": smol.BASE.sha256}
    about |= {"rank": "32", "scale": "2.0"}
    name = "layers.7.mlp.up_proj.lora_A"
    if damage == "missing":
        del tensors[name]
    elif damage == "shape":
        tensors[name] = tensors[name][:8].clone()
    elif damage == "nan":
        tensors[name][0, 0] = float("nan")
    elif damage == "other":
        about = {}
    elif damage == "rank":
        about["rank"] = "many"
    elif damage == "scale":
        about["scale"] = "inf"
    save_file(tensors, path, about)
    if damage == "cut":
        path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(CheckpointError, match=name if damage in {"missing", "shape", "nan"} else "adapter"):
        assemble(base, smol.BASE.sha256, CPU, torch.float32, adapter=path)
