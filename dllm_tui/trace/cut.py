"""A part of a session as a trace of its own, to give away: what a demo is made from."""

from collections.abc import Iterator, Sequence

import msgspec

from dllm_tui.events import AnyEvent, Done, Header, Pieces, RunStart, Step, Turn
from dllm_tui.trace.archive import Archive
from dllm_tui.trace.player import Course


def last_answer(archive: Archive) -> tuple[int, int]:
    """Where the last prompt is, and where what answers it ends.

    Returns:
        The part ``start, stop`` of the archive; the whole, where nothing was asked.
    """
    prompts = [said.event for said in archive.timeline.turns if said.role == "user"]
    return prompts[-1] if prompts else 0, len(archive)


def cut(archive: Archive, course: Course, start: int = 0, stop: int | None = None) -> Iterator[AnyEvent]:
    """Events ``start … stop-1`` as a trace of their own.

    Left out are what only the machine or the day would tell: versions of libraries, the date, the time of
    day (times count from the start), tokens that don't occur, and runs that had begun before.

    Args:
        archive: the session.
        course: when everything happens; with idle time left out, it is left out of the new trace, too.
        start: the first event.
        stop: behind the last; ``None`` is the end.
    """
    stop = len(archive) if stop is None else stop
    runs: dict[int, int] = {}
    kept = [False] * len(archive.timeline.turns_at(start))
    """Of the conversation as it stands, which turns are in the part."""
    yield _anonymous(archive.header_at(start + 1))
    for place in range(start, stop):
        event = archive[place]
        second = round(course.times[place] - course.times[start], 3)
        match event:
            case Header():
                if place > start:
                    yield _anonymous(event)
            case Turn():
                replaces = None
                if event.replaces is not None:
                    before, kept = sum(kept), kept[: event.replaces]
                    replaces = sum(kept) if sum(kept) < before else None
                kept.append(True)
                run = None if event.run is None else runs.get(event.run)
                yield msgspec.structs.replace(event, at=second, run=run, replaces=replaces)
            case RunStart():
                runs[event.run] = number = len(runs)
                yield msgspec.structs.replace(event, run=number, at=second)
                run = archive.runs[event.run]
                yield msgspec.structs.replace(_pieces(run[: run.count_at(stop)]), run=number)
            case Pieces():
                pass  # all of a run's are at its start
            case _:
                if event.run in runs:
                    yield msgspec.structs.replace(event, run=runs[event.run])


def _anonymous(header: Header) -> Header:
    model = header.model and msgspec.structs.replace(header.model, versions={})
    return msgspec.structs.replace(header, created="", model=model)


def _pieces(run: Sequence[AnyEvent]) -> Pieces:
    """The bytes of all tokens that occur in a run."""
    known, used = run[1], set[int | None]()
    assert isinstance(known, Pieces)
    for event in run:
        match event:
            case Step():
                used.update(cell.token_id for cell in (*event.changes, *event.guesses))
                for guess in event.guesses:
                    used.update(dict(guess.top))
            case Done():
                used.update(event.token_ids)
            case _:
                pass
    return Pieces(
        pieces={token: data for token, data in known.pieces.items() if token in used},
        special=tuple(token for token in known.special if token in used),
    )
