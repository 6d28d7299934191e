"""Which positions a step commits: the rules of the reference decoders, as functions over one canvas.

Every function takes tensors over the same T positions and gives a bool mask of T. ``masked`` says which
positions are candidates; where any is, at least one is committed, except where a schedule asks for none.
Equal scores go to the leftmost. Nothing here waits for the device: no tensor is read back, save by the
state machine of :mod:`dllm_tui.engine.revision`, which has to rebuild the block.

The predictions must not contain the mask token (forbid it when reading the logits): several references
commit nothing when the mask is the best prediction, and never end.
"""

import math
from dataclasses import dataclass, field

import torch
from torch import Tensor

NEVER = float("inf")
"""A threshold that no score passes."""


def ranks(score: Tensor, masked: Tensor) -> Tensor:
    """Place of every candidate, best score first.

    Args:
        score: float [T].
        masked: bool [T].

    Returns:
        int64 [T]: 0 for the best candidate; positions that are none come last.
    """
    order = _order(score, masked)
    return torch.empty_like(order).scatter_(0, order, torch.arange(order.numel(), device=order.device))


def _order(score: Tensor, masked: Tensor) -> Tensor:
    """Positions int64 [T], best candidate first, others last; equal scores from left to right."""
    lowest = torch.finfo(score.dtype).min
    return score.clamp(min=lowest).masked_fill(~masked, -torch.inf).sort(descending=True, stable=True).indices


def commit(
    score: Tensor,
    masked: Tensor,
    threshold: float = NEVER,
    least: int | Tensor = 1,
    *,
    inclusive: bool = False,
) -> Tensor:
    """All candidates above a threshold, and in any case the ``least`` best.

    One rule for most decoders; what differs is the score:

    * LLaDA, Dream ``maskgit_plus``, dllm: probability, no threshold, ``least`` from the schedule;
      Dream ``topk_margin`` scores by the gap of the two best probabilities, ``entropy`` and RND1 by
      the negative entropy.
    * SDAR ``low_confidence_dynamic`` and LLaDA 2.0 (all above the threshold if they are at least the
      quota, else the quota's best: the same set), LLaDA 2.1's fills and Fast-dLLM v2 with quota 1.
    * Fast-dLLM v1, Stable-DiffCoder and dInfer compare with ``>=`` (``inclusive``).
    * d3LLM: negative entropy against minus its threshold, ``inclusive``; WeDLM: the same, strict,
      on a score with a :func:`distance penalty <penalise_distance>`.

    Args:
        score: float [T], higher is better.
        masked: bool [T].
        threshold: on the scale of the score.
        least: fewest commits; more than there are candidates takes all, 0 leaves it to the threshold.
        inclusive: a score equal to the threshold passes.
    """
    passes = score >= threshold if inclusive else score > threshold
    return masked & (passes | (ranks(score, masked) < least))


def leftmost(masked: Tensor, count: int | Tensor) -> Tensor:
    """The first ``count`` candidates (SDAR ``sequential``)."""
    return masked & (masked.cumsum(0) <= count)


def stream(score: Tensor, masked: Tensor, threshold: float, least: int | Tensor = 1) -> Tensor:
    """Candidates from the left for as long as each is above the threshold, and at least ``least`` of them."""
    unbroken = (~masked | (score > threshold)).cumprod(0).bool()
    return (masked & unbroken) | leftmost(masked, least)


def echoes(token: Tensor, masked: Tensor) -> Tensor:
    """Candidates whose prediction is that of the candidate right before them.

    Args:
        token: int64 [T], predictions.
        masked: bool [T].
    """
    same = torch.zeros_like(masked)
    same[1:] = masked[1:] & masked[:-1] & (token[1:] == token[:-1])
    return same


def factor(confidence: Tensor, masked: Tensor, factor: float) -> Tensor:
    """Fast-dLLM's factor rule: the more tokens are committed at once, the surer each must be.

    Walks down the confidences in order and stops before the first one that is below
    1 − factor/(n + 1), as the n-th; the first always commits. As in the reference, a walk that gets to
    the last candidate commits it too, whatever its confidence: of two masks both always commit.

    Args:
        confidence: float [T], probabilities.
        masked: bool [T].
        factor: larger commits more.
    """
    order = _order(confidence, masked)
    place = torch.arange(1, order.numel() + 1, device=order.device)
    count = masked.sum()
    passes = (confidence[order] >= 1 - factor / (place + 1)) & (place <= count)
    passes[:1] = True
    walked = passes.cumprod(0).sum()
    taken = torch.where(walked >= count - 1, count, walked)
    return masked & (ranks(confidence, masked) < taken)


def entropy_bounded(
    entropy: Tensor, masked: Tensor, bound: float | Tensor, score: Tensor | None = None
) -> Tensor:
    """Candidates in order, for as long as the entropies sum to the bound, the largest not counted.

    The largest is left out because committing one token alone costs nothing: the sum bounds how much
    the tokens that are committed together can depend on each other (EB sampler, arXiv 2505.24857). RND1
    orders by the probability of the chosen token; DiffusionGemma, and SDAR's ``entropy_bounded`` (which can't
    run in its own code), by the entropy.

    Args:
        entropy: float [T], nats.
        masked: bool [T].
        bound: nats; at least one candidate commits in any case.
        score: float [T], the order, best first; lowest entropy first by default.
    """
    order = _order(-entropy if score is None else score, masked)
    ordered = entropy.masked_fill(~masked, torch.inf)[order]
    within = ordered.cumsum(0) - ordered.cummax(0).values <= bound
    within[:1] = True
    return masked & torch.empty_like(masked).scatter_(0, order, within)


def shared_doubt(confidence: Tensor, masked: Tensor, steps: int) -> Tensor:
    """Candidates for one of ``steps`` that take an equal share of the doubt: 1 − confidence, summed.

    The most confident come first: many sure ones together, doubtful ones one by one. The first of the steps
    takes one candidate at least, the last takes all.

    Args:
        confidence: float [T].
        masked: bool [T].
        steps: at least one.
    """
    if steps == 1:
        return masked
    order = _order(confidence, masked)
    doubt = (1 - confidence).masked_fill(~masked, torch.inf)[order].cumsum(0)
    within = doubt <= (1 - confidence)[masked].sum() / steps
    within[:1] = True
    return masked & torch.empty_like(masked).scatter_(0, order, within)


def best_of_runs(
    confidence: Tensor, masked: Tensor, threshold: float = NEVER, low_threshold: float = -NEVER
) -> Tensor:
    """The best of every run of adjacent masks: tokens that are far apart depend little on each other.

    The hierarchical decoder of dInfer.

    Args:
        confidence: float [T].
        masked: bool [T].
        threshold: candidates above it commit as well.
        low_threshold: the best of a run commits only above it; the best of all commits always.
    """
    starts = masked & ~torch.cat([masked.new_zeros(1), masked[:-1]])
    run = starts.cumsum(0)
    score = confidence.masked_fill(~masked, -torch.inf)
    run_best = score.new_full((score.numel() + 1,), -torch.inf).scatter_reduce(0, run, score, "amax")
    position = torch.arange(score.numel(), device=score.device)
    first = torch.where(masked & (score == run_best[run]), position, score.numel())
    leader = first.new_full((score.numel() + 1,), score.numel()).scatter_reduce(0, run, first, "amin")
    leads = masked & (leader[run] == position) & (score > low_threshold)
    return leads | commit(confidence, masked, threshold)


def penalise_distance(score: Tensor, masked: Tensor, penalty: float) -> Tensor:
    """The score less ``penalty`` per position from the leftmost candidate: works more from the left (WeDLM).

    Args:
        score: float [T].
        masked: bool [T].
        penalty: on the scale of the score, per position.
    """
    position = torch.arange(score.numel(), device=score.device)
    first = torch.where(masked, position, score.numel()).amin()
    return score - penalty * (position - first)


def perturb(score: Tensor, temperature: float, uniform: Tensor) -> Tensor:
    """The score with Gumbel noise: the k best of it are drawn from softmax(score/T) without replacement.

    Dream's ``alg_temp``, without its multinomial call.

    Args:
        score: float [T].
        temperature: above 0.
        uniform: float [T] in [0, 1).
    """
    return score / temperature - torch.log(-torch.log(uniform.clamp(1e-20, 1 - 1e-7)))


def analytic_chance(lse: Tensor, noise_from: float, noise_to: float) -> Tensor:
    """How likely each mask is uncovered on the way from much noise to less, in SEDD's analytic step.

    The network's outputs are logarithms of ratios: how much likelier token v is here than the mask. The
    step uncovers a mask with v with probability (exp Δ - 1) · ratio(v), Δ being the noise that goes; so
    v is drawn from the softmax, and the sum of the ratios says whether. (Their staggered score and
    transition, put together for the mask's row; arXiv 2310.16834.)

    Args:
        lse: float [T], log-sum-exp of the outputs over all tokens but the mask.
        noise_from: total noise before the step.
        noise_to: total noise after it.

    Returns:
        float [T], at most 1.
    """
    return (math.expm1(noise_from - noise_to) * lse.exp()).clamp(max=1.0)


def credit(
    table: Tensor, tokens: Tensor, confidence: Tensor, *, gamma: float = 0.2, decay: float = 0.8
) -> Tensor:
    """Weight that a token gains where it keeps being the best prediction.

    The credit decoder of dInfer.

    Args:
        table: float32 [T, vocab] of the step before, zeros at the beginning of a block.
        tokens: int64 [T], the best predictions.
        confidence: float32 [T], their probabilities.
        gamma: power that lifts small probabilities.
        decay: of the former credit, per step.

    Returns:
        float32 [T, vocab]; add :func:`its logarithm <with_credit>` to the logits.
    """
    return (table * decay).scatter_add_(-1, tokens.unsqueeze(-1), (confidence**gamma).unsqueeze(-1))


def with_credit(logits: Tensor, table: Tensor, alpha: float = 0.7) -> Tensor:
    """The logits [T, vocab] raised by ``alpha · log(1 + credit)``."""
    return logits + alpha * torch.log1p(table)


@dataclass
class StableAndConfident:
    """DiffusionGemma's stop: the best tokens didn't change for some steps, and the model is sure of them.

    One for a canvas.
    """

    stability: int = 1
    """Steps for which the best tokens must have stayed the same; 0 asks for certainty alone."""
    confidence: float = 0.005
    """Mean entropy, in nats, below which the model is sure."""
    _history: list[Tensor] = field(default_factory=list[Tensor], repr=False)

    def __call__(self, tokens: Tensor, entropy: Tensor) -> bool:
        """Whether to stop after a step.

        Args:
            tokens: int64 [T], the best predictions.
            entropy: float [T], nats, after the temperature.
        """
        past = self._history
        stable = len(past) == self.stability and all(torch.equal(tokens, before) for before in past)
        self._history = [*past, tokens.clone()][-self.stability :] if self.stability else []
        return stable and entropy.mean().item() < self.confidence
