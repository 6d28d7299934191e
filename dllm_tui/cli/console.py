"""What the commands tell people: errors, notes and progress on stderr, safe to show."""

import os
import sys
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import TypeAlias

from dllm_tui.errors import DllmError
from dllm_tui.events import Error
from dllm_tui.ports import Host, HostState

Told: TypeAlias = Callable[[str, float | None], None]
"""Gets what is being done, for people, and how much of it is done, 0 … 1, where that is known."""

_HARMFUL = {
    **{code: chr(0x2400 + code) for code in range(0x20) if code not in (0x09, 0x0A)},
    0x7F: "\u2421",
    **dict.fromkeys((*range(0x80, 0xA0), 0x2028, 0x2029), "\ufffd"),
    **dict.fromkeys((0x061C, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A)), "\ufffd"),
}
"""Control characters as the pictures that Unicode has of them, and what turns the direction of text."""

POLL_SECONDS = 0.05


def printable(text: str) -> str:
    """A text that can't steer a terminal: control characters are shown instead of obeyed."""
    return text.translate(_HARMFUL)


def note(text: str) -> None:
    """Tell people something, besides what a command prints."""
    print(f"dllm-chat: {printable(text)}", file=sys.stderr)


def fail(error: DllmError) -> None:
    """Say what went wrong, and what to do."""
    note(error.message)
    if error.hint:
        print(f"  {printable(error.hint)}", file=sys.stderr)


def need_terminal(what: str, hint: str) -> None:
    """See that something can be drawn.

    Raises:
        DllmError: this is no terminal, or one that can't place its cursor; the hint says what to do instead.
    """
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise DllmError(f"{what} needs a terminal.", hint)
    if (term := os.environ.get("TERM")) in {"dumb", "unknown"}:
        raise DllmError(f"{what} needs a terminal that can be drawn on; TERM is {term}.", hint)


def drop_stdout() -> None:
    """Nobody reads stdout any more: let what is still written to it go nowhere, in silence."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)


@contextmanager
def progress() -> Generator[Told]:
    """Shows what is being done and how far it is: a bar on a terminal, else one line for each thing."""
    if not sys.stderr.isatty():
        yield _line_teller()
        return
    from rich.console import Console
    from rich.markup import escape
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn

    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=None)

        def told(text: str, done: float | None) -> None:
            total = None if done is None else 1.0
            bar.update(task, description=escape(printable(text)), total=total, completed=done or 0.0)

        yield told


def wait_until_ready(host: Host) -> HostState:
    """Show how fetching and loading come along, until the model is ready.

    Raises:
        DllmError: it can't be fetched or loaded.
    """
    watched = sys.stderr.isatty()
    with progress() as told:
        while (state := host.state).phase not in {"ready", "failed"}:
            if state.detail and (watched or state.phase == "fetching"):
                told(state.detail, state.progress)
            time.sleep(POLL_SECONDS)
    if state.phase == "failed":
        problem = state.error or Error(message="The model can't be loaded.")
        raise DllmError(problem.message, problem.hint)
    return state


def _line_teller() -> Told:
    said = set[str]()

    def told(text: str, _done: float | None) -> None:
        if text not in said:
            said.add(text)
            note(text)

    return told
