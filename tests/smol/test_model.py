"""The default model itself: what it computes is what a slow reference computes."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from dllm_tui.engine.adapter_load import assemble
from dllm_tui.engine.model import Model
from dllm_tui.errors import CheckpointError
from dllm_tui.families import smol
from dllm_tui.session import Message
from tests.smol.reference import Reference

CASES = json.loads(Path(__file__).with_name("answers.json").read_text())
CPU = torch.device("cpu")

pytestmark = pytest.mark.model


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["question"])
def test_prompts_and_answers(model: Model, case: dict[str, Any]):
    words = model.tokenizer
    assert words is not None
    assert words.encode_chat([Message("user", case["question"])]) == case["prompt"]
    assert b"".join(words.piece(i) for i in case["answer"]).decode() == case["text"]
    assert model.stop_ids == {2}


def test_both_streams_are_those_of_the_reference(model: Model, reference: Reference):
    network = model.backbone
    ids = CASES[2]["prompt"] + CASES[2]["answer"]
    got = network.forward(torch.tensor(ids), torch.arange(len(ids)), causal=True)
    torch.testing.assert_close(got, reference.logits(ids), atol=2e-4, rtol=0)

    start = len(ids)
    window = [ids[-1], 314, reference.mask_id, reference.mask_id, 253, reference.mask_id]
    cache = network.new_cache(start)
    network.forward(torch.tensor(ids), torch.arange(start), cache=cache, causal=True, write_at=0)
    got = network.forward(
        torch.tensor(window),
        torch.arange(start - 1, start + 5),
        noised=True,
        cache=cache,
        context=start - 1,
    )
    torch.testing.assert_close(got, reference.logits(ids[:-1] + window)[start - 1 :], atol=5e-4, rtol=0)


def test_behind_known_tokens_it_says_what_the_base_says(model: Model):
    """So the leftmost mask always gets the base's own token, however unsure the draft is."""
    ids = torch.tensor(CASES[1]["prompt"] + CASES[1]["answer"])
    places = torch.arange(len(ids) + 3)
    clean = model.backbone.forward(ids, places[:-3], causal=True)
    masks = torch.full((3,), model.mask_id)
    noised = model.backbone.forward(torch.cat([ids, masks]), places, noised=True)
    torch.testing.assert_close(noised[:-3], clean, atol=2e-4, rtol=0)


def test_what_it_says_of_itself(model: Model):
    info = model.info
    assert (info.id, info.family, info.context_length, info.parameters) == ("smol", "smol", 8192, 134_515_008)
    assert info.policies[0] == smol.FAMILY.defaults.policy
    assert info.tokenizer_sha256


def test_adapter_of_another_base_is_refused(base: Path):
    with pytest.raises(CheckpointError, match=r"is made for SmolLM2.*SHA-256"):
        assemble(base, "0" * 64, CPU, torch.float32)


@pytest.mark.parametrize("damage", ["missing", "shape", "nan", "cut", "other", "rank", "scale"])
def test_damaged_adapters_are_told(base: Path, tmp_path: Path, damage: str):
    path = tmp_path / "adapter.safetensors"
    tensors, about = load_file(smol.ADAPTER), {"format": "dllm-adapter", "base_sha256": smol.BASE.sha256}
    about |= {"rank": "32", "scale": "2.0"}
    name = "layers.7.mlp.up_proj.lora_A"
    if damage == "missing":
        del tensors[name]
    elif damage == "shape":
        tensors[name] = tensors[name][:8].clone()
    elif damage == "nan":
        tensors[f"{name}.step"][0] = float("nan")
    elif damage == "other":
        about = {}
    elif damage == "rank":
        about["rank"] = "many"
    elif damage == "scale":
        about["scale"] = "inf"
    save_file(tensors, path, about)
    if damage == "cut":
        path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(CheckpointError, match=name if damage in {"missing", "shape", "nan"} else "adapter"):
        assemble(base, smol.BASE.sha256, CPU, torch.float32, adapter=path)
