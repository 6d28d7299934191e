"""A part of a session as a trace of its own, to give away: what a demo is made from."""

import re
from collections.abc import Iterator, Sequence

import msgspec

from dllm_tui.errors import TraceError
from dllm_tui.events import (
    AnyEvent,
    Done,
    Error,
    Header,
    KnobChange,
    KnobsSet,
    Pieces,
    RunEvent,
    RunStart,
    ScreenSize,
    Step,
    Turn,
    encode,
)
from dllm_tui.trace.archive import Archive
from dllm_tui.trace.player import Course, real_time


def last_answer(archive: Archive) -> tuple[int, int]:
    """Where the last prompt is, and where what answers it ends.

    Returns:
        The part ``start, stop`` of the archive; the whole, where nothing was asked.
    """
    prompts = [said.event for said in archive.timeline.turns if said.role == "user"]
    return prompts[-1] if prompts else 0, len(archive)


def only_last_answer(archive: Archive) -> Archive:
    """The last prompt and what answers it, as a trace that is in no file.

    Raises:
        TraceError: nothing was asked.
    """
    if not any(said.role == "user" for said in archive.timeline.turns):
        raise TraceError("Nothing was asked yet.")
    part = cut(archive, real_time(archive.timeline), *last_answer(archive))
    return Archive(archive.path, b"".join(encode(event) + b"\n" for event in part))


def cut(
    archive: Archive, course: Course, start: int = 0, stop: int | None = None, *, details: bool = False
) -> Iterator[AnyEvent]:
    """Events ``start … stop-1`` as a trace of their own, with how the interface stood before them.

    Left out are what only the machine or the day would tell: versions of libraries, the date, the time of
    day (times count from the start), where files are, tokens that don't occur, and runs that had begun
    before.

    Args:
        archive: the session.
        course: when everything happens; with idle time left out, it is left out of the new trace, too.
        start: the first event.
        stop: behind the last; ``None`` is the end.
        details: keep the headers and errors as they are.
    """
    stop = len(archive) if stop is None else stop
    clip = Clip(len(archive.timeline.turns_at(start)), details=details)
    yield clip.header(archive.header_at(start + 1))
    if start:
        yield from _standing(archive, start)
    for place in range(start, stop):
        event = archive[place]
        second = round(course.times[place] - course.times[start], 3)
        if isinstance(event, Pieces) or (isinstance(event, Header) and place == start):
            continue  # all bytes of a run's tokens are at its start, and the header is there
        taken = clip.take(event, second)
        if taken is not None:
            yield taken
        if isinstance(event, RunStart) and isinstance(taken, RunStart):
            run = archive.runs[event.run]
            yield msgspec.structs.replace(_pieces(run[: run.count_at(stop)]), run=taken.run)


class Clip:
    """Makes of the events of a session, from some moment on, those of a trace of its own.

    Args:
        standing: turns of the conversation before; they are not in the trace.
        details: keep the headers and errors as they are.
    """

    def __init__(self, standing: int = 0, *, details: bool = False) -> None:
        self._details = details
        self._kept = [False] * standing
        """Of the session's conversation as it stands, which turns are in the trace."""
        self._said = 0
        """Turns of the trace's conversation."""
        self._runs: dict[int, int] = {}
        """Numbers of runs in the trace by those in the session."""
        self._begun = 0

    def join(self, standing: int) -> None:
        """Another conversation is what goes on; the next turn takes the place of all before."""
        self._kept = [False] * standing
        self._runs = {}

    def header(self, header: Header) -> Header:
        """A header without what only the machine or the day would tell."""
        if self._details:
            return header
        model = header.model and msgspec.structs.replace(header.model, versions={})
        return msgspec.structs.replace(header, created="", model=model)

    def take(self, event: AnyEvent, second: float) -> AnyEvent | None:
        """The event as it stands in the trace; ``None`` where it is of a run that had begun before.

        Args:
            event: what happens next.
            second: when, in seconds from the start.
        """
        match event:
            case Header():
                return self.header(event)
            case Turn():
                return self._turn(event, second)
            case ScreenSize() | KnobsSet():
                return msgspec.structs.replace(event, at=second)
            case RunStart():
                self._runs[event.run] = self._begun
                self._begun += 1
                parent = None if event.parent is None else self._runs.get(event.parent)
                return self._renumbered(event, at=second, parent=parent)
            case Error() if not self._details:
                return self._renumbered(
                    event, message=without_folders(event.message), hint=without_folders(event.hint)
                )
            case _:
                return self._renumbered(event)

    def _renumbered(self, event: RunEvent, **changes: object) -> RunEvent | None:
        number = self._runs.get(event.run)
        return None if number is None else msgspec.structs.replace(event, run=number, **changes)

    def _turn(self, turn: Turn, second: float) -> Turn:
        del self._kept[len(self._kept) if turn.replaces is None else turn.replaces :]
        stay = sum(self._kept)
        replaces = stay if stay < self._said else None
        self._kept.append(True)
        self._said = stay + 1
        run = None if turn.run is None else self._runs.get(turn.run)
        return msgspec.structs.replace(turn, at=second, run=run, replaces=replaces)


def without_folders(text: str) -> str:
    """A text in which files are named without the folders that they are in."""
    return _PATH.sub(lambda path: path[1], text)


_PATH = re.compile(r"(?<![\w.:/~-])~?/(?:[^\s/:'\"]+/)+([^\s/:'\"]*)")
"""An absolute path of more than one part; the last one is what is kept."""


def _standing(archive: Archive, count: int) -> Iterator[ScreenSize | KnobsSet]:
    """How the interface stood after the first ``count`` events, where that is told."""
    sizes = (archive[at] for at in reversed(archive.timeline.screens) if at < count)
    size = next((event for event in sizes if isinstance(event, ScreenSize)), None)
    if size is None:
        return
    knobs: dict[str, object] = {}
    for at in archive.timeline.turned:
        if at >= count:
            break
        match event := archive[at]:
            case RunStart():
                knobs = dict(event.knobs)
            case KnobChange() | KnobsSet():
                knobs |= event.changes
            case _:
                pass
    yield msgspec.structs.replace(size, at=0.0)
    yield KnobsSet(changes=knobs, at=0.0)


def _pieces(run: Sequence[AnyEvent]) -> Pieces:
    """The bytes of all tokens that occur in a run."""
    known, used = run[1], set[int | None]()
    assert isinstance(known, Pieces)
    for event in run:
        match event:
            case Step():
                guesses = (*event.guesses, *event.decided)
                used.update(cell.token_id for cell in (*event.changes, *guesses))
                for guess in guesses:
                    used.update(dict(guess.top))
            case Done():
                used.update(event.token_ids)
            case _:
                pass
    return Pieces(
        pieces={token: data for token, data in known.pieces.items() if token in used},
        special=tuple(token for token in known.special if token in used),
    )
