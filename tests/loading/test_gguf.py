"""GGUF files of diffusion families, as llama.cpp lays them out, against the golden logits."""

import json
import string
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
import torch
from gguf.quants import dequantize, quantize
from safetensors.torch import load_file
from torch import Tensor

from dllm_tui.errors import CheckpointError
from dllm_tui.families import LAYOUTS
from dllm_tui.families.layout import Config, Layout, Network
from tests.golden.cases import DATA, Case, read_cases
from tests.loading.checkpoints import load

FAMILIES = {"llada": "llada", "dream": "dream", "llada_moe": "llada-moe", "rnd1": "rnd1"}
PARTS = {
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "self_attn.q_norm": "attn_q_norm",
    "self_attn.k_norm": "attn_k_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
    "mlp.gate": "ffn_gate_inp",
}
WHOLE = {"model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output"}


def llama_cpp_tensors(family: str, layout: Layout, options: dict[str, Any]) -> dict[str, Tensor]:
    """The golden weights under llama.cpp's names, in its layout."""
    network = Network("", options)
    files = load_file(DATA / family / "model.safetensors")
    tensors: dict[str, Tensor] = {}
    stacked: dict[str, dict[int, Tensor]] = {}
    for name, tensor in files.items():
        if ".experts." in name:
            layer, expert, part = (
                name.split(".")[2],
                int(name.split(".")[5]),
                name.split(".")[6].split("_")[0],
            )
            stacked.setdefault(f"blk.{layer}.ffn_{part}_exps.weight", {})[expert] = tensor
            continue
        (place,) = layout.place(name, network)
        stem, _, suffix = place.target.rpartition(".")
        if stem in WHOLE:
            tensors[f"{WHOLE[stem]}.{suffix}"] = tensor
            continue
        _, _, layer, rest = stem.split(".", 3)
        if family == "llada" and rest in {"self_attn.q_proj", "self_attn.k_proj"}:
            rows = permuted(tensor, options["num_attention_heads"])
        else:
            rows = tensor
        tensors[f"blk.{layer}.{PARTS[rest]}.{suffix}"] = rows
    return tensors | {
        name: torch.stack([part[i] for i in range(len(part))]) for name, part in stacked.items()
    }


def permuted(rows: Tensor, heads: int) -> Tensor:
    """As llama.cpp orders rows of q and k: the halves of a head interleaved."""
    return rows.view(heads, 2, -1, rows.shape[-1]).transpose(1, 2).reshape(rows.shape)


def write(
    to: Path,
    family: str,
    kind: gguf.GGMLQuantizationType | None = None,
    claimed: Mapping[str, int] | None = None,
    scaling: gguf.RopeScalingType | None = None,
) -> Path:
    """A golden checkpoint as a GGUF file; ``claimed`` sizes stand in its header instead of its own."""
    arch = FAMILIES[family]
    layout = next(layout for layout in LAYOUTS if layout.gguf == arch)
    config = Config(json.loads((DATA / family / "config.json").read_text()))
    own = layout.network(config).options
    o = {**own, **(claimed or {})}
    writer = gguf.GGUFWriter(to, arch)
    writer.add_context_length(o["max_position_embeddings"])
    writer.add_embedding_length(o["hidden_size"])
    writer.add_block_count(o["num_hidden_layers"])
    writer.add_feed_forward_length(o["intermediate_size"])
    writer.add_head_count(o["num_attention_heads"])
    writer.add_head_count_kv(o["num_key_value_heads"])
    if "head_dim" in o:
        writer.add_key_length(o["head_dim"])
    writer.add_layer_norm_rms_eps(o["rms_norm_eps"])
    writer.add_rope_freq_base(o["rope_parameters"]["rope_theta"])
    if scaling:
        writer.add_rope_scaling_type(scaling)
    writer.add_causal_attention(False)
    if "num_experts" in o:
        writer.add_expert_count(o["num_experts"])
        writer.add_expert_used_count(o["num_experts_per_tok"])
        writer.add_expert_feed_forward_length(o["moe_intermediate_size"])
    add_tokenizer(writer, own["vocab_size"], config.fields)
    for name, tensor in llama_cpp_tensors(family, layout, dict(own)).items():
        values = tensor.numpy()
        if kind is not None and values.ndim > 1 and values.shape[-1] % 32 == 0:
            writer.add_tensor(name, quantize(values, kind), raw_dtype=kind)
        else:
            writer.add_tensor(name, values)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return to


def add_tokenizer(writer: gguf.GGUFWriter, size: int, config: dict[str, Any]) -> None:
    tokens = [*string.ascii_letters, *"!?.,:<>[]|/_-Ġ", "ab"]
    tokens += [f"<|{i}|>" for i in range(len(tokens), size)]
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("default")
    writer.add_token_list(tokens)
    writer.add_token_types([3 if token.startswith("<|") else 1 for token in tokens])
    writer.add_token_merges(["a b"])
    writer.add_eos_token_id(config["eos_token_id"])
    writer.add_pad_token_id(config["pad_token_id"])
    writer.add_mask_token_id(config.get("mask_token_id", 95))


@pytest.mark.parametrize("family", FAMILIES)
def test_logits(tmp_path: Path, family: str) -> None:
    model = load(write(tmp_path / f"{family}.gguf", family))
    golden = load(DATA / family)
    assert model.family == golden.family
    assert (model.stop_ids, model.pad_id, model.mask_id) == (golden.stop_ids, golden.pad_id, model.mask_id)
    assert model.info.parameters == golden.info.parameters
    for case in cases(family):
        ids = torch.tensor(case.prompt)
        logits = model.backbone.forward(ids, torch.arange(len(ids)))
        torch.testing.assert_close(logits, case.stored(case.expected), atol=2e-4, rtol=0, msg=case.id)


def cases(family: str) -> list[Case]:
    return [case for case in read_cases(DATA, "logits") if case.family == family]


def test_quantised_experts(tmp_path: Path) -> None:
    """Q8_0 where rows fit; what is loaded is what the format says."""
    file = write(tmp_path / "rnd1.gguf", "rnd1", gguf.GGMLQuantizationType.Q8_0)
    network: Any = load(file).backbone
    stored = load_file(DATA / "rnd1" / "model.safetensors")[
        "model.layers.1.mlp.experts.3.gate_proj.weight"
    ].numpy()
    kind = gguf.GGMLQuantizationType.Q8_0
    expected = dequantize(quantize(np.ascontiguousarray(stored), kind), kind)
    loaded = network.network.model.layers[1].mlp.experts.gate_up_proj[3, :20]
    torch.testing.assert_close(loaded, torch.from_numpy(expected))


def test_lean_where_it_knows_the_network(tmp_path: Path) -> None:
    assert type(load(write(tmp_path / "dream.gguf", "dream")).backbone).__name__ == "LeanBackbone"
    assert type(load(write(tmp_path / "rnd1.gguf", "rnd1")).backbone).__name__ == "StockBackbone"


@pytest.mark.parametrize(
    ("arch", "said"), [("llama", "not a diffusion model"), ("qwen3", "not a diffusion model")]
)
def test_other_architectures(tmp_path: Path, arch: str, said: str) -> None:
    writer = gguf.GGUFWriter(tmp_path / "other.gguf", arch)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.close()
    with pytest.raises(CheckpointError, match=said) as failure:
        load(tmp_path / "other.gguf")
    assert "llada-moe" in failure.value.hint


def test_size_missing(tmp_path: Path) -> None:
    file = tmp_path / "broken.gguf"
    writer = gguf.GGUFWriter(file, "rnd1")
    writer.add_expert_count(4)
    add_tokenizer(writer, 96, {"eos_token_id": 90, "pad_token_id": 90})
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.close()
    with pytest.raises(CheckpointError, match=r"broken\.gguf: .*num_experts_per_tok|vocab_size|hidden_size"):
        load(file)


@pytest.mark.parametrize("family", ["dream", "rnd1"])
def test_scaled_rotary_embedding(tmp_path: Path, family: str) -> None:
    file = write(tmp_path / f"{family}.gguf", family, scaling=gguf.RopeScalingType.YARN)
    with pytest.raises(CheckpointError, match="scales its rotary embedding"):
        load(file)


def test_missing_file(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"nowhere\.gguf can't be read"):
        load(tmp_path / "nowhere.gguf")
