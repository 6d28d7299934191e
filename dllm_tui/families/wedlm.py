"""WeDLM: causal attention over reordered tokens, so that an autoregressive engine's cache stays exact.

Paper: WeDLM, arXiv 2512.22737; repository: tencent/WeDLM.
"""

from dllm_tui.families.family import Attention, Family, Sampling
from dllm_tui.families.layout import Config, Layout, Network
from dllm_tui.families.stock import dense
from dllm_tui.knobs import Knobs

FAMILY = Family(
    name="wedlm",
    title="WeDLM",
    explanation=(
        "A window of masks slides over the answer. Before each step its tokens are put in order: decided "
        "ones first, masks last, each keeping its own position; attention is then plainly causal, and what "
        "has been decided from the left is cached for good. Tokens of low entropy are committed, the sooner "
        "the further left they stand."
    ),
    licence="Tencent's (Apache-2.0 with restrictions)",
    notice="WeDLM's licence says that it is not intended for use within the European Union.",
    attention=Attention.REORDERED,
    sampling=Sampling(order=("top_k", "top_p", "temperature")),
    defaults=Knobs(
        steps=16,
        block_size=16,
        policy="low-entropy",
        schedule="free",
        entropy_bound=0.4,
        distance_penalty=0.02,
        temperature=0.2,
    ),
    policies=("low-entropy",),
    fixed_knobs={
        "edit_threshold": "WeDLM keeps what it has committed.",
        "threshold": "WeDLM commits by entropy: turn that.",
        "schedule": "The entropy bound says how many are committed.",
        "steps": "WeDLM's window slides on as soon as its first token is decided.",
    },
)


def network(config: Config) -> Network:
    """The config map: a Qwen3 (8B, ``qk_norm``) or a Qwen2 (7B), under their own names."""
    if config.get("qk_norm"):
        config.refuse("attention_bias")
        return dense(config, "Qwen3ForCausalLM")
    config.expect(attention_bias=True)
    return dense(config, "Qwen2ForCausalLM")


LAYOUT = Layout(
    family=FAMILY,
    architectures=("WeDLMForCausalLM",),
    network=network,
    mask_id=151665,
    stop_tokens=("<|im_end|>", "<|endoftext|>"),
)
