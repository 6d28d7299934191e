"""What a list to choose from is made of."""

import time
from dataclasses import dataclass

from textual.content import Content

from dllm_tui.trace.chats import Chat
from dllm_tui.tui.cells import printable


@dataclass(frozen=True)
class Choice:
    """One entry of a list. What is shown of it is made safe for the terminal; the value is kept as it is."""

    value: str
    title: str
    detail: str | Content = ""
    """Beside the title, fainter."""
    about: str = ""
    """On a line of its own, fainter."""

    def __post_init__(self) -> None:
        """Files and people give these texts."""
        for name in ("title", "detail", "about"):
            text = getattr(self, name)
            if isinstance(text, str) and text:
                object.__setattr__(self, name, printable(text))


def described(chat: Chat, *, dot: str, now: float | None = None) -> str:
    """What a list of chats says of one, beside its title."""
    if chat.problem:
        return chat.problem
    minutes = ((time.time() if now is None else now) - chat.used) / 60
    ago = "just now"
    for size, unit in ((60 * 24, "day"), (60, "hour"), (1, "minute")):
        if minutes >= size:
            number = int(minutes / size)
            ago = f"{number} {unit}{'s' * (number > 1)} ago"
            break
    messages = f"{chat.turns} message{'s' * (chat.turns != 1)}"
    return f" {dot} ".join(part for part in (messages, ago, chat.model) if part)
