"""What the steps of a run made of one position: its guesses, and how it was decided. Pure."""

from collections.abc import Iterable
from itertools import chain

import msgspec

from dllm_tui.events import AnyEvent, Guess, Kind, Phase, Step


class Sighting(msgspec.Struct, frozen=True, kw_only=True):
    """What one step made of a position."""

    phase: Phase
    block: int
    step: int
    nfe: int
    token_id: int | None
    """``None`` where it went back to the mask."""
    confidence: float
    kind: Kind | None = None
    """How the step changed it; ``None`` where it only guessed."""
    guess: Guess | None = None
    """With entropy and alternatives, as far as they were recorded."""

    @property
    def where(self) -> str:
        """The step for people."""
        if self.phase == "denoise":
            return f"block {self.block + 1}, step {self.step}"
        return f"block {self.block + 1}, {self.phase}"


def sightings(events: Iterable[AnyEvent], position: int) -> list[Sighting]:
    """All that some events of a run tell about a position, in their order.

    Where the canvas was cut short before it, only what came after that counts.
    """
    seen: list[Sighting] = []
    for event in events:
        if not isinstance(event, Step):
            continue
        if event.length <= position:
            seen.clear()
            continue
        change = next((change for change in event.changes if change.position == position), None)
        guesses = chain(event.guesses, event.decided)
        guess = next((guess for guess in guesses if guess.position == position), None)
        told = change or guess
        if told:
            seen.append(
                Sighting(
                    phase=event.phase,
                    block=event.block,
                    step=event.step,
                    nfe=event.nfe,
                    token_id=told.token_id,
                    confidence=told.confidence,
                    kind=change.kind if change else None,
                    guess=guess,
                )
            )
    return seen
