"""Slash commands, made from the actions and the knobs."""

import difflib
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

from dllm_tui.knobs import KNOBS, POLICIES, PRESETS, Knob, Value
from dllm_tui.tui.actions import ACTIONS

_WORD = re.compile(r"[a-z-]+")
FIRST_KNOBS = ("steps", "block_size", "threshold", "policy")
"""Knobs that people reach for; the panel shows them always, and the list of commands begins with them."""


class CommandError(ValueError):
    """A slash command can't be done as typed; the message says what can."""


@dataclass(frozen=True)
class Command:
    """One slash command: it does an action, turns a knob, or takes a preset."""

    name: str
    usage: str
    """With its argument, e.g. ``/steps N``."""
    help: str
    action: str = ""
    """Id of the action."""
    knob: Knob | None = None
    values: tuple[str, ...] = ()
    """What may follow, for completion."""
    alias: bool = False
    """A second name: understood, but listed only once it is typed."""


@dataclass(frozen=True)
class Invocation:
    """A command as a person typed it, checked."""

    command: Command
    argument: str = ""
    changes: tuple[tuple[str, Value], ...] = ()
    """Knobs to turn."""


@dataclass(frozen=True)
class Completion:
    """One line of the completion list."""

    text: str
    """What the prompt becomes."""
    label: str
    help: str


@cache
def commands() -> dict[str, Command]:
    """Every slash command by name: the usual knobs, the actions, the further knobs; then second names."""
    taken = {name for action in ACTIONS.values() for name in action.slash}
    usual = {knob.name: _usual(knob, taken) for knob in KNOBS.values()}
    found = {usual[name]: _turning(KNOBS[name], usual[name]) for name in FIRST_KNOBS}
    found["preset"] = Command(
        "preset", "/preset NAME", f"Several knobs at once: {', '.join(PRESETS)}.", values=tuple(PRESETS)
    )
    for action in ACTIONS.values():
        for index, name in enumerate(action.slash):
            usage = f"/{name} {action.argument}".rstrip()
            found[name] = Command(name, usage, action.title, action=action.id, alias=index > 0)
    for knob in KNOBS.values():
        found.setdefault(usual[knob.name], _turning(knob, usual[knob.name]))
        for name in (_dashed(knob.name), knob.name):
            found.setdefault(name, _turning(knob, name, alias=True))
    return found


def _turning(knob: Knob, name: str, *, alias: bool = False) -> Command:
    values = tuple(knob.choices) or tuple(f"{snap:g}" for snap in knob.snaps)
    usage = f"/{name} {'NAME' if knob.choices else 'N'}"
    return Command(name, usage, knob.help, knob=knob, values=values, alias=alias)


def _usual(knob: Knob, taken: set[str]) -> str:
    """The label where it is one word and no action's; else the knob's name."""
    return knob.label if _WORD.fullmatch(knob.label) and knob.label not in taken else _dashed(knob.name)


def _dashed(name: str) -> str:
    return name.replace("_", "-")


def is_command(text: str) -> bool:
    """Whether a prompt is meant as a command: one slash, not two."""
    return text.startswith("/") and not text.startswith("//")


def unescaped(text: str) -> str:
    """What a prompt says to the model: ``//`` at its start is a slash."""
    return text[1:] if text.startswith("//") else text


def _find(typed: str) -> Command | None:
    """The command of that name, or the only one whose usual name begins so."""
    matching = [c for c in commands().values() if typed and c.name.startswith(typed) and not c.alias]
    return commands().get(typed) or (matching[0] if len(matching) == 1 else None)


def parse(text: str) -> Invocation:
    """What a slash command asks for. The beginning of a name will do where only one goes on so.

    Raises:
        CommandError: there is no such command, or its argument is not valid.
    """
    name, _, argument = text[1:].strip().partition(" ")
    argument = argument.strip()
    command = _find(name.lower())
    if command is None:
        near = difflib.get_close_matches(name.lower(), commands(), n=1)
        hint = f"did you mean /{near[0]}?" if near else "/help lists them"
        raise CommandError(f"there is no /{name}; {hint} (to send it as text, begin with //)")
    if command.name == "preset":
        if argument not in PRESETS:
            raise CommandError(f"/preset takes one of {', '.join(PRESETS)}")
        return Invocation(command, argument, tuple(PRESETS[argument].items()))
    if command.knob is None:
        return Invocation(command, argument)
    if not argument:
        raise CommandError(f"/{name} takes {command.knob.range_text()}")
    # KnobError says what is allowed; it is a ValueError as CommandError is
    try:
        return Invocation(command, argument, ((command.knob.name, command.knob.check(argument)),))
    except ValueError as error:
        raise CommandError(str(error)) from None


def completions(text: str, extra: dict[str, Callable[[], list[str]]] | None = None) -> list[Completion]:
    """How a command that is being typed may go on.

    Args:
        text: the prompt so far, one line.
        extra: for commands whose values only the program knows (models, themes): name → values.
    """
    if not is_command(text) or "\n" in text:
        return []
    name, space, argument = text[1:].partition(" ")
    if not space:
        typed = name.lower()
        matching = [
            command
            for command in commands().values()
            if command.name.startswith(typed) and (not command.alias or typed == command.name)
        ]
        return [
            Completion(
                f"/{command.name}" + (" " if " " in command.usage else ""), command.usage, command.help
            )
            for command in matching
        ]
    command = _find(name.lower())
    if command is None:
        return []
    values = extra[command.name]() if extra and command.name in extra else command.values
    return [
        Completion(f"/{name} {value}", value, POLICIES.get(value, "") if command.name == "policy" else "")
        for value in values
        if value.startswith(argument.strip()) and value != argument.strip()
    ]
