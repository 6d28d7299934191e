"""``ask``: what comes out on stdout, and what is said when something is wrong."""

import json
import os
import shlex
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from dllm_tui.events import decode
from dllm_tui.trace.reader import read

PROGRAM = [sys.executable, "-m", "tests.cli.fake_main"]


def ask(*arguments: str, stdin: bytes | None = b"", **env: str) -> subprocess.CompletedProcess[bytes]:
    """Run ``ask`` to its end; without ``stdin`` it gets ``/dev/null``."""
    more: dict[str, Any] = {"stdin": subprocess.DEVNULL} if stdin is None else {"input": stdin}
    environment = os.environ | env
    return subprocess.run(
        [*PROGRAM, "ask", *arguments], capture_output=True, env=environment, timeout=60, check=False, **more
    )


def start(*arguments: str, stdin: int = subprocess.DEVNULL, **env: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [*PROGRAM, "ask", *arguments],
        stdin=stdin,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=os.environ | env,
    )


def test_the_answer_is_all_there_is_on_stdout():
    result = ask("Why?", stdin=None)
    assert (result.returncode, result.stdout, result.stderr) == (0, b"<Why?> \n", b"")


@pytest.mark.parametrize(
    ("arguments", "stdin", "prompt"),
    [
        (["-"], b"from a pipe\n", "from a pipe"),
        ([], b"from a pipe\n", "from a pipe"),
        (["Sum up:"], b"line\nline\n", "Sum up:\n\nline\nline"),
        (["Sum up:"], b"", "Sum up:"),
        (["Sum up:"], b" \n", "Sum up:"),
        (["--", "-v"], b"", "-v"),
        (["-"], "\ufeffשלום 😀".encode(), "שלום 😀"),
        (["-"], b"a\r\n\tb\x00\x1b[31mc", "a\r\n\tb\x00\x1b[31mc"),
    ],
)
def test_the_prompt_is_argument_or_pipe_or_both(arguments: list[str], stdin: bytes, prompt: str):
    result = ask(*arguments, stdin=stdin)
    assert (result.returncode, result.stderr) == (0, b"")
    assert result.stdout.decode() == f"<{prompt}> \n"


def test_a_pipe_that_stays_open_and_silent_stops_nobody():
    """As when a program that keeps its own input open runs ``ask`` with an argument."""
    process = start("Why?", stdin=subprocess.PIPE)
    try:
        assert process.stdout
        assert process.stdout.read() == b"<Why?> \n"
        assert process.wait(20) == 0
    finally:
        process.kill()
        process.communicate()


def test_what_is_no_utf_8_is_said_and_replaced():
    result = ask("-", stdin=b"caf\xe9 au lait")
    assert result.returncode == 0
    assert result.stdout.decode() == "<caf\ufffd au lait> \n"
    assert "standard input is not UTF-8 (at byte 3)" in result.stderr.decode()


def test_an_argument_that_is_no_utf_8_is_taken_too():
    result = subprocess.run([*PROGRAM, "ask", b"caf\xe9"], capture_output=True, timeout=60, check=False)
    assert (result.returncode, result.stdout.decode()) == (0, "<caf\ufffd> \n")


@pytest.mark.parametrize(
    ("arguments", "stdin", "code", "says"),
    [
        ([""], None, 2, "Invalid value for PROMPT: it is empty"),
        (["  \n"], None, 2, "Invalid value for PROMPT: it is empty"),
        (["-"], b"", 1, "The prompt is empty: nothing came in"),
        ([], b" \n", 1, "The prompt is empty: nothing came in"),
        ([], None, 1, "The prompt is empty: nothing came in"),
        (["a", "b"], None, 2, "unexpected extra argument"),
        (["hi", "--steps", "0"], None, 2, "steps is '0'; it must be a whole number from 1 to 4096"),
        (["hi", "--threshold", "nan"], None, 2, "threshold is 'nan'"),
        (["hi", "--threshold", "much"], None, 2, "threshold is 'much'; it must be a number from 0 to 1"),
        (["hi", "--policy", "best"], None, 2, "must be one of confidence"),
        (["hi", "--preset", "fast"], None, 2, "must be one of draft, balanced, polished"),
        (["hi", "--seed", "-1"], None, 2, "seed is '-1'"),
        (["hi", "--device", "tpu"], None, 2, "device is 'tpu'; it must be one of auto, cpu, cuda"),
        (["hi", "--dtype", "int9"], None, 2, "dtype is 'int9'"),
        (["hi", "--stepz", "3"], None, 2, "No such option: --stepz"),
        (["hi", "--model", "broken"], None, 1, "There is no model 'broken'.\n  Choose another."),
        (["fail"], None, 1, "Out of memory."),
        (["hi", "--trace", "/dev/null"], None, 1, "is not a file"),
        (["hi", "--trace", "/proc/nowhere/a.jsonl"], None, 1, "can't be written"),
    ],
)
def test_what_is_wrong_is_said(arguments: list[str], stdin: bytes | None, code: int, says: str):
    result = ask(*arguments, stdin=stdin)
    assert (result.returncode, result.stdout) == (code, b"")
    assert says.replace("'", "").lower() in result.stderr.decode().replace("'", "").lower()
    assert "Traceback" not in result.stderr.decode()


@pytest.mark.parametrize(
    ("length", "says"),
    [(4_000_001, "longer than 1,000,000 characters"), (1_000_001, "1,000,000 are the most")],
)
def test_prompts_without_measure_are_refused(length: int, says: str):
    result = ask("-", stdin=b"x" * length)
    assert (result.returncode, result.stdout) == (1, b"")
    assert says in result.stderr.decode()


def test_a_broken_settings_file_is_said(places: Path):
    (places / "config").mkdir(parents=True)
    (places / "config" / "config.toml").write_text("fsp = 3")
    result = ask("hi", stdin=None)
    assert (result.returncode, result.stdout) == (1, b"")
    assert result.stderr.decode().startswith(
        f"dllm-chat: {places / 'config' / 'config.toml'}: there is no setting"
    )


def test_json_is_the_trace():
    result = ask("hi", "--json", "--steps", "3", stdin=None)
    events = [decode(line) for line in result.stdout.splitlines()]
    assert result.returncode == 0
    assert [events[0].type, events[-1].type] == ["header", "done"]
    assert {"turn", "run", "step", "commit"} <= {event.type for event in events}
    (run,) = [json.loads(line) for line in result.stdout.splitlines() if b'"type":"run"' in line]
    assert run["knobs"]["steps"] == 3


def test_a_trace_is_written_beside_the_text(tmp_path: Path):
    path = tmp_path / "new" / "hi.jsonl"
    result = ask("hi", "--trace", str(path), stdin=None)
    assert result.stdout == b"<hi> \n"
    assert [event.type for event in read(path)][-1] == "done"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    again = ask("hi", "--trace", str(path), stdin=None)
    assert (again.returncode, again.stdout) == (1, b"")
    assert "exists already" in again.stderr.decode()


def test_ask_keeps_no_chat(places: Path):
    assert ask("hi", stdin=None).returncode == 0
    assert not (places / "data").exists()


def test_knobs_come_from_everywhere_the_nearest_first(places: Path):
    (places / "config").mkdir(parents=True)
    (places / "config" / "config.toml").write_text("[knobs]\nsteps = 20\nthreshold = 0.7\ntop_k = 5\n")
    result = ask("hi", "--json", "--preset", "draft", "--top-p", "0.5", stdin=None, DLLM_CHAT_THRESHOLD="0.6")
    run = next(json.loads(line) for line in result.stdout.splitlines() if b'"type":"run"' in line)
    assert (run["knobs"]["steps"], run["knobs"]["threshold"]) == (4, 0.6)
    assert (run["knobs"]["top_k"], run["knobs"]["top_p"]) == (5, 0.5)


@pytest.mark.parametrize("option", [[], ["--json"]])
def test_a_reader_that_goes_away_ends_it_quietly(option: list[str]):
    process = start("hi", *option, FAKE_ANSWER="word " * 2000, FAKE_DELAY="0.002")
    assert process.stdout
    assert process.stderr
    if option:
        process.stdout.readline()
    process.stdout.close()
    assert process.stderr.read() == b""
    assert process.wait(30) == 0


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="only Linux has a device that is always full")
@pytest.mark.parametrize("option", [[], ["--json"]])
def test_stdout_without_room_is_said(option: list[str]):
    with Path("/dev/full").open("wb") as full:
        command = [*PROGRAM, "ask", "hi", *option]
        result = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, timeout=60, check=False)
    assert result.returncode == 1
    assert result.stderr == b"dllm-chat: Standard output can't be written: No space left on device.\n"


def test_streams_that_are_closed_are_no_fault():
    closed = f"{shlex.join(PROGRAM)} ask hi <&- >&- 2>&-"
    assert subprocess.run(closed, shell=True, timeout=60, check=False).returncode == 0
    app = f"{shlex.join(PROGRAM)} <&-"
    result = subprocess.run(app, shell=True, capture_output=True, timeout=60, check=False)
    assert (result.returncode, result.stdout) == (1, b"")
    assert result.stderr.startswith(b"dllm-chat: The app needs a terminal.")


@pytest.mark.parametrize("option", [[], ["--json"]])
def test_interrupted_it_stops_and_says_so_by_its_code(option: list[str]):
    process = start("hi", *option, FAKE_ANSWER="word " * 1000, FAKE_DELAY="0.05")
    assert process.stdout
    if option:
        while b'"step"' not in process.stdout.readline():
            pass
    else:
        time.sleep(3)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=20)
    assert (process.returncode, err) == (130, b"")
    if option:
        assert json.loads(out.splitlines()[-1])["reason"] == "cancelled"


def test_control_characters_come_through_a_pipe_as_they_are():
    result = ask("hi", stdin=None, FAKE_ANSWER="\x1b[31mred\x1b[0m [bold]b[/] 漢字")
    assert result.stdout.decode() == "\x1b[31mred\x1b[0m [bold]b[/] 漢字 \n"


def test_on_a_terminal_they_are_shown_and_not_obeyed():
    pexpect = pytest.importorskip("pexpect")
    child = pexpect.spawn(
        PROGRAM[0],
        [*PROGRAM[1:], "ask", "hi"],
        env=os.environ | {"FAKE_ANSWER": "\x1b[31mred\x07"},
        timeout=30,
    )
    said = child.read()
    child.close()
    assert child.exitstatus == 0
    assert "\u241b[31mred\u2407" in said.decode()
    assert b"\x1b[31m" not in said


def test_without_a_prompt_and_with_a_keyboard_it_says_how():
    pexpect = pytest.importorskip("pexpect")
    child = pexpect.spawn(PROGRAM[0], [*PROGRAM[1:], "ask"], env=os.environ, timeout=30)
    assert b"give one, or pipe one in" in child.read()
    child.close()
    assert child.exitstatus == 2
