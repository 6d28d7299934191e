"""Chats on disk: one trace file each, in one directory. Listed fast, resumed whole, deleted for good."""

import re
import secrets
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import BinaryIO

import msgspec

from dllm_tui.errors import TraceError
from dllm_tui.events import (
    SCHEMA_VERSION,
    AnyEvent,
    Canvas,
    Done,
    Header,
    ModelInfo,
    Pieces,
    Step,
    Turn,
    decode,
    text_of,
)
from dllm_tui.trace import MAX_LINE, SUFFIX
from dllm_tui.trace.archive import Archive
from dllm_tui.trace.writer import Writer

TITLE_LENGTH = 80
_CHUNK = 1 << 20


class Chat(msgspec.Struct, frozen=True, kw_only=True):
    """One line of the list of chats."""

    path: Path
    """Its file, whose stem is its :attr:`id`."""
    title: str
    """The first prompt in one line, cut to :data:`TITLE_LENGTH` characters; as typed, so escape it."""
    used: float
    """When something was last written, in seconds since 1970."""
    turns: int = 0
    """Messages by people and the model; the system prompt is none."""
    model: str = ""
    problem: str = ""
    """Why it can't be opened; empty where it can."""

    @property
    def id(self) -> str:
        """What it is called by."""
        return self.path.stem

    @property
    def detail(self) -> str:
        """When it was used last (local time), by which model, and how long it is."""
        when = time.strftime("%Y-%m-%d %H:%M", time.localtime(self.used))
        parts = [when, self.problem] if self.problem else [when, self.model, f"{self.turns} messages"]
        return " · ".join(part for part in parts if part)


class Past(msgspec.Struct, frozen=True, kw_only=True):
    """A chat that was kept, to go on with."""

    header: Header
    """The last one: the model that answered last."""
    turns: tuple[Turn, ...]
    next_run: int
    """The first number that no run of the file has."""
    known: frozenset[int]
    """Ids whose bytes the file has under its last header."""
    events: dict[int, Sequence[AnyEvent]]
    """Events of the runs that turns and versions name; each has the bytes of all its tokens."""
    versions: dict[int, Turn] = {}
    """The answers that the last prompt has got, by run."""
    models: dict[int, ModelInfo] = {}
    """Which model made a run, as far as that was told."""
    interrupted: tuple[AnyEvent, ...] = ()
    """What would have ended an answer that a crash cut off: its turn and ``done``."""


def create(directory: Path) -> Writer:
    """A new chat's file, named by the time.

    Raises:
        TraceError: the directory can't be written.
    """
    stamp = time.strftime("%Y%m%d-%H%M%S", time.gmtime())
    return Writer(directory / f"{stamp}-{secrets.token_hex(3)}{SUFFIX}")


def listing(directory: Path) -> list[Chat]:
    """All chats, the one used last first. Broken files are listed with what is wrong; others are left out.

    Reads the first line of each file and the lines of its turns, nothing else.

    Raises:
        TraceError: the directory can't be read.
    """
    try:
        files = [path for path in directory.glob("*" + SUFFIX) if path.is_file()]
        return sorted((_glance(path) for path in files), key=lambda chat: chat.used, reverse=True)
    except OSError as error:
        raise TraceError(f"{directory}: can't be read: {error.strerror}") from None


def load(path: Path) -> Past:
    """Open a chat to go on with; its events stay in the file until somebody asks for them.

    Raises:
        TraceError: as :func:`dllm_tui.trace.reader.read`.
    """
    archive = Archive(path)
    runs, turns, versions = archive.runs, list[Turn](), dict[int, Turn]()
    for turn in archive.said(len(archive)):
        versions = versions_after(versions, turns, turn)
        turns = follow(turns, turn)
    named = {turn.run for turn in turns} | versions.keys()
    made = {run: archive.header_at(span.event).model for run, span in archive.timeline.runs.items()}
    last = max(runs, default=-1)
    return Past(
        header=archive.header_at(len(archive)),
        turns=tuple(turns),
        next_run=last + 1,
        known=frozenset(archive.known),
        events={run: events for run, events in runs.items() if run in named},
        versions=versions,
        models={run: model for run, model in made.items() if model},
        interrupted=interrupted(turns, runs.get(last, ())),
    )


def follow(turns: list[Turn], turn: Turn) -> list[Turn]:
    """The conversation after one more turn, which may cut it first (``replaces``)."""
    return [*turns[: turn.replaces], turn]


def versions_after(versions: Mapping[int, Turn], turns: Sequence[Turn], turn: Turn) -> dict[int, Turn]:
    """The answers that the last prompt of a conversation has got, by run, after one more turn.

    Args:
        versions: those before.
        turns: the conversation before.
        turn: what comes now; an answer that replaces the last answer is another version of it.
    """
    if turn.role != "assistant":
        return {}
    again = turn.replaces is not None and turn.replaces == len(turns) - 1 and turns[-1].role == "assistant"
    own = {} if turn.run is None else {turn.run: turn}
    return {**versions, **own} if again else own


def delete(path: Path) -> None:
    """Remove a chat for good.

    Raises:
        TraceError: it is gone already, or may not be removed.
    """
    try:
        path.unlink()
    except OSError as error:
        raise TraceError(f"{path}: can't be removed: {error.strerror}") from None


def title(text: str, longest: int = TITLE_LENGTH) -> str:
    """A prompt as one line of at most so many printable characters."""
    line = " ".join("".join(c if c.isprintable() else " " for c in text[: 4 * longest]).split())
    return line if len(line) <= longest else line[: longest - 1].rstrip() + "…"


def interrupted(turns: Sequence[Turn], events: Sequence[AnyEvent]) -> tuple[()] | tuple[Turn, Done]:
    """The end that a chat's last run should have had, if it has none and had come to a text."""
    if not turns or turns[-1].role != "user" or not events or isinstance(events[-1], Done):
        return ()
    canvas, pieces, last = Canvas(), dict[int, bytes](), None
    special = set[int]()
    for event in events:
        if isinstance(event, Step):
            canvas.apply(event)
            last = event
        elif isinstance(event, Pieces):
            pieces.update(event.pieces)
            special.update(event.special)
    ids = tuple(token for token in canvas.cells if token is not None)
    text = text_of(ids, pieces, special)
    if not text or last is None:
        return ()
    done = Done(
        run=last.run, reason="cancelled", token_ids=ids, tokens=len(ids), nfe=last.nfe, seconds=last.t
    )
    return Turn(role="assistant", text=text, run=last.run), done


_OUTLINE = re.compile(
    rb'\n([ \t\r]*+\{[ \t]*+(?:"type"[ \t]*+:[ \t]*+"(?:header|turn)"|(?!"type"))[^\n]*)(?=\n)'
)
"""Lines of headers and turns, and those whose first key doesn't tell what they are (we write it first)."""


def _glance(path: Path) -> Chat:
    """What the list shows of a file, without decoding its runs."""
    chat = Chat(path=path, title=path.stem, used=path.stat().st_mtime)
    header, turns = None, list[Turn]()
    try:
        with path.open("rb") as file:
            for event in _outline(file):
                if isinstance(event, Turn):
                    turns = follow(turns, event)
                elif isinstance(event, Header) and event.schema <= SCHEMA_VERSION:
                    header = event
    except (OSError, ValueError, RecursionError):
        header = None
    if header is None:
        return msgspec.structs.replace(chat, problem="not a trace that this version reads")
    spoken = [turn for turn in turns if turn.role != "system"]
    return msgspec.structs.replace(
        chat,
        title=next((title(turn.text) for turn in spoken if turn.role == "user"), "") or "(nothing said)",
        turns=len(spoken),
        model=header.model.id if header.model else "",
    )


def _outline(file: BinaryIO) -> Iterator[AnyEvent]:
    """Headers, turns and perhaps others; raises ``ValueError`` at a line that is broken or too long."""
    rest = b"\n"
    while chunk := file.read(_CHUNK):
        data = rest + chunk
        whole = data.rfind(b"\n") + 1
        for line in _OUTLINE.finditer(data, 0, whole):
            yield decode(line[1])
        rest = data[whole - 1 :]
        if len(rest) > MAX_LINE:
            raise ValueError("a line without end")
