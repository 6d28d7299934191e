"""The small originals: SEDD, MDLM and BD3-LM, diffusion transformers of GPT-2's size. They continue text.

Papers: SEDD, arXiv 2310.16834; MDLM, arXiv 2406.07524; BD3-LM, arXiv 2503.09573. Repositories:
louaaron/Score-Entropy-Discrete-Diffusion, kuleshov-group/mdlm, kuleshov-group/bd3lms.
"""

from dataclasses import replace

from dllm_tui.families.family import Attention, Family, Sampling
from dllm_tui.families.layout import Config, Layout, Network, Place
from dllm_tui.families.stock import MOST_LAYERS
from dllm_tui.knobs import Knobs

MDLM = Family(
    name="mdlm",
    title="MDLM",
    explanation=(
        "Masked diffusion at its simplest: cells are uncovered at random times, each with a token drawn from "
        "what the network says there. The whole canvas sees itself. It was trained on web text, not on chat."
    ),
    licence="Apache-2.0",
    attention=Attention.FULL,
    eps=1e-5,
    sampling=Sampling(counts_mask=False),
    defaults=Knobs(
        steps=128,
        block_size=1024,
        threshold=1.0,
        policy="ancestral",
        schedule="mdlm",
        temperature=1.0,
        max_new_tokens=128,
    ),
    policies=("ancestral", "random", "confidence", "entropy", "margin"),
    fixed_knobs={
        "block_size": "MDLM denoises the whole canvas at once.",
        "edit_threshold": "MDLM keeps what it has committed.",
    },
)

BD3LM = replace(
    MDLM,
    name="bd3lm",
    title="BD3-LM",
    explanation=(
        "Between the two worlds: blocks follow one another as in an autoregressive model, and inside a "
        "block diffusion is at work. Finished blocks are cached exactly. It continues text and doesn't chat."
    ),
    attention=Attention.BLOCK_CAUSAL,
    grid=16,
    whole_blocks=False,
    sampling=Sampling(counts_mask=False, within_top_p=True),
    defaults=MDLM.defaults.replace(steps=16, block_size=16, policy="random", schedule="free"),
    policies=("random", "ancestral", "confidence", "entropy", "margin"),
    fixed_knobs={"edit_threshold": "BD3-LM keeps what it has committed."},
)

SEDD = replace(
    MDLM,
    name="sedd",
    title="SEDD",
    explanation=(
        "The model estimates ratios: how much likelier is each token here than what stands there now? A step "
        "from much noise to less noise follows from them, and the network is told how much there is. The "
        "whole canvas sees itself. It continues text and doesn't chat."
    ),
    licence="MIT",
    knows_noise=True,
    defaults=MDLM.defaults.replace(policy="analytic"),
    policies=("analytic", "random", "confidence", "entropy", "margin"),
    fixed_knobs={
        "block_size": "SEDD denoises the whole canvas at once.",
        "edit_threshold": "SEDD keeps what it has committed.",
    },
)


def network(config: Config) -> Network:
    """The config map of kuleshov-group's checkpoints."""
    config.refuse("time_conditioning", "causal")
    if "adaln" in config.fields:
        config.expect(adaln=True)
    return _network(config, "hidden_dim", "model_length", score=False, scale_by_sigma=False)


def sedd_network(config: Config) -> Network:
    """The config map of SEDD's checkpoints, which comes in two forms."""
    if "model" not in config.fields:
        return _network(config, "hidden_dim", "model_length", score=True, scale_by_sigma=True)
    model = config.table("model")
    config.table("graph").expect(type="absorb")
    scale = bool(model.get("scale_by_sigma", False))
    base = _network(model, "hidden_size", "length", score=True, scale_by_sigma=scale)
    return replace(base, options={**base.options, "vocab_size": config.integer("tokens") + 1})


def _network(config: Config, hidden: str, length: str, **options: bool) -> Network:
    config.multiple(hidden, "n_heads")
    return Network(
        "DDiT",
        {
            "vocab_size": config.integer("vocab_size", default=1),
            "hidden_size": config.integer(hidden),
            "blocks": config.integer("n_blocks", most=MOST_LAYERS),
            "heads": config.integer("n_heads"),
            "condition_size": config.integer("cond_dim"),
            "length": config.integer(length),
            **options,
        },
    )


def place(name: str, network: Network) -> tuple[Place, ...]:
    """The tensor-name map: training left some constants in the files."""
    name = name.removeprefix("backbone.")
    return () if name.endswith(("inv_freq", "sampling_eps_min", "sampling_eps_max")) else (Place(name),)


LAYOUT = Layout(
    family=MDLM,
    architectures=("MDLM",),
    network=network,
    place=place,
    mask_id=-1,
    stop_tokens=("<|endoftext|>",),
    tokenizer="openai-community/gpt2",
)
BD3LM_LAYOUT = replace(
    LAYOUT,
    family=BD3LM,
    architectures=("BD3LM",),
    block_field="block_size",
)
SEDD_LAYOUT = replace(LAYOUT, family=SEDD, architectures=("SEDD",), network=sedd_network)
UNMARKED_SEDD_LAYOUT = replace(SEDD_LAYOUT, architectures=("MDLM", ""), named="sedd", marked=("graph",))
"""The first ones name no architecture, others MDLM's, whose network they have."""
