"""The stock backbone: a transformers class, fed explicit masks and positions.

It covers every family whose network transformers knows, and is the oracle of the lean one. The classes
are built for causal decoding; here their attention is ours (:func:`attend`), so that nothing is masked
but what the loop asks for, and their cache is a static one that is written in place.
"""

from collections.abc import Callable
from typing import Any, Protocol

import torch
from torch import Tensor, nn
from torch.nn import functional
from transformers import AttentionInterface

from dllm_tui.engine.backbone import Cache
from dllm_tui.engine.cache import BlockCache, Window

ATTENTION = "dllm"
"""Name under which :func:`attend` is known to transformers."""


def attend(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    *,
    scaling: float | None = None,
    **_: Any,
) -> tuple[Tensor, None]:
    """Attention in which every query sees every key, but for the mask.

    Args:
        module: the attention layer.
        query: [1, heads, T, head_dim].
        key: [1, kv_heads, K, head_dim].
        value: as ``key``.
        attention_mask: bool [1, 1, T, K], True where a query sees a key.
        scaling: factor of the scores; 1 / sqrt(head_dim) by default.

    Returns:
        [1, T, heads, head_dim], and no weights.
    """
    groups = query.shape[1] // key.shape[1]
    if attention_mask is not None and groups > 1:
        # With a mask, CUDA has fast kernels only for as many key heads as query heads.
        key, value = key.repeat_interleave(groups, 1), value.repeat_interleave(groups, 1)
    mixed = functional.scaled_dot_product_attention(
        query, key, value, attn_mask=attention_mask, scale=scaling, enable_gqa=key.shape[1] < query.shape[1]
    )
    return mixed.transpose(1, 2), None


AttentionInterface.register(ATTENTION, attend)


class View(Protocol):
    """A cache as one forward sees it, called by the attention layers of transformers with their own keys."""

    def update(self, key: Tensor, value: Tensor, layer: int, *_: Any, **__: Any) -> tuple[Tensor, Tensor]:
        """All keys and values that the queries see: [1, kv_heads, context + count, head_dim] each."""
        ...

    def close(self) -> None:
        """Leave the own keys and values where they stay, and everything else as it was."""
        ...


class CacheView(Window):
    """A :class:`View` of one :class:`BlockCache`."""

    def update(self, key: Tensor, value: Tensor, layer: int, *_: Any, **__: Any) -> tuple[Tensor, Tensor]:
        """All keys and values that the queries see: [1, kv_heads, context + count, head_dim] each."""
        keys, values = self.put(layer, key[0], value[0])
        return keys[None], values[None]


def visible(
    mask: Tensor | None, causal: bool, context: int, count: int, device: torch.device
) -> Tensor | None:
    """The mask that transformers gets: bool [1, 1, T, K], or ``None`` where everything is seen.

    Args:
        mask: bool [T, K], as :meth:`dllm_tui.engine.backbone.Backbone.forward` takes it.
        causal: own keys are seen up to the query's own place.
        context: keys before the own ones.
        count: own keys.
        device: where the mask is made.
    """
    if mask is None and causal and count > 1:
        mask = torch.ones(count, context + count, dtype=torch.bool, device=device).tril(context)
    return None if mask is None else mask[None, None]


class StockBackbone:
    """A transformers decoder behind :class:`dllm_tui.engine.backbone.Backbone`.

    Args:
        network: the model, built with ``attn_implementation=ATTENTION``, its weights in place.
    """

    def __init__(self, network: Any) -> None:
        self.network = network.eval()
        self.body: Callable[..., Any] = network.get_decoder()
        self.head: nn.Module = network.get_output_embeddings()
        self.device: torch.device = network.device
        self.dtype: torch.dtype = network.dtype
        self.vocab_size = int(network.config.vocab_size)
        self.context_length = int(network.config.max_position_embeddings)

    def new_cache(self, capacity: int) -> Cache:
        """An empty cache for up to ``capacity`` positions."""
        return self.slots(self.network.config.num_hidden_layers, capacity, self.device)

    def slots(self, layers: int, capacity: int, device: torch.device) -> BlockCache:
        """Empty slots for some of the layers."""
        config = self.network.config
        # Qwen2's config has no head_dim of its own.
        head_dim = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
        shape = (layers, 2, config.num_key_value_heads, capacity, head_dim)
        return BlockCache(torch.zeros(shape, device=device, dtype=self.dtype))

    def view(self, cache: Cache | None, context: int, write_at: int | None, count: int) -> View | None:
        """The cache as one forward of ``count`` ids sees it."""
        return CacheView(cache, context, write_at, count) if isinstance(cache, BlockCache) else None

    @torch.inference_mode()
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
        """One forward; see :meth:`dllm_tui.engine.backbone.Backbone.forward`."""
        count = ids.numel()
        seen = 0 if cache is None else cache.length if context is None else context
        view = self.view(cache, seen, write_at, count)
        hidden = self.hidden(ids, positions, visible(mask, causal, seen, count, ids.device), view)
        if view is not None:
            view.close()
        return self.head(hidden if rows is None else hidden[rows]).float()

    def hidden(self, ids: Tensor, positions: Tensor, mask: Tensor | None, view: View | None) -> Tensor:
        """What the layers make of the ids: [T, hidden]. The mask is as :func:`visible` gives it."""
        return self.body(
            input_ids=ids[None],
            attention_mask=mask,
            position_ids=positions[None],
            cache=view,
            use_cache=False,
        ).last_hidden_state[0]


class EncoderBackbone(StockBackbone):
    """ModernBERT: a bidirectional encoder with sliding windows in some layers. It keeps no cache.

    Args:
        network: ``ModernBertForMaskedLM``, its weights in place.
    """

    def __init__(self, network: Any) -> None:
        super().__init__(network)
        self.body = network.model
        self.head = nn.Sequential(network.head, network.decoder)
        self.window = int(network.config.sliding_window)

    def new_cache(self, capacity: int) -> Cache:
        """There is none.

        Raises:
            ValueError: always.
        """
        raise ValueError(f"an encoder keeps no keys and values; no cache of {capacity} slots")

    def hidden(self, ids: Tensor, positions: Tensor, mask: Tensor | None, view: View | None) -> Tensor:
        """As in the decoder; windows are measured in positions."""
        near = ((positions[:, None] - positions[None]).abs() <= self.window)[None, None]
        masks = {"full_attention": mask, "sliding_attention": near if mask is None else near & mask}
        return self.body(
            input_ids=ids[None], attention_mask=masks, position_ids=positions[None]
        ).last_hidden_state[0]
