"""``dllm-chat ask``: one answer on stdout."""

import codecs
import sys
from pathlib import Path

from dllm_tui.cli.console import drop_stdout, fail, note, printable, wait_until_ready
from dllm_tui.cli.models import shortage
from dllm_tui.cli.prompts import Prompt
from dllm_tui.conversation import Recorder
from dllm_tui.errors import DllmError
from dllm_tui.events import AnyEvent, Canvas, Commit, Done, Error, Step, encode
from dllm_tui.ports import Host, Run
from dllm_tui.session import Session
from dllm_tui.settings import Settings
from dllm_tui.trace.writer import Writer

POLL_SECONDS = 0.02
LAST_WORDS_SECONDS = 5.0
"""How long an interrupted run may take for the forward that it is in."""


def ask(host: Host, prompt: Prompt, settings: Settings, *, as_json: bool, trace: Path | None) -> None:
    """Load the model, ask, and print the answer as it is committed.

    Args:
        host: without a model yet.
        prompt: what to ask.
        settings: which model, and how.
        as_json: print the trace instead, an event a line.
        trace: file to write the trace to.

    Raises:
        DllmError: model, prompt or trace make it impossible.
        OSError: stdout can't be written; a ``BrokenPipeError`` where nobody reads it any more.
    """
    lines = JsonLines() if as_json else None
    recorders: list[Recorder] = [lines] if lines else []
    if trace:
        recorders.append(Writer(trace))
    session = Session(host, settings, recorders=recorders)
    try:
        host.load(settings.model)
        if lack := shortage(settings.model, settings):
            note(lack)
        if prompt.waits:
            prompt.text()  # an empty one fails now
        if notice := wait_until_ready(host).notice:
            note(notice)
        for sentence in session.passed_over:
            note(sentence)
        run = session.send(prompt.text())
        answer = None if as_json else Answer(run)
        while not run.wait(POLL_SECONDS):
            if answer:
                answer.print_new()
            if lines and lines.problem:
                break
        if lines and lines.problem:
            raise lines.problem
        if answer:
            answer.print_new()
        _judge(run, session)
    finally:
        session.close(LAST_WORDS_SECONDS)


def _judge(run: Run, session: Session) -> None:
    """Tell what went wrong; raise if there is no answer, or the trace is not whole."""
    problems = [event for event in run.events if isinstance(event, Error)]
    failed = run.done is not None and run.done.reason == "error"
    for problem in (*session.notices, *(problems[:-1] if failed else problems)):
        fail(DllmError(problem.message, problem.hint))
    if failed:
        last = problems[-1] if problems else Error(message="The model gave no answer.")
        raise DllmError(last.message, last.hint)
    if session.notices:
        raise DllmError("The trace is not complete.")


class Answer:
    """Prints a run's text, block by block as it becomes final."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._taken = 0
        self._canvas = Canvas()
        self._printed = 0
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._on_terminal = sys.stdout.isatty()
        self._line_open = False

    def print_new(self) -> None:
        """Print what has become final since the last call."""
        new = self._run.events[self._taken :]
        self._taken += len(new)
        for event in new:
            match event:
                case Step():
                    self._canvas.apply(event)
                case Commit():
                    self._print([token for token in self._canvas.cells[: event.end] if token is not None])
                case Done():
                    self._print(list(event.token_ids), last=True)
                case _:
                    pass

    def _print(self, token_ids: list[int], *, last: bool = False) -> None:
        run = self._run
        new = [token for token in token_ids[self._printed :] if token not in run.special]
        self._printed = max(self._printed, len(token_ids))
        text = self._decoder.decode(b"".join(run.pieces.get(token, b"") for token in new), last)
        if text:
            self._line_open = not text.endswith("\n")
        if last and self._line_open:
            text += "\n"
        sys.stdout.write(printable(text) if self._on_terminal else text)
        sys.stdout.flush()


class JsonLines:
    """Writes every event to stdout, a line each, on the engine's thread."""

    def __init__(self) -> None:
        self.problem: OSError | None = None
        """Why no more of them are written: nobody reads them, or there is no room."""

    def write(self, event: AnyEvent) -> None:
        """Print one line."""
        if self.problem:
            return
        try:
            sys.stdout.buffer.write(encode(event) + b"\n")
            sys.stdout.buffer.flush()
        except OSError as error:
            self.problem = error
            drop_stdout()

    def close(self) -> None:
        """Nothing to close."""
