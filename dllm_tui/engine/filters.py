"""What sampling may draw from: logits in which the unlikely tokens are at -inf. Ties at the edge are kept."""

import torch
from torch import Tensor


def keep_top_k(logits: Tensor, count: int) -> Tensor:
    """The ``count`` best tokens of each row; 0 keeps all.

    Args:
        logits: float [n, vocab].
        count: 0 or more.
    """
    if not 0 < count < logits.shape[-1]:
        return logits
    return logits.masked_fill(logits < logits.topk(count).values[:, -1:], -torch.inf)


def keep_top_p(logits: Tensor, share: float, *, within: bool = False) -> Tensor:
    """The best tokens of each row until they hold ``share`` of the probability; always the best one.

    Args:
        logits: float [n, vocab].
        share: 0 … 1.
        within: leave out the token with which they come to hold more (BD3-LM).
    """
    if share >= 1:
        return logits
    lse = logits.logsumexp(-1, keepdim=True)
    best, before = _leading(logits, lse, share)
    kept = (before + (best - lse).exp() if within else before) <= share
    kept[:, :1] = True
    least = best.masked_fill(~kept, torch.inf).amin(-1, keepdim=True)
    return logits.masked_fill(logits < least, -torch.inf)


def _leading(logits: Tensor, lse: Tensor, share: float) -> tuple[Tensor, Tensor]:
    """Enough of each row's best logits to hold a share, and what the ones before each hold together."""
    size = logits.shape[-1]
    # Sorting a whole vocabulary takes a CPU longer than the network; the few best are nearly always enough.
    for count in () if logits.is_cuda else (64, 1024):
        best, before = _held(logits, lse, min(count, size))
        if bool((before[:, -1] > share).all()):
            return best, before
    return _held(logits, lse, size)


def _held(logits: Tensor, lse: Tensor, count: int) -> tuple[Tensor, Tensor]:
    best = logits.topk(count).values
    chances = (best - lse).exp()
    return best, chances.cumsum(-1) - chances
