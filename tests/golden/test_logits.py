"""Raw logits against those of the reference implementations, through the loader and both backbones."""

import re
from functools import cache
from pathlib import Path
from typing import Literal

import pytest
import torch
from torch import Tensor

from dllm_tui.engine.attention import block_mask
from dllm_tui.engine.backbone import Backbone
from dllm_tui.engine.load import load_checkpoint
from tests.golden.cases import Case

TOLERANCE = 2e-4


@cache
def backbone_of(folder: Path, choice: Literal["auto", "stock"]) -> Backbone:
    return load_checkpoint(folder, torch.device("cpu"), torch.float32, backbone=choice).backbone


@pytest.mark.parametrize("choice", ["auto", "stock"])
def test_logits(logits_case: Case, choice: Literal["auto", "stock"]) -> None:
    """Every ``logits`` case of every folder: right to the last digits, and the first wrong row named."""
    case = logits_case
    backbone = backbone_of(case.folder, choice)
    expected = case.stored(case.expected)
    if "encoder_ids" in case.entry:
        logits = behind_encoder(backbone, case)
    else:
        logits = in_sequence(backbone, case)
        expected = expected[-len(logits) :]  # rows of padding have no meaning
    off = (logits - expected).abs().amax(-1)
    wrong = (off > TOLERANCE).nonzero().flatten().tolist()
    assert not wrong, (
        f"{case.id}: row {wrong[0]} is off by {off[wrong[0]]:.1e} (and {len(wrong) - 1} more rows)"
    )


def in_sequence(backbone: Backbone, case: Case) -> Tensor:
    """Logits of all ids at once, in the attention that the case describes; padding is left out."""
    attention = case.entry.get("attention") or case.knobs["attention"]
    padding = re.search(r"the first (\d+) ids are padding", attention)
    start = int(padding[1]) if padding else 0
    ids = torch.tensor(case.prompt)
    positions = torch.tensor(case.entry.get("position_ids", range(len(ids))))
    block = re.match(r"block_causal:(\d+)", attention)
    mask = block_mask(len(ids), int(block[1])) if block else None
    return backbone.forward(
        ids[start:],
        positions[start:],
        mask=None if mask is None else mask[start:, start:],
        causal=attention.startswith("causal"),
    )


def behind_encoder(backbone: Backbone, case: Case) -> Tensor:
    """Logits of a canvas behind encoded ids (DiffusionGemma)."""
    encoded = torch.tensor(case.entry["encoder_ids"])
    canvas = torch.tensor(case.prompt)
    before = case.entry.get("self_conditioning_logits")
    cache = backbone.new_cache(len(encoded))
    backbone.forward(encoded, torch.arange(len(encoded)), cache=cache, write_at=0, causal=True)
    return backbone.forward(
        canvas,
        torch.arange(len(encoded), len(encoded) + len(canvas)),
        noised=True,
        cache=cache,
        condition=None if before is None else case.stored(before),
    )
