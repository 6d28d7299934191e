"""LLaDA-8B, LLaDA 1.5 and iLLaDA: a Llama with full attention, its tensors in OLMo's names.

Paper: Large Language Diffusion Models, arXiv 2502.09992; repository: ML-GSAI/LLaDA.
"""

import re

from dllm_tui.families.family import MASKED, Attention, Family
from dllm_tui.families.layout import Config, Layout, Network, Place
from dllm_tui.families.stock import MOST_LAYERS
from dllm_tui.knobs import Knobs

FAMILY = Family(
    name="llada",
    title="LLaDA",
    explanation=(
        "The whole answer is on the canvas from the start, all masks, and every position sees every other. "
        "It is filled block after block; in each step the most confident predictions of the block stay. "
        "Nothing can be cached exactly, because a new token changes what all others see."
    ),
    licence="MIT (iLLaDA: Apache-2.0)",
    attention=Attention.FULL,
    defaults=Knobs(steps=32, schedule="llada", block_size=32, threshold=1.0, max_new_tokens=128),
    policies=MASKED,
    fixed_knobs={"edit_threshold": "LLaDA keeps what it has committed."},
)

NAMES = {
    "model.transformer.wte": "model.embed_tokens",
    "model.transformer.ln_f": "model.norm",
    "model.transformer.ff_out": "lm_head",
}
LAYER_NAMES = {
    "attn_norm": "input_layernorm",
    "ff_norm": "post_attention_layernorm",
    "q_proj": "self_attn.q_proj",
    "k_proj": "self_attn.k_proj",
    "v_proj": "self_attn.v_proj",
    "attn_out": "self_attn.o_proj",
    "ff_proj": "mlp.gate_proj",
    "up_proj": "mlp.up_proj",
    "ff_out": "mlp.down_proj",
}

CHAT_TEMPLATE = """\
{{- bos_token }}
{%- for message in messages %}
    {{- "<|start_header_id|>" + message["role"] + "<|end_header_id|>\\n\\n" }}
    {{- message["content"] | trim + "<|eot_id|>" }}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- "<|start_header_id|>assistant<|end_header_id|>\\n\\n" }}
{%- endif %}
"""
"""Llama 3's. The shipped one opens an answer after the assistant's own words too."""


def network(config: Config) -> Network:
    """The config map."""
    config.expect(block_type="llama", activation_type="silu", layer_norm_type="rms", rope=True)
    config.refuse("include_bias", "include_qkv_bias", "alibi", "scale_logits", "attention_layer_norm")
    config.refuse("input_emb_norm", "bias_for_layer_norm", "multi_query_attention", "clip_qkv")
    heads = config.integer("n_heads")
    shared = config.integer("n_kv_heads", default=heads)
    config.multiple("n_heads", "n_kv_heads")
    config.multiple("d_model", "n_heads")
    return Network(
        "LlamaForCausalLM",
        {
            # The table has more rows than the tokenizer has ids.
            "vocab_size": config.integer("embedding_size" if config.get("embedding_size") else "vocab_size"),
            "hidden_size": config.integer("d_model"),
            "intermediate_size": config.integer("mlp_hidden_size"),
            "num_hidden_layers": config.integer("n_layers", most=MOST_LAYERS),
            "num_attention_heads": heads,
            "num_key_value_heads": shared,
            "head_dim": config.integer("d_model") // heads,
            "max_position_embeddings": config.integer("max_sequence_length"),
            "rms_norm_eps": config.number("rms_norm_eps"),
            "rope_parameters": {"rope_type": "default", "rope_theta": config.number("rope_theta")},
            "tie_word_embeddings": bool(config.get("weight_tying", False)),
        },
    )


def place(name: str, network: Network) -> tuple[Place, ...]:
    """The tensor-name map."""
    stem, _, suffix = name.rpartition(".")
    if stem in NAMES:
        return (Place(f"{NAMES[stem]}.{suffix}"),)
    layer = re.fullmatch(r"model\.transformer\.blocks\.(\d+)\.(\w+)", stem)
    if layer and layer[2] in LAYER_NAMES:
        return (Place(f"model.layers.{layer[1]}.{LAYER_NAMES[layer[2]]}.{suffix}"),)
    return (Place(name),)


LAYOUT = Layout(
    family=FAMILY,
    architectures=("LLaDAModelLM",),
    network=network,
    place=place,
    mask_tokens=("<|mdm_mask|>", "<[MASK_TOKEN]>"),
    mask_id=126336,
    gguf="llada",
    stop_tokens=("<|eot_id|>", "<|endoftext|>"),
    chat_template=CHAT_TEMPLATE,
)
