"""DiffusionGemma: uniform noise. No masks; a canvas of random tokens that is denoised as a whole.

transformers knows the class; its own generation loop is not used. Card: google/diffusiongemma-26B-A4B-it.
"""

from dllm_tui.families.family import Attention, Family, Noise, Revision, Sampling
from dllm_tui.families.layout import Config, Layout, Network, Place
from dllm_tui.families.stock import MOST_LAYERS
from dllm_tui.knobs import Knobs

FAMILY = Family(
    name="diffusion-gemma",
    title="DiffusionGemma",
    explanation=(
        "No mask token: a canvas of 256 random tokens is denoised as a whole. In each step the surest cells "
        "take the model's token and all others get new noise, also such as were sure before; the model is "
        "told what it thought in the step before. It stops when the picture is stable and sure. A causal "
        "encoder then reads the finished canvas, and the next one begins."
    ),
    licence="Apache-2.0",
    attention=Attention.ENCODER_CANVAS,
    noise=Noise.UNIFORM,
    revision=Revision.RENOISE,
    grid=256,
    sampling=Sampling(filtered=True, greedy=True),
    defaults=Knobs(
        steps=48, block_size=256, policy="entropy", entropy_bound=0.1, temperature=0.8, max_new_tokens=1024
    ),
    policies=("entropy",),
    fixed_knobs={
        "block_size": "The canvas was trained at one size.",
        "threshold": "DiffusionGemma accepts by entropy: turn that.",
        "edit_threshold": "Every cell may change in every step.",
        "schedule": "The entropy bound says how many cells are accepted.",
        "distance_penalty": "All cells count alike.",
        "pick_temperature": "The surest cells are accepted.",
        "cfg_scale": "There is no mask to hide the prompt with.",
    },
)


def network(config: Config) -> Network:
    """The config map: transformers' own class, without its vision tower."""
    text = config.table("text_config")
    for name in ("vocab_size", "hidden_size", "num_experts", "sliding_window"):
        text.integer(name)
    text.integer("num_hidden_layers", most=MOST_LAYERS)
    text.integer("top_k_experts", most=text.integer("num_experts"))
    text.number("final_logit_softcapping")
    config.expect(tie_word_embeddings=True)
    if text.get("use_bidirectional_attention") == "all":
        text.expect(use_bidirectional_attention=None)
    options = {"text_config": dict(text.fields), "canvas_length": config.integer("canvas_length")}
    return Network("DiffusionGemma", {**options, "tie_word_embeddings": True})


def place(name: str, network: Network) -> tuple[Place, ...]:
    """The tensor-name map.

    The encoder's weights are the decoder's, but for one scalar a layer: a file may have either or both.
    """
    if name.startswith(("model.encoder.vision_tower.", "model.encoder.embed_vision.")):
        return ()
    name = name.removeprefix("model.")
    return (Place(name.replace("encoder.language_model.", "encoder.")),)


LAYOUT = Layout(
    family=FAMILY,
    architectures=("DiffusionGemmaForBlockDiffusion",),
    network=network,
    place=place,
    block_field="canvas_length",
    stop_tokens=("<turn|>",),
)
