"""What a start costs: python -m tests.bench.bench_start

In one run: the wall time of ``--help``, of the app's first screen in a pseudo-terminal, and until the default
model is ready. The weights must have been fetched.
"""

import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import pexpect

from dllm_tui import paths

COMMAND = Path(sys.executable).with_name("dllm-chat")
TIMES = 5
READY = re.compile("●(?:\x1b\\[[0-9;]*m|\\s)*ready".encode())


def main() -> None:
    """Measure and print."""
    print(f"--help            {_range([_help() for _ in range(TIMES)])}")
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "models").symlink_to(paths.models_dir())
        environment = {**os.environ, "DLLM_CHAT_DATA": folder, "TERM": "xterm-256color"}
        starts = [_app(environment) for _ in range(TIMES)]
    paints, readies = zip(*starts, strict=True)
    print(f"first screen      {_range(paints)}")
    print(f"model ready       {_range(readies)}")


def _help() -> float:
    began = time.perf_counter()
    subprocess.run([COMMAND, "--help"], check=True, capture_output=True)
    return time.perf_counter() - began


def _app(environment: dict[str, str]) -> tuple[float, float]:
    """Seconds to the first screen and to the model."""
    began = time.perf_counter()
    app = pexpect.spawn(str(COMMAND), env=environment, dimensions=(32, 110), timeout=120)
    app.expect("Ask something")
    paint = time.perf_counter() - began
    app.expect(READY)
    ready = time.perf_counter() - began
    app.send("\x11")
    app.expect(pexpect.EOF)
    return paint, ready


def _range(seconds: Sequence[float]) -> str:
    return f"{min(seconds):.2f} s at best, {statistics.median(seconds):.2f} s in the middle of {len(seconds)}"


if __name__ == "__main__":
    main()
