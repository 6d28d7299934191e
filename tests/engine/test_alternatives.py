"""The alternatives in a recorded chat are the best tokens of the very logits that the step was decided by."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from torch import Tensor

from dllm_tui.engine import loop
from dllm_tui.engine.api import Engine
from dllm_tui.engine.host import EngineHost
from dllm_tui.events import BlockStart, Canvas, Guess, Step
from dllm_tui.session import Session
from dllm_tui.settings import Settings
from dllm_tui.trace.reader import read
from tests.engine.test_host import engine, wait_for

KEPT = 5


def recorded(engine: Engine, folder: Path, monkeypatch: pytest.MonkeyPatch, **knobs: object) -> list[tuple]:
    """Ask by way of a host and a session that keeps its chat; its denoising steps, and their logits."""
    seen: list[np.ndarray] = []
    original = loop.Decoder._logits

    def spy(decoder: loop.Decoder, *arguments: Any) -> Tensor:
        logits = original(decoder, *arguments)
        seen.append(logits.double().numpy().copy())
        return logits

    monkeypatch.setattr(loop.Decoder, "_logits", spy)
    host = EngineHost(loader=lambda name, progress: engine, alternatives=KEPT)
    host.load("it")
    wait_for(lambda: host.state.phase == "ready", 120)
    session = Session(host, Settings(knobs={"max_new_tokens": 24, "seed": 1, **knobs}), history=folder)
    assert session.send("5 6 7").wait(120)
    session.close()
    host.close()
    (path,) = folder.glob("*.jsonl")
    for event in read(path):  # of whatever was decided, in forwards of all kinds
        if isinstance(event, Step):
            decided = {cell.position for cell in event.changes if cell.token_id is not None}
            assert {guess.position for guess in event.decided} == decided
            assert all(len(guess.top) == KEPT for guess in event.decided)
    steps = list(denoising(path))
    assert len(steps) == len(seen)
    return [(*step, logits) for step, logits in zip(steps, seen, strict=True)]


def denoising(path: Path) -> Iterator[tuple[list[int], Step]]:
    """Each denoising step of the trace, and the masks of its block before it."""
    canvas, block = Canvas(), range(0)
    for event in read(path):
        if isinstance(event, BlockStart):
            block = range(event.start, event.end)
        elif isinstance(event, Step):
            if event.phase == "denoise":
                cells = canvas.cells
                yield [at for at in block if at >= len(cells) or cells[at] is None], event
            canvas.apply(event)


def check(masks: list[int], step: Step, logits: np.ndarray) -> int:
    """Whether a step tells of every cell what its row of the logits says; how many stayed guesses."""
    assert logits.shape[0] == len(masks)
    chances = np.exp(logits - logits.max(-1, keepdims=True))
    chances /= chances.sum(-1, keepdims=True)
    entropy = -(chances * np.log(np.maximum(chances, 1e-300))).sum(-1)
    for guess in (*step.guesses, *step.decided):
        row = masks.index(guess.position)
        best = np.argsort(-chances[row], kind="stable")[:KEPT]
        assert [token for token, _ in guess.top] == best.tolist()
        assert [chance for _, chance in guess.top] == pytest.approx(chances[row][best].tolist(), abs=1e-4)
        assert (guess.token_id, guess.confidence) == (
            guess.top[0][0],
            pytest.approx(guess.top[0][1], abs=1e-4),
        )
        assert guess.entropy == pytest.approx(entropy[row], abs=1e-3)
    assert {guess.position for guess in step.guesses} == set(masks) - {cell.position for cell in step.changes}
    return len(step.guesses)


def test_alternatives_are_the_logits_best(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    steps = recorded(engine(), tmp_path, monkeypatch, threshold=0.9)
    assert sum(check(*step) for step in steps) > 20
    guesses = [guess for _, step, _ in steps for guess in step.guesses]
    assert all(isinstance(guess, Guess) and len(guess.top) == KEPT for guess in guesses)
