"""What watching costs the engine: python -m tests.bench.bench_watched

The app writes one long answer in a pseudo-terminal, and looks at it only every other second. The steps of the
seconds in which it draws are compared with those in which it doesn't: in one run, so that a machine whose
speed wanders does no harm. The weights must have been fetched.
"""

import contextlib
import itertools
import json
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path

import pexpect

from dllm_tui import paths

PROMPT = "Write a very long story, in many chapters, about a lighthouse keeper and his many cats."
SECONDS = 90


def main() -> None:
    """Measure and print."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "models").symlink_to(paths.models_dir())
        out = Path(folder) / "counts.json"
        environment = {**os.environ, "DLLM_CHAT_DATA": folder, "TERM": "xterm-256color"}
        command = ["-m", "tests.bench.bench_watched", str(out)]
        app = pexpect.spawn(sys.executable, command, env=environment, dimensions=(32, 110), timeout=120)
        app.expect("threshold")
        app.send(PROMPT + "\r")
        end = None
        while end is None or time.monotonic() < end:
            if end is None and out.exists():
                end = time.monotonic() + SECONDS
            with contextlib.suppress(pexpect.TIMEOUT):
                app.read_nonblocking(1 << 16, timeout=1)
        app.terminate()
        app.expect(pexpect.EOF)
        counts = json.loads(out.read_text())
    # The first second holds the prefill, the last one may be cut short.
    pairs = list(itertools.pairwise(counts))[1:-1]
    watched, alone = ([after[1] - before[1] for before, after in pairs if before[0] == way] for way in (0, 1))
    print(f"watched          {statistics.mean(watched):.2f} steps/s ({len(watched)} seconds)")
    print(f"alone            {statistics.mean(alone):.2f} steps/s ({len(alone)} seconds)")
    print(f"watched / alone  {statistics.mean(watched) / statistics.mean(alone):.3f}")


def app(out: Path) -> None:
    """The app, which looks away every other second; ``out`` gets the number of events at each one."""
    from dllm_tui.cli import main as dllm_chat
    from dllm_tui.tui.following import Following

    poll, counts = Following._poll, []  # pyright: ignore[reportPrivateUsage]

    def now_and_then(self: Following) -> None:
        second, run = int(time.monotonic()), self.session.run
        if self.running and run and run.events:
            if not counts or counts[-1][2] != second:
                counts.append((second % 2, len(run.events), second))
                out.write_text(json.dumps(counts))
            if second % 2:
                return
        poll(self)

    Following._poll = now_and_then  # pyright: ignore[reportPrivateUsage]
    sys.argv = ["dllm-chat", "--max-new-tokens", "2000"]
    dllm_chat()


if __name__ == "__main__":
    if len(sys.argv) > 1:
        app(Path(sys.argv[1]))
    else:
        main()
