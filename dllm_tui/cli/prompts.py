"""The prompt of ``ask``: an argument, standard input, or both."""

import os
import stat
import sys
import threading

import typer

from dllm_tui.cli.console import note
from dllm_tui.errors import DllmError
from dllm_tui.session import MAX_PROMPT

_MAX_BYTES = 4 * MAX_PROMPT


class Prompt:
    """What is to be asked. Reading begins at once, so that it comes in while the model loads.

    Args:
        argument: the command's; ``-`` and ``None`` wait for standard input. Beside another argument,
            standard input is what it speaks of, and comes below it.

    Raises:
        typer.BadParameter: there is no argument, and standard input is a keyboard.
    """

    def __init__(self, argument: str | None) -> None:
        self._argument = "" if argument in (None, "-") else str(argument)
        self.waits = argument in (None, "-")
        """Whether it is standard input that is asked, however long that takes to come."""
        self._data = bytearray()
        self._ended = threading.Event()
        if argument is None and sys.stdin.isatty():
            raise typer.BadParameter("give one, or pipe one in", param_hint="PROMPT")
        if argument is not None and not self.waits and not argument.strip():
            raise typer.BadParameter("it is empty", param_hint="PROMPT")
        self._piped = self.waits or _is_piped()
        if self._piped:
            threading.Thread(target=self._read, name="stdin", daemon=True).start()

    def text(self) -> str:
        """The whole prompt.

        Beside an argument, a pipe on which nothing has come by now is left alone: it may never end, as when
        a program that starts this one keeps its own input open.

        Raises:
            DllmError: nothing came in, or more than any prompt.
        """
        if not self._piped:
            return self._argument
        if not (self.waits or self._data or self._ended.is_set()):
            return self._argument
        self._ended.wait()
        if len(self._data) > _MAX_BYTES:
            raise DllmError(f"Standard input is longer than {MAX_PROMPT:,} characters, which no prompt is.")
        piped = self._decoded().rstrip("\n")
        text = "\n\n".join(part for part in (self._argument, piped) if part.strip())
        if not text:
            raise DllmError("The prompt is empty: nothing came in on standard input.")
        return text

    def _read(self) -> None:
        try:
            while len(self._data) <= _MAX_BYTES and (chunk := os.read(0, 1 << 16)):
                self._data += chunk
        except OSError:
            pass  # what came before counts
        self._ended.set()

    def _decoded(self) -> str:
        data = bytes(self._data)
        try:
            return data.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            note(f"standard input is not UTF-8 (at byte {error.start}); what can't be read becomes \ufffd")
            return data.decode("utf-8-sig", errors="replace")


def _is_piped() -> bool:
    """Whether standard input is a pipe or a file, and no keyboard and no ``/dev/null``."""
    return not stat.S_ISCHR(os.fstat(0).st_mode)
