"""LLaDA-MoE: LLaDA's decoding over a mixture of experts.

Its config says ``model_type: llada`` like the dense one; only the architecture tells them apart.
Paper: LLaDA-MoE, arXiv 2509.24389.
"""

from dataclasses import replace

from dllm_tui.families import llada
from dllm_tui.families.layout import Config, Layout, Network
from dllm_tui.families.stock import MOST_LAYERS, qwen3_moe, stacked_experts

FAMILY = replace(
    llada.FAMILY,
    name="llada-moe",
    title="LLaDA-MoE",
    explanation=(
        "Decodes like LLaDA: the whole answer is on the canvas, every position sees every other, and the "
        "most confident predictions of a block stay. Each token passes through 8 of 64 expert networks, so "
        "a step costs as much as in a model a seventh of the size."
    ),
    licence="Apache-2.0",
    fixed_knobs={"edit_threshold": "LLaDA-MoE keeps what it has committed."},
)


def network(config: Config) -> Network:
    """The config map."""
    config.expect(moe_router_score_function="softmax", qk_layernorm=True)
    config.refuse("moe_router_enable_expert_bias", "shared_expert_intermediate_size", "clip_qkv")
    config.refuse("router_num_group", "attention_bias")
    if config.get("partial_rotary_factor", 1) != 1 or config.get("routed_scaling_factor", 1) != 1:
        config.expect(partial_rotary_factor=1, routed_scaling_factor=1)
    if "moe_layer_freq" in config.fields:
        config.expect(moe_layer_freq=[1] * config.integer("num_hidden_layers", most=MOST_LAYERS))
    return qwen3_moe(
        config,
        intermediate_size=config.integer("dense_intermediate_size"),
        moe_intermediate_size=config.integer("expert_intermediate_size"),
        # Whatever the config says, the reference leaves the weights of the chosen experts as they are.
        norm_topk_prob=False,
    )


LAYOUT = Layout(
    family=FAMILY,
    architectures=("LLaDAMoEModelLM", "LLaDAMoEModel"),
    network=network,
    place=stacked_experts,
    mask_tokens=("<|mask|>",),
    mask_id=156895,
    gguf="llada-moe",
    stop_tokens=("<|role_end|>", "<|endoftext|>"),
)
