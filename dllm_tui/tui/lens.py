"""What the colours of committed tokens tell: a canvas can be looked at in several ways. Pure."""

import enum
from bisect import bisect_left
from typing import Final

from dllm_tui.theming import RAMP_STEPS
from dllm_tui.tui.canvas_state import CanvasState

LOWEST_CONFIDENCE: Final = 0.2
"""Confidence at which the ramp begins; it ends at 1."""
HIGHEST_ENTROPY: Final = 5.0
"""Nats from which a position counts as wholly open."""
_STEPS = (1, 2, 3, 4, 6, 8, 12)
"""The last step of a block that each colour stands for, the first to be committed first."""
_AGES = (0, 1, 2, 4, 8, 16, 31)
"""The same of forwards since the token was committed."""


class Lens(enum.Enum):
    """A way to look at a canvas."""

    CONFIDENCE = "confidence"
    """How sure the model was when it committed the token."""
    ORDER = "order"
    """In which step of its block the token was committed."""
    ENTROPY = "entropy"
    """How open the position was when it was committed; where that isn't recorded, a step before."""
    AGE = "age"
    """How many forwards ago the token was committed."""
    PLAIN = "plain"
    """As any text."""

    @property
    def next(self) -> "Lens":
        """The one after this."""
        every = list(Lens)
        return every[(every.index(self) + 1) % len(every)]

    @property
    def scale(self) -> tuple[str, str, str]:
        """What is measured, and what the first and the last colour of the ramp stand for; empty for plain."""
        match self:
            case Lens.CONFIDENCE:
                return "confidence", f"{LOWEST_CONFIDENCE:g}", "1"
            case Lens.ORDER:
                return "step of the block", f"{_STEPS[-1] + 1}+", "1"
            case Lens.ENTROPY:
                return "entropy", f"{HIGHEST_ENTROPY:g}+", "0 nats"
            case Lens.AGE:
                return "age", f"{_AGES[-1] + 1}+", "0 forwards"
            case Lens.PLAIN:
                return "", "", ""

    @property
    def halves(self) -> tuple[str, str]:
        """What the lower half of the ramp stands for, and the upper; empty for plain."""
        middle = RAMP_STEPS // 2
        match self:
            case Lens.CONFIDENCE:
                least = LOWEST_CONFIDENCE + (1 - LOWEST_CONFIDENCE) * middle / RAMP_STEPS
                return f"below {least:g}", f"from {least:g}"
            case Lens.ORDER:
                last = _STEPS[RAMP_STEPS - 1 - middle]
                return f"from {last + 1}", f"up to {last}"
            case Lens.ENTROPY:
                least = HIGHEST_ENTROPY * (RAMP_STEPS - middle) / RAMP_STEPS
                return f"from {least:g} nats", f"below {least:g}"
            case Lens.AGE:
                last = _AGES[RAMP_STEPS - 1 - middle]
                return f"over {last} forwards", f"up to {last}"
            case Lens.PLAIN:
                return "", ""

    def shade(self, state: CanvasState, position: int) -> int | None:
        """The step of the ramp, 0 … 7, for a committed token; ``None`` where there is nothing to tell."""
        match self:
            case Lens.CONFIDENCE:
                return ramp_step(state.confidences[position])
            case Lens.ORDER:
                return RAMP_STEPS - 1 - bisect_left(_STEPS, state.steps[position])
            case Lens.ENTROPY:
                entropy = state.entropies[position]
                return None if entropy is None else openness_step(entropy)
            case Lens.AGE:
                forwards = state.last.nfe if state.last else 0
                return RAMP_STEPS - 1 - bisect_left(_AGES, forwards - state.changed_at[position])
            case Lens.PLAIN:
                return None


def ramp_step(confidence: float) -> int:
    """Step of the ramp for a committed token, 0 … 7."""
    share = (confidence - LOWEST_CONFIDENCE) / (1 - LOWEST_CONFIDENCE)
    return min(RAMP_STEPS - 1, max(0, int(share * RAMP_STEPS)))


def openness_step(entropy: float) -> int:
    """Step of the ramp for an entropy in nats, 0 … 7: the more open, the lower."""
    return RAMP_STEPS - 1 - min(RAMP_STEPS - 1, max(0, int(entropy / HIGHEST_ENTROPY * RAMP_STEPS)))
