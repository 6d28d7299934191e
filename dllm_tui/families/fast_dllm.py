"""Fast-dLLM v2: Qwen2.5 adapted to block diffusion, blocks of 32 decoded in sub-blocks of 8.

Paper: Fast-dLLM v2, arXiv 2509.26328; repository: NVlabs/Fast-dLLM.
"""

from dllm_tui.families.family import MASKED, Attention, Family
from dllm_tui.families.layout import Config, Layout, Network
from dllm_tui.families.stock import dense
from dllm_tui.knobs import Knobs

FAMILY = Family(
    name="fast-dllm-v2",
    title="Fast-dLLM v2",
    explanation=(
        "Blocks of 32 that see themselves and everything before; within a block, sub-blocks of 8 are filled "
        "from left to right. Each token is predicted at the position before it, so that a finished block "
        "yields the first token of the next one for nothing."
    ),
    licence="Apache-2.0",
    attention=Attention.BLOCK_CAUSAL,
    shift=1,
    grid=32,
    defaults=Knobs(steps=8, block_size=8, threshold=0.9, top_p=0.95),
    policies=MASKED,
    fixed_knobs={"edit_threshold": "Fast-dLLM v2 keeps what it has committed."},
)


def network(config: Config) -> Network:
    """The config map: tensors have Qwen2's own names."""
    return dense(config, "Qwen2ForCausalLM")


LAYOUT = Layout(
    family=FAMILY,
    architectures=("Fast_dLLM_QwenForCausalLM",),
    network=network,
    block_field="bd_size",
    mask_tokens=("|<MASK>|",),
    mask_id=151665,
    stop_tokens=("<|im_end|>",),
)
