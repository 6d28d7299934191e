"""Building the app around the fake host, and waiting for it."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from textual.events import Paste
from textual.pilot import Pilot
from textual.widget import Widget

from dllm_tui import theming
from dllm_tui.session import Session
from dllm_tui.settings import Settings
from dllm_tui.tui.app import ChatApp
from dllm_tui.tui.choice import Choice
from dllm_tui.tui.pen import Pen
from dllm_tui.tui.widgets.prompt import Prompt
from tests.fakes import FakeHost

PEN = Pen.of(theming.shipped()[theming.DEFAULT])
ASCII_PEN = Pen.of(theming.shipped()[theming.DEFAULT], plain=True)
MODELS = (Choice("smol", "smol", "ready"), Choice("org/other", "Other", "downloads 3 GB"))
ENVIRONMENT = {"TERM": "xterm-256color"}


def make_app(
    host: FakeHost | None = None,
    *,
    settings: Settings | None = None,
    history: Path | None = None,
    environment: dict[str, str] | None = None,
    **more: Any,
) -> ChatApp:
    """An app that needs nothing of this machine."""
    settings = settings or Settings()
    session = Session(host or FakeHost(), settings, history=history)
    return ChatApp(session, settings, models=lambda: MODELS, environment=environment or ENVIRONMENT, **more)


async def until(pilot: Pilot[None], true: Callable[[], object], seconds: float = 10.0) -> None:
    """Wait until something holds; fail where it doesn't in time."""
    for _ in range(int(seconds / 0.02)):
        await pilot.pause(0.02)
        if true():
            return
    raise AssertionError("it did not come true in time")


async def ask(pilot: Pilot[None], app: ChatApp, text: str = "Tell me a story.") -> None:
    """Paste a prompt and send it."""
    await until(pilot, lambda: app.screen.query("#prompt"))
    prompt = app.screen.query_one(Prompt)
    prompt.focus()
    prompt.post_message(Paste(text))
    await pilot.press("enter")
    await pilot.pause()


async def answered(pilot: Pilot[None], app: ChatApp, count: int = 1) -> None:
    """Wait until there are that many answers, and the app has seen it."""
    await until(pilot, lambda: not app.running and app.situation.answers == count)
    await pilot.pause()


def keys(text: str) -> list[str]:
    """A text as key presses."""
    names = {" ": "space", "/": "slash", ".": "full_stop", "\n": "ctrl+j", "?": "question_mark", ",": "comma"}
    names |= {"-": "minus", "[": "left_square_bracket", "]": "right_square_bracket", "_": "underscore"}
    return [names.get(character, character) for character in text]


def said(widget: Widget) -> str:
    """What a widget shows, as text."""
    height = widget.size.height
    return "\n".join(widget.render_line(y).text.rstrip() for y in range(height))
