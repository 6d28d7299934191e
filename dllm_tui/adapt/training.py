"""The training loop: steps over chats, checkpoints, and going on where one was interrupted.

Every draw follows from the seed and from where the training is (epoch and chat), never from how it got there:
with its checkpoint a killed training goes on as if nothing had happened, on a CPU bit for bit.
"""

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter
from typing import Any, Protocol

import msgspec
import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor, nn

from dllm_tui.adapt.data import Chat, digest
from dllm_tui.adapt.files import write_tensors
from dllm_tui.adapt.network import PROJECTIONS
from dllm_tui.adapt.windows import Noise
from dllm_tui.errors import DllmError

MODULES = {part.split(".")[1] for parts in PROJECTIONS.values() for part in parts}
STATE_FORMAT = "dllm-adapt-state"
NEARBY = 9
"""Accuracy is counted for 0 … 8 masks to the left."""
ANEW = "Begin anew in another folder."


class TrainingError(DllmError):
    """A training can't begin, or can't go on."""


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """Everything that decides what is learnt from given data."""

    rank: int = 32
    scale: float = 2.0
    targets: tuple[str, ...] = ()
    """Modules that get factors; all linear layers if empty."""
    noise: Noise = field(default_factory=Noise)
    distil: float = 0.3
    """Share of the target that is the clean stream's own distribution."""
    learning_rate: float = 1e-3
    warmup: int = 50
    """Steps until the learning rate is reached."""
    averaging: float = 0.998
    """Decay of the running mean of the weights, which is what is kept as the result."""
    rows: int = 160
    """Window positions a step, at least."""
    seed: int = 0

    def __post_init__(self) -> None:
        if self.rank < 1 or self.scale <= 0 or self.rows < 1 or self.learning_rate <= 0:
            raise ValueError("rank, scale, rows and the learning rate must be above zero")
        if not 0 <= self.distil <= 1 or not 0 <= self.averaging < 1:
            raise ValueError("distil and averaging are shares, from 0 to 1")
        if unknown := set(self.targets) - MODULES:
            raise ValueError(
                f"no such module: {', '.join(sorted(unknown))}; there are {', '.join(sorted(MODULES))}"
            )


@dataclass
class State:
    """Where a training is."""

    step: int = 0
    tokens: int = 0
    """Window positions seen so far."""
    learnt: int = 0
    """Masked tokens learnt so far, the same one counted every time."""
    epoch: int = 0
    place: int = 0
    """Next chat in the epoch's order."""
    chats: int = 0
    """Of this epoch; more may come in with the next."""
    digest: str = ""
    """Of those chats."""


@dataclass(frozen=True)
class Report:
    """What one step did."""

    step: int
    epoch: int
    tokens: int
    """So far."""
    loss: float
    """Nats a token, weighted."""
    seconds: float
    """This step."""
    tokens_per_second: float
    right: tuple[int, ...]
    """Best guesses that were right, by the number of masks to the left in the block (last: or more)."""
    asked: tuple[int, ...]


class Student(Protocol):
    """What is trained, and how it is examined."""

    parameters: dict[str, nn.Parameter]
    """By name."""

    def draw(self, index: int, random: torch.Generator) -> tuple[Any, int]:
        """The noised blocks of one chat, in a form of the student's own, and how many positions they have."""
        ...

    def examine(self, drawn: Sequence[Any]) -> tuple[Tensor, Tensor, Tensor]:
        """The loss over drawn blocks.

        Returns:
            The loss, a scalar that can be differentiated; bool [R], whether each learnt token was guessed;
            and int64 [R], the masks to the left of each in its block.
        """
        ...


class Trainer:
    """Trains a student.

    Args:
        student: what is trained.
        chats: what is learnt; may grow, the new ones are learnt from the next epoch on.
        recipe: how.

    Raises:
        TrainingError: there is nothing to learn.
    """

    def __init__(self, student: Student, chats: Sequence[Chat], recipe: Recipe) -> None:
        if not chats:
            raise TrainingError(
                "There are no chats to learn from.", "Name a data file, or write some with --selfmade."
            )
        self.student, self.chats, self.recipe = student, chats, recipe
        self.state = State()
        self.is_whole = True
        """Not in the middle of a step: what :meth:`save` writes is a state that can be gone on from."""
        self.averaged = {name: p.detach().clone() for name, p in student.parameters.items()}
        parameters = list(student.parameters.values())
        self.optimiser = torch.optim.AdamW(
            parameters,
            recipe.learning_rate,
            betas=(0.9, 0.98),
            weight_decay=0.0,
            fused=parameters[0].device.type == "cpu",  # a third of the time for hundreds of small factors
        )
        self._begin_epoch()

    def _begin_epoch(self) -> None:
        self.state.chats = len(self.chats)
        self.state.digest = digest(self.chats)

    def steps(self) -> Iterator[Report]:
        """Train without end; each step's report as it is done.

        Raises:
            TrainingError: the loss is no number any more; the student is then as it was before that step.
        """
        while True:
            begun, before = perf_counter(), self.state.tokens
            self.is_whole = False
            drawn: list[Any] = []
            rows = 0
            while rows < self.recipe.rows:
                lesson, count = self._next()
                drawn.append(lesson)
                rows += count
            value, right, left = self._step(drawn)
            self.state.step += 1
            self.state.tokens += rows
            self.state.learnt += len(right)
            seconds = perf_counter() - begun
            asked = left.clamp(max=NEARBY - 1).bincount(minlength=NEARBY)
            hits = left.clamp(max=NEARBY - 1)[right].bincount(minlength=NEARBY)
            self.is_whole = True
            yield Report(
                self.state.step,
                self.state.epoch,
                self.state.tokens,
                value,
                seconds,
                (self.state.tokens - before) / seconds,
                tuple(hits.tolist()),
                tuple(asked.tolist()),
            )

    def _next(self) -> tuple[Any, int]:
        """Of the next chat in the epoch's order, the blocks that are noised."""
        state = self.state
        if state.place >= state.chats:
            state.epoch, state.place = state.epoch + 1, 0
            self._begin_epoch()
        random = generator(self.recipe.seed, state.epoch)
        index = int(torch.randperm(state.chats, generator=random)[state.place])
        state.place += 1
        chance = generator(self.recipe.seed, state.epoch, index)
        return self.student.draw(index, chance)

    def _step(self, drawn: Sequence[Any]) -> tuple[float, Tensor, Tensor]:
        self.optimiser.zero_grad(set_to_none=True)
        value, right, left = self.student.examine(drawn)
        value.backward()
        parameters = self.student.parameters
        norm = torch.nn.utils.clip_grad_norm_(list(parameters.values()), 1.0)
        if not bool(torch.isfinite(norm + value)):
            raise TrainingError(
                f"The loss is no number any more (step {self.state.step + 1}).",
                "The last checkpoint is sound. Go on from it with a lower learning rate.",
            )
        warm = min(1.0, (self.state.step + 1) / max(1, self.recipe.warmup))
        self.optimiser.param_groups[0]["lr"] = self.recipe.learning_rate * warm
        self.optimiser.step()
        # As Adam's own estimates: early on the mean forgets faster, or it would stay near the first values.
        keep = min(self.recipe.averaging, (self.state.step + 1) / (self.state.step + 10))
        with torch.no_grad():
            for name, parameter in parameters.items():
                self.averaged[name].lerp_(parameter, 1 - keep)
        return float(value.detach()), right.cpu(), left.cpu()

    # Checkpoints

    def save(self, path: Path, about: dict[str, str]) -> None:
        """Write everything that is needed to go on.

        Args:
            path: of the file; what was there stays until the new one is whole.
            about: what else identifies the training, e.g. the base's hash.

        Raises:
            OSError: it can't be written.
        """
        tensors: dict[str, Tensor] = {}
        for name, parameter in self.student.parameters.items():
            moments = self.optimiser.state.get(parameter, {})
            tensors[f"now.{name}"], tensors[f"mean.{name}"] = parameter.data, self.averaged[name]
            tensors |= {
                f"{kind}.{name}": moments[kind] for kind in ("exp_avg", "exp_avg_sq") if kind in moments
            }
        told = {"format": STATE_FORMAT, "state": written(self.state), "recipe": written(self.recipe)}
        write_tensors(path, tensors, {**about, **told})

    def restore(self, path: Path, about: dict[str, str]) -> None:
        """Go on from a checkpoint.

        Args:
            path: of the file.
            about: must be what it was saved with.

        Raises:
            TrainingError: it is damaged, or belongs to another base, recipe or data.
        """
        told, recipe, state, tensors = _checkpoint(path)
        for key, value in about.items():
            if told.get(key) != value:
                raise TrainingError(
                    f"{path.name} was made with {key} {told.get(key, 'unknown')}, not {value}.",
                    "Go on with the same base, or begin anew in another folder.",
                )
        if recipe != self.recipe:
            raise TrainingError(
                f"The checkpoint {path.name} was made with another recipe.",
                "Go on with the options that it was begun with, or begin anew in another folder.",
            )
        if len(self.chats) < state.chats or digest(self.chats[: state.chats]) != state.digest:
            raise TrainingError(
                "The data is not what this training began with.",
                "Chats may be added at the end of the files, none changed. Or begin anew in another folder.",
            )
        for name, parameter in self.student.parameters.items():
            wanted = {f"now.{name}", f"mean.{name}"}
            if any(key not in tensors or tensors[key].shape != parameter.shape for key in wanted):
                raise TrainingError(
                    f"The checkpoint {path.name} is damaged: {name} is missing or of another shape."
                )
        with torch.no_grad():
            for name, parameter in self.student.parameters.items():
                parameter.copy_(tensors[f"now.{name}"])
                self.averaged[name].copy_(tensors[f"mean.{name}"])
                if f"exp_avg.{name}" in tensors:
                    self.optimiser.state[parameter] = {
                        "step": torch.tensor(float(state.step)),
                        "exp_avg": tensors[f"exp_avg.{name}"].to(parameter.device),
                        "exp_avg_sq": tensors[f"exp_avg_sq.{name}"].to(parameter.device),
                    }
        self.state = state


def recipe_of(path: Path) -> Recipe:
    """The recipe that a checkpoint was made with.

    Raises:
        TrainingError: it is damaged, or no checkpoint.
    """
    return _checkpoint(path)[1]


def _checkpoint(path: Path) -> tuple[dict[str, str], Recipe, State, dict[str, Tensor]]:
    """All that a checkpoint holds.

    Raises:
        TrainingError: it is damaged, or no checkpoint.
    """
    try:
        with safe_open(path, framework="pt") as file:
            told: dict[str, str] = file.metadata() or {}
            names: list[str] = list(file.keys())
            tensors: dict[str, Tensor] = {name: file.get_tensor(name) for name in names}
    except (OSError, SafetensorError) as error:
        raise TrainingError(f"The checkpoint {path} can't be read: {error}.", ANEW) from error
    if told.get("format") != STATE_FORMAT:
        raise TrainingError(f"{path} is no checkpoint of a training.", ANEW)
    try:
        state = msgspec.json.decode(told.get("state", ""), type=State)
        recipe = msgspec.json.decode(told.get("recipe", ""), type=Recipe)
    except msgspec.DecodeError as error:
        raise TrainingError(f"The checkpoint {path} is damaged: {error}.", ANEW) from error
    return told, recipe, state, tensors


def written(value: State | Recipe) -> str:
    """As JSON."""
    return msgspec.json.encode(value).decode()


def generator(*numbers: int) -> torch.Generator:
    """Chance that follows from some numbers alone."""
    said = hashlib.blake2b(",".join(map(str, numbers)).encode(), digest_size=7).digest()
    return torch.Generator().manual_seed(int.from_bytes(said))
