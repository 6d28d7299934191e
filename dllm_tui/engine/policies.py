"""What a step commits, and what it takes back: over the cells of the active block."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeAlias

import torch
from dllm_kernels.confidence import confidence as read_confidence
from torch import Tensor

from dllm_tui.engine import schedules
from dllm_tui.engine.canvas import Canvas
from dllm_tui.engine.draws import Draws
from dllm_tui.engine.model import Model
from dllm_tui.engine.revision import EditBudget, InsertDelete, edits
from dllm_tui.engine.selection import (
    StableAndConfident,
    analytic_chance,
    best_of_runs,
    commit,
    credit,
    echoes,
    entropy_bounded,
    leftmost,
    penalise_distance,
    perturb,
    shared_doubt,
    stream,
    with_credit,
)
from dllm_tui.engine.selection import factor as by_factor
from dllm_tui.errors import EngineError
from dllm_tui.families.family import Attention, Family, Noise, Revision
from dllm_tui.knobs import Knobs


@dataclass(frozen=True, kw_only=True)
class View:
    """What a policy sees in one step: T cells of the active block, on the host.

    Scores of cells that were not asked for are 0; only open cells may be committed.
    """

    ids: Tensor
    """int64 [T], what stands there now."""
    open: Tensor
    """bool [T], undecided cells that may be committed now."""
    leading: Tensor
    """bool [T], those of them that the steps' share is asked of: all, unless blocks overlap."""
    token: Tensor
    """int64 [T], predictions."""
    confidence: Tensor
    """float32 [T]."""
    entropy: Tensor
    """float32 [T], nats."""
    margin: Tensor
    """float32 [T]."""
    lse: Tensor
    """float32 [T], log-sum-exp of the logits."""
    logits: Tensor
    """float32 [n, vocab] of the cells that were asked for, where the network is."""
    step: int
    """Denoising steps so far of this block, or of the part of it that is being filled; this one included."""
    opened: int
    """Undecided cells when that began."""
    family: Family
    knobs: Knobs
    draws: Draws

    @property
    def masks(self) -> int:
        """Undecided cells that may be committed now."""
        return int(self.open.sum())

    @property
    def least(self) -> int:
        """Fewest cells to commit, as the schedule asks."""
        return SCHEDULES[self.knobs.schedule](self)

    @property
    def share(self) -> float:
        """Share of the masks to commit on average, as the schedule asks."""
        shares = SHARES.get(self.knobs.schedule)
        return self.least / max(1, self.masks) if shares is None else shares(self)

    @property
    def passing(self) -> Tensor:
        """Open cells above the threshold: bool [T]."""
        return self.open & (self.confidence > self.knobs.threshold)

    def due(self, score: Tensor, least: int | None = None) -> Tensor:
        """The best cells by a score, as many as the schedule asks for: bool [T]."""
        if self.knobs.pick_temperature:
            score = perturb(score, self.knobs.pick_temperature, self.draws.uniform(score.numel()))
        due = commit(score, self.leading, least=self.least if least is None else least)
        return due | commit(score, self.open) if (self.open & ~self.leading).any() else due


def _rnd1(view: View) -> int:
    kept = schedules.rnd1_kept(view.opened, view.knobs.steps)
    return view.masks - kept[view.step - 1] if view.step <= len(kept) else view.masks


def _share(view: View, shares: list[int]) -> int:
    # Past the end, because steps were turned down meanwhile: all that is left.
    return shares[view.step - 1] if view.step <= len(shares) else view.masks


SHARES: dict[str, Callable[[View], float]] = {
    "dream": lambda view: float(
        schedules.dream_share(view.step - 1, view.knobs.steps, view.family.eps),
    ),
    "mdlm": lambda view: schedules.ancestral_share(view.step - 1, view.knobs.steps, view.family.eps),
    "bd3lm": lambda view: schedules.ancestral_share(view.step - 1, view.knobs.steps, 0.0, coarse=True),
}
"""Schedules that are about chances."""

SCHEDULES: dict[str, Callable[[View], int]] = {
    "pace": lambda view: schedules.pace(view.masks, view.knobs.steps - view.step + 1),
    "llada": lambda view: _share(view, schedules.even(view.opened, view.knobs.steps)),
    "quota": lambda view: _share(view, schedules.even(view.knobs.block_size, view.knobs.steps)),
    "dllm": lambda view: _share(view, schedules.half_even(view.opened, view.knobs.steps)),
    "dream": lambda view: schedules.dream(view.masks, view.step - 1, view.knobs.steps, view.family.eps),
    "mdlm": lambda view: int(view.masks * view.share),
    "bd3lm": lambda view: int(view.masks * view.share),
    "rnd1": _rnd1,
    "free": lambda view: view.family.least if view.step < view.knobs.steps else view.masks,
}
"""By the knob's value; what each counts is said in :mod:`dllm_tui.engine.schedules`."""

Policy: TypeAlias = Callable[[View], Tensor]
"""Gives bool [T]: the open cells to commit now."""


def confidence(view: View) -> Tensor:
    """All above the threshold, and the most confident of the rest as far as the steps ask for it."""
    score = view.confidence
    if view.knobs.distance_penalty:
        score = penalise_distance(score, view.open, view.knobs.distance_penalty)
    return (view.open & (score > view.knobs.threshold)) | view.due(score)


def streaming(view: View) -> Tensor:
    """The leftmost as the steps ask for it, and on to the right for as long as each passes the threshold.

    A token that echoes the one before it, which is being decided in the same step, waits: neighbours that
    can't see each other often both take the word that belongs to one of them.
    """
    score = view.confidence.masked_fill(echoes(view.token, view.open), 0.0)
    score = score.masked_fill(leftmost(view.open, view.least), torch.inf)
    return stream(score, view.open, view.knobs.threshold, view.least)


def sequential(view: View) -> Tensor:
    """The leftmost, as many as the steps ask for."""
    return leftmost(view.open, view.least)


def margin(view: View) -> Tensor:
    """Like confidence, but the steps' share goes to the largest gaps between the best two tokens."""
    return view.passing | view.due(view.margin)


def entropy(view: View) -> Tensor:
    """The lowest entropies for as long as they sum to the bound, and as many as the steps ask for.

    With a bound of 0 the steps alone decide.
    """
    due = view.due(-view.entropy)
    bound = view.knobs.entropy_bound
    return due | entropy_bounded(view.entropy, view.open, bound) if bound else due


def low_entropy(view: View) -> Tensor:
    """All whose entropy is below the bound, and the lowest of the rest as far as the steps ask for it."""
    score = penalise_distance(-view.entropy, view.open, view.knobs.distance_penalty)
    return (view.open & (score > -view.knobs.entropy_bound)) | view.due(score)


def eb(view: View) -> Tensor:
    """The most confident for as long as their entropies, the largest left out, sum to the bound."""
    bound = view.knobs.entropy_bound
    due = view.due(view.confidence)
    return due | entropy_bounded(view.entropy, view.open, bound, score=view.confidence)


def factor(view: View) -> Tensor:
    """The more at once the surer each; the threshold is what the second one must exceed.

    Fast-dLLM asks 1 - f/(n + 1) of the n-th most confident: f = 3·(1 - threshold).
    """
    return view.due(view.confidence) | by_factor(view.confidence, view.open, 3 * (1 - view.knobs.threshold))


def runs(view: View) -> Tensor:
    """The best of every run of masks where it has a chance, and all above the threshold."""
    best = best_of_runs(view.confidence, view.open, view.knobs.threshold, LOW_THRESHOLD)
    return best | view.due(view.confidence)


def adaptive(view: View) -> Tensor:
    """All above the threshold, and of the rest what takes an even share of the doubt.

    Of the steps that are left only as many are taken as the doubt deserves.
    """
    sure = float(view.confidence[view.open].mean())
    steps = schedules.adaptive(max(1, view.knobs.steps - view.step + 1), sure)
    return view.passing | shared_doubt(view.confidence, view.open, steps)


def origin(view: View) -> Tensor:
    """Each with the same chance, so that the steps' share is met on average (Dream's ``origin``)."""
    return view.open & (view.draws.uniform(view.open.numel()) < view.share)


def analytic(view: View) -> Tensor:
    """Each with the chance that its own ratios give, so that the noise falls as planned (SEDD)."""
    if view.step >= view.knobs.steps:
        return view.open
    before, after = schedules.sedd_times(view.step - 1, view.knobs.steps, view.family.eps)
    chance = analytic_chance(view.lse, schedules.noise_level(before), schedules.noise_level(after))
    return view.open & (view.draws.uniform(view.open.numel()) < chance)


def random(view: View) -> Tensor:
    """Positions drawn at random, as many as the steps ask for."""
    return commit(view.draws.uniform(view.open.numel()), view.open, least=view.least)


LOW_THRESHOLD = 0.4
"""Confidence below which the best of a run of masks stays one; the value of dInfer's examples."""

POLICIES: dict[str, Policy] = {
    "confidence": confidence,
    "streaming": streaming,
    "verify": confidence,
    "sequential": sequential,
    "margin": margin,
    "entropy": entropy,
    "low-entropy": low_entropy,
    "eb": eb,
    "factor": factor,
    "runs": runs,
    "credit": confidence,
    "adaptive": adaptive,
    "origin": origin,
    "ancestral": origin,
    "analytic": analytic,
    "random": random,
}
"""By the knob's value. ``verify`` drafts like ``confidence``; its commit forward does the rest. ``credit``
changes the logits before they are read."""

REDRAWS = frozenset({"ancestral"})
"""Policies that draw again from the same forward when a step has committed nothing."""


def reading(family: Family, knobs: Knobs, step: int) -> Knobs:
    """The knobs that a step's logits are read with.

    MDLM takes the best tokens for what is left at last; DiffusionGemma cools down.
    """
    if family.noise is Noise.UNIFORM:
        coldest = min(family.renoising.coldest, knobs.temperature)
        step = min(step, knobs.steps)
        return knobs.replace(
            temperature=schedules.temperature(step - 1, knobs.steps, coldest, knobs.temperature)
        )
    last = knobs.schedule == "mdlm" and step >= knobs.steps
    return knobs.replace(temperature=0.0) if last else knobs


@dataclass
class Credit:
    """What the ``credit`` policy remembers of a block: how often each token was a position's best."""

    _table: Tensor | None = None

    def fuse(self, logits: Tensor, wanted: Tensor) -> Tensor:
        """The logits of the ``wanted`` cells (bool [T]), raised where a token was the best before.

        Args:
            logits: float32 [n, vocab].
            wanted: n of its T are true.
        """
        if self._table is None:
            self._table = logits.new_zeros(wanted.numel(), logits.shape[-1])
        seen = read_confidence(logits)
        rows = wanted.nonzero().flatten().to(logits.device)
        own = credit(self._table[rows], seen.token, seen.confidence)
        self._table[rows] = own
        return with_credit(logits, own)


class Rule:
    """How one block is denoised: the fifth switch of a family. One for each block."""

    revises = False
    """Whether decided cells may change before the block is finished."""

    def goes_on(self, is_open: Tensor) -> bool:
        """Whether the block, given its undecided cells, needs a forward. Asked once before each."""
        raise NotImplementedError

    def wanted(self, is_open: Tensor) -> Tensor:
        """Cells whose predictions the next step needs, given the undecided ones: bool [T]."""
        raise NotImplementedError

    def apply(self, canvas: Canvas, start: int, view: View) -> None:
        """Change the block that begins at ``start`` by what the forward said."""
        raise NotImplementedError


class Monotone(Rule):
    """A committed token stays."""

    def goes_on(self, is_open: Tensor) -> bool:
        """Until no cell is undecided."""
        return bool(is_open.any())

    def wanted(self, is_open: Tensor) -> Tensor:
        """The undecided cells."""
        return is_open

    def apply(self, canvas: Canvas, start: int, view: View) -> None:
        """Commit what the policy picks."""
        canvas.put(start, view.token, POLICIES[view.knobs.policy](view), view.confidence)


class Sliding(Monotone):
    """A committed token stays, and the block moves on with the first one (WeDLM)."""

    def goes_on(self, is_open: Tensor) -> bool:
        """Until the first cell is decided."""
        return bool(is_open[:1].any())


@dataclass
class Editing(Rule):
    """A committed token is replaced when another is surer than the edit threshold (LLaDA 2.1).

    Fills and edits come from the same forward. The block ends with a forward on the full block that
    changes nothing, or when the budget of forwards on a full block is used up.
    """

    revises = True
    budget: EditBudget = field(default_factory=EditBudget)
    _settled: bool = False

    def goes_on(self, is_open: Tensor) -> bool:
        """Until a full block stays as it is, or the budget is used up."""
        return not self._settled and self.budget.allows(int(is_open.sum()))

    def wanted(self, is_open: Tensor) -> Tensor:
        """Every cell of the answer."""
        return torch.ones_like(is_open)

    def apply(self, canvas: Canvas, start: int, view: View) -> None:
        """Commit what the policy picks, and replace what the model now contradicts."""
        fills = POLICIES[view.knobs.policy](view)
        is_open = canvas.open[start : start + view.ids.numel()]
        editable = ~is_open & ~canvas.is_given(start, start + view.ids.numel())
        changed = edits(view.token, view.confidence, view.ids, editable, view.knobs.edit_threshold)
        self._settled = not bool(is_open.any() | changed.any())
        canvas.put(start, view.token, fills | changed, view.confidence)


@dataclass
class Inserting(Rule):
    """A committed token may be replaced or deleted, and new masks may come in before it (LLaDA 2.2)."""

    delete_id: int
    split_id: int
    edit_steps: int
    revises = True
    _block: InsertDelete | None = None

    def goes_on(self, is_open: Tensor) -> bool:
        """Until the state machine is done."""
        return bool(is_open.any()) if self._block is None else not self._block.finished

    def wanted(self, is_open: Tensor) -> Tensor:
        """Every cell of the answer."""
        return torch.ones_like(is_open)

    def apply(self, canvas: Canvas, start: int, view: View) -> None:
        """One step of the state machine, and its cells on the canvas."""
        if self._block is None:
            self._block = InsertDelete(
                view.ids,
                mask_id=canvas.mask_id,
                delete_id=self.delete_id,
                split_id=self.split_id,
                max_post_steps=self.edit_steps,
            )
        self._block.threshold = view.knobs.threshold
        self._block.edit_threshold = view.knobs.edit_threshold
        logits = view.logits.cpu()
        reflow = self._block.step(logits)
        canvas.reflow(start, reflow, logits.log_softmax(-1).exp())


@dataclass
class Renoise(Rule):
    """Every cell may change in every step: the surest take a drawn token, all others new noise.

    What counts in the end are the best tokens of the last step, not the drawn ones (DiffusionGemma).
    """

    stop: StableAndConfident
    revises = True
    _done: bool = False

    def goes_on(self, is_open: Tensor) -> bool:
        """Until the picture is stable and the model sure of it, or the steps are used up."""
        return not self._done

    def wanted(self, is_open: Tensor) -> Tensor:
        """Every cell."""
        return torch.ones_like(is_open)

    def apply(self, canvas: Canvas, start: int, view: View) -> None:
        """New tokens where the entropies' sum allows it, new noise elsewhere."""
        heat = reading(view.family, view.knobs, view.step).temperature or 1.0
        drawn = view.draws.tokens((view.logits / heat).softmax(-1)).cpu()
        noise = view.draws.ids(drawn.numel(), view.logits.shape[-1])
        everywhere = torch.ones_like(view.open)
        accepted = entropy_bounded(view.entropy, everywhere, view.knobs.entropy_bound)
        self._done = self.stop(view.token, view.entropy) or view.step >= view.knobs.steps
        if self._done:
            canvas.put(start, view.token, everywhere, view.confidence)
        else:
            canvas.renoise(start, torch.where(accepted, drawn, noise), ~accepted)


def rule_for(model: Model, full: int = 0) -> Rule:
    """A block's rule.

    Args:
        model: its family decides.
        full: forwards that the block has had without a mask, where another run had begun it.

    Raises:
        EngineError: the family revises its tokens in a way that isn't built.
    """
    family = model.family
    if family.attention is Attention.REORDERED:
        return Sliding()
    if family.noise is Noise.UNIFORM:
        return Renoise(StableAndConfident(family.renoising.stability, family.renoising.certainty))
    if family.revision is Revision.MONOTONE:
        return Monotone()
    inserts = family.revision is Revision.INSERT_DELETE
    if inserts and model.delete_id is not None and model.split_id is not None:
        return Inserting(model.delete_id, model.split_id, family.edit_steps)
    if family.revision is Revision.EDIT:
        return Editing(EditBudget(family.edit_steps, full))
    raise EngineError(f"{family.title} decodes with revision by {family.revision}, which isn't built yet.")
