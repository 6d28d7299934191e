"""All weights: what is trained is what the decoder of Fast-dLLM v2 runs."""

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from dllm_tui.adapt.network import group
from dllm_tui.adapt.training import Recipe
from dllm_tui.adapt.whole import WholeStudent
from dllm_tui.adapt.windows import Noise
from dllm_tui.adapt.workshop import Plan, Workshop
from dllm_tui.engine import Engine
from dllm_tui.engine.attention import block_mask
from dllm_tui.engine.autoregressive import find
from dllm_tui.errors import CheckpointError
from dllm_tui.events import Done
from tests.adapt.conftest import write_base
from tests.adapt.tiny import CPU

RECIPE = Recipe(rows=64, learning_rate=1e-4, noise=Noise(sizes=(4,), shares=(1.0,)))


@pytest.fixture
def made(tmp_path: Path) -> Path:
    base, out = write_base(tmp_path / "base", "qwen2"), tmp_path / "made"
    plan = Plan(base=str(base), out=out, tokens=300, selfmade=100, slots=8, whole=True)
    assert Workshop(plan, RECIPE, CPU, torch.float32).adapt() is None
    return out


def test_it_is_a_checkpoint_of_the_family(made: Path):
    engine = Engine.load(made, device="cpu", dtype="float32")
    assert (engine.family.name, engine.family.grid) == ("fast-dllm-v2", 4)
    words = engine.tokenizer
    assert words is not None
    assert engine.model.mask_id == json.loads((made / "config.json").read_text())["mask_token_id"]
    *_, done = engine.generate(words.encode("abc"), engine.defaults.replace(max_new_tokens=12, block_size=4))
    assert isinstance(done, Done)
    assert done.tokens > 0
    assert "Fast-dLLM v2" in (made / "README.md").read_text()


def test_both_streams_are_the_decoders(made: Path):
    engine = Engine.load(made, device="cpu", dtype="float32")
    student = WholeStudent(find(str(made.parent / "base")), [], RECIPE, CPU, torch.float32)
    for name, tensor in load_file(made / "model.safetensors").items():
        student.parameters[name].data = tensor.float()
    network = student.network()
    ids = torch.randint(0, 250, (12,))
    close = {"atol": 1e-4, "rtol": 1e-4}
    reading = network.clean(ids, block_mask(12, 4))
    torch.testing.assert_close(reading.hidden @ network.head.T, engine.logits(ids.tolist()), **close)
    noised = ids.clone()
    noised[[9, 11]] = student.mask_id
    windows = group(reading, [(torch.tensor([9]), torch.zeros(1, 4, dtype=torch.bool))])
    hidden = network.noised(network.embedding[noised[8:]], [windows], network.projected)
    torch.testing.assert_close(hidden @ network.head.T, engine.logits(noised.tolist())[8:], **close)


def test_only_qwen2_has_a_family_for_it(tmp_path: Path):
    with pytest.raises(CheckpointError, match="no Qwen2"):
        WholeStudent(find(str(write_base(tmp_path, "qwen3"))), [], RECIPE, CPU, torch.float32)
