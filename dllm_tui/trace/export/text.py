"""The conversation as Markdown or plain text, without what can't be printed."""

import unicodedata
from collections.abc import Mapping, Sequence

from dllm_tui.events import Done, Turn

_DIRECTIONS = {*range(0x202A, 0x202F), *range(0x2066, 0x206A)}
"""Characters that turn the direction of what follows: they can make a text look like another."""


def markdown(turns: Sequence[Turn], done: Mapping[int, Done], *, title: str, model: str) -> str:
    """A conversation with a heading; below each answer what it took.

    Args:
        turns: the conversation.
        done: the last event of its runs.
        title: the heading.
        model: who answered.
    """
    parts = [f"# {clean(title)}\n"]
    for turn in turns:
        text = clean(turn.text).strip()
        if turn.role != "assistant":
            text = "\n".join(f"> {line}".rstrip() for line in text.splitlines())
        parts.append(f"**{_who(turn, model)}**\n\n{text}\n")
        end = done.get(turn.run) if turn.run is not None else None
        if end is not None and end.nfe:
            parts.append(f"*{_figures(end)}*\n")
    return "\n".join(parts)


def plain(turns: Sequence[Turn], *, model: str) -> str:
    """A conversation, each message under the name of who wrote it."""
    return "\n\n".join(f"{_who(turn, model)}:\n{clean(turn.text).strip()}" for turn in turns) + "\n"


def clean(text: str) -> str:
    """A text without control characters, line breaks and tabs excepted: what it holds does nothing."""
    text = text.replace("\r\n", "\n")
    return "".join(c for c in text if c in "\n\t" or not _unseen(c))


def _unseen(character: str) -> bool:
    return unicodedata.category(character) in {"Cc", "Cs"} or ord(character) in _DIRECTIONS


def _who(turn: Turn, model: str) -> str:
    return {"user": "You", "system": "System", "assistant": clean(model) or "Model"}[turn.role]


def _figures(done: Done) -> str:
    parts = [
        f"{done.tokens} tokens",
        f"{done.nfe} forwards",
        f"{done.tokens / done.nfe:.1f} tokens per forward",
    ]
    return " · ".join([*parts, f"{done.seconds:.1f} s"] if done.seconds else parts)
