"""The command line. What a command needs is imported when it runs: ``--help`` loads no torch, no textual."""

import errno
import os
import sys

NO_ROOM = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO}
"""What a write to stdout fails with where there is no place for it."""


def main() -> None:
    """Entry point of ``dllm-chat``. Ends the process: 0 done, 1 failed, 2 wrong usage, 130 interrupted."""
    _open_streams()
    try:
        if sys.argv[1:]:
            from dllm_tui.cli.commands import app

            app(prog_name="dllm-chat")
        else:
            sys.exit(_chat())
    except KeyboardInterrupt:
        sys.exit(130)
    except OSError as error:
        if error.errno not in NO_ROOM:
            raise
        from dllm_tui.cli.console import drop_stdout, note

        drop_stdout()
        note(f"Standard output can't be written: {error.strerror}.")
        sys.exit(1)


def _open_streams() -> None:
    """Lead standard streams that were closed by whoever started this to nowhere.

    Python has ``None`` in their place, and the next files to be opened would be taken for them.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_RDWR), mode, encoding="utf-8"))


def _chat() -> int:
    """The app with nothing to parse: without typer, and what that imports, it stands a quarter sooner."""
    from dllm_tui import settings
    from dllm_tui.cli.chat import chat
    from dllm_tui.cli.console import fail
    from dllm_tui.errors import DllmError

    try:
        return chat(settings.load())
    except DllmError as error:
        fail(error)
        return 1
