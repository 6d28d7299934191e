"""SDAR, dense and MoE: Qwen3 adapted to block diffusion, small blocks on a grid from position 0.

Paper: SDAR, arXiv 2510.06303; repository: JetAstra/SDAR.
"""

from dataclasses import replace

from dllm_tui.families.family import MASKED, Attention, Family, Sampling
from dllm_tui.families.layout import Config, Layout, Network
from dllm_tui.families.stock import dense, qwen3_moe, stacked_experts
from dllm_tui.knobs import Knobs

FAMILY = Family(
    name="sdar",
    title="SDAR",
    explanation=(
        "Small blocks, four tokens in the first checkpoints, one after the other as an autoregressive model "
        "would write them; inside a block all tokens are predicted at once, and those above the threshold "
        "stay. Finished blocks are cached exactly."
    ),
    licence="Apache-2.0",
    attention=Attention.BLOCK_CAUSAL,
    grid=4,
    sampling=Sampling(filtered=True),
    defaults=Knobs(
        steps=4, schedule="quota", block_size=4, threshold=0.85, temperature=0.6, top_k=20, top_p=0.95
    ),
    policies=MASKED,
    fixed_knobs={
        "block_size": "Each SDAR checkpoint was trained on blocks of one size.",
        "edit_threshold": "SDAR keeps what it has committed.",
    },
)


def dense_network(config: Config) -> Network:
    """The config map of the dense ones: tensors have Qwen3's own names."""
    config.refuse("attention_bias")
    return dense(config, "Qwen3ForCausalLM")


def moe_network(config: Config) -> Network:
    """The config map of SDAR-30B-A3B."""
    config.refuse("attention_bias", "mlp_only_layers")
    return qwen3_moe(config, norm_topk_prob=bool(config.get("norm_topk_prob", False)))


LAYOUT = Layout(
    family=FAMILY,
    architectures=("SDARForCausalLM",),
    network=dense_network,
    block_field="block_size",
    block_required=False,
    block_named=r"-b(\d+)$",
    mask_tokens=("<|MASK|>",),
    mask_id=151669,
    stop_tokens=("<|im_end|>", "<|endoftext|>"),
)
MOE_LAYOUT = replace(
    LAYOUT,
    family=replace(FAMILY, name="sdar-moe", title="SDAR-MoE"),
    architectures=("SDARMoeForCausalLM",),
    network=moe_network,
    place=stacked_experts,
)
