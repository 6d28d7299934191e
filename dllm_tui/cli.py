"""The command line. Imports lazily: ``--help`` loads neither torch nor textual."""

import typer

app = typer.Typer(name="dllm-chat", no_args_is_help=False, add_completion=False)


def main() -> None:
    """Entry point of ``dllm-chat``."""
    app()
