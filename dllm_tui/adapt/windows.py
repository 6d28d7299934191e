"""Which blocks of a chat are noised, and which of their tokens are masked.

A pass over an answer cuts it into blocks of one size from a random place on, as decoding would. Two kinds of
noise: *scattered*, each token masked with the probability t ~ U(0, 1) of its block, once with that mask and
once with its complement, so that every token is learnt (Fast-dLLM v2); and *leading*, the first few tokens
known and all others masked, which is what decoding from the left and drafting for verify meet. A block's
first token is never masked: it is known from the commit forward before it.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from dllm_tui.adapt.data import Chat

LARGEST = 256
"""Longest block."""


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
        if not self.sizes or not all(2 <= size <= LARGEST for size in self.sizes):
            raise ValueError(f"block sizes go from 2 to {LARGEST}")
        if len(self.shares) != len(self.sizes) or min(self.shares) < 0 or not any(self.shares):
            raise ValueError("there must be a share for each block size, none below zero, one above")
        if not 0 <= self.leading <= 1 or not 0 < self.decay <= 1 or self.copies < 1:
            raise ValueError("leading and decay are shares from 0 to 1, and copies are at least 1")


@dataclass(frozen=True)
class Windows:
    """Blocks of one size in one chat: W of them, B tokens each."""

    starts: Tensor
    """int64 [W]: position of each block's first token."""
    size: int
    masked: Tensor
    """bool [W, B]: which tokens are hidden, and learnt where ``weight`` says so."""
    weight: Tensor
    """float32 [W, B]: of each token in the loss."""


def draw(chat: Chat, noise: Noise, random: torch.Generator) -> list[Windows]:
    """The passes over one chat.

    Args:
        chat: what is learnt.
        noise: how.
        random: where chance comes from.
    """
    made: list[Windows] = []
    for start, end in chat.answers:
        for _ in range(noise.copies):
            chosen = int(torch.multinomial(torch.tensor(noise.shares), 1, generator=random))
            size = noise.sizes[chosen]
            phase = int(torch.randint(min(size, end - start), (1,), generator=random))
            # A last block that lies mostly behind the answer's end is left out, if it isn't the only one.
            last = max(start + phase + 1, end - size // 2 + 1)
            starts = torch.arange(start + phase, last, size)
            if float(torch.rand((), generator=random)) < noise.leading:
                known = lead(len(starts), size, random)
                made.append(_windows(starts, torch.arange(size) >= known[:, None], end, noise))
                continue
            ratio = torch.rand(len(starts), generator=random)
            masked = torch.rand(len(starts), size, generator=random) < ratio[:, None]
            made.append(_windows(starts, masked, end, noise, ratio))
            made.append(_windows(starts, ~masked, end, noise, 1 - ratio))
    return made


def lead(count: int, size: int, random: torch.Generator) -> Tensor:
    """How many tokens of each block are known, from the left: mostly one, else any number."""
    several = torch.randint(1, max(2, size), (count,), generator=random)
    return torch.where(torch.rand(count, generator=random) < 0.7, torch.ones_like(several), several)


def _windows(starts: Tensor, masked: Tensor, end: int, noise: Noise, ratio: Tensor | None = None) -> Windows:
    masked = masked.clone()
    masked[:, 0] = False
    left = masked.cumsum(-1) - masked.long()
    inside = starts[:, None] + torch.arange(masked.shape[1]) < end
    weight = noise.decay ** left.float() * (masked & inside)
    if noise.by_ratio and ratio is not None:
        weight = weight / ratio.clamp(min=1 / masked.shape[1])[:, None]
    return Windows(starts, masked.shape[1], masked, weight)
