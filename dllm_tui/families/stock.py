"""Config and name maps shared by the families whose networks are plain transformers classes. No torch here.

Almost every open diffusion model is a known autoregressive network under another name, with another
attention mask; the equivalences were checked tensor by tensor (golden numbers in ``tests/golden``).
"""

import re
from typing import Any

from dllm_tui.families.layout import Config, Network, Place, same_names

MOST_LAYERS = 1000
"""Far more than any model has: a config that claims more is broken or hostile."""

_SHAPE = (
    "vocab_size",
    "hidden_size",
    "intermediate_size",
    "num_attention_heads",
    "num_key_value_heads",
    "max_position_embeddings",
)


def dense(config: Config, kind: str, **options: Any) -> Network:
    """A dense decoder (Llama, Qwen2, Qwen3) from a config with the usual field names.

    Args:
        config: the checkpoint's config.
        kind: transformers class.
        options: what this family adds or overrides.

    Raises:
        CheckpointError: a field is missing, or asks for what these classes don't do.
    """
    config.expect(hidden_act="silu")
    config.refuse("use_sliding_window", "mlp_bias")
    shape = {name: config.integer(name) for name in _SHAPE if name not in options}
    config.multiple("num_attention_heads", "num_key_value_heads")
    return Network(
        kind,
        {
            **shape,
            "num_hidden_layers": config.integer("num_hidden_layers", most=MOST_LAYERS),
            "head_dim": config.integer(
                "head_dim", default=shape["hidden_size"] // shape["num_attention_heads"]
            ),
            "rms_norm_eps": config.number("rms_norm_eps"),
            "rope_parameters": rope(config),
            "tie_word_embeddings": bool(config.get("tie_word_embeddings", False)),
            **options,
        },
    )


def rope(config: Config, **extra: Any) -> dict[str, Any]:
    """Rotary parameters in transformers 5's form, from either of its two forms.

    Raises:
        CheckpointError: the base frequency is missing.
    """
    parameters = config.table("rope_parameters")
    if parameters.fields:
        return {**parameters.fields, "rope_theta": parameters.number("rope_theta"), **extra}
    scaling = dict(config.table("rope_scaling").fields)
    kind = scaling.pop("type", None) or scaling.pop("rope_type", None) or "default"
    return {"rope_type": kind, "rope_theta": config.number("rope_theta"), **scaling, **extra}


def qwen3_moe(config: Config, **options: Any) -> Network:
    """A Qwen3-MoE decoder from a config with the usual field names.

    Raises:
        CheckpointError: a field is missing, or asks for what this class doesn't do.
    """
    if config.get("decoder_sparse_step", 1) != 1:
        config.expect(decoder_sparse_step=1)
    sizes = ("num_experts", "num_experts_per_tok", "moe_intermediate_size")
    experts = {name: config.integer(name) for name in sizes if name not in options}
    config.integer("num_experts_per_tok", most=experts["num_experts"])
    return dense(config, "Qwen3MoeForCausalLM", **experts, **options)


_EXPERT = re.compile(r"(model\.layers\.\d+\.mlp\.experts)\.(\d+)\.(gate|up|down)_proj\.weight")


def stacked_experts(name: str, network: Network) -> tuple[Place, ...]:
    """One tensor an expert in the file; one for all experts in the network.

    Gate and up rows lie one after the other in ``gate_up_proj`` [experts, 2 · width, hidden].
    """
    found = _EXPERT.fullmatch(name)
    if found is None:
        return same_names(name, network)
    experts, index, part = found[1], int(found[2]), found[3]
    if part == "down":
        return (Place(f"{experts}.down_proj", at=(index,)),)
    width = network.options["moe_intermediate_size"]
    first = 0 if part == "gate" else width
    return (Place(f"{experts}.gate_up_proj", at=(index, slice(first, first + width))),)
