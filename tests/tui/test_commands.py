"""Slash commands: parsed, refused with what is right, and completed."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dllm_tui.knobs import KNOBS
from dllm_tui.tui.actions import ACTIONS
from dllm_tui.tui.commands import CommandError, commands, completions, is_command, parse, unescaped


def test_every_action_and_every_knob_has_one():
    known = commands()
    for action in ACTIONS.values():
        for name in action.slash:
            assert known[name].action == action.id
    for knob in KNOBS.values():
        assert known[knob.name].knob == knob
        assert any(c.knob == knob and not c.alias for c in known.values())


@pytest.mark.parametrize(
    ("text", "changes"),
    [
        ("/steps 4", {"steps": 4}),
        ("/STEPS   4 ", {"steps": 4}),
        ("/block 16", {"block_size": 16}),
        ("/block-size 16", {"block_size": 16}),
        ("/block_size 16", {"block_size": 16}),
        ("/threshold .7", {"threshold": 0.7}),
        ("/policy verify", {"policy": "verify"}),
        ("/seed none", {"seed": None}),
        ("/preset draft", {"steps": 4}),
    ],
)
def test_knobs(text, changes):
    assert dict(parse(text).changes) == changes


def test_actions():
    assert parse("/new").command.action == "new_chat"
    assert parse("/model org/name").argument == "org/name"
    assert parse("/edit").command.action == "edit_last"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("/", "/help lists them"),
        ("/stesp 4", "did you mean /steps"),
        ("/etc/passwd", "begin with //"),
        ("/steps", "a whole number from 1 to 4096"),
        ("/steps 1.5", "a whole number from 1 to 4096"),
        ("/policy", "one of confidence"),
        ("/preset", "one of draft"),
    ],
)
def test_what_is_wrong_says_what_is_right(text, message):
    with pytest.raises(CommandError, match=message.replace("/", "/")):
        parse(text)


@given(st.text(max_size=40))
def test_any_text_is_parsed_or_refused(text):
    try:
        parse("/" + text)
    except CommandError as error:
        assert str(error)
    completions("/" + text)


def test_a_slash_of_ones_own():
    assert not is_command("//x")
    assert unescaped("//x") == "/x"
    assert unescaped("x//y") == "x//y"


def test_completion_of_names_begins_with_what_people_reach_for():
    offered = [completion.text.strip() for completion in completions("/")]
    assert offered[:5] == ["/steps", "/block", "/threshold", "/policy", "/preset"]
    assert "/exit" not in offered
    assert [c.text for c in completions("/exi")] == []
    assert [c.text for c in completions("/exit")] == ["/exit"]


def test_completion_of_values():
    assert [c.text for c in completions("/policy s")] == ["/policy streaming", "/policy sequential"]
    assert [c.text for c in completions("/theme p", {"theme": lambda: ["paper", "lagoon"]})] == [
        "/theme paper"
    ]
    assert completions("/nothing x") == []
    assert completions("no command") == []
    assert completions("/steps\n4") == []


def test_the_beginning_of_a_name_will_do_where_it_is_the_only_one():
    assert parse("/thr 0.5").changes == (("threshold", 0.5),)
    assert parse("/hel").command.action == "help"
    with pytest.raises(CommandError, match="there is no /th;"):
        parse("/th 0.5")
    assert "/pol verify" in [completion.text for completion in completions("/pol ver")]
