"""A host for tests of the interface: no model, but runs made of the very events that an engine sends.

It has an answer ready and denoises it: every step it gives each masked position a confidence, and commits by
the rule of the knobs (at least enough for the steps left, and all above the threshold). What it is told of
knobs, cancel and messages it keeps, so that tests can look.
"""

import random
import re
import threading
import time
from collections.abc import Sequence

from dllm_tui.events import (
    BlockStart,
    Change,
    Commit,
    Done,
    Error,
    Guess,
    KnobChange,
    ModelInfo,
    Pieces,
    Reason,
    RunStart,
    Step,
)
from dllm_tui.knobs import Knobs, LiveKnobs
from dllm_tui.ports import HostState, Message, Origin, Run, Sink

STOP = 0
STEP = 0.04
"""Seconds that a step is said to take."""
ANSWER = (
    "The lighthouse keeper, a kind-hearted and resourceful man named Malcolm Blackstone, was a gruff but "
    "lovable man with a heart full of compassion. He had spent his whole life by the sea, and he knew every "
    "rock, every current and every star above it."
)
MODEL = ModelInfo(
    id="smol",
    family="smol",
    title="SmolLM2-135M, block diffusion",
    licence="Apache-2.0",
    parameters=134_515_008,
    device="cpu",
    dtype="bfloat16",
    context_length=2048,
    policies=("confidence", "streaming", "verify", "sequential", "margin", "entropy", "random"),
    fixed_knobs={"edit_threshold": "its tokens are final once committed", "cfg_scale": "not trained for it"},
)


class FakeHost:
    """Implements :class:`dllm_tui.session.Host`.

    Args:
        answers: texts to answer with, in turn; the last one again and again.
        pace: seconds a step takes; 0 runs as fast as it can.
        model: what it says it is, once ready.
        ready: whether it is ready from the start; else :meth:`become_ready` makes it.
        failure: what goes wrong in every run after its first step, if anything.
        gate: when given, a step waits until it is released: tests go step by step.
    """

    def __init__(
        self,
        answers: Sequence[str] = (ANSWER,),
        *,
        pace: float = 0.0,
        model: ModelInfo = MODEL,
        ready: bool = True,
        failure: Error | None = None,
        gate: threading.Semaphore | None = None,
    ) -> None:
        self.answers, self.pace, self.model, self.failure, self.gate = (
            list(answers),
            pace,
            model,
            failure,
            gate,
        )
        self.state = HostState(phase="loading", requested=model.id, detail=f"loading {model.id}")
        self.asked: list[list[Message]] = []
        self.loads: list[str] = []
        self.runs: list[Run] = []
        self.closed = False
        self.defaults = Knobs()
        if ready:
            self.become_ready()

    def become_ready(self) -> None:
        """The model is loaded."""
        self.state = HostState(
            phase="ready", requested=self.model.id, model=self.model, defaults=self.defaults
        )

    def report(self, phase: str, *, progress: float | None = None, error: Error | None = None) -> None:
        """Stand where a test wants it."""
        self.state = HostState(phase=phase, requested=self.model.id, progress=progress, error=error)  # type: ignore[arg-type]

    def load(self, model: str) -> None:
        """Note what was asked for, and be ready at once."""
        self.loads.append(model)
        self.become_ready()

    def generate(
        self,
        messages: Sequence[Message],
        knobs: LiveKnobs,
        *,
        sinks: Sequence[Sink] = (),
        index: int = 0,
        origin: Origin | None = None,
    ) -> Run:
        """Answer with the next text, in a thread."""
        self.asked.append(list(messages))
        text = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        run = Run(knobs)
        self.runs.append(run)
        threading.Thread(target=_Writer(self, run, index, sinks).write, args=(text,), daemon=True).start()
        return run

    def close(self) -> None:
        """Stop what runs."""
        self.closed = True
        for run in self.runs:
            run.cancel()


class _Writer:
    """One run."""

    def __init__(self, host: FakeHost, run: Run, index: int, sinks: Sequence[Sink]) -> None:
        self.host, self.run, self.index, self.sinks = host, run, index, sinks
        self.nfe = 0
        self.phases = {"prefill": 0, "denoise": 0, "commit": 0}
        self.random = random.Random(7)

    @property
    def clock(self) -> float:
        """Seconds as a run's events tell them: the same in every run, whatever the pace."""
        return self.nfe * STEP

    def add(self, event: object) -> None:
        for sink in self.sinks:
            sink(event)  # type: ignore[arg-type]
        self.run.add(event)  # type: ignore[arg-type]

    def step(self, phase: str, length: int, **more: object) -> None:
        if self.host.gate:
            while not self.host.gate.acquire(timeout=0.05) and not self.run.cancelled:
                pass
        elif self.host.pace:
            time.sleep(self.host.pace)
        self.nfe += 1
        self.phases[phase] += 1
        self.add(
            Step(
                run=self.index,
                phase=phase,  # type: ignore[arg-type]
                nfe=self.nfe,
                t=self.clock,
                seconds=STEP,
                length=length,
                **more,  # type: ignore[arg-type]
            )
        )

    def write(self, text: str) -> None:
        tokens = [piece.encode() for piece in re.findall(r"\s?\S+|\s", text)]
        ids = {piece: number for number, piece in enumerate(dict.fromkeys(tokens), start=1)}
        answer = [ids[piece] for piece in tokens] + [STOP]
        now = self.run.knobs.now
        self.add(RunStart(run=self.index, knobs=now.to_dict(), prompt_tokens=24, seed=7))
        pieces = {number: piece for piece, number in ids.items()} | {STOP: b"<|im_end|>"}
        self.add(Pieces(run=self.index, pieces=pieces, special=(STOP,)))
        self.step("prefill", 0)
        kept, reason = self._blocks(answer)
        if self.host.failure:
            self.add(self.host.failure)
            reason = "error"
        self.add(
            Done(
                run=self.index,
                reason=reason,
                token_ids=tuple(kept),
                tokens=len(kept),
                nfe=self.nfe,
                nfe_by_phase=dict(self.phases),
                seconds=self.clock,
                seconds_by_phase=dict.fromkeys(self.phases, 0.0),
            )
        )

    def _blocks(self, answer: list[int]) -> tuple[list[int], Reason]:
        kept: list[int] = []
        block, before = 0, self.run.knobs.now
        limit = min(len(answer), before.max_new_tokens)
        while len(kept) < limit:
            start = len(kept)
            end = min(start + self.run.knobs.now.block_size, limit)
            self.add(BlockStart(run=self.index, block=block, start=start, end=end))
            masked, step = set(range(start, end)), 0
            while masked:
                if self.run.cancelled:
                    return kept + [answer[i] for i in range(start, end) if i not in masked], "cancelled"
                knobs = self.run.knobs.now
                changes = {
                    name: value for name, value in knobs.to_dict().items() if value != before.to_dict()[name]
                }
                if changes:
                    self.add(KnobChange(run=self.index, t=self.clock, changes=changes))
                    before = knobs
                step += 1
                self._denoise(answer, masked, knobs, block, step, end)
                if self.host.failure:
                    return kept, "error"
            self.step("commit", end, block=block)
            self.add(Commit(run=self.index, block=block, start=start, end=end))
            kept, block = answer[:end], block + 1
        return kept, "stop" if limit == len(answer) else "length"

    def _denoise(
        self, answer: list[int], masked: set[int], knobs: Knobs, block: int, step: int, end: int
    ) -> None:
        sure = {i: min(1.0, self.random.betavariate(5, 2) + 0.03 * step) for i in masked}
        order = sorted(masked, key=lambda i: (-sure[i], i))
        least = -(-len(masked) // max(knobs.steps - step + 1, 1))
        taken = [i for rank, i in enumerate(order) if rank < least or sure[i] > knobs.threshold]
        masked.difference_update(taken)
        self.step(
            "denoise",
            end,
            block=block,
            step=step,
            changes=tuple(Change(position=i, token_id=answer[i], confidence=sure[i]) for i in sorted(taken)),
            guesses=tuple(
                Guess(
                    position=i,
                    token_id=answer[i] if sure[i] > 0.5 else answer[i - 1] or answer[0],
                    confidence=sure[i] * 0.6,
                )
                for i in sorted(masked)
            ),
        )
