"""RND1: Qwen3-30B-A3B turned into a diffusion model with full attention. A base model, no chat.

Repository: RadicalNumerics/RND1.
"""

from dllm_tui.families.family import MASKED, Attention, Family, Sampling
from dllm_tui.families.layout import Config, Layout, Network
from dllm_tui.families.stock import qwen3_moe, stacked_experts
from dllm_tui.knobs import Knobs

FAMILY = Family(
    name="rnd1",
    title="RND1",
    explanation=(
        "A 30-billion mixture of experts of which 3 billion work on each token. The canvas is one whole; "
        "each step commits the predictions of lowest entropy and leaves the rest masked."
    ),
    licence="Apache-2.0",
    attention=Attention.FULL,
    shift=1,
    sampling=Sampling(filtered=True),
    defaults=Knobs(
        steps=256,
        block_size=4096,
        threshold=1.0,
        policy="entropy",
        schedule="rnd1",
        entropy_bound=0.0,
        temperature=0.1,
        max_new_tokens=256,
    ),
    policies=("entropy", *(name for name in MASKED if name != "entropy"), "origin"),
    fixed_knobs={
        "block_size": "RND1 denoises the whole canvas at once.",
        "edit_threshold": "RND1 keeps what it has committed.",
    },
)

CHAT_TEMPLATE = """\
{%- for message in messages %}
    {%- if message["role"] == "assistant" %}
        {{- "Answer: " + message["content"] + "\\n\\n" }}
    {%- elif message["role"] == "user" %}
        {{- "Question: " + message["content"] + "\\n" }}
    {%- else %}
        {{- message["content"] + "\\n\\n" }}
    {%- endif %}
{%- endfor %}
{{- "Answer:" }}
"""
"""The form of the repository's examples: a base model knows no turns."""


def network(config: Config) -> Network:
    """The config map."""
    config.expect(norm_topk_prob=True)
    config.refuse("attention_bias", "mlp_only_layers")
    return qwen3_moe(config, norm_topk_prob=True)


LAYOUT = Layout(
    family=FAMILY,
    architectures=("RND1LM",),
    network=network,
    place=stacked_experts,
    mask_id=151669,
    gguf="rnd1",
    stop_tokens=("<|im_end|>",),
    chat_template=CHAT_TEMPLATE,
)
