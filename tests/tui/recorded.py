"""A host that answers with what a real engine once wrote, step by step if it is told to."""

import threading
import time
from collections.abc import Sequence
from pathlib import Path

import msgspec

from dllm_tui.events import AnyEvent, Step, decode
from dllm_tui.knobs import LiveKnobs
from dllm_tui.ports import Message, Origin, Run, Sink
from tests.fakes import FakeHost

DATA = Path(__file__).parent / "data"


def events_of(name: str) -> list[AnyEvent]:
    """The events of a recorded run: ``smol-story``, or ``smol-verify``."""
    return [decode(line) for line in (DATA / f"{name}.jsonl").read_bytes().splitlines()]


class RecordedHost(FakeHost):
    """Answers with recorded runs, in turn; the last one again and again.

    Args:
        runs: their events.
        gate: when given, every step waits until it is released.
        pace: seconds a step takes otherwise.
    """

    def __init__(
        self, *runs: Sequence[AnyEvent], gate: threading.Semaphore | None = None, pace: float = 0.0
    ) -> None:
        super().__init__(gate=gate, pace=pace)
        self.recorded = list(runs)

    def generate(
        self,
        messages: Sequence[Message],
        knobs: LiveKnobs,
        *,
        sinks: Sequence[Sink] = (),
        index: int = 0,
        origin: Origin | None = None,
    ) -> Run:
        """Write the next recorded run, in a thread."""
        events = self.recorded.pop(0) if len(self.recorded) > 1 else self.recorded[0]
        run = Run(knobs)
        self.runs.append(run)

        def write() -> None:
            for event in events:
                if isinstance(event, Step):
                    if self.gate:
                        self.gate.acquire()
                    time.sleep(self.pace)
                numbered = msgspec.structs.replace(event, run=index)
                for sink in sinks:
                    sink(numbered)
                run.add(numbered)

        threading.Thread(target=write, daemon=True).start()
        return run
