"""ModernBERT chat: an encoder that answers by filling the masks behind the question.

Repository: ZHZisZZ/dllm (BERT-Chat).
"""

from dllm_tui.families.family import MASKED, Attention, Family
from dllm_tui.families.layout import Config, Layout, Network
from dllm_tui.families.stock import MOST_LAYERS, same_names
from dllm_tui.knobs import Knobs

FAMILY = Family(
    name="bert-chat",
    title="ModernBERT chat",
    explanation=(
        "BERT was always a diffusion model in waiting: it is asked to fill masks, and here the masks are "
        "the answer. It is an encoder of 150 or 400 million weights with full attention, so nothing is "
        "cached, and it is fast all the same."
    ),
    licence="Apache-2.0",
    attention=Attention.FULL,
    defaults=Knobs(steps=32, block_size=32, threshold=1.0, max_new_tokens=128),
    policies=MASKED,
    fixed_knobs={"edit_threshold": "BERT chat keeps what it has committed."},
)

CHAT_TEMPLATE = """\
{%- for message in messages %}
    {%- set name = {"system": "SYS", "user": "Question", "assistant": "Answer"}[message["role"]] %}
    {{- "[" + name + "]\\n" + message["content"] | trim + "\\n[/" + name + "]\\n\\n" }}
{%- endfor %}
{{- "[Answer]\\n" }}
"""
"""The checkpoints ship none."""

COPIED = (
    "vocab_size",
    "hidden_size",
    "intermediate_size",
    "num_attention_heads",
    "max_position_embeddings",
    "local_attention",
)
KEPT = (
    "norm_eps",
    "norm_bias",
    "attention_bias",
    "mlp_bias",
    "decoder_bias",
    "classifier_bias",
    "classifier_activation",
    "hidden_activation",
    "global_attn_every_n_layers",
    "layer_types",
    "global_rope_theta",
    "local_rope_theta",
    "rope_parameters",
    "pad_token_id",
    "tie_word_embeddings",
)


def network(config: Config) -> Network:
    """The config map: transformers' own class under its own names."""
    sizes = {name: config.integer(name) for name in COPIED}
    sizes["num_hidden_layers"] = config.integer("num_hidden_layers", most=MOST_LAYERS)
    kept = {name: config.fields[name] for name in KEPT if name in config.fields}
    return Network("ModernBertForMaskedLM", {**sizes, **kept})


LAYOUT = Layout(
    family=FAMILY,
    architectures=("ModernBertForMaskedLM",),
    network=network,
    place=same_names,
    mask_tokens=("[MASK]",),
    mask_id=50284,
    stop_tokens=("[/Answer]", "[SEP]"),
    chat_template=CHAT_TEMPLATE,
)
