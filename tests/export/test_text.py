"""The conversation as text: whole, in order, and with nothing in it that does anything."""

from hypothesis import given
from hypothesis import strategies as st

from dllm_tui.events import Done, Turn
from dllm_tui.trace.export import text

TURNS = [
    Turn(role="system", text="Be brief."),
    Turn(role="user", text="Hi\n\nthere"),
    Turn(role="assistant", text="# Hello\r\n\x1b[31mred\x07 \u202eabc 👩‍🚀\n", run=0),
]


def test_markdown():
    done = {0: Done(run=0, reason="stop", tokens=12, nfe=5, seconds=1.25)}
    assert text.markdown(TURNS, done, title="Hi \x1b", model="smol") == (
        "# Hi \n\n**System**\n\n> Be brief.\n\n**You**\n\n> Hi\n>\n> there\n\n"
        "**smol**\n\n# Hello\n[31mred abc 👩‍🚀\n\n"
        "*12 tokens · 5 forwards · 2.4 tokens per forward · 1.2 s*\n"
    )


def test_plain():
    assert text.plain(TURNS[1:], {}, model="") == "You:\nHi\n\nthere\n\nModel:\n# Hello\n[31mred abc 👩‍🚀\n"


def test_an_answer_that_was_stopped_says_so():
    done = {0: Done(run=0, reason="cancelled", tokens=12, nfe=5, seconds=1.25)}
    assert "*stopped · 12 tokens · " in text.markdown(TURNS, done, title="Hi", model="smol")
    assert "smol (stopped):\n" in text.plain(TURNS, done, model="smol")


@given(st.text())
def test_nothing_steers_a_terminal(said: str):
    cleaned = text.clean(said)
    assert all(c.isprintable() or c in "\n\t" or ord(c) > 0x9F for c in cleaned)
    assert not set(cleaned) & set("\x1b\x07\x08\r\x7f\x9b\u202e\u2066")
    assert text.clean(cleaned) == cleaned
