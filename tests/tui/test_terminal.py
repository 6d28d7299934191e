"""The app in a pseudo-terminal, as people have it: bytes in, bytes out."""

import os
import re
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pexpect
import pyte
import pytest

from tests.e2e.terminal import end

ALT_ENTER = "\x1b\r"
ROOT = Path(__file__).parents[2]
TURN = 0.1
"""Seconds between two looks at the screen."""


class Terminal:
    """A running app and the screen that its bytes draw."""

    def __init__(self, *arguments: str, size: tuple[int, int] = (100, 30), **environment: str) -> None:
        self.screen = pyte.Screen(*size)
        self.stream = pyte.ByteStream(self.screen)
        self.bytes = b""
        clean = {key: value for key, value in os.environ.items() if key not in {"NO_COLOR", "TMUX"}}
        self.child = pexpect.spawn(
            sys.executable,
            ["-m", "tests.tui.fake_app", *arguments],
            dimensions=(size[1], size[0]),
            env=clean | {"TERM": "xterm-256color", "COLORTERM": "truecolor"} | environment,
            cwd=str(ROOT),
            timeout=30,
        )

    def read(self, seconds: float = 0.1) -> None:
        """Take in what comes within some time, and all that has come by then."""
        end = time.monotonic() + seconds
        while True:
            over = time.monotonic() >= end
            try:
                data = self.child.read_nonblocking(65536, timeout=0 if over else 0.05)
            except pexpect.TIMEOUT:
                if over:
                    return
                continue
            except pexpect.EOF:
                return
            self.bytes += data
            self.stream.feed(re.sub(rb"\x1b\[[<>=?]?[\d;]*[uq]|\x1b\[\?[\d;]*\$p", b"", data))

    @property
    def text(self) -> str:
        return "\n".join(self.screen.display)

    def wait(self, true: Callable[[], object], what: str, seconds: float = 30) -> None:
        """Wait until something holds. Counted in turns: a machine that stands still does not count."""
        for _ in range(int(seconds / TURN)):
            if true():
                return
            self.read(TURN)
        raise AssertionError(f"{what}:\n{self.text}")

    def until(self, text: str) -> None:
        """Wait until a text is on the screen."""
        self.wait(lambda: text in self.text, f"{text!r} is not on the screen")

    def until_gone(self, text: str) -> None:
        """Wait until a text is on the screen no more."""
        self.wait(lambda: text not in self.text, f"{text!r} is on the screen")

    def until_written(self, text: bytes) -> None:
        """Wait until a text was on the screen, however shortly."""
        self.wait(lambda: text in self.bytes, f"{text!r} was not on the screen")

    def until_still(self) -> None:
        """Wait until a second passes in which nothing is written."""
        seen = -1
        while seen != len(self.bytes):
            seen = len(self.bytes)
            self.read(1)

    def leave(self) -> int:
        """Quit, and give the exit code."""
        self.child.send("\x11")
        return self.end()

    def end(self) -> int:
        """Wait for the end, and give the exit code."""
        self.wait(lambda: not self.child.isalive(), "it does not end")
        self.read(0.2)
        self.child.close()
        assert self.child.exitstatus is not None
        return self.child.exitstatus


@pytest.fixture
def start(tmp_path: Path):
    running: list[Terminal] = []

    def begin(*arguments: str, **more) -> Terminal:
        terminal = Terminal(str(tmp_path / "log"), *arguments, **more)
        running.append(terminal)
        return terminal

    yield begin
    for terminal in running:
        end(terminal.child)


def test_a_chat_from_start_to_end(start):
    terminal = start()
    terminal.until("ready")
    terminal.child.send(b"caf\xe9, two" + ALT_ENTER.encode() + b"lines")  # a byte that is no UTF-8
    terminal.until("│ lines")
    assert "caf\ufffd, two" in terminal.text
    terminal.child.send("\r")
    terminal.until_written(b"denoising")
    terminal.until("every star above it")
    terminal.until("ready")
    terminal.child.send("\x1b[Z")
    terminal.until("← ")
    terminal.child.send("y")
    terminal.until("Copied")
    assert b"\x1b]52;c;" in terminal.bytes
    assert terminal.leave() == 0
    assert b"\x1b[?1049l" in terminal.bytes


def cpu_seconds(process: int) -> float:
    """What a process has computed so far."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc")
def test_an_idle_app_sleeps(start):
    terminal = start()
    terminal.until("ready")
    terminal.until_still()
    before, written = cpu_seconds(terminal.child.pid), len(terminal.bytes)
    terminal.read(2)
    assert cpu_seconds(terminal.child.pid) - before < 0.1
    assert len(terminal.bytes) == written
    assert terminal.leave() == 0


def test_what_native_code_writes_stays_off_the_screen(start, tmp_path: Path):
    terminal = start("noise")
    terminal.until("ready")
    terminal.read(3)
    assert b"native noise" not in terminal.bytes
    assert terminal.leave() == 0
    assert "native noise" in (tmp_path / "log").read_text()


def test_a_fault_ends_in_words(start, tmp_path: Path):
    terminal = start("fault")
    assert terminal.end() == 1
    after = terminal.bytes.split(b"\x1b[?1049l")[-1].decode()
    assert "had to stop" in after
    assert "ZeroDivisionError" in after
    assert str(tmp_path / "log") in re.sub(r"\s", "", after)
    assert "Traceback" not in after
    assert "Traceback" in (tmp_path / "log").read_text()


def test_without_colours_none_are_sent(start):
    terminal = start(NO_COLOR="1")
    terminal.until("ready")
    terminal.child.send("hi\r")
    terminal.until("every star above it")
    terminal.until("ready")
    assert terminal.leave() == 0
    colours = re.findall(rb"\x1b\[[\d;]*m", terminal.bytes)
    assert not [code for code in colours if re.search(rb"[\[;](3[0-8]|4[0-8]|9\d|10\d)[;m]", code)]


def test_plain_is_ascii_alone(start):
    terminal = start("plain")
    terminal.until("ready")
    for keys, text in (("hi\r", "every star above it"), ("/", "/steps N")):
        terminal.child.send(keys)
        terminal.until(text)
        terminal.until_still()
        assert terminal.text.isascii(), terminal.text
    terminal.child.send("\x1b")
    terminal.until_gone("/steps N")
    for opens, shows in (("\x7f\x10", "type to filter"), ("\x1bOP", "Esc closes")):
        terminal.child.send(opens)
        terminal.until(shows)
        assert terminal.text.isascii(), terminal.text
        terminal.child.send("\x1b")
        terminal.until_gone(shows)
    assert terminal.leave() == 0


def test_resizing_live(start):
    terminal = start()
    terminal.until("ready")
    for columns, rows, text in ((38, 9, "is too small"), (80, 24, "Ask something"), (120, 40, "knobs")):
        terminal.screen.resize(rows, columns)
        terminal.screen.reset()
        terminal.child.setwinsize(rows, columns)
        terminal.until(text)
    assert terminal.leave() == 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_leaves_the_terminal_as_it_was(start, number):
    terminal = start()
    terminal.until("ready")
    terminal.child.send("hi\r")
    terminal.until_written(b"denoising")
    terminal.child.kill(number)
    assert terminal.end() == 128 + number
    after = terminal.bytes.split(b"\x1b[?1049l")
    assert len(after) == 2
    assert b"\x1b[?1000l" in terminal.bytes  # the mouse
    assert b"\x1b[?25h" in terminal.bytes
    assert b"Traceback" not in terminal.bytes


def test_a_terminal_that_goes_away_ends_the_app(start, tmp_path: Path):
    terminal = start()
    terminal.until("ready")
    terminal.child.ptyproc.fileobj.close()
    for _ in range(300):
        if not terminal.child.isalive():
            break
        time.sleep(0.1)
    # the system may say it twice, and the second one ends it at once
    assert terminal.child.exitstatus == 128 + signal.SIGHUP or terminal.child.signalstatus == signal.SIGHUP
    assert "Traceback" not in (tmp_path / "log").read_text()
