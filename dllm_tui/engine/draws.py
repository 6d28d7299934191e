"""Where chance comes from: everything that a run draws, it draws here."""

import torch
from torch import Tensor


class Draws:
    """Random numbers on the host, so that a seed gives the same answer whatever the device.

    Args:
        seed: of the run.
    """

    def __init__(self, seed: int) -> None:
        self._generator = torch.Generator().manual_seed(seed)

    def uniform(self, count: int) -> Tensor:
        """float32 [count] in [0, 1)."""
        return torch.rand(count, generator=self._generator)

    def tokens(self, weights: Tensor) -> Tensor:
        """One token a row, by inverting the sum of the row's weights: int64 [n].

        Args:
            weights: float [n, vocab], not negative, on any device; they need not sum to 1.
        """
        sums = weights.cumsum(-1)
        target = self.uniform(weights.shape[0]).to(weights.device, weights.dtype).unsqueeze(-1) * sums[:, -1:]
        drawn = torch.searchsorted(sums, target, right=True).squeeze(-1)
        # A target that rounding has put at the very sum: the last token that has a weight.
        last = weights.shape[-1] - 1 - weights.flip(-1).ne(0).to(torch.uint8).argmax(-1)
        return torch.minimum(drawn, last)

    def ids(self, count: int, vocabulary: int) -> Tensor:
        """Any ids: int64 [count], each below ``vocabulary``."""
        return torch.randint(vocabulary, (count,), generator=self._generator)
