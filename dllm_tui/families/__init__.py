"""Families of diffusion language models: one small file each, mostly declarations. No torch here."""

import re

from dllm_tui.errors import CheckpointError
from dllm_tui.families import (
    a2d,
    bert_chat,
    diffusion_gemma,
    dream,
    fast_dllm,
    llada,
    llada2,
    llada_moe,
    nemotron,
    originals,
    rnd1,
    sdar,
    stable_diffcoder,
    wedlm,
)
from dllm_tui.families.layout import SHOWN, Config, Layout

LAYOUTS: tuple[Layout, ...] = (
    llada.LAYOUT,
    llada_moe.LAYOUT,
    llada2.INSERTING_LAYOUT,
    llada2.EDITING_LAYOUT,
    llada2.LAYOUT,
    dream.DIFFUCODER_LAYOUT,
    dream.LAYOUT,
    fast_dllm.LAYOUT,
    sdar.LAYOUT,
    sdar.MOE_LAYOUT,
    wedlm.LAYOUT,
    stable_diffcoder.LAYOUT,
    rnd1.LAYOUT,
    a2d.BD3LM_LAYOUT,
    a2d.LAYOUT,
    bert_chat.LAYOUT,
    diffusion_gemma.LAYOUT,
    nemotron.LAYOUT,
    originals.BD3LM_LAYOUT,
    originals.SEDD_LAYOUT,
    originals.UNMARKED_SEDD_LAYOUT,
    originals.LAYOUT,
)
"""Every layout, those that answer to a name or a mark before the others of the same architecture."""


def layout_for(config: Config, name: str = "", family: str | None = None) -> Layout:
    """The layout of a checkpoint, by ``architectures[0]``: ``model_type`` is shared by quite different ones.

    Args:
        config: the checkpoint's.
        name: of the checkpoint (hub id or directory), which alone tells some families apart.
        family: the family's name, where a person knows better.

    Raises:
        CheckpointError: no family answers to it.
    """
    candidates = [layout for layout in LAYOUTS if config.architecture in layout.architectures]
    for layout in candidates:
        if layout.family.name == family or (family is None and layout.answers(config, name)):
            return layout
    known = f", or not as {family!r}" if family and candidates else ""
    said = str(config.architecture or config.get("model_type") or "no architecture")[:SHOWN]
    raise CheckpointError(
        f"{config.source}: {said} is not a diffusion model that is known here{known}.",
        "Run `dllm-chat models` for those that are. An autoregressive model can be turned into one with "
        "`dllm-chat adapt`.",
    )


def layout_for_gguf(architecture: str, name: str) -> Layout:
    """The layout of a GGUF file.

    Args:
        architecture: as llama.cpp calls it.
        name: of the file, which alone tells some families apart.

    Raises:
        CheckpointError: no family answers to it.
    """
    for layout in LAYOUTS:
        if layout.gguf == architecture and (not layout.named or re.search(layout.named, name.lower())):
            return layout
    known = ", ".join(sorted({layout.gguf for layout in LAYOUTS if layout.gguf}))
    raise CheckpointError(
        f"{name}: {architecture} is not a diffusion model that is known here as a GGUF file.",
        f"Known are {known}; others load from safetensors.",
    )
