"""The installed command in a pseudo-terminal, and the screen that a person would see."""

import os
import re
import signal
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pexpect
import pyte

TURN = 0.1
"""Seconds between two looks at the screen."""
COMMAND = Path(sys.executable).with_name("dllm-chat")


class Terminal:
    """A pseudo-terminal with a program in it, drawn by a terminal emulator."""

    def __init__(self, *arguments: str, env: Mapping[str, str], columns: int = 110, rows: int = 32) -> None:
        self.screen = pyte.Screen(columns, rows)
        self._stream = pyte.ByteStream(self.screen)
        variables = {**os.environ, "TERM": "xterm-256color", "COLORTERM": "truecolor", **env}
        self.child = pexpect.spawn(str(COMMAND), list(arguments), env=variables, dimensions=(rows, columns))

    def send(self, keys: str) -> None:
        """Type."""
        self.child.send(keys)

    def text(self, seconds: float = 0.0) -> str:
        """The screen's lines, after reading what comes within ``seconds``."""
        until = time.monotonic() + seconds
        while True:
            try:
                self._stream.feed(self.child.read_nonblocking(1 << 16, timeout=0.05))
            except pexpect.TIMEOUT:
                pass
            except pexpect.EOF:
                break
            if time.monotonic() >= until:
                break
        return "\n".join(self.screen.display)

    def wait_for(self, wanted: str | Callable[[str], bool], seconds: float = 60.0) -> str:
        """The screen as soon as it matches a pattern or a condition."""
        matches = wanted if callable(wanted) else lambda text: re.search(wanted, text) is not None
        for _ in range(int(seconds / TURN)):  # a machine that stands still does not count
            if matches(text := self.text(TURN)):
                return text
            assert self.child.isalive(), f"the program ended:\n{text}"
        raise AssertionError(f"not within {seconds} s: {wanted}\n{self.text()}")

    def exit_code(self, seconds: float = 15.0) -> int:
        """Wait for the end."""
        self.child.expect(pexpect.EOF, timeout=seconds)
        self.child.close()
        return self.child.exitstatus if self.child.exitstatus is not None else 128 + self.child.signalstatus

    def close(self) -> None:
        """End the program if it still runs."""
        end(self.child)


def end(child: pexpect.spawn) -> None:
    """Kill a program and wait until it is gone: one with a model in its memory takes a while."""
    if child.isalive():
        child.kill(signal.SIGKILL)
        child.wait()
    child.close()


def numbers(text: str, pattern: str) -> Sequence[float]:
    """All numbers that a pattern's group finds on the screen."""
    return [float(found) for found in re.findall(pattern, text)]
