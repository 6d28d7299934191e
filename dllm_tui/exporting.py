"""An export that goes on beside the app: ``dllm-chat export`` itself, in a process of its own.

So it is the same code and the same bytes, it takes no time from the interface or the engine but what the
processor has left, and it ends at once when it is cancelled.
"""

import contextlib
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO, Literal, TypeAlias

import msgspec

from dllm_tui.errors import DllmError

Source: TypeAlias = Callable[[], Path | bytes]
"""Gives a trace: where it is, or what it holds. Is called on the export's own thread."""

State: TypeAlias = Literal["running", "made", "failed", "cancelled"]

PATIENCE = 5.0
"""Seconds that a cancelled export has to tidy up."""
_START = "import os; os.nice(10); from dllm_tui.cli import main; main()"
"""As ``python -m dllm_tui``, behind everything else that wants to compute."""


class Order(msgspec.Struct, frozen=True, kw_only=True):
    """What is to be made."""

    out: Path
    """Where; its ending says what it is."""
    last_answer: bool = False
    size: tuple[int, int] = (100, 30)
    theme: str = ""
    idle: float | None = None
    """Seconds to which pauses are cut; ``None`` leaves them."""
    replace: bool = False

    def arguments(self, trace: str) -> list[str]:
        """As they stand on the command line."""
        columns, rows = self.size
        return [
            *("export", "--json", "--size", f"{columns}x{rows}"),
            *(("--theme", self.theme) if self.theme else ()),
            *(("--last-answer",) if self.last_answer else ()),
            *(("--idle", f"{self.idle:g}") if self.idle is not None else ()),
            *(("--force",) if self.replace else ()),
            *("--", trace, str(self.out)),
        ]


class Export:
    """One export. Its thread starts at once; everything may be read at any time.

    Args:
        source: the trace.
        order: what is made of it.
    """

    def __init__(self, source: Source, order: Order) -> None:
        self.order = order
        self.done = 0.0
        """How much of it, 0 … 1."""
        self.state: State = "running"
        self.size = 0
        """Bytes of what was made."""
        self.seconds: float | None = None
        """Of a film that was made."""
        self.problem = DllmError("")
        """Why it failed, where it did."""
        self._source = source
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._thread = threading.Thread(target=self._run, name="export", daemon=True)
        self._thread.start()

    def cancel(self) -> None:
        """Stop; nothing is left of it. Returns at once."""
        with self._lock:
            if self.state == "running":
                self.state = "cancelled"
                if self._process:
                    self._process.send_signal(signal.SIGINT)
                    late = threading.Timer(PATIENCE, self._process.kill)
                    late.daemon = True
                    late.start()

    def wait(self, timeout: float | None = None) -> None:
        """Wait until it has ended, and its process with it."""
        self._thread.join(timeout)

    def _run(self) -> None:
        try:
            said = self._last_said(self._source())
        except DllmError as error:
            said = _Said(error=error.message, hint=error.hint)
        except OSError as error:
            said = _Said(error=f"The export can't be started: {error.strerror}.")
        with self._lock:
            if self.state == "cancelled":
                return
            if said.path:
                self.size, self.seconds, self.done = said.bytes, said.seconds, 1.0
                self.state = "made"
            else:
                self.problem = DllmError(said.error or "The export ended without a word.", said.hint)
                self.state = "failed"

    def _last_said(self, source: Path | bytes) -> "_Said":
        """Run the command; what it said in the end."""
        given = isinstance(source, bytes)
        with self._lock:
            if self.state == "cancelled":
                return _Said()
            self._process = process = _started(self.order.arguments("-" if given else str(source)))
        assert process.stdin and process.stdout and process.stderr
        # what it says on stderr must not fill the pipe; only the last lines are of use
        errors: list[bytes] = []
        listening = threading.Thread(target=_keep_last, args=(process.stderr, errors), daemon=True)
        listening.start()
        said = _Said()
        with process:
            with contextlib.suppress(BrokenPipeError), process.stdin as pipe:
                if given:
                    pipe.write(source)
            for line in process.stdout:
                with contextlib.suppress(msgspec.DecodeError):
                    said = msgspec.json.decode(line, type=_Said)
                self.done = max(self.done, said.done)
            listening.join()
        if said.path or said.error:
            return said
        return _Said(error=b"".join(errors).decode(errors="replace").strip().removeprefix("dllm-chat: "))


class _Said(msgspec.Struct):
    """A line of ``--json``."""

    done: float = 0.0
    path: str = ""
    bytes: int = 0
    seconds: float | None = None
    error: str = ""
    hint: str = ""


def _started(arguments: Sequence[str]) -> subprocess.Popen[bytes]:
    # a session of its own: Ctrl+C in the terminal is not for it
    return subprocess.Popen(
        [sys.executable, "-c", _START, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )


def _keep_last(pipe: IO[bytes], lines: list[bytes]) -> None:
    for line in pipe:
        lines[:] = [*lines[-1:], line]
