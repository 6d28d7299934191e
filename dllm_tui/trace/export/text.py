"""The conversation as Markdown or plain text, without what can't be printed."""

import unicodedata
from collections.abc import Mapping, Sequence

from dllm_tui.events import Done, Turn

_DIRECTIONS = {*range(0x202A, 0x202F), *range(0x2066, 0x206A)}
"""Characters that turn the direction of what follows: they can make a text look like another."""


_ENDINGS = {
    "cancelled": "stopped",
    "length": "length limit",
    "context": "context full",
    "error": "failed",
}
"""Why an answer ended before its own end."""


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
        if end is not None and _figures(end):
            parts.append(f"*{_figures(end)}*\n")
    return "\n".join(parts)


def plain(turns: Sequence[Turn], done: Mapping[int, Done], *, model: str) -> str:
    """A conversation, each message under the name of who wrote it; an answer that broke off says so."""
    parts: list[str] = []
    for turn in turns:
        end = done.get(turn.run) if turn.run is not None else None
        ending = _ENDINGS.get(end.reason) if end else None
        head = f"{_who(turn, model)} ({ending})" if ending else _who(turn, model)
        parts.append(f"{head}:\n{clean(turn.text).strip()}")
    return "\n\n".join(parts) + "\n"


def clean(text: str) -> str:
    """A text without control characters, line breaks and tabs excepted: what it holds does nothing."""
    text = text.replace("\r\n", "\n")
    return "".join(c for c in text if c in "\n\t" or not _unseen(c))


def _unseen(character: str) -> bool:
    return unicodedata.category(character) in {"Cc", "Cs"} or ord(character) in _DIRECTIONS


def _who(turn: Turn, model: str) -> str:
    return {"user": "You", "system": "System", "assistant": clean(model) or "Model"}[turn.role]


def _figures(done: Done) -> str:
    parts = [_ENDINGS[done.reason]] if done.reason in _ENDINGS else []
    if done.nfe:
        per_forward = f"{(done.tokens - done.given) / done.nfe:.1f} tokens per forward"
        parts += [f"{done.tokens} tokens", f"{done.nfe} forwards", per_forward]
    return " · ".join([*parts, f"{done.seconds:.1f} s"] if done.nfe and done.seconds else parts)
