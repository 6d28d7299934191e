"""The installed command, in a real pseudo-terminal, with the real default model."""

import os
import re
import signal
import stat
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from dllm_tui.events import Done, KnobChange, RunStart, Step, Turn
from dllm_tui.trace import reader
from tests.e2e.terminal import COMMAND, Terminal

pytestmark = [pytest.mark.model, pytest.mark.timeout(240)]

Start = Callable[..., Terminal]


def tokens(text: str) -> int:
    """Of the answer that is being written, from its header line."""
    found = re.search(r"smol · (\d+) tokens", text)
    return int(found[1]) if found else 0


def test_a_chat_with_a_knob_turned_while_it_runs(start: Start, home: Mapping[str, str]):
    terminal = start()
    terminal.wait_for(r"● ready")
    terminal.send("Tell me a long story about a lighthouse keeper.\r")
    text = terminal.wait_for(lambda text: tokens(text) >= 4)
    assert "Tell me a long story" in text
    assert "denoising" in text
    terminal.wait_for("tok/forward")
    terminal.send("/threshold 0.8\r")
    terminal.wait_for(r"threshold .* 0\.80")
    before = tokens(terminal.text())
    terminal.wait_for(lambda text: tokens(text) >= before + 8)
    terminal.send("\x1b")
    terminal.wait_for(r"● ready")
    terminal.send("\x11")
    assert terminal.exit_code() == 0

    (chat,) = (Path(home["DLLM_CHAT_DATA"]) / "chats").iterdir()
    assert stat.S_IMODE(chat.stat().st_mode) == 0o600
    events = list(reader.read(chat))
    asked, answered = (event for event in events if isinstance(event, Turn))
    assert asked.text == "Tell me a long story about a lighthouse keeper."
    (run,) = (event for event in events if isinstance(event, RunStart))
    assert run.knobs["threshold"] != 0.8
    (turned,) = (event for event in events if isinstance(event, KnobChange))
    assert turned.changes == {"threshold": 0.8}
    (done,) = (event for event in events if isinstance(event, Done))
    assert done.reason == "cancelled"
    assert answered.text
    steps = [event for event in events if isinstance(event, Step)]
    assert sum(step.phase == "denoise" for step in steps) == done.nfe_by_phase["denoise"]


def test_keys_work_while_the_model_loads(start: Start):
    terminal = start()
    terminal.wait_for(r"loading|fetching|ready", 20)
    terminal.send("Hi\r")
    terminal.wait_for(lambda text: tokens(text) >= 1)
    terminal.send("\x11")
    # A run is going: quitting asks first.
    terminal.wait_for(r"[Qq]uit")


@pytest.mark.slow
@pytest.mark.parametrize(("columns", "rows"), [(80, 24), (250, 80)])
def test_sizes(start: Start, columns: int, rows: int):
    terminal = start(columns=columns, rows=rows)
    terminal.wait_for(r"● ready")
    terminal.send("Hi\r")
    terminal.wait_for(lambda text: tokens(text) >= 1)


def test_a_terminal_that_is_too_small_is_told(start: Start):
    terminal = start(columns=20, rows=5)
    terminal.wait_for(r"(?i)small", 20)
    terminal.send("\x11")
    assert terminal.exit_code() == 0


def test_ctrl_c_while_the_model_loads_ends_the_app(start: Start):
    terminal = start()
    terminal.wait_for(r"loading|fetching|ready", 20)
    terminal.send("\x03\x03")
    assert terminal.exit_code() in {0, 130}


def ask(home: Mapping[str, str], *arguments: str) -> "subprocess.Popen[bytes]":
    pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen([COMMAND, "ask", *arguments], env={**os.environ, **home}, **pipes)


def test_ask_prints_the_answer_and_nothing_else(home: Mapping[str, str]):
    command = ask(home, "What is the capital of France?", "--max-new-tokens", "24", "--seed", "1")
    out, error = command.communicate(timeout=120)
    assert command.returncode == 0, error
    assert b"Paris" in out
    assert b"\x1b" not in out


def test_a_closed_pipe_ends_ask_quietly(home: Mapping[str, str]):
    command = ask(home, "Count to fifty.", "--json", "--max-new-tokens", "200")
    assert command.stdout is not None
    assert command.stderr is not None
    assert command.stdout.readline().startswith(b"{")
    command.stdout.close()
    assert command.wait(timeout=120) in {0, 1, 128 + signal.SIGPIPE}
    assert b"Traceback" not in command.stderr.read()


def test_ctrl_c_ends_ask_with_130(home: Mapping[str, str]):
    command = ask(home, "Tell me a long story.", "--json")
    assert command.stdout is not None
    assert command.stderr is not None
    command.stdout.readline()
    command.send_signal(signal.SIGINT)
    command.stdout.read()
    assert command.wait(timeout=60) == 130
    assert b"Traceback" not in command.stderr.read()
