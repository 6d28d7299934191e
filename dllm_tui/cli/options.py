"""Options that several commands share. Those of the knobs are made from :data:`dllm_tui.knobs.KNOBS`."""

import functools
import inspect
from collections.abc import Callable
from typing import Annotated, Any, TypeAlias

import msgspec
import typer

from dllm_tui.knobs import KNOBS, PRESETS, Knob, KnobError, Value
from dllm_tui.settings import Settings, SettingsError, check, load

KNOBS_PANEL = "Knobs, in place of the model's own defaults"

Model: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--model", "-m", metavar="NAME", help="A catalogue name, hub id, directory or GGUF file. [dim]smol[/]"
    ),
]
Device: TypeAlias = Annotated[
    str | None, typer.Option(metavar="NAME", help="auto, cpu, cuda, or one of several: cuda:1. [dim]auto[/]")
]
Dtype: TypeAlias = Annotated[
    str | None,
    typer.Option(
        metavar="NAME", help="auto, float32, bfloat16, float16; on CUDA also int8, int4. [dim]auto[/]"
    ),
]
Theme: TypeAlias = Annotated[
    str | None, typer.Option(metavar="NAME", help="Colours, yours among them. [dim]lagoon[/]")
]
Plain: TypeAlias = Annotated[
    bool, typer.Option("--plain", help="ASCII, no colour washes, no animation: for screen readers.")
]
Json: TypeAlias = Annotated[bool, typer.Option("--json", help="JSON on stdout, for programs.")]


def with_knobs(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command an option for every knob and ``--preset``.

    Args:
        command: takes ``knobs``, a dict of those that were given, checked.
    """
    parameters = {
        parameter.name: parameter
        for parameter in inspect.signature(command).parameters.values()
        if parameter.name != "knobs"
    }
    preset = _parameter("preset", "--preset", "NAME", f"Several knobs at once: {', '.join(PRESETS)}.")
    options = [preset, *(_parameter(knob.name, knob.option, *_explained(knob)) for knob in KNOBS.values())]

    @functools.wraps(command)
    def wrapped(**given: Any) -> None:
        texts = {option.name: given.pop(option.name) for option in options}
        command(**given, knobs=_checked(texts))

    # typer reads the signature, and asks for the annotations besides
    signature = inspect.Signature([*parameters.values(), *options])
    wrapped.__signature__ = signature  # pyright: ignore[reportAttributeAccessIssue] - what inspect looks for
    wrapped.__annotations__ = {name: parameter.annotation for name, parameter in signature.parameters.items()}
    return wrapped


def settings_with(knobs: dict[str, Value] | None = None, **options: object) -> Settings:
    """The settings with what the command line says instead; ``None`` was not given.

    Raises:
        SettingsError: file or environment are not valid.
        typer.BadParameter: an option is not.
    """
    settings = load().with_knobs(knobs or {})
    given = {name: value for name, value in options.items() if value is not None}
    for name, value in given.items():
        try:
            given[name] = check(name, value, where=f"--{name}", strict=False)
        except SettingsError as error:
            raise typer.BadParameter(
                error.message.removeprefix(f"--{name}: "), param_hint=f"--{name}"
            ) from None
    return msgspec.structs.replace(settings, **given)


def _parameter(name: str, option: str, metavar: str, text: str) -> inspect.Parameter:
    info = typer.Option(option, metavar=metavar, help=text, rich_help_panel=KNOBS_PANEL)
    return inspect.Parameter(
        name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=Annotated[str | None, info]
    )


def _explained(knob: Knob) -> tuple[str, str]:
    """The values that a knob takes, as short as can be, and what it does."""
    if knob.choices:
        return "NAME", f"{knob.help} {', '.join(knob.choices)}."
    return (f"{knob.low:g}…{knob.high:g}" if (knob.high or 0) < 1e6 else "N"), knob.help


def _checked(texts: dict[str, str | None]) -> dict[str, Value]:
    knobs = dict[str, Value]()
    for name, text in texts.items():
        if text is None:
            continue
        if name == "preset":
            if text not in PRESETS:
                raise typer.BadParameter(f"it must be one of {', '.join(PRESETS)}", param_hint="--preset")
            knobs["preset"] = text
            continue
        try:
            knobs[name] = KNOBS[name].check(text)
        except KnobError as error:
            raise typer.BadParameter(str(error), param_hint=KNOBS[name].option) from None
    return knobs
