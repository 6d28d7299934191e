"""All that can be done now, as a list to find it in by name."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from dllm_tui.knobs import POLICIES, PRESETS
from dllm_tui.tui.actions import ACTIONS
from dllm_tui.tui.choice import Choice
from dllm_tui.tui.commands import commands

if TYPE_CHECKING:
    from dllm_tui.tui.app import ChatApp


@dataclass(frozen=True)
class Entry:
    """One line of the list, and what it does."""

    choice: Choice
    run: Callable[[], object]


def entries(app: "ChatApp") -> dict[str, Entry]:
    """Actions that make sense now, presets, policies, and the knobs, by name."""
    found: list[Entry] = []
    for action in ACTIONS.values():
        if action.listed and not action.unavailable(app.situation):
            ways = "   ".join(part for part in (app.key_for(action.id), f"/{action.slash[0]}") if part)
            found.append(Entry(Choice(action.id, action.title, ways), partial(app.run_action, action.id)))
    for name, knobs in PRESETS.items():
        values = ", ".join(f"{knob} {value}" for knob, value in knobs.items())
        found.append(Entry(Choice(f"preset {name}", f"Preset {name}", values), partial(app.turn, **knobs)))
    for name in app.policies:
        choice = Choice(f"policy {name}", f"Policy {name}", about=POLICIES[name])
        found.append(Entry(choice, partial(app.turn, policy=name)))
    for command in commands().values():
        if command.knob and not command.alias:
            choice = Choice(f"/{command.name}", f"Turn {command.knob.label}", about=command.help)
            found.append(Entry(choice, partial(app.ask_for, f"/{command.name} ")))
    return {entry.choice.value: entry for entry in found}
