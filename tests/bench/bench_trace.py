"""What it takes to open a long session: python -m tests.bench.bench_trace

Writes a trace of 10,000 denoising steps, in blocks of 32 with five alternatives at every position that is
open or was just decided, and opens it: read, checked, indexed; and again as a chat that is taken up. Memory
is the most that Python had allocated, in a third opening. Then it writes steps as an engine would: at 10 ms
a forward, 2 % would be 200 microseconds.
"""

import json
import random
import tempfile
import time
import tracemalloc
from pathlib import Path

from dllm_tui.events import (
    BlockStart,
    Change,
    Commit,
    Done,
    Guess,
    Header,
    Pieces,
    RunStart,
    Step,
    Turn,
    encode,
)
from dllm_tui.trace import chats
from dllm_tui.trace.archive import Archive
from dllm_tui.trace.reader import read
from dllm_tui.trace.writer import Writer

STEPS = 10_000
PER_RUN = 500
BLOCK = 32
WORDS = 2000


def write(path: Path, steps: int = STEPS) -> None:
    """A session of so many steps."""
    draw = random.Random(1)
    word = lambda: draw.randrange(WORDS)  # noqa: E731 (a name for a call that is everywhere below)
    share = lambda: round(draw.random(), 6)  # noqa: E731
    with path.open("wb") as file:

        def add(event: object) -> None:
            file.write(encode(event) + b"\n")  # type: ignore[arg-type]

        add(Header(app="bench"))
        pieces = Pieces(pieces={number: b" w%d" % number for number in range(WORDS)})
        for run, first in enumerate(range(0, steps, PER_RUN)):
            add(Turn(role="user", text="Go on."))
            add(RunStart(run=run))
            if run == 0:
                add(pieces)
            masked, block, nfe = list[int](), -1, 0
            for _ in range(first, min(first + PER_RUN, steps)):
                if not masked:
                    block += 1
                    masked = list(range(block * BLOCK, (block + 1) * BLOCK))
                    add(BlockStart(run=run, block=block, start=masked[0], end=masked[-1] + 1))
                taken = tuple(
                    Change(position=at, token_id=word(), confidence=share())
                    for at in masked[: draw.choice([1, 1, 2, 2, 3])]
                )
                del masked[: len(taken)]
                nfe += 1
                add(
                    Step(
                        run=run,
                        phase="denoise",
                        block=block,
                        nfe=nfe,
                        t=nfe * 0.02,
                        seconds=0.02,
                        length=(block + 1) * BLOCK,
                        changes=taken,
                        guesses=tuple(
                            Guess(
                                position=at,
                                token_id=word(),
                                confidence=share(),
                                entropy=share(),
                                top=tuple((word(), share()) for _ in range(5)),
                            )
                            for at in masked
                        ),
                        decided=tuple(
                            Guess(
                                position=change.position,
                                token_id=word(),
                                confidence=share(),
                                entropy=share(),
                                top=tuple((word(), share()) for _ in range(5)),
                            )
                            for change in taken
                        ),
                    )
                )
                if not masked:
                    add(Commit(run=run, block=block, start=block * BLOCK, end=(block + 1) * BLOCK))
            add(Done(run=run, reason="length", seconds=nfe * 0.02))


def _writing(path: Path) -> float:
    """Seconds of the processor that writing a step takes the engine."""
    steps = [event for event in read(path) if isinstance(event, Step)][:2000]
    with tempfile.TemporaryDirectory() as folder:
        writer = Writer(Path(folder) / "new.jsonl")
        began = time.process_time()
        for step in steps:
            writer.write(step)
        took = time.process_time() - began
        writer.close()
    return took / len(steps)


def measure(steps: int = STEPS) -> dict[str, float]:
    """Open such a session; what it took."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "long.jsonl"
        write(path, steps)
        wall, cpu = time.perf_counter(), time.process_time()
        with Archive(path) as archive:
            moments = len(archive.timeline.moments)
            wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
        chat_wall, chat_cpu = time.perf_counter(), time.process_time()
        chats.load(path)
        chat_wall, chat_cpu = time.perf_counter() - chat_wall, time.process_time() - chat_cpu
        writing = _writing(path)
        tracemalloc.start()
        chats.load(path)
        memory = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return {
            "steps": moments,
            "seconds": wall,
            "cpu_seconds": cpu,
            "chat_seconds": chat_wall,
            "chat_cpu_seconds": chat_cpu,
            "writing_microseconds": writing * 1e6,
            "mebibytes": memory / (1 << 20),
            "file_mebibytes": path.stat().st_size / (1 << 20),
        }


if __name__ == "__main__":
    print(json.dumps(measure(), indent=2))
