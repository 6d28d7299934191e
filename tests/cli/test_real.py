"""``ask`` with the real default model, in a process of its own."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from dllm_tui import store
from dllm_tui.events import Canvas, Done, Step, Turn
from dllm_tui.families import smol
from dllm_tui.trace.reader import read

pytestmark = [pytest.mark.model, pytest.mark.timeout(600)]

PROGRAM = [sys.executable, "-m", "dllm_tui", "ask"]


@pytest.fixture(autouse=True)
def weights(places: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The weights that the program keeps, seen from the test's own places."""
    with monkeypatch.context() as outside:
        outside.delenv("DLLM_CHAT_DATA")
        kept = store.fetch(smol.BASE)
    (places / "data" / "models").mkdir(parents=True)
    (places / "data" / "models" / "smol").symlink_to(kept.parent)


def test_an_answer_and_its_trace(tmp_path: Path):
    trace = tmp_path / "a.jsonl"
    command = [*PROGRAM, "Name a colour.", "--max-new-tokens", "12", "--trace", str(trace)]
    result = subprocess.run(command, capture_output=True, text=True, check=True)
    assert result.stderr == ""
    events = list(read(trace))
    answer = next(event for event in events if isinstance(event, Turn) and event.role == "assistant")
    done = events[-1]
    assert isinstance(done, Done)
    assert result.stdout == answer.text + "\n" * (not answer.text.endswith("\n"))
    assert answer.text.strip()
    canvas = Canvas()
    for event in events:
        if isinstance(event, Step):
            canvas.apply(event)
    assert canvas.cells == list(done.token_ids)


@pytest.mark.slow
def test_a_prompt_longer_than_the_context():
    result = subprocess.run(
        [*PROGRAM, "-"], input="word " * 10_000, capture_output=True, text=True, check=False
    )
    assert (result.returncode, result.stdout) == (1, "")
    assert "tokens; smol holds 8192" in result.stderr
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize("seconds", [1.0, 3.0])
def test_interrupted_while_it_loads(seconds: float):
    process = subprocess.Popen(
        [*PROGRAM, "Hi"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=os.environ,
    )
    time.sleep(seconds)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out, err) == (130, b"", b"")
