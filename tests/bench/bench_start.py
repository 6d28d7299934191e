"""What a start costs, and a watching app: python -m tests.bench.bench_start

In one run: the wall time of ``--help``, of the app's first screen in a pseudo-terminal, and until the default
model is ready; then the engine's tokens a second with the app drawing every step, over those without it
(``ask``). Settings and seeds are the same, so the answers are too. The weights must have been fetched.
"""

import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pexpect

from dllm_tui import paths
from dllm_tui.events import Done
from dllm_tui.trace import reader

COMMAND = Path(sys.executable).with_name("dllm-chat")
PROMPT = "Tell me a short story about a lighthouse keeper."
KNOBS = ("--max-new-tokens", "96")
TIMES = 5
READY = re.compile("●(?:\x1b\\[[0-9;]*m|\\s)*ready".encode())


def main() -> None:
    """Measure and print."""
    print(f"--help            {_range([_help() for _ in range(TIMES)])}")
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "models").symlink_to(paths.models_dir())
        environment = {**os.environ, "DLLM_CHAT_DATA": folder, "TERM": "xterm-256color"}
        paints, readies, watched, alone = [], [], [], []
        for _ in range(TIMES):
            paint, ready, rate = _app(environment, Path(folder))
            paints.append(paint)
            readies.append(ready)
            watched.append(rate)
            alone.append(_ask(environment, Path(folder)))
    print(f"first screen      {_range(paints)}")
    print(f"model ready       {_range(readies)}")
    print(f"alone             {statistics.median(alone):.2f} tok/s")
    print(f"with the app      {statistics.median(watched):.2f} tok/s")
    print(f"watched / alone   {statistics.median(watched) / statistics.median(alone):.3f}")


def _help() -> float:
    began = time.perf_counter()
    subprocess.run([COMMAND, "--help"], check=True, capture_output=True)
    return time.perf_counter() - began


def _app(environment: dict[str, str], data: Path) -> tuple[float, float, float]:
    """Seconds to the first screen and to the model; tokens a second of one answer."""
    began = time.perf_counter()
    app = pexpect.spawn(str(COMMAND), [*KNOBS], env=environment, dimensions=(32, 110), timeout=120)
    app.expect("Ask something")
    paint = time.perf_counter() - began
    app.expect(READY)
    ready = time.perf_counter() - began
    app.send(PROMPT + "\r")
    chats = data / "chats"
    done = None
    while done is None:
        try:
            app.read_nonblocking(1 << 16, timeout=0.2)
        except pexpect.TIMEOUT:
            done = _done(chats)
    app.send("\x11")
    app.expect(pexpect.EOF)
    for chat in chats.iterdir():
        chat.unlink()
    return paint, ready, done.tokens / done.seconds


def _ask(environment: dict[str, str], data: Path) -> float:
    trace = data / "ask.jsonl"
    trace.unlink(missing_ok=True)
    command = [COMMAND, "ask", PROMPT, *KNOBS, "--trace", trace]
    subprocess.run(command, env=environment, check=True, capture_output=True, stdin=subprocess.DEVNULL)
    (done,) = (event for event in reader.read(trace) if isinstance(event, Done))
    return done.tokens / done.seconds


def _done(chats: Path) -> Done | None:
    if not chats.is_dir():
        return None
    events = [event for chat in chats.iterdir() for event in reader.read(chat)]
    return next((event for event in events if isinstance(event, Done)), None)


def _range(seconds: list[float]) -> str:
    return f"{min(seconds):.2f} s at best, {statistics.median(seconds):.2f} s in the middle of {len(seconds)}"


if __name__ == "__main__":
    main()
