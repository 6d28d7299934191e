"""What is learnt from: chats and plain text as token ids, with the parts that the model writes marked.

A chat file is JSON lines, ``{"messages": [{"role": "user", "content": "…"}, …]}``; what the base wrote itself
has also ``ids`` and ``answers``, so that nothing is lost by going through text. Any other text file is plain
text: all of it is learnt, in pieces.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dllm_tui.engine.tokenizer import ChatTokenizer
from dllm_tui.errors import DllmError
from dllm_tui.ports import Message

ROLES = ("system", "user", "assistant")


class DataError(DllmError):
    """Training data is missing, empty or malformed."""


@dataclass(frozen=True)
class Chat:
    """A sequence of tokens, and the parts of it that are learnt."""

    ids: tuple[int, ...]
    answers: tuple[tuple[int, int], ...]
    """First and past-the-last index of each part that the model writes; 1 ≤ first < last."""
    messages: tuple[Message, ...] = ()
    """The same as text, where it is a chat."""

    @property
    def learnt(self) -> int:
        """Tokens that are learnt."""
        return sum(end - start for start, end in self.answers)

    def line(self) -> str:
        """The chat as one line of a chat file."""
        told = [{"role": message.role, "content": message.text} for message in self.messages]
        return json.dumps({"messages": told, "ids": self.ids, "answers": self.answers}, ensure_ascii=False)


def digest(chats: Sequence[Chat]) -> str:
    """A hash of what is learnt."""
    found = hashlib.sha256()
    for chat in chats:
        found.update(json.dumps([chat.ids, chat.answers]).encode())
    return found.hexdigest()


def read(path: Path, words: ChatTokenizer, *, vocabulary: int, stop_id: int, longest: int) -> list[Chat]:
    """All that is in a file.

    Args:
        path: ``.jsonl`` for chats, anything else for plain text.
        words: the base's tokenizer.
        vocabulary: ids that the base knows.
        stop_id: ends a turn.
        longest: tokens of a sequence; longer chats are cut, longer texts go into several.

    Raises:
        DataError: the file can't be read, is empty, or a line is malformed; it is named.
    """
    try:
        text = path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{path} can't be read: {error}.") from error
    if path.suffix == ".jsonl":
        chats = [
            chat
            for number, line in enumerate(text.splitlines(), 1)
            if line.strip()
            for chat in _chats(line, f"{path.name}, line {number}", words, vocabulary, stop_id)
        ]
    else:
        ids = words.encode(text)
        pieces = [tuple(ids[i : i + longest]) for i in range(0, len(ids), longest)]
        chats = [Chat(piece, ((1, len(piece)),)) for piece in pieces if len(piece) > 1]
    cut = [_cut(chat, longest) for chat in chats]
    found = [chat for chat in cut if chat.answers]
    if not found:
        raise DataError(f"There is nothing to learn in {path}.", "It needs chats with answers, or text.")
    return found


def _cut(chat: Chat, longest: int) -> Chat:
    if len(chat.ids) <= longest:
        return chat
    answers = tuple((start, min(end, longest)) for start, end in chat.answers if start < longest)
    return Chat(chat.ids[:longest], answers, chat.messages)


def _chats(line: str, where: str, words: ChatTokenizer, vocabulary: int, stop_id: int) -> Iterator[Chat]:
    """The chat of one line; a chat of several answers becomes one sequence an answer, as the app reads it."""
    try:
        record: Any = json.loads(line)
    except (ValueError, RecursionError):
        raise DataError(f"{where} is not JSON.", "A chat file has one JSON object a line.") from None
    if not isinstance(record, Mapping):
        raise DataError(f"{where} is not a JSON object.")
    messages = tuple(_messages(record.get("messages", []), where))
    if "ids" in record:
        yield _exact(record, messages, where, vocabulary)
        return
    if not messages:
        raise DataError(
            f"{where} has no messages.", 'Write {"messages": [{"role": "user", "content": "…"}, …]}.'
        )
    for index, message in enumerate(messages):
        if message.role == "assistant" and index:
            asked = words.encode_chat(messages[:index])
            ids = (*asked, *words.encode(message.text), stop_id)
            yield Chat(ids, ((len(asked), len(ids)),), messages[: index + 1])


def _messages(said: Any, where: str) -> Iterator[Message]:
    if not isinstance(said, Sequence) or isinstance(said, str):
        raise DataError(f"{where}: messages is not a list.")
    for each in said:
        role = each.get("role") if isinstance(each, Mapping) else None
        content = each.get("content") if isinstance(each, Mapping) else None
        if role not in ROLES or not isinstance(content, str):
            raise DataError(f"{where}: a message needs a role ({', '.join(ROLES)}) and a content.")
        yield Message(role, content)


def _exact(record: Mapping[str, Any], messages: tuple[Message, ...], where: str, vocabulary: int) -> Chat:
    ids, answers = record["ids"], record.get("answers")
    if not isinstance(ids, list) or not all(type(i) is int and 0 <= i < vocabulary for i in ids):
        raise DataError(f"{where}: ids are not token ids of this base.", "It was written by another model.")
    if not isinstance(answers, list) or not all(_is_span(span, len(ids)) for span in answers):
        raise DataError(f"{where}: answers are not pairs of a start and an end within ids.")
    return Chat(tuple(ids), tuple((start, end) for start, end in answers), messages)


def _is_span(span: Any, length: int) -> bool:
    return (
        isinstance(span, list)
        and len(span) == 2
        and all(type(place) is int for place in span)
        and 1 <= span[0] < span[1] <= length
    )
