"""The small interface behind which both backbones stand: token ids in, logits out, keys and values kept."""

from typing import Protocol

import torch
from torch import Tensor


class Cache(Protocol):
    """Keys and values of positions seen before, one slot a position, written in place."""

    length: int
    """Slots in use."""
    capacity: int

    def truncate(self, length: int) -> None:
        """Forget every slot from ``length`` on."""
        ...


class Backbone(Protocol):
    """A network that turns ids into logits for one sequence (batch size 1)."""

    device: torch.device
    dtype: torch.dtype
    vocab_size: int
    """Columns of the logits."""
    context_length: int

    def new_cache(self, capacity: int) -> Cache:
        """An empty cache for up to ``capacity`` positions."""
        ...

    def forward(
        self,
        ids: Tensor,
        positions: Tensor,
        *,
        noised: bool = False,
        cache: Cache | None = None,
        context: int | None = None,
        write_at: int | None = None,
        mask: Tensor | None = None,
        causal: bool = False,
        rows: Tensor | slice | None = None,
        condition: Tensor | None = None,
    ) -> Tensor:
        """One forward over ``ids``.

        Args:
            ids: int64 [T], the mask id included.
            positions: int64 [T], rotary positions.
            noised: use the adapted weights of the noised stream, for models that have two (``smol``).
            cache: keys and values that the queries see besides their own.
            context: how many of the cache's first slots are seen; all of ``cache.length`` by default.
            write_at: first cache slot that this forward's keys and values go to; ``None`` leaves the
                cache as it is. Slots from ``context`` up to ``write_at`` are not seen. Slots below
                ``context`` may be written too (the dual cache): what stood there is still seen in this
                forward, unless ``mask`` hides it.
            mask: bool [T, context + T], True where a query sees a key (context first, then the T own
                ones); ``None`` lets every query see everything, unless ``causal``.
            causal: own keys are seen up to the query's own place only; the context is always seen.
            rows: the rows whose logits are wanted; all by default.
            condition: what some networks are told besides the ids: DiffusionGemma the logits of the step
                before (float [T, vocab_size], scaled by its temperature), SEDD the noise level (float []).

        Returns:
            float32 [rows, vocab_size], raw logits (no shift).
        """
        ...
