"""LLaDA 2.0, 2.1 and 2.2: block diffusion over Ling's mixture of experts; 2.1 edits, 2.2 inserts and deletes.

All three say the same in ``architectures`` and ``model_type``: 2.2 has two more token ids in its config,
2.1 only its name. Paper: LLaDA2.0, arXiv 2512.15745; repository: inclusionAI/LLaDA2.X.
"""

import re
from dataclasses import replace

from dllm_tui.families.family import MASKED, Attention, Family, Revision
from dllm_tui.families.layout import Config, Layout, Network, Place
from dllm_tui.families.stock import dense, rope, stacked_experts
from dllm_tui.knobs import Knobs

BLOCK = 32
"""The grid that all published checkpoints were trained on."""

FIXED_BLOCK = {"block_size": f"It was trained on blocks of {BLOCK}."}

FAMILY = Family(
    name="llada2",
    title="LLaDA 2.0",
    explanation=(
        "Works in blocks of 32: a block sees itself and everything before it, so finished blocks are cached "
        "exactly. In a block, every token above the threshold is committed at once. The first block begins "
        "inside the prompt, where the grid has its line."
    ),
    licence="Apache-2.0",
    attention=Attention.BLOCK_CAUSAL,
    grid=BLOCK,
    defaults=Knobs(steps=32, schedule="quota", block_size=BLOCK, threshold=0.95, max_new_tokens=2048),
    policies=MASKED,
    fixed_knobs={**FIXED_BLOCK, "edit_threshold": "LLaDA 2.0 keeps what it has committed; 2.1 edits."},
)

EDITING = replace(
    FAMILY,
    name="llada2.1",
    title="LLaDA 2.1",
    explanation=(
        "LLaDA 2.0 that corrects itself: while a block is denoised, a committed token is replaced as soon as "
        "another passes the edit threshold. That allows a low threshold: draft fast, then repair. A full "
        "block gets up to 16 more forwards for repairs."
    ),
    revision=Revision.EDIT,
    defaults=FAMILY.defaults.replace(threshold=0.7, edit_threshold=0.5),
    fixed_knobs=FIXED_BLOCK,
)

INSERTING = replace(
    EDITING,
    name="llada2.2",
    title="LLaDA 2.2",
    explanation=(
        "LLaDA 2.1 that can also insert and delete: a cell that the model splits makes room for a new token "
        "before it, one that it deletes is closed up, and the rest of the block moves along."
    ),
    revision=Revision.INSERT_DELETE,
    defaults=FAMILY.defaults.replace(threshold=0.5, edit_threshold=0.0),
    policies=("confidence",),
    fixed_knobs={
        **FIXED_BLOCK,
        "steps": "A block ends when nothing changes any more.",
        "schedule": "A step commits one more than it has inserted, at least.",
        **dict.fromkeys(
            ("temperature", "top_p", "top_k", "seed"), "Nothing is drawn: the best token counts."
        ),
        **dict.fromkeys(
            ("entropy_bound", "distance_penalty", "pick_temperature"), "Confidence alone counts."
        ),
    },
)


def network(config: Config) -> Network:
    """The config map."""
    config.expect(score_function="sigmoid", norm_topk_prob=True, use_qk_norm=True)
    config.expect(moe_router_enable_expert_bias=True)
    config.refuse("use_bias", "use_qkv_bias", "norm_head", "norm_softmax", "use_sliding_window")
    config.refuse("using_split_qkv_in_self_attention", "expert_capacity")
    # The reference scores a group by its two best experts, and so does Glm4Moe.
    experts, groups = config.integer("num_experts", least=2), config.integer("n_group")
    if experts // groups < 2:
        config.expect(n_group=experts // 2)
    config.multiple("num_experts", "n_group")
    share = config.number("partial_rotary_factor", most=1.0)
    base = dense(config, "Glm4MoeForCausalLM")
    return Network(
        base.kind,
        {
            **base.options,
            "rope_parameters": rope(config, partial_rotary_factor=share),
            "moe_intermediate_size": config.integer("moe_intermediate_size"),
            "num_experts_per_tok": config.integer("num_experts_per_tok", most=experts),
            "n_routed_experts": experts,
            "n_shared_experts": config.integer("num_shared_experts"),
            "n_group": groups,
            "topk_group": config.integer("topk_group", most=groups),
            "routed_scaling_factor": config.number("routed_scaling_factor"),
            "first_k_dense_replace": config.integer("first_k_dense_replace", least=0),
            "norm_topk_prob": True,
            "use_qk_norm": True,
            "attention_bias": False,
        },
    )


NAMES = {
    "attention.dense.weight": "self_attn.o_proj.weight",
    "attention.query_layernorm.weight": "self_attn.q_norm.weight",
    "attention.key_layernorm.weight": "self_attn.k_norm.weight",
    "mlp.gate.expert_bias": "mlp.gate.e_score_correction_bias",
}


def place(name: str, network: Network) -> tuple[Place, ...]:
    """The tensor-name map: renames, splits the fused q, k, v, and stacks the experts."""
    if name == "model.word_embeddings.weight":
        return (Place("model.embed_tokens.weight"),)
    layer = re.match(r"model\.layers\.\d+\.", name)
    if layer is None:
        return (Place(name),)
    rest = name[layer.end() :]
    if rest == "attention.query_key_value.weight":
        return _split(layer[0], network)
    return stacked_experts(layer[0] + NAMES.get(rest, rest), network)


def _split(layer: str, network: Network) -> tuple[Place, ...]:
    """Rows of the fused projection: all query heads, then keys, then values."""
    width = network.options["head_dim"]
    queries = network.options["num_attention_heads"] * width
    keys = network.options["num_key_value_heads"] * width
    bounds = (0, queries, queries + keys, queries + 2 * keys)
    return tuple(
        Place(f"{layer}self_attn.{part}_proj.weight", rows=(first, last))
        for part, first, last in zip("qkv", bounds, bounds[1:], strict=False)
    )


LAYOUT = Layout(
    family=FAMILY,
    architectures=("LLaDA2MoeModelLM",),
    network=network,
    place=place,
    mask_tokens=("<|mask|>",),
    mask_id=156895,
    stop_tokens=("<|role_end|>",),
)
EDITING_LAYOUT = replace(LAYOUT, family=EDITING, named=r"llada-?2\.?1")
INSERTING_LAYOUT = replace(
    LAYOUT,
    family=INSERTING,
    named=r"llada-?2\.?2",
    marked=("delete_token_id", "split_token_id"),
    delete_id=156930,
    split_id=156931,
)
