"""Stable-DiffCoder: Seed-Coder continued as a block-diffusion model, blocks of 4.

Its config says ``model_type: llama``; the architecture tells it from an ordinary one.
Paper: Stable-DiffCoder, arXiv 2601.15892.
"""

from dllm_tui.families.family import MASKED, Attention, Family
from dllm_tui.families.layout import Config, Layout, Network
from dllm_tui.families.stock import dense
from dllm_tui.knobs import Knobs

FAMILY = Family(
    name="stable-diffcoder",
    title="Stable-DiffCoder",
    explanation=(
        "Code in blocks of four tokens, each block seeing itself and everything before; what passes the "
        "threshold is committed at once, and finished blocks are cached exactly."
    ),
    licence="MIT",
    attention=Attention.BLOCK_CAUSAL,
    grid=4,
    whole_blocks=False,
    defaults=Knobs(steps=4, block_size=4, threshold=0.95),
    policies=MASKED,
    fixed_knobs={
        "block_size": "It was trained on blocks of 4.",
        "edit_threshold": "Stable-DiffCoder keeps what it has committed.",
    },
)


def network(config: Config) -> Network:
    """The config map: tensors have Llama's own names."""
    config.refuse("attention_bias")
    return dense(config, "LlamaForCausalLM")


LAYOUT = Layout(
    family=FAMILY,
    architectures=("StableDiffcoderForCausalLM",),
    network=network,
    mask_tokens=("<[MASK_TOKEN]>",),
    mask_id=5,
)
