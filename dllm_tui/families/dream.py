"""Dream, Dream-Coder and DiffuCoder: a Qwen2 with full attention, its logits read one position early.

Paper: Dream 7B, arXiv 2508.15487; DiffuCoder, arXiv 2506.20639; repository: DreamLM/Dream.
"""

from dataclasses import replace

from dllm_tui.families.family import MASKED, Attention, Family, Sampling
from dllm_tui.families.layout import Config, Layout, Network
from dllm_tui.families.stock import dense
from dllm_tui.knobs import Knobs

FAMILY = Family(
    name="dream",
    title="Dream",
    explanation=(
        "An autoregressive model (Qwen2.5) that learned to fill masks anywhere: the whole answer is one "
        "canvas, every position sees every other, and each token is predicted at the position before it. "
        "Each step commits the surest predictions wherever they are."
    ),
    licence="Apache-2.0",
    attention=Attention.FULL,
    shift=1,
    sampling=Sampling(order=("temperature", "top_p", "top_k"), filtered=True),
    defaults=Knobs(
        steps=512,
        block_size=4096,
        threshold=1.0,
        policy="entropy",
        schedule="dream",
        entropy_bound=0.0,
        temperature=0.2,
        top_p=0.95,
        max_new_tokens=512,
    ),
    policies=("entropy", *(name for name in MASKED if name != "entropy"), "origin"),
    fixed_knobs={
        "block_size": "Dream denoises the whole canvas at once.",
        "edit_threshold": "Dream keeps what it has committed.",
    },
)

DIFFUCODER = replace(
    FAMILY,
    name="diffucoder",
    title="DiffuCoder",
    licence="Apple Machine Learning Research Model licence",
    notice="DiffuCoder's weights are for research only (Apple Machine Learning Research Model licence).",
)


def network(config: Config) -> Network:
    """The config map: tensors have Qwen2's own names."""
    return dense(config, "Qwen2ForCausalLM")


LAYOUT = Layout(
    family=FAMILY,
    architectures=("DreamModel",),
    network=network,
    mask_tokens=("<|mask|>",),
    mask_id=151666,
    gguf="dream",
    stop_tokens=("<|im_end|>", "<|endoftext|>", "<|dlm_pad|>"),
)
DIFFUCODER_LAYOUT = replace(LAYOUT, family=DIFFUCODER, named="diffucoder")
