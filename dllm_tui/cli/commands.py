"""The commands, as typer reads them: names, options, help. What they do is imported when they run."""

import sys
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from typer.core import TyperGroup

from dllm_tui import __version__
from dllm_tui.cli import adapt
from dllm_tui.cli.options import Device, Dtype, Json, Model, Plain, Theme, settings_with, with_knobs
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

REPLAY_EXAMPLES = """\b
[bold]Examples[/]
  dllm-chat replay last                        the chat that was used last
  dllm-chat replay hi.jsonl --speed 0.25       four times as slow as it was
  dllm-chat replay hi.jsonl --speed step       every step stands half a second
  dllm-chat replay hi.jsonl --from 12 --to 1:05 --loop
"""

EXPORT_EXAMPLES = """\b
[bold]Examples[/]
  dllm-chat export last demo.gif               a picture that plays everywhere
  dllm-chat export last demo.gif --last-answer only what was asked last
  dllm-chat export hi.jsonl hi.html            a page with a player, all in one file
  dllm-chat export hi.jsonl hi.cast --idle 2   for asciinema; pauses cut to 2 s
  dllm-chat export hi.jsonl step.svg --step 12 one step, sharp at any size
  dllm-chat export hi.jsonl hi.md              the conversation

[bold]What OUT can be[/]
  .cast  asciinema    .gif .mp4  everywhere    .svg  animated, without script
  .html  a page       .png       one step      .md .txt  the conversation
  .jsonl a trace to give away: what --from, --to and --idle leave, without date and versions
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
    theme: Theme = None,
    fps: Annotated[
        str | None, typer.Option(metavar="1…120", help="Most frames a second that are drawn. [dim]20[/]")
    ] = None,
    plain: Plain = False,
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
    chosen = settings_with(
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
    raise typer.Exit(chat(chosen))


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
def list_models(as_json: Json = False) -> None:
    """Print the families and checkpoints that are known: what they need, and which suits this machine."""
    from dllm_tui.cli.models import list_models

    list_models(as_json=as_json)


@models_app.command()
def show(
    name: Annotated[str, typer.Argument(metavar="NAME", help="As for --model, or a family.")],
    as_json: Json = False,
) -> None:
    """Explain how a model decodes, and whether this machine can hold it."""
    from dllm_tui.cli.models import show

    show(name, as_json=as_json)


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


app.command(epilog=adapt.EXAMPLES)(adapt.adapt)

Trace = Annotated[
    str,
    typer.Argument(
        metavar="TRACE", help="A trace, the name of a demo, or last: the last chat.", show_default=False
    ),
]
Speed = Annotated[
    str | None, typer.Option(metavar="X", help="Faster or slower; step: every step alike. [dim]1[/]")
]
Start = Annotated[
    str | None, typer.Option("--from", metavar="TIME", help="Where to begin, like 12.5 or 1:05.")
]
End = Annotated[str | None, typer.Option("--to", metavar="TIME", help="Where to end.")]


@app.command(epilog=REPLAY_EXAMPLES)
def replay(
    trace: Trace,
    *,
    speed: Speed = None,
    start: Start = None,
    end: End = None,
    loop: Annotated[bool, typer.Option("--loop", help="At the end, begin again.")] = False,
    theme: Theme = None,
    plain: Plain = False,
) -> None:
    """Watch a recorded session again, in the app; no model is needed.

    Space plays and pauses, the arrow keys step, Shift + arrow jumps a block, comma and full stop change the
    speed.
    """
    from dllm_tui.cli.traces import replay, showing, trace_of

    settings = settings_with(theme=theme, plain=plain or None)
    replay(trace_of(trace), settings, showing(speed, start, end), loop=loop)


@app.command(epilog=EXPORT_EXAMPLES)
def export(
    trace: Trace,
    out: Annotated[
        Path, typer.Argument(metavar="OUT", help="What to write; its ending says what.", show_default=False)
    ],
    *,
    last_answer: Annotated[
        bool, typer.Option("--last-answer", help="Only the last prompt, and what answers it.")
    ] = False,
    size: Annotated[
        str,
        typer.Option(metavar="COLSxROWS", help="20x5 to 400x120; recorded: as it was."),
    ] = "100x30",
    theme: Theme = None,
    fps: Annotated[int, typer.Option(min=1, max=60, metavar="N", help="Most frames a second.")] = 25,
    speed: Speed = None,
    start: Start = None,
    end: End = None,
    idle: Annotated[
        float | None,
        typer.Option(
            min=0, max=3600, metavar="S", help="Cut pauses in which nothing runs to so many seconds."
        ),
    ] = None,
    step: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="A still of this step (.svg, .png).")
    ] = None,
    cast_version: Annotated[int, typer.Option(min=2, max=3, metavar="2|3", help="Of an asciicast.")] = 2,
    details: Annotated[
        bool, typer.Option("--details", help="Keep date, versions and folders (.jsonl).")
    ] = False,
    force: Annotated[bool, typer.Option("--force", "-f", help="Replace a file that is there.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Tell on stdout, in JSON.")] = False,
) -> None:
    """Make a film, a picture or a text of a recorded session; no model is needed.

    What is shown is the app itself. The same trace, size and theme give the same bytes. TRACE may be -,
    for what comes in on standard input.
    """
    from dllm_tui.cli.traces import export, showing, size_of

    export(
        trace,
        out,
        showing(speed, start, end),
        last_answer=last_answer,
        size=size_of(size),
        theme=settings_with(theme=theme).theme,
        fps=fps,
        idle=idle,
        step=step,
        cast_version=cast_version,
        details=details,
        force=force,
        as_json=as_json,
    )


@app.command()
def doctor(as_json: Json = False) -> None:
    """What is installed, which device, which terminal features, and what is wrong."""
    from dllm_tui.cli.doctor import doctor

    if doctor(as_json=as_json):
        raise typer.Exit(1)


@app.command()
def locate(
    what: Annotated[
        Literal["config", "themes", "data", "traces"] | None,
        typer.Argument(
            metavar="config|themes|data|traces", help="What to find; without it, all.", show_default=False
        ),
    ] = None,
) -> None:
    """Print where something lives.

    config is the settings file (written with every setting explained, if there is none), themes the folder
    of your own themes, data that of models and chats, traces the chats: each is a trace.
    """
    from dllm_tui.cli.locate import PLACES, locate

    if what:
        print(locate(what))
        return
    for place in PLACES:
        print(f"{place:7} {PLACES[place]()}")


@app.command()
def version() -> None:
    """Print the version."""
    _print_version(True)
