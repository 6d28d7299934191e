"""Cross-entropy that never holds the logits of all rows at once.

The head is frozen, so the gradient with respect to its input is known as soon as a chunk's logits are: it is
kept instead of them. Targets mix the token that stands there with what the clean stream said of that place.
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function

CHUNK = 256
"""Rows whose logits are held at a time."""


@dataclass(frozen=True)
class Target:
    """What R rows should say."""

    token: Tensor
    """int64 [R]."""
    weight: Tensor
    """float32 [R]; they should sum to 1 over a step."""
    teacher_tokens: Tensor
    """int64 [R, K]: the base's best tokens for that place."""
    teacher_chances: Tensor
    """float32 [R, K], each row's sum 1."""
    distil: float
    """Share of the target that the base's distribution is, 0 … 1."""


class _Loss(Function):
    @staticmethod
    def forward(ctx: Any, hidden: Tensor, head: Tensor, target: Target, *more: Any) -> Tensor:
        (stats,) = more
        total = torch.zeros((), device=hidden.device)
        grad = torch.empty_like(hidden)
        for first in range(0, len(hidden), CHUNK):
            rows = slice(first, first + CHUNK)
            logits = (hidden[rows] @ head.T).float()
            token, weight = target.token[rows, None], target.weight[rows, None]
            stats.append(logits.argmax(-1) == token[:, 0])
            distil = target.distil
            chosen, chances = target.teacher_tokens[rows], distil * target.teacher_chances[rows]
            lse = logits.logsumexp(-1, keepdim=True)
            said = (1 - distil) * logits.gather(1, token) + (chances * logits.gather(1, chosen)).sum(
                1, keepdim=True
            )
            total += (weight * (lse - said)).sum()
            error = logits.sub_(lse).exp_()
            error.scatter_add_(1, chosen, -chances)
            error.scatter_add_(1, token, torch.full_like(weight, distil - 1))
            grad[rows] = error.mul_(weight).to(head.dtype) @ head
        ctx.save_for_backward(grad)
        return total

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        (grad,) = ctx.saved_tensors
        return grad * grads[0].to(grad.dtype), None, None, None


def loss(hidden: Tensor, head: Tensor, target: Target) -> tuple[Tensor, Tensor]:
    """Weighted cross-entropy of R rows.

    Args:
        hidden: [R, hidden].
        head: [vocab, hidden], frozen.
        target: what they should say.

    Returns:
        The loss, float32 scalar, and bool [R], whether each row's best token is the target's.
    """
    stats: list[Tensor] = []
    value: Any = _Loss.apply(hidden, head, target, stats)
    return value, torch.cat(stats) if stats else torch.zeros(0, dtype=torch.bool)
