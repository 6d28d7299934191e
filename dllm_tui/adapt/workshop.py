"""One adaptation from beginning to end, in one directory.

It holds ``adapter.safetensors`` and ``adapter_config.json`` (the result, anew at every checkpoint),
``README.md`` (what it is), ``chats.jsonl`` and ``held-out.jsonl`` (what the base wrote, to learn from
and to judge by), and ``training/`` (the checkpoint and the clean stream's readings, which may be deleted at
the end).
"""

import fcntl
import itertools
import json
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import TypeAlias

import torch
from torch import Tensor

from dllm_tui.adapt import adapter as files
from dllm_tui.adapt import whole
from dllm_tui.adapt.card import card
from dllm_tui.adapt.data import Chat, digest, read
from dllm_tui.adapt.lowrank import LowRank
from dllm_tui.adapt.network import Network
from dllm_tui.adapt.prompts import prompts
from dllm_tui.adapt.readings import Readings
from dllm_tui.adapt.selfmade import Writer
from dllm_tui.adapt.student import AdapterStudent
from dllm_tui.adapt.training import Recipe, Report, Trainer, TrainingError, written
from dllm_tui.adapt.validation import Forecast, forecast
from dllm_tui.adapt.whole import WholeStudent
from dllm_tui.engine.autoregressive import Base, find
from dllm_tui.paths import private, write_private

LONGEST = 1024
"""Tokens of a sequence."""
CHECKPOINT_SECONDS = 300.0
HELD_OUT = 24
"""Chats that the forecast looks at."""


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What is to be done."""

    base: str
    """``smol``, a GGUF file, a directory or a hub id."""
    out: Path
    data: tuple[Path, ...] = ()
    """Chat files and texts."""
    selfmade: int = 0
    """Tokens that the base writes itself."""
    tokens: int | None = None
    """Window positions to train on, all runs together; no end if ``None``."""
    seconds: float | None = None
    """Longest run."""
    start: Path | None = None
    """An adapter to begin with."""
    whole: bool = False
    """Train all weights, into an ordinary checkpoint (Qwen2 alone)."""
    slots: int = 48
    """Answers that are written at a time."""

    @property
    def checkpoint(self) -> Path:
        """Where a training goes on from."""
        return self.out / "training" / "state.safetensors"


@dataclass(frozen=True)
class Told:
    """How far an adaptation is."""

    doing: str
    """For people."""
    done: float | None = None
    """0 … 1, where it is known."""
    report: Report | None = None
    left: float | None = None
    """Seconds, where it is known."""


Telling: TypeAlias = Callable[[Told], None]
Judge: TypeAlias = Callable[[Mapping[str, Tensor], dict[str, str]], Forecast | None]
"""Writes what people use of the averaged weights, with their metadata; says what to expect of it."""


class Workshop:
    """Everything that an adaptation needs, made once.

    Args:
        plan: what is to be done.
        recipe: how, if the directory has no checkpoint; that one's own recipe otherwise, unless given.
        device: where the model goes.
        dtype: of weights and arithmetic.
        tell: is told how far it is; may raise, to stop.

    Raises:
        DllmError: base, data or checkpoint are missing, damaged, or don't fit together.
    """

    def __init__(
        self,
        plan: Plan,
        recipe: Recipe,
        device: torch.device,
        dtype: torch.dtype,
        tell: Telling = lambda _: None,
    ) -> None:
        self.plan, self.recipe, self.tell = plan, recipe, tell
        self.base: Base = find(plan.base, lambda text, done: tell(Told(text, done)))
        self.sha256 = self.base.sha256
        tell(Told("loading the base"))
        self.network = Network(self.base.geometry, dict(self.base.read()), device, dtype)
        self.device, self.dtype = device, dtype
        private(plan.out)

    def adapt(self) -> Forecast | None:
        """Write chats, train, and leave the adapter or the checkpoint in the directory.

        Returns:
            What an adapter can be expected to do.

        Raises:
            DllmError: see the class; or the loss is no number any more.
        """
        with _alone(private(self.plan.checkpoint.parent)):
            return self._adapt()

    def _adapt(self) -> Forecast | None:
        chats = self.chats()
        if self.plan.whole:
            student = WholeStudent(self.base, chats, self.recipe, self.device, self.dtype)
            judge: Judge = partial(self._keep_whole, student)
        else:
            student, judge = self._adapter(chats)
        trainer = Trainer(student, chats, self.recipe)
        about = {"base_sha256": self.sha256}
        if self.plan.checkpoint.exists():
            trainer.restore(self.plan.checkpoint, about)
        began = saved = perf_counter()
        first = trainer.state.tokens
        try:
            for report in trainer.steps() if self._goes_on(trainer, began) else ():
                self._tell(report, perf_counter() - began, first)
                if perf_counter() - saved > CHECKPOINT_SECONDS:
                    self._keep(trainer, about, judge)
                    saved = perf_counter()
                if not self._goes_on(trainer, began):
                    break
        except KeyboardInterrupt:
            if trainer.is_whole:
                trainer.save(self.plan.checkpoint, about)
            raise
        return self._keep(trainer, about, judge)

    def _goes_on(self, trainer: Trainer, began: float) -> bool:
        plan = self.plan
        wanted = plan.tokens is None or trainer.state.tokens < plan.tokens
        return wanted and (plan.seconds is None or perf_counter() - began < plan.seconds)

    def _tell(self, report: Report, seconds: float, first: int) -> None:
        plan, done = self.plan, None
        if plan.tokens:
            done = report.tokens / plan.tokens
        if plan.seconds:
            done = max(done or 0.0, seconds / plan.seconds)
        left = None
        if plan.tokens and report.tokens > first:
            left = (plan.tokens - report.tokens) * seconds / (report.tokens - first)
        if plan.seconds:
            left = min(plan.seconds - seconds, plan.seconds if left is None else left)
        self.tell(Told("training", done, report, left))

    def _keep(self, trainer: Trainer, about: dict[str, str], judge: Judge) -> Forecast | None:
        """Write the checkpoint, and what people use."""
        trainer.save(self.plan.checkpoint, about)
        chats, state = trainer.chats, trainer.state
        learnt = {"chats": len(chats), "tokens": sum(c.learnt for c in chats), "sha256": digest(chats)}
        told = {
            **about,
            "base": self.base.name,
            "base_source": self.base.said,
            "recipe": written(self.recipe),
            "data": json.dumps(learnt),
            "tokens_seen": str(state.tokens),
            "tokens_learnt": str(state.learnt),
        }
        figures = judge(trainer.averaged, told)
        if figures:
            self.tell(Told(f"{state.tokens} tokens seen: {figures}"))
        return figures

    def _adapter(self, chats: list[Chat]) -> tuple[AdapterStudent, Judge]:
        """The student that an adapter is, and how it is kept."""
        kept, recipe = self.plan.checkpoint.parent, self.recipe
        adapter = LowRank(
            self.network, rank=recipe.rank, scale=recipe.scale, targets=recipe.targets, seed=recipe.seed
        )
        if self.plan.start:
            files.start_from(adapter, self.plan.start)
        judged = self.write(self.plan.out / "held-out.jsonl", chats_wanted=HELD_OUT)
        held_out = Readings(self.network, judged, kept / "held-out", base=self.sha256)
        readings = Readings(self.network, chats, kept / "clean", base=self.sha256)

        def judge(averaged: Mapping[str, Tensor], told: dict[str, str]) -> Forecast:
            now = {name: parameter.detach().clone() for name, parameter in adapter.parameters.items()}
            adapter.take(averaged)
            figures = forecast(self.network, adapter, held_out, stop_id=self.base.stop_id)
            adapter.take(now)
            about = {**told, "figures": json.dumps(asdict(figures))}
            files.write(self.plan.out, adapter, averaged, about)
            write_private(self.plan.out / "README.md", card(told, recipe, figures).encode())
            return figures

        student = AdapterStudent(self.network, adapter, readings, recipe, stop_id=self.base.stop_id)
        return student, judge

    def _keep_whole(
        self, student: WholeStudent, averaged: Mapping[str, Tensor], told: dict[str, str]
    ) -> None:
        whole.write(self.plan.out, student, averaged)
        write_private(self.plan.out / "README.md", card(told, self.recipe, None).encode())

    # Data

    def chats(self) -> list[Chat]:
        """All that is learnt: what the base wrote, and the files.

        Raises:
            DataError: a file can't be read or has nothing in it.
            TrainingError: there are none.
        """
        chats = [chat for path in self.plan.data for chat in self._read(path)]
        own = self.plan.out / "chats.jsonl"
        if self.plan.selfmade or own.exists():
            # Behind the files, so that more can be written when a training goes on.
            chats += self.write(own, tokens=self.plan.selfmade)
        if not chats:
            raise TrainingError(
                "There is nothing to learn from.",
                "Name files with --data, or let the base write: --selfmade.",
            )
        return chats

    def _read(self, path: Path) -> list[Chat]:
        return read(
            path,
            self.base.words,
            vocabulary=self.base.geometry.vocab_size,
            stop_id=self.base.stop_id,
            longest=LONGEST,
        )

    def write(self, path: Path, *, tokens: int = 0, chats_wanted: int = 0) -> list[Chat]:
        """Chats that the base writes, those counted that are there already.

        Args:
            path: of the file that they are added to.
            tokens: of answers, at least.
            chats_wanted: for validation: so many chats, on prompts that are never trained on.
        """
        there = whole_lines(path)
        chats = self._read(path) if there else []
        found = sum(chat.learnt for chat in chats)

        def is_enough() -> bool:
            return found >= tokens and len(chats) >= chats_wanted

        if is_enough():
            return chats
        writer = Writer(self.network, self.base.words, self.base.stop_id, slots=self.plan.slots)
        # A seed of its own for each run, so that no prompts are asked twice.
        asked = prompts(self.recipe.seed + 1000 * len(chats), held_out=bool(chats_wanted))
        wanted = chats_wanted - len(chats)
        with path.open("ab") as file:
            for chat in writer.write(itertools.islice(asked, wanted) if chats_wanted else asked):
                file.write(chat.line().encode() + b"\n")
                file.flush()
                chats.append(chat)
                found += chat.learnt
                done = len(chats) / chats_wanted if chats_wanted else found / tokens
                self.tell(Told(f"writing chats, {found} tokens", min(1.0, done)))
                if not chats_wanted and is_enough():
                    break
        return chats


@contextmanager
def _alone(directory: Path) -> Generator[None]:
    """Hold a directory: two trainings in one would overwrite each other's checkpoints.

    Raises:
        TrainingError: another process holds it.
    """
    with (directory / ".lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise TrainingError(
                f"Another training is at work in {directory.parent}.", "Wait for it, or take another folder."
            ) from None
        yield


def whole_lines(path: Path) -> bool:
    """Cut a torn last line off a file; whether anything is left."""
    with suppress(FileNotFoundError):
        data = path.read_bytes()
        whole = data[: data.rfind(b"\n") + 1]
        if whole != data:
            write_private(path, whole)
        return bool(whole.strip())
    return False
