"""Which blocks of a chat are noised, and which of their tokens are masked.

A pass over an answer cuts it into blocks of one size from a random place on. Two kinds of noise: *scattered*,
each token masked with the probability t ~ U(0, 1) of its block, once with that mask and once with its
complement, so that every token is learnt (Fast-dLLM v2); and *leading*, the first few tokens known and all
others masked, which is what decoding from the left and drafting for verify meet. A block's first token is
never masked: it is known from the commit forward before it.

What no mask stands to the left of is the base's own business: the adapter acts on masks alone. So the known
tokens that lead a block need no rows of their own, the clean stream has read them, and a pass with leading
noise is laid so that its masks cover the answer once.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from dllm_tui.adapt.data import Chat

SMALLEST, LARGEST = 3, 256
"""Blocks that there is something to learn of: the first token is known, the second the base's own."""


@dataclass(frozen=True, kw_only=True)
class Noise:
    """How blocks are laid and noised."""

    sizes: tuple[int, ...] = (4, 8, 16, 32)
    """Block sizes."""
    shares: tuple[float, ...] = (0.2, 0.55, 0.2, 0.05)
    """How often each is drawn."""
    leading: float = 0.8
    """Share of passes with leading noise; the others are scattered."""
    copies: int = 2
    """Passes over each answer every time that its chat is read."""
    decay: float = 0.7
    """Weight of a masked token for each masked one to the left of it: those are what decoding reads first."""
    by_ratio: bool = False
    """Weigh scattered blocks by 1/t: a bound of the likelihood (MDLM, arXiv 2406.07524)."""

    def __post_init__(self) -> None:
        if not self.sizes or not all(SMALLEST <= size <= LARGEST for size in self.sizes):
            raise ValueError(f"block sizes go from {SMALLEST} to {LARGEST}")
        if len(self.shares) != len(self.sizes) or min(self.shares) < 0 or not any(self.shares):
            raise ValueError("there must be a share for each block size, none below zero, one above")
        if not 0 <= self.leading <= 1 or not 0 < self.decay <= 1 or self.copies < 1:
            raise ValueError("leading and decay are shares from 0 to 1, and copies are at least 1")


@dataclass(frozen=True)
class Windows:
    """Windows of one size in one chat: W of them, B inputs each, from the position before ``starts`` on."""

    starts: Tensor
    """int64 [W]: position of the first token that each says something of."""
    size: int
    masked: Tensor
    """bool [W, B]: which inputs are the mask."""
    left: Tensor
    """int64 [W, B]: masked tokens to the left of the one that each row is about, in its block."""
    weight: Tensor
    """float32 [W, B]: of each row in the loss."""


def draw(chat: Chat, noise: Noise, random: torch.Generator) -> list[Windows]:
    """The passes over one chat.

    Args:
        chat: what is learnt.
        noise: how.
        random: where chance comes from.
    """
    made: list[Windows] = []
    for start, end in chat.answers:
        if end - start < 3:  # the base itself says all of it
            continue
        for _ in range(noise.copies):
            chosen = int(torch.multinomial(torch.tensor(noise.shares), 1, generator=random))
            size = noise.sizes[chosen]
            if float(torch.rand((), generator=random)) < noise.leading:
                count = size - 1 - lead(size, random)
                made.append(leading(_grid(start, end - 2, count, random), count, end, noise))
                continue
            blocks = _grid(start, end, size, random)
            ratio = torch.rand(len(blocks), 1, generator=random)
            masked = torch.rand(len(blocks), size, generator=random) < ratio
            made.append(_scattered(blocks, masked, end, noise, ratio))
            made.append(_scattered(blocks, ~masked, end, noise, 1 - ratio))
    return made


def lead(size: int, random: torch.Generator) -> int:
    """How many tokens of a block are known, from the left: mostly one, else any number that leaves two."""
    if size < 4 or float(torch.rand((), generator=random)) < 0.7:
        return 1
    return int(torch.randint(1, size - 1, (), generator=random))


def _grid(start: int, end: int, step: int, random: torch.Generator) -> Tensor:
    """Where blocks begin in an answer, from a random place on.

    One that lies mostly behind the answer's end is left out, if it isn't the only one.
    """
    phase = int(torch.randint(min(step, end - start), (1,), generator=random))
    return torch.arange(start + phase, max(start + phase + 1, end - step // 2 + 1), step)


def leading(known: Tensor, count: int, end: int, noise: Noise) -> Windows:
    """Windows of nothing but masks.

    Args:
        known: int64 [W], position of the last known token that is followed by one the base knows.
        count: masks in each.
        end: of the answer.
        noise: how they are weighed.
    """
    starts = known + 2
    left = torch.arange(1, count + 1).expand(len(starts), count)
    inside = starts[:, None] + torch.arange(count) < end
    masked = torch.ones(len(starts), count, dtype=torch.bool)
    return Windows(starts, count, masked, left, noise.decay ** left.float() * inside)


def _scattered(blocks: Tensor, masked: Tensor, end: int, noise: Noise, ratio: Tensor) -> Windows:
    """Blocks with masks anywhere but at their first token; their rows are about all others."""
    size = masked.shape[1]
    masked = masked.clone()
    masked[:, 0] = False
    left = masked.cumsum(-1)[:, :-1]
    learnt = masked[:, 1:] & (left > 0) & (blocks[:, None] + torch.arange(1, size) < end)
    weight = noise.decay ** left.float() * learnt
    if noise.by_ratio:
        weight = weight / ratio.clamp(min=1 / size)
    return Windows(blocks + 1, size - 1, masked[:, :-1], left, weight)
