"""What a decoder wants to know of each row of logits: the best token, and how sure the model is of it."""

from functools import cache
from importlib.util import find_spec
from typing import NamedTuple

import torch
from torch import Tensor

_TILE = 256
"""Columns whose maximum is taken first, on the way to a row's argmax."""

_LOWEST = -1e30
"""Stands for minus infinity where it is multiplied by 0."""


class Confidence(NamedTuple):
    """Of each row: the best token that may be chosen, and how it stands in the softmax over all of them."""

    token: Tensor
    """int64 [rows], the best token; of equals the lowest id."""
    confidence: Tensor
    """float32 [rows], its probability."""
    lse: Tensor
    """float32 [rows], log-sum-exp: ``exp(logit - lse)`` is the probability of any token."""
    entropy: Tensor
    """float32 [rows], in nats."""
    margin: Tensor
    """float32 [rows], its probability less that of the best other token, which may be a forbidden one."""


def confidence(logits: Tensor, forbidden: Tensor | None = None) -> Confidence:
    """Reduce every row of logits; on a GPU with Triton in one pass over them.

    Args:
        logits: [rows, vocab] of any float dtype, finite or -inf; two columns at least. Left as they are.
        forbidden: int64 [n], on the device of the logits: ids that are never chosen. They keep their part
            of the probability, as the mask token does in the reference decoders; to take that away too,
            set their logits to -inf.
    """
    if logits.is_cuda and has_triton():
        from dllm_kernels.confidence_triton import confidence as kernel

        return kernel(logits, forbidden)
    return confidence_reference(logits, forbidden)


@cache
def has_triton() -> bool:
    """Whether Triton is installed."""
    return find_spec("triton") is not None


def confidence_reference(logits: Tensor, forbidden: Tensor | None = None) -> Confidence:
    """What :func:`confidence` computes, in plain torch; made to be quick on a CPU too.

    There ``argmax`` takes ten times as long as ``amax``, so it is looked for in the tile that holds the
    maximum; a softmax of all rows is never stored: each row is done with while it is in the cache.
    """
    logits = logits.float()
    best, token, other = _two_best(logits)
    log_total, entropy = _spread(logits, best)
    lse = best + log_total
    if forbidden is not None and (chosen_badly := (token.unsqueeze(-1) == forbidden).any(-1)).any():
        allowed, allowed_token, _ = _two_best(logits.index_fill(-1, forbidden, -torch.inf))
        other = torch.where(chosen_badly, best, other)
        best = torch.where(chosen_badly, allowed, best)
        token = torch.where(chosen_badly, allowed_token, token)
    chance = (best - lse).exp()
    return Confidence(token, chance, lse, entropy, margin=chance - (other - lse).exp())


def _two_best(logits: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The best logit of each row, its column, and the best logit of the other columns."""
    columns = logits.shape[-1]
    whole = columns // _TILE * _TILE
    maxima = logits[:, :whole].unflatten(-1, (-1, _TILE)).amax(-1)
    if whole < columns:
        maxima = torch.cat([maxima, logits[:, whole:].amax(-1, keepdim=True)], -1)
    best, tile = maxima.max(-1, keepdim=True)
    column = tile * _TILE + torch.arange(_TILE, device=logits.device)
    inside = logits.gather(-1, column.clamp(max=columns - 1)).masked_fill(column >= columns, -torch.inf)
    place = inside.argmax(-1, keepdim=True)
    other = torch.maximum(
        inside.scatter(-1, place, -torch.inf).amax(-1), maxima.scatter(-1, tile, -torch.inf).amax(-1)
    )
    return best.squeeze(-1), column.gather(-1, place).squeeze(-1), other


def _spread(logits: Tensor, peak: Tensor) -> tuple[Tensor, Tensor]:
    """Logarithm of Σe and the entropy of each row, with z = x − peak and e = exp z."""
    at_once = 1 if logits.is_cpu else max(1, logits.shape[0])
    parts = [
        _sums(rows - peak)
        for rows, peak in zip(logits.split(at_once), peak.unsqueeze(-1).split(at_once), strict=True)
    ]
    total, energy = (torch.cat(part) for part in zip(*parts, strict=True))
    return total.log(), total.log() - energy / total


def _sums(shifted: Tensor) -> tuple[Tensor, Tensor]:
    """Σe and Σe·z of each row; a z of −∞ adds nothing."""
    weights = shifted.exp()
    return weights.sum(-1), torch.linalg.vecdot(weights, shifted.clamp_(min=_LOWEST))
