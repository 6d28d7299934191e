"""From a checkpoint on the disk to a model that decodes."""

import json
from pathlib import Path

import pytest
import torch

from dllm_tui.adapt.training import Recipe, TrainingError
from dllm_tui.adapt.workshop import Plan, Told, Workshop, whole_lines
from dllm_tui.engine import Engine
from dllm_tui.engine.autoregressive import find
from dllm_tui.errors import CheckpointError
from dllm_tui.events import Done
from tests.adapt.conftest import CONFIG, write_base
from tests.adapt.tiny import CPU

RECIPE = Recipe(rank=2, rows=64)


def adapt(base: Path, out: Path, tokens: int, **plan: object) -> list[Told]:
    told: list[Told] = []
    chosen = Plan(base=str(base), out=out, tokens=tokens, **{"selfmade": 200, "slots": 8, **plan})  # type: ignore[arg-type]
    Workshop(chosen, RECIPE, CPU, torch.float32, told.append).adapt()
    return told


@pytest.mark.parametrize("kind", CONFIG)
def test_from_a_directory_to_a_model(kind: str, tmp_path: Path):
    base, out = write_base(tmp_path / "base", kind), tmp_path / "made"
    told = adapt(base, out, 300)
    assert next(each.report.step for each in told if each.report) == 1
    about = json.loads((out / "adapter_config.json").read_text())
    assert (about["r"], about["base_model_name_or_path"]) == (2, str(base))
    assert str(base) in (out / "README.md").read_text()
    engine = Engine.load(out, device="cpu", dtype="float32")
    assert engine.family.two_streams
    prompt = engine.tokenizer.encode("abc") if engine.tokenizer else []
    greedy = [int(engine.logits(prompt)[-1].argmax())]
    while len(greedy) < 12:
        greedy.append(int(engine.logits([*prompt, *greedy])[-1].argmax()))
    knobs = engine.defaults.replace(policy="verify", steps=1, max_new_tokens=12)
    *_, done = engine.generate(prompt, knobs)
    assert isinstance(done, Done)
    assert list(done.token_ids) == greedy[: done.tokens]


def test_the_same_command_goes_on(base: Path, tmp_path: Path):
    out = tmp_path / "made"
    adapt(base, out, 200)
    written = (out / "chats.jsonl").read_bytes()
    told = adapt(base, out, 500)
    assert (out / "chats.jsonl").read_bytes() == written
    assert next(each.report.step for each in told if each.report) > 1
    assert not [each for each in adapt(base, out, 500) if each.report]


def test_an_interruption_keeps_what_was_learnt(base: Path, tmp_path: Path):
    out = tmp_path / "made"

    def stop(told: Told) -> None:
        if told.report and told.report.step == 3:
            raise KeyboardInterrupt

    plan = Plan(base=str(base), out=out, tokens=5000, selfmade=200, slots=8)
    with pytest.raises(KeyboardInterrupt):
        Workshop(plan, RECIPE, CPU, torch.float32, stop).adapt()
    told = adapt(base, out, 500)
    assert next(each.report.step for each in told if each.report) == 4


def test_two_at_once_are_kept_apart(base: Path, tmp_path: Path):
    out = tmp_path / "made"

    def second(told: Told) -> None:
        if told.report:
            with pytest.raises(TrainingError, match="Another training"):
                adapt(base, out, 100)

    plan = Plan(base=str(base), out=out, tokens=50, selfmade=200, slots=8)
    Workshop(plan, RECIPE, CPU, torch.float32, second).adapt()


def test_another_base_is_refused(base: Path, tmp_path: Path):
    out = tmp_path / "made"
    adapt(base, out, 100)
    weights = base / "model.safetensors"
    data = bytearray(weights.read_bytes())
    data[-2] ^= 1
    weights.write_bytes(data)
    with pytest.raises(TrainingError, match="base_sha256"):
        adapt(base, out, 200)
    with pytest.raises(CheckpointError, match="SHA-256"):
        Engine.load(out, device="cpu", dtype="float32")


def test_no_data(base: Path, tmp_path: Path):
    with pytest.raises(TrainingError, match="nothing to learn"):
        adapt(base, tmp_path / "made", 100, selfmade=0)


def test_bases_that_cannot_be_adapted(base: Path):
    config = json.loads((base / "config.json").read_text())
    (base / "config.json").write_text(json.dumps({**config, "architectures": ["GPT2LMHeadModel"]}))
    with pytest.raises(CheckpointError, match="GPT2LMHeadModel can't be adapted"):
        find(str(base))
    scaled = {"rope_type": "yarn", "rope_theta": 10000.0, "factor": 4.0}
    (base / "config.json").write_text(json.dumps({**config, "rope_parameters": scaled}))
    with pytest.raises(CheckpointError, match="scales its rotary"):
        find(str(base))
    (base / "config.json").write_text(json.dumps(config))
    (base / "tokenizer.json").unlink()
    (base / "tokenizer_config.json").unlink()
    with pytest.raises(CheckpointError, match="no tokenizer"):
        find(str(base))


def test_a_torn_line_is_cut_off(tmp_path: Path):
    path = tmp_path / "chats.jsonl"
    assert not whole_lines(path)
    path.write_text('{"a": 1}\n{"b": ')
    assert whole_lines(path)
    assert path.read_text() == '{"a": 1}\n'
    path.write_text('{"b": ')
    assert not whole_lines(path)
