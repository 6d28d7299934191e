"""Going on from a canvas: where another run stood after some of its events, and what a person made of it.

Pure: from a run's events to the request that the engine takes (:class:`~dllm_tui.ports.Origin`).
"""

from collections.abc import Mapping, Sequence

from dllm_tui.errors import DllmError
from dllm_tui.events import MAX_CELLS, AnyEvent, Commit, Done, Kind, RunStart, Step
from dllm_tui.ports import Kept, Origin


class BranchError(DllmError):
    """There is nothing to go on from."""


class _Past:
    """The canvas of a run, with what a run that goes on from it must know."""

    def __init__(self) -> None:
        self.cells: list[Kept | None] = []
        self.blocks: list[int] = []
        self.start = self.step = self.full = self.nfe = 0

    def take(self, event: AnyEvent) -> None:
        """Bring it to its state after the next event."""
        match event:
            case Step():
                if event.phase == "denoise":
                    self.full += None not in self.cells[self.start :] and len(self.cells) == event.length
                    self.step = event.step
                del self.cells[event.length :]
                self.cells.extend([None] * (event.length - len(self.cells)))
                for change in event.changes:
                    self.cells[change.position] = _kept(
                        change.token_id, change.confidence, event.step, change.kind
                    )
                self.nfe = event.nfe
            case Commit():
                self.blocks.append(event.start)
                self.start, self.step, self.full = event.end, 0, 0
            case _:
                pass


def _kept(token_id: int | None, confidence: float, step: int, kind: Kind) -> Kept | None:
    return None if token_id is None else Kept(token_id, confidence, step, fixed=kind == "fix")


def origin_of(
    events: Sequence[AnyEvent], count: int, edits: Mapping[int, int | None] | None = None
) -> Origin:
    """How a run stood after its first ``count`` events, to go on from there.

    A change lets its block begin its steps anew, and with it all that a family can't keep behind that block.

    Args:
        events: of the run; it may still go on.
        count: of its events.
        edits: what a person changed, by position: the token that is set there, or ``None`` for a mask.

    Raises:
        BranchError: nothing was changed in an answer that is finished, or a position is too far off.
    """
    if not events or not isinstance(events[0], RunStart):
        raise BranchError("The steps of this answer weren't kept.")
    edits, past, done = edits or {}, _Past(), None
    for event in events[:count]:
        past.take(event)
        done = event if isinstance(event, Done) else done
    if not edits and done is not None and done.reason == "stop":
        raise BranchError(
            "The answer is finished, and nothing is changed in it.",
            "Remask positions, or go to a step before.",
        )
    cells = past.cells
    if max(edits, default=0) >= MAX_CELLS:
        raise BranchError(f"Position {max(edits) + 1} is too far off.")
    cells.extend([None] * (max(edits, default=-1) + 1 - len(cells)))
    while edits and past.start > min(edits):
        past.start = past.blocks.pop()
    if edits:
        past.step = past.full = 0
    for position, token_id in edits.items():
        cells[position] = None if token_id is None else Kept(token_id, fixed=True)
    return Origin(
        run=events[0].run,
        nfe=past.nfe,
        prompt_tokens=events[0].prompt_tokens,
        cells=tuple(cells),
        start=past.start,
        blocks=tuple(past.blocks),
        step=past.step,
        full=past.full,
    )
