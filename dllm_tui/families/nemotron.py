"""Nemotron-Labs-Diffusion, dense: one set of weights, a diffusion and an autoregressive model in one.

Prompt and finished blocks are read causally; the block that is being denoised sees itself both ways. So
the commit forward gives the autoregressive model's opinion for nothing, and ``verify`` is lossless.
Repository: NVlabs/Nemotron-Labs-Diffusion.
"""

from dllm_tui.families.family import Attention, Family
from dllm_tui.families.layout import Config, Layout, Network, Place
from dllm_tui.families.stock import dense, rope
from dllm_tui.knobs import Knobs

FAMILY = Family(
    name="nemotron",
    title="Nemotron-Labs-Diffusion",
    explanation=(
        "Three ways to write with the same weights. Block diffusion: blocks of 32 seen both ways, what "
        "passes the threshold stays. Self-speculative (policy verify): a block is drafted, and what the "
        "autoregressive reading agrees with is kept. Autoregressive: blocks of 1."
    ),
    licence="NVIDIA Nemotron Open Model License",
    notice="Nemotron-Labs-Diffusion comes under the NVIDIA Nemotron Open Model License: read it before use.",
    attention=Attention.BLOCK_CAUSAL,
    two_streams=True,
    grid=32,
    defaults=Knobs(steps=32, block_size=32, threshold=0.9),
    policies=("confidence", "verify", "sequential", "streaming", "margin", "entropy", "random"),
    fixed_knobs={"edit_threshold": "It keeps what it has committed; verify takes back a draft."},
)


def network(config: Config) -> Network:
    """The config map: Ministral 3 under other names."""
    base = dense(config, "Ministral3ForCausalLM")
    scaled = rope(config)
    # What the class needs, with values that scale nothing where the config doesn't ask for it.
    needed = {
        "llama_4_scaling_beta": 0.0,
        "original_max_position_embeddings": base.options["max_position_embeddings"],
    }
    return Network(base.kind, {**base.options, "rope_parameters": {**needed, **scaled}})


def place(name: str, network: Network) -> tuple[Place, ...]:
    """The tensor-name map."""
    if name == "diffusion_head.weight":
        return (Place("lm_head.weight"),)
    return (Place(f"model.{name.removeprefix('encoder.')}"),)


LAYOUT = Layout(
    family=FAMILY,
    architectures=("NemotronLabsDiffusionModel",),
    network=network,
    place=place,
    block_field="block_size",
    mask_id=100,
)
