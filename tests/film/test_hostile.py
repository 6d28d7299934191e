"""A trace made to steer the terminal: its escapes are shown, and never obeyed."""

import re
import time
import unicodedata
from pathlib import Path

import pytest

from dllm_tui.cli.console import fail
from dllm_tui.errors import DllmError
from dllm_tui.events import MAX_CELLS, Error, Header, ModelInfo, RunStart, Step, Turn
from dllm_tui.trace import chats
from dllm_tui.trace.archive import Archive
from dllm_tui.trace.export import cast
from dllm_tui.tui.choice import Choice, described
from dllm_tui.tui.film import Take, film
from tests.film import traces
from tests.film.test_stage import theatre

EVIL = "\x1b]0;PWNED\x07\x1b[31m\x1b[2J\x1bc\x9b31m[red]x[/] \x00\u2028\u202e\x7f\x85\r\x08"
OURS = re.compile(r"\x1b\[[\d;]*[mHJ]|\x1b\[\?25[hl]")
"""What a cast itself steers a terminal with."""


def harmful(text: str) -> set[str]:
    """Characters that a terminal would obey."""
    return {c for c in text if unicodedata.category(c) in {"Cc", "Cf", "Zl", "Zp"}}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    model = ModelInfo(
        id=EVIL,
        family=EVIL,
        title=EVIL,
        device=EVIL,
        cache=EVIL,
        policies=(EVIL,),
        fixed_knobs={"steps": EVIL, EVIL: EVIL},
    )
    said = Turn(role="user", text=EVIL)
    answer = traces.answer(0, EVIL)
    error = Error(run=0, message=EVIL, hint=EVIL)
    events = [Header(app=EVIL, created=EVIL, model=model), said, *answer[:-1], error, answer[-1]]
    return traces.write(tmp_path / "evil.jsonl", events)


@pytest.mark.parametrize("size", [(130, 40), (60, 16)])
async def test_a_replay_shows_what_would_steer_the_terminal(path: Path, size):
    with Archive(path) as archive:
        count = len(archive)
    async with theatre(path, size=size) as there:
        shown = (await there.frame(count)).text()
    assert "PWNED" in shown
    assert not harmful(shown.replace("\n", ""))


def test_a_cast_of_it_has_none_of_it(path: Path):
    with Archive(path) as archive:
        text = "".join(data for _, _, data in cast._events(film(archive, Take(size=(130, 40)))))
    assert "PWNED" in text
    assert not harmful(OURS.sub("", text))


def test_the_list_of_chats_has_none_of_it(path: Path):
    (chat,) = chats.listing(path.parent)
    choice = Choice(chat.id, chat.title, described(chat, dot="-"), about=EVIL)
    assert "PWNED" in choice.title + str(choice.detail)
    assert not harmful(f"{choice.title}{choice.detail}{choice.about}")


def test_errors_have_none_of_it(capsys):
    fail(DllmError(f"{EVIL} is no model", f"Try {EVIL}."))
    assert not harmful(capsys.readouterr().err.replace("\n", ""))


async def test_the_longest_canvas_is_drawn_at_once(tmp_path: Path):
    step = Step(phase="denoise", nfe=1, step=1, length=MAX_CELLS)
    path = traces.write(tmp_path / "long.jsonl", [Header(), Turn(role="user", text="hi"), RunStart(), step])
    began = time.monotonic()
    async with theatre(path) as there:
        assert (await there.frame(4)).text().count("\u2591") > 500
    assert time.monotonic() - began < 20
