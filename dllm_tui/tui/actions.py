"""Everything a person can do, once: keys, palette, help, footer and slash commands all read this registry.

An action's id is the name of the method that does it (``stop`` is ``action_stop``), and what a keymap in
the settings calls it.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

from textual.binding import Binding, BindingType
from textual.keys import format_key

Scope: TypeAlias = Literal["app", "prompt", "knob", "timeline", "inspector"]
"""Where an action's keys work: everywhere, while typing a prompt, on a knob, on the timeline, inspecting."""

Group: TypeAlias = Literal["Chat", "Answer", "Knobs", "Timeline", "Inspector", "View", "Demo", "Program"]


@dataclass(frozen=True)
class Situation:
    """What decides whether an action makes sense now."""

    running: bool = False
    ready: bool = False
    prompts: int = 0
    """Prompts in this conversation."""
    answers: int = 0
    versions: int = 0
    """Of the last answer."""
    history: bool = True
    """Whether chats are kept."""


Unavailable: TypeAlias = Callable[[Situation], str]
"""Says why an action can't be done now; an empty text where it can."""


def _always(_: Situation) -> str:
    return ""


def _running(now: Situation) -> str:
    return "" if now.running else "nothing is running"


def _idle(now: Situation) -> str:
    return "an answer is being written; Esc stops it" if now.running else ""


def _prompted(now: Situation) -> str:
    return _idle(now) or ("" if now.prompts else "nothing was asked yet")


def _remakeable(now: Situation) -> str:
    return _prompted(now) or ("" if now.ready else "the model isn't ready")


def _answered(now: Situation) -> str:
    return "" if now.answers else "there is no answer yet"


def _finished(now: Situation) -> str:
    return _answered(now) or _idle(now)


def _resumable(now: Situation) -> str:
    return _remakeable(now) or _answered(now)


def _versioned(now: Situation) -> str:
    return _idle(now) or ("" if now.versions > 1 else "the last answer has only one version")


def _kept(now: Situation) -> str:
    return "" if now.history else "chats aren't kept in this session (history is off)"


def _deletable(now: Situation) -> str:
    return _kept(now) or _prompted(now)


@dataclass(frozen=True)
class Action:
    """One thing that a person can do."""

    id: str
    title: str
    """For the palette, as a command: ``Copy the last answer``."""
    keys: tuple[str, ...]
    """Default keys, as Textual names them."""
    group: Group
    scope: Scope = "app"
    footer: str = ""
    """A word for the footer; empty: not there."""
    slash: tuple[str, ...] = ()
    """Slash commands that do it, the usual one first."""
    argument: str = ""
    """What the slash command takes, e.g. ``[NAME]``."""
    unavailable: Unavailable = _always
    priority: bool = False
    """Works even where a widget would take the key for itself."""

    @property
    def listed(self) -> bool:
        """Whether the palette offers it: moving about and typing need no entry there."""
        return bool(self.slash)


ACTIONS: dict[str, Action] = {
    action.id: action
    for action in (
        Action("send", "Send the prompt", ("enter",), "Chat", "prompt"),
        Action("newline", "Break the line", ("alt+enter", "ctrl+j", "shift+enter"), "Chat", "prompt"),
        Action("older", "Earlier prompt (from the first line)", ("up",), "Chat", "prompt"),
        Action("newer", "Later prompt (from the last line)", ("down",), "Chat", "prompt"),
        Action("to_prompt", "Back to the prompt", ("escape",), "Chat", unavailable=_idle),
        Action("new_chat", "Start a new chat", ("ctrl+n",), "Chat", slash=("new", "clear")),
        Action(
            "chats",
            "Open or delete a chat",
            ("ctrl+l",),
            "Chat",
            footer="chats",
            slash=("chats", "resume"),
            unavailable=_kept,
        ),
        Action("delete_chat", "Delete this chat", (), "Chat", slash=("delete",), unavailable=_deletable),
        Action(
            "stop",
            "Stop the answer",
            ("escape",),
            "Answer",
            footer="stop",
            slash=("stop",),
            unavailable=_running,
        ),
        Action(
            "regenerate",
            "Answer the last prompt again",
            ("ctrl+r",),
            "Answer",
            footer="again",
            slash=("again", "regenerate"),
            unavailable=_remakeable,
        ),
        Action(
            "edit_last",
            "Edit the last prompt and send it again",
            ("alt+up", "e"),
            "Answer",
            slash=("edit",),
            unavailable=_prompted,
        ),
        Action(
            "branch",
            "Go on from the step that is looked at, as a branch",
            (),
            "Answer",
            slash=("branch",),
            unavailable=_resumable,
        ),
        Action(
            "versions",
            "Compare or change between versions of the last answer",
            ("alt+c", "b"),
            "Answer",
            footer="versions",
            slash=("versions",),
            unavailable=_versioned,
        ),
        Action("copy", "Copy the last answer", ("y",), "Answer", slash=("copy",), unavailable=_answered),
        Action("knobs", "Turn the knobs", ("tab",), "Knobs", "prompt", footer="knobs", slash=("knobs",)),
        Action("more_knobs", "Show or hide further knobs", (), "Knobs", slash=("more",)),
        Action("less", "One step down", ("left", "minus"), "Knobs", "knob"),
        Action("more", "One step up", ("right", "plus"), "Knobs", "knob"),
        Action("much_less", "Three steps down", ("shift+left",), "Knobs", "knob"),
        Action("much_more", "Three steps up", ("shift+right",), "Knobs", "knob"),
        Action("least", "Lowest", ("home",), "Knobs", "knob"),
        Action("most", "Highest", ("end",), "Knobs", "knob"),
        Action("accept", "Take the typed number, or open the choice", ("enter", "space"), "Knobs", "knob"),
        Action(
            "reset", "Back to the default, or delete a typed digit", ("backspace", "delete"), "Knobs", "knob"
        ),
        Action("knob_above", "Knob above", ("up",), "Knobs", "knob"),
        Action("knob_below", "Knob below", ("down",), "Knobs", "knob"),
        Action(
            "timeline",
            "Scrub the timeline; from there: hide it",
            ("ctrl+t",),
            "Timeline",
            footer="timeline",
            slash=("timeline",),
        ),
        Action("step_back", "A step back", ("left",), "Timeline", "timeline"),
        Action("step_on", "A step on", ("right",), "Timeline", "timeline"),
        Action("block_back", "To the start of the block", ("shift+left",), "Timeline", "timeline"),
        Action("block_on", "To the next block", ("shift+right",), "Timeline", "timeline"),
        Action("first_step", "First step", ("home",), "Timeline", "timeline"),
        Action("last_step", "Last step, or live", ("end",), "Timeline", "timeline"),
        Action("play", "Play and pause", ("space",), "Timeline", "timeline"),
        Action("slower", "Play slower, at last step by step", ("comma",), "Timeline", "timeline"),
        Action("faster", "Play faster", ("full_stop",), "Timeline", "timeline"),
        Action("answer_above", "The answer above", ("up",), "Timeline", "timeline"),
        Action("answer_below", "The answer below", ("down",), "Timeline", "timeline"),
        Action("branch_here", "Go on from this step, as a branch", ("enter",), "Timeline", "timeline"),
        Action(
            "to_live",
            "Back to the newest step; from there, to the prompt",
            ("l", "escape"),
            "Timeline",
            "timeline",
        ),
        Action(
            "inspect",
            "Inspect a position, as a click does",
            ("f4",),
            "Inspector",
            footer="inspect",
            slash=("inspect",),
            unavailable=_answered,
        ),
        Action("position_back", "The position before", ("left",), "Inspector", "inspector"),
        Action("position_on", "The next position", ("right",), "Inspector", "inspector"),
        Action("position_above", "The position above", ("up",), "Inspector", "inspector"),
        Action("position_below", "The position below", ("down",), "Inspector", "inspector"),
        Action("first_position", "First position", ("home",), "Inspector", "inspector"),
        Action("last_position", "Last position", ("end",), "Inspector", "inspector"),
        Action("step_before", "The same a step before", ("left_square_bracket",), "Inspector", "inspector"),
        Action("step_after", "The same a step after", ("right_square_bracket",), "Inspector", "inspector"),
        Action(
            "mark",
            "Mark the position, or no longer (Ctrl+click, too)",
            ("space", "m"),
            "Inspector",
            "inspector",
        ),
        Action("mark_back", "Mark it and the position before", ("shift+left",), "Inspector", "inspector"),
        Action("mark_on", "Mark it and the next position", ("shift+right",), "Inspector", "inspector"),
        Action("remask", "Remask what is marked, or this", ("r", "delete"), "Inspector", "inspector"),
        Action("choose", "Set another of the best tokens (1-9: by number)", ("c",), "Inspector", "inspector"),
        Action("words", "Set words of your own here", ("w",), "Inspector", "inspector"),
        Action("undo", "Take the last change back", ("u", "backspace"), "Inspector", "inspector"),
        Action("resume", "Go on from here, as a branch", ("enter",), "Inspector", "inspector"),
        Action("leave", "Close the inspector", ("escape",), "Inspector", "inspector"),
        Action(
            "view",
            "Switch the last answer between canvas and text",
            ("f3",),
            "View",
            footer="view",
            slash=("view",),
        ),
        Action(
            "shape",
            "Draw canvases as text, a grid of tokens, or a heat map of a block",
            ("alt+g", "g"),
            "View",
            footer="grid",
            slash=("shape", "grid"),
            argument="[NAME]",
        ),
        Action(
            "colours",
            "Colour by confidence, order, entropy, age",
            ("alt+v", "v"),
            "View",
            slash=("colours",),
            argument="[NAME]",
        ),
        Action("panel", "Show or hide the side panel", ("f9",), "View", footer="panel", slash=("panel",)),
        Action(
            "theme", "Choose a theme", ("f7",), "View", footer="theme", slash=("theme",), argument="[NAME]"
        ),
        Action("scroll_up", "Scroll the conversation up", ("pageup",), "View", priority=True),
        Action("scroll_down", "Scroll the conversation down", ("pagedown",), "View", priority=True),
        Action(
            "record",
            "Start or stop recording a demo",
            ("f8",),
            "Demo",
            footer="record",
            slash=("record",),
            argument="[FILE]",
        ),
        Action(
            "save_demo",
            "Save the last answer as a demo",
            ("alt+s",),
            "Demo",
            slash=("demo",),
            argument="[FILE]",
            unavailable=_finished,
        ),
        Action(
            "export",
            "Export as GIF, page, video, text",
            ("f6",),
            "Demo",
            footer="export",
            slash=("export",),
            argument="[FILE]",
            unavailable=_answered,
        ),
        Action(
            "model", "Choose a model", ("f2",), "Program", footer="model", slash=("model",), argument="[NAME]"
        ),
        Action("help", "Keys, commands and knobs", ("f1",), "Program", footer="help", slash=("help",)),
        Action(
            "everything",
            "Everything, by name",
            ("ctrl+p",),
            "Program",
            footer="everything",
            priority=True,
        ),
        Action(
            "interrupt",
            "Copy what is selected, stop, or clear the prompt; twice: quit",
            ("ctrl+c",),
            "Program",
            priority=True,
        ),
        Action("quit", "Quit", ("ctrl+q",), "Program", slash=("quit", "exit", "q"), priority=True),
    )
}
"""Every action by id, in the order in which help lists them. F5 is free for a later one."""


def bindings(scope: Scope) -> list[BindingType]:
    """The bindings of one scope, with ids that a keymap can name."""
    return [
        Binding(
            ",".join(action.keys), action.id, action.title, show=False, id=action.id, priority=action.priority
        )
        for action in ACTIONS.values()
        if action.scope == scope and action.keys
    ]


Keymap: TypeAlias = dict[str, tuple[str, ...]]
"""The keys of every action by id, as they are in force."""


def resolve_keymap(wanted: Mapping[str, str]) -> tuple[Keymap, list[str]]:
    """The keys in force with a person's own on top, and what was wrong with those.

    Args:
        wanted: action id → keys, separated by commas; empty takes an action's keys away.

    Returns:
        The keymap, and one message for each entry that was left out: an unknown action, or a key that
        something else has where both would work.
    """
    keymap: Keymap = {action.id: action.keys for action in ACTIONS.values()}
    problems: list[str] = []
    for id_, text in wanted.items():
        if id_ not in ACTIONS:
            problems.append(f"keymap: there is no action {id_!r}; the actions are {', '.join(ACTIONS)}")
            continue
        keymap[id_] = tuple(key.strip() for key in text.split(",") if key.strip())
    for id_ in [id_ for id_ in wanted if id_ in ACTIONS]:
        for key in keymap[id_]:
            other = _holder(key, id_, keymap)
            if other:
                problems.append(
                    f"keymap: {key} is asked for by {id_!r} but {other!r} has it; "
                    f"{id_!r} keeps {', '.join(ACTIONS[id_].keys) or 'no key'}"
                )
                keymap[id_] = ACTIONS[id_].keys
                break
    return keymap, problems


def _holder(key: str, id_: str, keymap: Keymap) -> str | None:
    """Another action that the key would do in the same place."""
    for other, keys in keymap.items():
        if other != id_ and key in keys and not _apart(ACTIONS[id_], ACTIONS[other], key):
            return other
    return None


def _apart(one: Action, other: Action, key: str) -> bool:
    """Whether two actions may share a key: never at work together, or sharing it by default."""
    if key in one.keys and key in other.keys:
        return True
    return one.scope != other.scope and "app" not in {one.scope, other.scope}


_KEY_NAMES = {
    "escape": "Esc",
    "enter": "Enter",
    "tab": "Tab",
    "space": "Space",
    "home": "Home",
    "end": "End",
    "delete": "Del",
    "backspace": "Backspace",
    "pageup": "PgUp",
    "pagedown": "PgDn",
}


def key_text(keys: Iterable[str], *, ascii_only: bool = False) -> str:
    """The first of an action's keys as people read it, e.g. ``Ctrl+P``; empty where it has none."""
    *modifiers, key = next(iter(keys), "").split("+")
    name = _KEY_NAMES.get(key) or (key.capitalize() if ascii_only and key in _ARROWS else format_key(key))
    if modifiers or re.fullmatch(r"f\d+", name):
        name = name.upper() if len(name) <= 3 and key not in _ARROWS else name.capitalize()
    return "+".join([*(modifier.capitalize() for modifier in modifiers), name])


_ARROWS = {"left", "right", "up", "down"}
