"""The command line. What a command needs is imported when it runs: ``--help`` loads no torch, no textual."""

import sys


def main() -> None:
    """Entry point of ``dllm-chat``. Ends the process: 0 done, 1 failed, 2 wrong usage, 130 interrupted."""
    try:
        from dllm_tui.cli.commands import app

        app(prog_name="dllm-chat")
    except KeyboardInterrupt:
        sys.exit(130)
