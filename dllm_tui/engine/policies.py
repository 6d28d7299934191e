"""What a step commits, and what it takes back: over the cells of the active block."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeAlias

import torch
from torch import Tensor

from dllm_tui.engine.canvas import Canvas
from dllm_tui.engine.revision import EditBudget, edits
from dllm_tui.engine.schedules import pace
from dllm_tui.engine.selection import commit, entropy_bounded, leftmost, penalise_distance, ranks, stream
from dllm_tui.errors import EngineError
from dllm_tui.families.family import Family, Revision
from dllm_tui.knobs import Knobs


@dataclass(frozen=True)
class View:
    """What a policy sees in one step: T cells of the active block, on the host.

    Scores of cells that were not asked for are 0; only open cells may be committed.
    """

    ids: Tensor
    """int64 [T], what stands there now."""
    open: Tensor
    """bool [T], undecided cells."""
    token: Tensor
    """int64 [T], predictions."""
    confidence: Tensor
    """float32 [T]."""
    entropy: Tensor
    """float32 [T], nats."""
    margin: Tensor
    """float32 [T]."""
    step: int
    """Denoising steps of this block so far, this one included."""
    opened: int
    """Undecided cells when the block began."""
    knobs: Knobs
    generator: torch.Generator

    @property
    def least(self) -> int:
        """Fewest cells to commit, so that the block is full when its steps run out (design §4)."""
        return pace(int(self.open.sum()), self.knobs.steps - self.step + 1)


Policy: TypeAlias = Callable[[View], Tensor]
"""Gives bool [T]: the open cells to commit now."""


def confidence(view: View) -> Tensor:
    """All above the threshold, and the most confident of the rest as far as the steps ask for it."""
    score = view.confidence
    if view.knobs.distance_penalty:
        score = penalise_distance(score, view.open, view.knobs.distance_penalty)
    return commit(score, view.open, view.knobs.threshold, view.least)


def streaming(view: View) -> Tensor:
    """The leftmost as the steps ask for it, and on to the right for as long as each passes the threshold."""
    due = leftmost(view.open, view.least)
    return stream(view.confidence.masked_fill(due, torch.inf), view.open, view.knobs.threshold, view.least)


def sequential(view: View) -> Tensor:
    """The leftmost, as many as the steps ask for."""
    return leftmost(view.open, view.least)


def margin(view: View) -> Tensor:
    """Like confidence, but the steps' share goes to the largest gaps between the best two tokens."""
    passes = view.open & (view.confidence > view.knobs.threshold)
    return passes | commit(view.margin, view.open, least=view.least)


def entropy(view: View) -> Tensor:
    """The lowest entropies for as long as they sum to the bound, and as many as the steps ask for."""
    within = entropy_bounded(view.entropy, view.open, view.knobs.entropy_bound)
    return within | commit(-view.entropy, view.open, least=view.least)


def random(view: View) -> Tensor:
    """Positions drawn at random, as many as the steps ask for."""
    draws = torch.rand(view.open.numel(), generator=view.generator)
    return view.open & (ranks(draws, view.open) < view.least)


POLICIES: dict[str, Policy] = {
    "confidence": confidence,
    "streaming": streaming,
    "verify": confidence,
    "sequential": sequential,
    "margin": margin,
    "entropy": entropy,
    "random": random,
}
"""By the knob's value. ``verify`` drafts like ``confidence``; its commit forward does the rest."""


class Rule:
    """How one block is denoised: the fifth switch of a family. One for each block."""

    revises = False
    """Whether decided cells may change before the block is finished."""

    def goes_on(self, masks: int) -> bool:
        """Whether the block, with ``masks`` cells undecided, needs a forward. Asked once before each."""
        raise NotImplementedError

    def wanted(self, is_open: Tensor) -> Tensor:
        """Cells whose predictions the next step needs, given the undecided ones: bool [T]."""
        raise NotImplementedError

    def apply(self, canvas: Canvas, start: int, view: View) -> None:
        """Change the block that begins at ``start`` by what the forward said."""
        raise NotImplementedError


class Monotone(Rule):
    """A committed token stays."""

    def goes_on(self, masks: int) -> bool:
        """Until no cell is undecided."""
        return masks > 0

    def wanted(self, is_open: Tensor) -> Tensor:
        """The undecided cells."""
        return is_open

    def apply(self, canvas: Canvas, start: int, view: View) -> None:
        """Commit what the policy picks."""
        canvas.put(start, view.token, POLICIES[view.knobs.policy](view), view.confidence)


@dataclass
class Editing(Rule):
    """A committed token is replaced when another is surer than the edit threshold (LLaDA 2.1).

    Fills and edits come from the same forward. The block ends with a forward on the full block that
    changes nothing, or when the budget of forwards on a full block is used up.
    """

    revises = True
    budget: EditBudget = field(default_factory=EditBudget)
    _settled: bool = False

    def goes_on(self, masks: int) -> bool:
        """Until a full block stays as it is, or the budget is used up."""
        return not self._settled and self.budget.allows(masks)

    def wanted(self, is_open: Tensor) -> Tensor:
        """Every cell of the answer."""
        return torch.ones_like(is_open)

    def apply(self, canvas: Canvas, start: int, view: View) -> None:
        """Commit what the policy picks, and replace what the model now contradicts."""
        fills = POLICIES[view.knobs.policy](view)
        changed = edits(view.token, view.confidence, view.ids, ~view.open, view.knobs.edit_threshold)
        self._settled = not bool(view.open.any() | changed.any())
        canvas.put(start, view.token, fills | changed, view.confidence)


def rule_for(family: Family) -> Rule:
    """A new block's rule.

    Raises:
        EngineError: the family revises its tokens in a way that isn't built.
    """
    if family.revision is Revision.MONOTONE:
        return Monotone()
    if family.revision is Revision.EDIT:
        return Editing()
    raise EngineError(f"{family.title} decodes with revision by {family.revision}, which isn't built yet.")
