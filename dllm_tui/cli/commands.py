"""The commands, as typer reads them: names, options, help. What they do is imported when they run."""

import sys
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from typer.core import TyperGroup

from dllm_tui import __version__
from dllm_tui.cli.options import Device, Dtype, Json, Model, settings_with, with_knobs
from dllm_tui.errors import DllmError
from dllm_tui.knobs import Value


class _Commands(TyperGroup):
    """Turns what goes wrong in a command into a message and an exit code."""

    def invoke(self, ctx: Any) -> Any:
        from dllm_tui.cli.console import drop_stdout, fail

        try:
            result = super().invoke(ctx)
            sys.stdout.flush()
        except DllmError as error:
            fail(error)
            raise typer.Exit(1) from None
        except KeyboardInterrupt:
            raise typer.Exit(130) from None
        except BrokenPipeError:
            drop_stdout()
            raise typer.Exit(0) from None
        return result


app = typer.Typer(
    cls=_Commands,
    add_completion=False,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
models_app = typer.Typer(cls=_Commands, rich_markup_mode="rich")
app.add_typer(models_app, name="models")

CHAT_EXAMPLES = """\b
[bold]Examples[/]
  dllm-chat                                    the app, with the model smol
  dllm-chat --preset draft --theme paper       fewer steps, light colours
  dllm-chat ask "Why is the sky blue?"         one answer on stdout
  cat notes.txt | dllm-chat ask "Summarise:"
  dllm-chat models show smol                   how it decodes
"""

ASK_EXAMPLES = """\b
[bold]Examples[/]
  dllm-chat ask "Why is the sky blue?"
  cat notes.txt | dllm-chat ask "Summarise:"  the text comes below the prompt
  dllm-chat ask - < prompt.txt
  dllm-chat ask "Hi" --threshold 0.5 --seed 7 --temperature 0.8
  dllm-chat ask "Hi" --json                   events, one a line
  dllm-chat ask "Hi" --trace hi.jsonl         text on stdout, events in a file
"""


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"dllm-chat {__version__}")
        raise typer.Exit


@app.callback(invoke_without_command=True, epilog=CHAT_EXAMPLES)
@with_knobs
def chat(
    ctx: typer.Context,
    *,
    knobs: dict[str, Value],
    model: Model = None,
    device: Device = None,
    dtype: Dtype = None,
    theme: Annotated[
        str | None, typer.Option(metavar="NAME", help="Colours, yours among them. [dim]lagoon[/]")
    ] = None,
    fps: Annotated[
        str | None, typer.Option(metavar="1…120", help="Most frames a second that are drawn. [dim]30[/]")
    ] = None,
    plain: Annotated[
        bool, typer.Option("--plain", help="ASCII, no colour washes, no animation: for screen readers.")
    ] = False,
    no_animation: Annotated[
        bool, typer.Option("--no-animation", help="Nothing moves that needn't; the denoising does.")
    ] = False,
    no_history: Annotated[bool, typer.Option("--no-history", help="Keep nothing of this chat.")] = False,
    version: Annotated[
        bool, typer.Option("--version", is_eager=True, callback=_print_version, help="Print the version.")
    ] = False,
) -> None:
    """The terminal for diffusion language models: chat, and watch every denoising step.

    Without a command, the app opens. Settings live in a file: [bold]dllm-chat locate config[/].
    """
    if ctx.invoked_subcommand is not None:
        _refuse_misplaced(ctx)
        return
    from dllm_tui.cli.chat import chat, check_theme

    if theme is not None:
        check_theme(theme)
    chat(
        settings_with(
            knobs,
            model=model,
            device=device,
            dtype=dtype,
            theme=theme,
            fps=fps,
            plain=plain or None,
            animation=False if no_animation else None,
            history=False if no_history else None,
        )
    )


def _refuse_misplaced(ctx: typer.Context) -> None:
    """Options before a command are the app's: say so, rather than pass them over."""
    for name in ctx.params:
        source = ctx.get_parameter_source(name)
        if source is not None and source.name == "COMMANDLINE":
            option = "--" + name.replace("_", "-")
            raise typer.BadParameter(
                f"put it behind the command: dllm-chat {ctx.invoked_subcommand} {option} …", param_hint=option
            )


@app.command(epilog=ASK_EXAMPLES)
@with_knobs
def ask(
    *,
    knobs: dict[str, Value],
    prompt: Annotated[
        str | None,
        typer.Argument(
            metavar="PROMPT | -", help="What to ask; - reads it from standard input.", show_default=False
        ),
    ] = None,
    model: Model = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the trace instead: every event, one a line.")
    ] = False,
    trace: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the trace to a new file.", show_default=False)
    ] = None,
    device: Device = None,
    dtype: Dtype = None,
) -> None:
    """Ask once, and print the answer on stdout.

    The prompt is the argument, standard input, or both: then what comes in stands below the argument.
    """
    settings = settings_with(knobs, model=model, device=device, dtype=dtype)
    from dllm_tui.cli.ask import ask
    from dllm_tui.cli.host import new_host
    from dllm_tui.cli.prompts import Prompt

    asked = Prompt(prompt)
    host = new_host(settings, recorded=as_json or trace is not None)
    try:
        ask(host, asked, settings, as_json=as_json, trace=trace)
    finally:
        host.close()


Name = Annotated[str, typer.Argument(metavar="NAME", help="smol, or a hub id like organisation/name.")]


@models_app.callback(invoke_without_command=True)
def models(ctx: typer.Context) -> None:
    """Which models there are; show, fetch and remove them."""
    if ctx.invoked_subcommand is None:
        list_models()


@models_app.command("list")
def list_models() -> None:
    """Print the models and families that are known."""
    from dllm_tui.cli.models import list_models

    list_models()


@models_app.command()
def show(name: Annotated[str, typer.Argument(metavar="NAME", help="As for --model.")]) -> None:
    """Explain how a model decodes."""
    from dllm_tui.cli.models import show

    show(name)


@models_app.command()
def pull(name: Name) -> None:
    """Fetch a model, so that it is there without a network."""
    from dllm_tui.cli.models import pull

    pull(name)


@models_app.command()
def remove(name: Name) -> None:
    """Delete what was fetched of a model."""
    from dllm_tui.cli.models import remove

    remove(name)


@app.command()
def bench(*, model: Model = None, as_json: Json = False, device: Device = None, dtype: Dtype = None) -> None:
    """Measure the speed of this engine on this machine, in ratios; takes a minute or two."""
    settings = settings_with(model=model, device=device, dtype=dtype)
    from dllm_tui.cli.bench import bench

    bench(settings, as_json=as_json)


@app.command()
def doctor(as_json: Json = False) -> None:
    """What is installed, which device, which terminal features, and what is wrong."""
    from dllm_tui.cli.doctor import doctor

    if doctor(as_json=as_json):
        raise typer.Exit(1)


@app.command()
def locate(
    what: Annotated[
        Literal["config", "themes", "data", "traces"],
        typer.Argument(metavar="config|themes|data|traces", help="What to find.", show_default=False),
    ],
) -> None:
    """Print where something lives.

    config is the settings file (written with every setting explained, if there is none), themes the folder
    of your own themes, data that of models and chats, traces the chats: each is a trace.
    """
    from dllm_tui.cli.locate import locate

    print(locate(what))


@app.command()
def version() -> None:
    """Print the version."""
    _print_version(True)
