"""The command line. What a command needs is imported when it runs: ``--help`` loads no torch, no textual."""

import sys


def main() -> None:
    """Entry point of ``dllm-chat``. Ends the process: 0 done, 1 failed, 2 wrong usage, 130 interrupted."""
    try:
        if sys.argv[1:]:
            from dllm_tui.cli.commands import app

            app(prog_name="dllm-chat")
        else:
            sys.exit(_chat())
    except KeyboardInterrupt:
        sys.exit(130)


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
