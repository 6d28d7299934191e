"""dLLM's A2D: small autoregressive models (Qwen3, Qwen2, Llama) turned into diffusion ones, in two ways.

``mdlm`` checkpoints see everything, ``bd3lm`` ones are block-causal; only their names tell.
Paper: dLLM, arXiv 2602.22661; repository: ZHZisZZ/dllm.
"""

from dataclasses import replace

from dllm_tui.families.family import MASKED, Attention, Family
from dllm_tui.families.layout import Config, Layout, Network
from dllm_tui.families.stock import dense
from dllm_tui.knobs import Knobs

MDLM = Family(
    name="a2d-mdlm",
    title="dLLM A2D, full attention",
    explanation=(
        "A small autoregressive model that learned to fill masks anywhere. The whole answer is on the "
        "canvas, every position sees every other, and blocks only say where commits may fall next."
    ),
    licence="Apache-2.0",
    attention=Attention.FULL,
    defaults=Knobs(steps=32, schedule="dllm", block_size=32, threshold=1.0, max_new_tokens=256),
    policies=MASKED,
    fixed_knobs={"edit_threshold": "A2D models keep what they have committed."},
)

BD3LM = replace(
    MDLM,
    name="a2d-bd3lm",
    title="dLLM A2D, block diffusion",
    explanation=(
        "A small autoregressive model that learned to denoise blocks of 32: each sees itself and everything "
        "before, finished ones are cached exactly. The first block begins where the prompt ends."
    ),
    attention=Attention.BLOCK_CAUSAL,
    response_grid=True,
    whole_blocks=False,
    grid=32,
    fixed_knobs={**MDLM.fixed_knobs, "block_size": "It was trained on blocks of 32."},
)

KINDS = {
    "A2DQwen3LMHeadModel": "Qwen3ForCausalLM",
    "A2DQwen2LMHeadModel": "Qwen2ForCausalLM",
    "A2DLlamaLMHeadModel": "LlamaForCausalLM",
}


def network(config: Config) -> Network:
    """The config map: tensors have the base's own names."""
    config.refuse("attention_bias")
    return dense(config, KINDS[config.architecture])


LAYOUT = Layout(
    family=MDLM,
    architectures=tuple(KINDS),
    network=network,
    mask_tokens=("<|mask|>",),
    stop_tokens=("<|im_end|>", "<|eot_id|>"),
    template_preamble="{%- set enable_thinking = false %}",
)
BD3LM_LAYOUT = replace(LAYOUT, family=BD3LM, named="bd3lm")
