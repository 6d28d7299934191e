from pathlib import Path

import gguf
import numpy as np
import pytest
import torch

from dllm_tui import store
from dllm_tui.engine.adapter_load import assemble
from dllm_tui.engine.model import Model
from dllm_tui.families import smol
from tests.smol.reference import Reference

torch.set_num_threads(1)  # threads that wait for each other cost more than they bring on a busy machine


@pytest.fixture(scope="session")
def base() -> Path:
    """The default model's weights, fetched once and kept where the program keeps them."""
    return store.fetch(smol.BASE)


@pytest.fixture(scope="session")
def model(base: Path) -> Model:
    return assemble(base, smol.BASE.sha256, torch.device("cpu"), torch.float32)


@pytest.fixture(scope="session")
def reference(base: Path) -> Reference:
    return Reference(base)


TOKENS = ["<|end|>", "<|start|>", "a", "b", "c", "ab", "Ġ", "Ċ", "abc", "<think>"]
MERGES = ["a b", "ab c"]
TEMPLATE = (
    "{% for m in messages %}<|start|>{{ m.content | trim }}<|end|>{% endfor %}"
    "{% if add_generation_prompt %}<|start|>{% endif %}"
)

HIDDEN, LAYERS, HEADS, KV_HEADS, WIDTH, INNER = 64, 2, 4, 2, 16, 96


def permuted(rows: np.ndarray, heads: int) -> np.ndarray:
    """Rows of q or k in the order that llama.cpp's converter writes for the Llama type."""
    half = rows.shape[0] // heads // 2
    return rows.reshape(heads, 2, half, -1).swapaxes(1, 2).reshape(rows.shape)


@pytest.fixture
def weights() -> dict[str, torch.Tensor]:
    """A tiny Llama by its Hugging Face names."""
    torch.manual_seed(0)
    shapes = {"model.embed_tokens.weight": (len(TOKENS), HIDDEN), "model.norm.weight": (HIDDEN,)}
    for layer in range(LAYERS):
        at = f"model.layers.{layer}"
        shapes |= {
            f"{at}.input_layernorm.weight": (HIDDEN,),
            f"{at}.post_attention_layernorm.weight": (HIDDEN,),
            f"{at}.self_attn.q_proj.weight": (HEADS * WIDTH, HIDDEN),
            f"{at}.self_attn.k_proj.weight": (KV_HEADS * WIDTH, HIDDEN),
            f"{at}.self_attn.v_proj.weight": (KV_HEADS * WIDTH, HIDDEN),
            f"{at}.self_attn.o_proj.weight": (HIDDEN, HEADS * WIDTH),
            f"{at}.mlp.gate_proj.weight": (INNER, HIDDEN),
            f"{at}.mlp.up_proj.weight": (INNER, HIDDEN),
            f"{at}.mlp.down_proj.weight": (HIDDEN, INNER),
        }
    return {name: torch.randn(shape) * 0.2 + (len(shape) == 1) for name, shape in shapes.items()}


GGUF_NAMES = {
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm",
}


@pytest.fixture
def tiny_gguf(tmp_path: Path, weights: dict[str, torch.Tensor]) -> Path:
    """The tiny Llama as a GGUF file with its tokenizer; linear layers in Q8_0."""
    path = tmp_path / "tiny.gguf"
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_block_count(LAYERS)
    writer.add_context_length(128)
    writer.add_embedding_length(HIDDEN)
    writer.add_feed_forward_length(INNER)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(KV_HEADS)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_freq_base(10_000.0)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("smollm")
    writer.add_token_list(TOKENS)
    writer.add_token_types([3, 3, 1, 1, 1, 1, 1, 1, 1, 4])
    writer.add_token_merges(MERGES)
    writer.add_eos_token_id(0)
    writer.add_chat_template(TEMPLATE)
    for name, tensor in weights.items():
        rows = tensor.numpy()
        if "q_proj" in name or "k_proj" in name:
            rows = permuted(rows, HEADS if "q_proj" in name else KV_HEADS)
        stem = name.removesuffix(".weight")
        if stem.startswith("model.layers."):
            _, _, layer, rest = stem.split(".", 3)
            written = f"blk.{layer}.{GGUF_NAMES[rest]}"
        else:
            written = {"model.embed_tokens": "token_embd", "model.norm": "output_norm"}[stem]
        kind = gguf.GGMLQuantizationType.Q8_0 if rows.ndim == 2 else gguf.GGMLQuantizationType.F32
        writer.add_tensor(f"{written}.weight", gguf.quantize(rows, kind), raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path
