"""Training: it learns, goes on exactly where it was stopped, and says what is wrong."""

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from torch.nn import functional

from dllm_tui.adapt import adapter as files
from dllm_tui.adapt.data import Chat
from dllm_tui.adapt.lowrank import LowRank
from dllm_tui.adapt.network import Network
from dllm_tui.adapt.readings import Readings
from dllm_tui.adapt.student import AdapterStudent
from dllm_tui.adapt.training import Recipe, Trainer, TrainingError, recipe_of
from dllm_tui.adapt.validation import forecast
from dllm_tui.adapt.windows import Noise
from dllm_tui.engine.adapter_load import read_adapter
from dllm_tui.engine.lean import LeanBackbone
from dllm_tui.engine.loop import Decoder
from dllm_tui.engine.model import Model
from dllm_tui.events import Done, ModelInfo
from dllm_tui.families import smol
from dllm_tui.knobs import LiveKnobs
from tests.adapt.tiny import CPU, geometry, weights

torch.set_num_threads(1)
ABOUT = {"base_sha256": "0" * 64}
RECIPE = Recipe(rank=4, rows=64, learning_rate=3e-3, warmup=2, seed=5)


def chats(count: int, seed: int = 0) -> list[Chat]:
    random = torch.Generator().manual_seed(seed)
    return [
        Chat(tuple(torch.randint(1, 40, (20 + i,), generator=random).tolist()), ((3, 20 + i),))
        for i in range(count)
    ]


def trainer(learnt: list[Chat], recipe: Recipe = RECIPE, kept: Path | None = None) -> Trainer:
    g = geometry()
    network = Network(g, weights(g), CPU, torch.float32)
    adapter = LowRank(network, rank=recipe.rank, scale=recipe.scale, seed=recipe.seed)
    student = AdapterStudent(network, adapter, Readings(network, learnt, kept), recipe, stop_id=0)
    return Trainer(student, learnt, recipe)


def pupil(made: Trainer) -> AdapterStudent:
    assert isinstance(made.student, AdapterStudent)
    return made.student


def run(made: Trainer, steps: int) -> list[float]:
    return [report.loss for _, report in zip(range(steps), made.steps(), strict=False)]


def everything(made: Trainer) -> dict[str, torch.Tensor]:
    now = {f"now.{name}": p.detach().clone() for name, p in made.student.parameters.items()}
    return now | {f"mean.{name}": value.clone() for name, value in made.averaged.items()}


def test_a_resumed_training_is_one_that_was_never_stopped(tmp_path: Path):
    whole = trainer(chats(5))
    losses = run(whole, 9)
    first = trainer(chats(5), kept=tmp_path / "clean")
    assert run(first, 4) == losses[:4]
    first.save(tmp_path / "state.safetensors", ABOUT)
    again = trainer(chats(5), kept=tmp_path / "clean")
    again.restore(tmp_path / "state.safetensors", ABOUT)
    assert run(again, 5) == losses[4:]
    assert again.state == whole.state
    assert whole.state.epoch > 0
    for name, tensor in everything(whole).items():
        assert torch.equal(tensor, everything(again)[name]), name


def test_chats_that_come_in_later_are_learnt_from_the_next_epoch_on(tmp_path: Path):
    first = trainer(chats(4))
    run(first, 1)
    first.save(tmp_path / "state.safetensors", ABOUT)
    more = trainer(chats(9))
    more.restore(tmp_path / "state.safetensors", ABOUT)
    assert more.state.chats == 4
    run(more, 6)
    assert more.state.chats == 9


def test_no_number_stops_it_and_harms_nothing(tmp_path: Path):
    made = trainer(chats(3))
    run(made, 2)
    before = everything(made)
    pupil(made).network.layers[1].mlp_norm[0] = float("nan")
    with pytest.raises(TrainingError, match="no number"):
        run(made, 1)
    for name, tensor in everything(made).items():
        assert torch.equal(tensor, before[name])


def test_checkpoints_that_do_not_fit_are_told(tmp_path: Path):
    path = tmp_path / "state.safetensors"
    made = trainer(chats(3))
    run(made, 1)
    made.save(path, ABOUT)
    assert recipe_of(path) == RECIPE
    with pytest.raises(TrainingError, match="base_sha256"):
        trainer(chats(3)).restore(path, {"base_sha256": "1" * 64})
    with pytest.raises(TrainingError, match="recipe"):
        trainer(chats(3), Recipe(rank=4, rows=65)).restore(path, ABOUT)
    for other in (chats(2), chats(3, seed=1)):
        with pytest.raises(TrainingError, match="data"):
            trainer(other).restore(path, ABOUT)
    whole = path.read_bytes()
    for damaged in (
        whole[:-40],
        whole[: len(whole) // 2],
        b"",
        whole[:200].replace(b"{", b"[") + whole[200:],
    ):
        path.write_bytes(damaged)
        with pytest.raises(TrainingError, match="state"):
            trainer(chats(3)).restore(path, ABOUT)


def test_a_failed_save_leaves_the_last_checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path = tmp_path / "state.safetensors"
    made = trainer(chats(3))
    run(made, 1)
    made.save(path, ABOUT)
    before = path.read_bytes()

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match="space"):
        made.save(path, ABOUT)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_nothing_to_learn():
    with pytest.raises(TrainingError, match="no chats"):
        trainer([])


def test_damaged_readings_are_made_anew(tmp_path: Path):
    losses = run(trainer(chats(3), kept=tmp_path), 3)
    for path in tmp_path.iterdir():
        path.write_bytes(path.read_bytes()[:-10])
    assert run(trainer(chats(3), kept=tmp_path), 3) == losses


def test_an_adapter_is_kept_closely_in_int8(tmp_path: Path):
    made = trainer(chats(3))
    run(made, 4)
    files.write(tmp_path, pupil(made).adapter, made.averaged, {**ABOUT, "base": "tiny"})
    other = LowRank(pupil(made).network, rank=4, scale=2.0, seed=9)
    files.start_from(other, tmp_path / files.FILE)
    adaptation = read_adapter(tmp_path / files.FILE, pupil(made).network.geometry, ABOUT["base_sha256"])
    for name, value in made.averaged.items():
        kept = other.parameters[name].detach()
        torch.testing.assert_close(kept, value, atol=float(value.abs().max()) / 100, rtol=0)
    stem = "layers.1.self_attn.k_proj"
    product = 2.0 * other.parameters[f"{stem}.lora_B"] @ other.parameters[f"{stem}.lora_A"]
    down, up = adaptation.factors[f"model.{stem}.weight"]
    torch.testing.assert_close((down @ up).T, product.detach())
    assert load_file(tmp_path / files.FILE)[f"{stem}.lora_A"].dtype is torch.int8


def taught(next_of: torch.Tensor) -> tuple[Network, dict[str, torch.Tensor]]:
    """A tiny autoregressive base that knows which token follows which."""
    g = geometry(vocab_size=24, hidden_size=48, heads=4, kv_heads=2, head_dim=12, intermediate_size=96)
    tensors = {name: tensor.requires_grad_() for name, tensor in weights(g, seed=3).items()}
    network = Network(g, tensors, CPU, torch.float32)
    optimiser = torch.optim.Adam(list(tensors.values()), 1e-2)
    for _ in range(120):
        network = Network(g, tensors, CPU, torch.float32)
        optimiser.zero_grad()
        ids = chain(next_of, int(torch.randint(1, 24, ())), 25)
        hidden = network.clean(ids).hidden
        functional.cross_entropy(hidden[:-1] @ network.head.T, ids[1:]).backward()
        optimiser.step()
    frozen = {name: tensor.detach() for name, tensor in tensors.items()}
    return Network(g, frozen, CPU, torch.float32), frozen


def chain(next_of: torch.Tensor, first: int, length: int) -> torch.Tensor:
    ids = [first]
    while len(ids) < length:
        ids.append(int(next_of[ids[-1]]))
    return torch.tensor(ids)


@pytest.mark.slow
def test_a_toy_language_is_learnt_and_decoded_several_tokens_at_a_time(tmp_path: Path):
    torch.manual_seed(0)
    # One round of all tokens but the stop token, which never comes.
    order = torch.randperm(23) + 1
    next_of = torch.zeros(24, dtype=torch.long)
    next_of[order] = order.roll(-1)
    network, frozen = taught(next_of)
    learnt = [Chat(tuple(chain(next_of, first, 40).tolist()), ((1, 40),)) for first in range(1, 24)]
    noise = Noise(sizes=(4, 8), shares=(0.5, 0.5))
    recipe = Recipe(rank=8, rows=256, learning_rate=1e-2, warmup=10, averaging=0.9, noise=noise)
    adapter = LowRank(network, rank=8, scale=2.0)
    student = AdapterStudent(network, adapter, Readings(network, learnt), recipe, stop_id=0)
    made = Trainer(student, learnt, recipe)
    losses = run(made, 120)
    assert losses[-1] < losses[0] / 4
    files.write(tmp_path, pupil(made).adapter, made.averaged, {**ABOUT, "base": "tiny"})
    seen = forecast(network, adapter, Readings(network, learnt[:5]), stop_id=0)
    assert seen.accuracy[0] > 0.9
    assert seen.verified > 3

    g = network.geometry
    adaptation = read_adapter(tmp_path / files.FILE, g, ABOUT["base_sha256"])
    backbone = LeanBackbone(g, frozen.items(), device=CPU, dtype=torch.float32, adaptation=adaptation)
    info = ModelInfo(id="toy", family="smol", title="toy")
    model = Model(family=smol.FAMILY, backbone=backbone, mask_id=24, stop_ids=frozenset({0}), info=info)
    prompt = chain(next_of, 3, 4).tolist()
    for policy, knobs in (("streaming", {"threshold": 0.8}), ("verify", {"steps": 1})):
        live = LiveKnobs(smol.FAMILY.defaults.replace(policy=policy, max_new_tokens=40, **knobs))
        *_, done = Decoder(model, prompt, live).events()
        assert isinstance(done, Done)
        assert list(done.token_ids) == chain(next_of, prompt[-1], 41).tolist()[1:]
        assert done.tokens / done.nfe > 2, policy
