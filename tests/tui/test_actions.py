"""The registry: whole, free of clashes, and open to a person's own keys."""

import re

import pytest
from textual._xterm_parser import XTermParser
from textual.events import Key

from dllm_tui.tui.actions import ACTIONS, Situation, key_text, resolve_keymap

TAKEN_ELSEWHERE = {"ctrl+b", "ctrl+s", "ctrl+a", "ctrl+o", "ctrl+g", "ctrl+z", "ctrl+d"}
"""Keys that tmux, screen, zellij or the terminal's line discipline keep for themselves."""


def test_default_keys_clash_nowhere():
    _, problems = resolve_keymap({id_: ",".join(action.keys) for id_, action in ACTIONS.items()})
    assert not problems


def test_default_keys_leave_those_of_terminals_alone():
    used = {key for action in ACTIONS.values() for key in action.keys}
    assert not used & TAKEN_ELSEWHERE
    assert not used & {"f5", "f10", "f11"}


@pytest.mark.parametrize(
    "key", [key for action in ACTIONS.values() for key in action.keys if re.fullmatch(r"alt\+.", key)]
)
def test_keys_with_alt_are_told_by_every_terminal(key):
    """Most send Escape and the letter, which a few letters share with another key."""
    parser = XTermParser()
    told = [*parser.feed(f"\x1b{key[-1]}"), *parser.feed("")]
    assert [event.key for event in told if isinstance(event, Key)] == [key]


def test_slash_commands_are_unique():
    names = [name for action in ACTIONS.values() for name in action.slash]
    assert len(names) == len(set(names))


def test_a_persons_keys():
    keymap, problems = resolve_keymap({"help": "f12, ctrl+y", "view": ""})
    assert not problems
    assert keymap["help"] == ("f12", "ctrl+y")
    assert keymap["view"] == ()
    assert keymap["model"] == ("f2",)


def test_two_actions_may_change_places():
    keymap, problems = resolve_keymap({"help": "f2", "model": "f1"})
    assert not problems
    assert (keymap["help"], keymap["model"]) == (("f2",), ("f1",))


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        ({"helb": "f12"}, "no action 'helb'"),
        ({"view": "f1"}, "f1 is asked for by 'view' but 'help' has it"),
        ({"view": "enter"}, "'send' has it"),
        ({"view": "f12", "theme": "f12"}, "f12"),
    ],
)
def test_what_is_wrong_is_said_and_left_out(wanted, message):
    keymap, problems = resolve_keymap(wanted)
    assert message in " ".join(problems)
    assert keymap["view"] == ("f3",) or keymap["theme"] == ("f7",)


def test_what_makes_sense_when():
    idle, running = Situation(ready=True), Situation(ready=True, running=True, prompts=1, answers=1)
    answered = Situation(ready=True, prompts=1, answers=1)
    assert ACTIONS["stop"].unavailable(idle)
    assert not ACTIONS["stop"].unavailable(running)
    assert ACTIONS["regenerate"].unavailable(idle)
    assert ACTIONS["regenerate"].unavailable(running)
    assert not ACTIONS["regenerate"].unavailable(answered)
    assert ACTIONS["chats"].unavailable(Situation(history=False))


@pytest.mark.parametrize(
    ("key", "text"),
    [
        ("ctrl+p", "Ctrl+P"),
        ("escape", "Esc"),
        ("f1", "F1"),
        ("y", "y"),
        ("shift+left", "Shift+←"),
        ("alt+enter", "Alt+Enter"),
        ("pageup", "PgUp"),
        ("ctrl+home", "Ctrl+Home"),
    ],
)
def test_keys_as_people_read_them(key, text):
    assert key_text([key]) == text


def test_arrows_have_names_where_there_is_ascii_alone():
    assert key_text(["alt+up"], ascii_only=True) == "Alt+Up"
    assert key_text(["left"], ascii_only=True) == "Left"


def test_no_key_is_no_text():
    assert key_text(()) == ""
