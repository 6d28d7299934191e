"""From logits to what a policy decides on: a token for each position, and how sure the model is of it."""

from dataclasses import dataclass

import torch
from dllm_kernels.confidence import confidence
from torch import Tensor

from dllm_tui.engine.draws import Draws
from dllm_tui.engine.filters import keep_top_k, keep_top_p
from dllm_tui.families.family import Sampling
from dllm_tui.knobs import Knobs


@dataclass(frozen=True)
class Scores:
    """What one forward says of n positions. On the host, whatever device computed it."""

    token: Tensor
    """int64 [n], the predicted token: the best one, or a sample where the temperature asks for it."""
    confidence: Tensor
    """float32 [n], its probability; as the family's :class:`~dllm_tui.families.family.Sampling` has it,
    before temperature and filters or after them."""
    entropy: Tensor
    """float32 [n], of the distribution, in nats."""
    margin: Tensor
    """float32 [n], the best token's probability less the second's."""
    lse: Tensor
    """float32 [n], log-sum-exp of the logits."""
    top: Tensor
    """float32 [n, alternatives, 2]: (token, probability), best first."""

    def row(self, index: int) -> "Scores":
        """The scores of one position alone."""
        at = slice(index, index + 1)
        parts = (self.token, self.confidence, self.entropy, self.margin, self.lse, self.top)
        return Scores(*(part[at] for part in parts))


def read(
    logits: Tensor,
    knobs: Knobs,
    *,
    sampling: Sampling,
    draws: Draws,
    forbidden: Tensor | None = None,
    alternatives: int = 0,
) -> Scores:
    """Score every row.

    One small transfer from the device; the logits stay where they are.

    Args:
        logits: float32 [n, vocab].
        knobs: temperature, top-p and top-k count here.
        sampling: how the family uses them.
        draws: one number is drawn per row when sampling.
        forbidden: int64 [1], the mask's id where the head has a column for it. It is never predicted,
            but it takes part in the softmax, as in the reference decoders.
        alternatives: how many of the best tokens to report beside the predicted one.
    """
    if not sampling.counts_mask:
        logits = _without(logits, forbidden)
    if sampling.suppressed:
        logits = _without(logits, torch.tensor(sampling.suppressed, device=logits.device))
    shaped = shape(logits, knobs, sampling, forbidden) if sampling.filtered else logits
    seen = confidence(shaped, forbidden)
    token, sure = seen.token, seen.confidence
    if knobs.temperature > 0 and not sampling.greedy:
        source = shaped if sampling.filtered else shape(logits, knobs, sampling, forbidden)
        token = draws.tokens(_without(source, forbidden).softmax(-1))
        sure = _chance(shaped, token, seen.lse)
    if sampling.late:
        others = _without(shaped, torch.tensor(sampling.late, device=logits.device))
        sure = _chance(others, token, others.logsumexp(-1))
    # A float32 holds every token id exactly: one tensor, one transfer.
    columns = [token.float(), sure, seen.entropy, seen.margin, seen.lse]
    if alternatives:
        allowed = _without(shaped, forbidden)
        best = allowed.topk(min(alternatives, logits.shape[-1]))
        chances = (best.values - seen.lse.unsqueeze(-1)).exp()
        columns += [*best.indices.float().unbind(-1), *chances.unbind(-1)]
    packed = torch.stack(columns, -1).cpu()
    ids, chances = packed[:, 5:].chunk(2, dim=-1)
    sure, entropy, margin, lse = packed[:, 1:5].unbind(-1)
    return Scores(packed[:, 0].long(), sure, entropy, margin, lse, torch.stack([ids, chances], -1))


def _chance(logits: Tensor, token: Tensor, lse: Tensor) -> Tensor:
    return (logits.gather(-1, token.unsqueeze(-1)).squeeze(-1) - lse).exp()


def shape(logits: Tensor, knobs: Knobs, sampling: Sampling, forbidden: Tensor | None = None) -> Tensor:
    """The logits [n, vocab] of the distribution that is sampled from, after temperature and filters.

    Args:
        logits: float32 [n, vocab].
        knobs: a temperature of 0 leaves the logits as they are.
        sampling: how temperature, top-k and top-p act.
        forbidden: ids that are never drawn. They count in the filters as any other, but when they would
            leave nothing else, the best other token stays too.
    """
    shaped, heat = logits, knobs.temperature or 1.0
    for name in sampling.order:
        if name == "temperature":
            shaped = shaped / heat
        elif name == "top_k":
            shaped = keep_top_k(shaped, knobs.top_k)
        else:
            shaped = keep_top_p(shaped, knobs.top_p, within=sampling.within_top_p)
    if forbidden is not None and (knobs.top_k or knobs.top_p < 1):
        best = _without(logits, forbidden).argmax(-1, keepdim=True)
        shaped = shaped.scatter(-1, best, logits.gather(-1, best) / heat)
    return shaped


def _without(logits: Tensor, forbidden: Tensor | None) -> Tensor:
    return logits if forbidden is None else logits.index_fill(-1, forbidden, -torch.inf)
