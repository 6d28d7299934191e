"""DiffusionGemma's network: a causal encoder that leaves keys and values, and a bidirectional canvas on top.

Both are transformers' own modules and share all weights but a scalar a layer. The vision tower is left
out: this program has no images.
"""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor, nn
from transformers.models.diffusion_gemma import DiffusionGemmaConfig
from transformers.models.diffusion_gemma.modeling_diffusion_gemma import (
    DiffusionGemmaDecoderModel,
    DiffusionGemmaEncoderTextModel,
)

from dllm_tui.engine.backbone import Cache


class CanvasNetwork(nn.Module):
    """Encoder and decoder, their common weights shared.

    Args:
        config: the checkpoint's, as transformers reads it.
    """

    def __init__(self, config: DiffusionGemmaConfig) -> None:
        super().__init__()
        self.config = config
        self.decoder = DiffusionGemmaDecoderModel(config)
        text: Any = config.text_config
        self.encoder = DiffusionGemmaEncoderTextModel(text)
        self.lm_head = nn.Linear(text.hidden_size, text.vocab_size, bias=False)
        self.lm_head.weight = self.decoder.embed_tokens.weight
        for name, parameter in self.decoder.named_parameters():
            path, _, leaf = name.rpartition(".")
            if not path.startswith("self_conditioning"):
                setattr(self.encoder.get_submodule(path), leaf, parameter)


class LayeredCache:
    """Keys and values of the encoder, one slot a position; layers differ in heads and width.

    Layers with a sliding window keep every slot too, so that :meth:`truncate` can go back.

    Args:
        capacity: most slots.
        windows: for each layer how far a query sees, itself included; ``None`` without a limit.
    """

    def __init__(self, capacity: int, windows: list[int | None]) -> None:
        self.capacity = capacity
        self.length = 0
        self.windows = windows
        self._slots: dict[int, tuple[Tensor, Tensor]] = {}

    def truncate(self, length: int) -> None:
        """Forget every slot from ``length`` on."""
        self.length = min(self.length, length)

    def put(self, layer: int, start: int, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """Write one layer's rows [1, kv_heads, n, head_dim] at ``start``; give everything up to their end."""
        if layer not in self._slots:
            rooms = [rows.new_zeros(*rows.shape[:2], self.capacity, rows.shape[3]) for rows in (keys, values)]
            self._slots[layer] = (rooms[0], rooms[1])
        end = start + keys.shape[2]
        for room, rows in zip(self._slots[layer], (keys, values), strict=True):
            room[:, :, start:end] = rows
        return self._slots[layer][0][:, :, :end], self._slots[layer][1][:, :, :end]

    def seen(self, layer: int, context: int) -> tuple[Tensor, Tensor]:
        """What a canvas behind ``context`` slots sees of a layer: keys and values, two views."""
        window = self.windows[layer]
        first = 0 if window is None else max(0, context - window + 1)
        keys, values = self._slots[layer]
        return keys[:, :, first:context], values[:, :, first:context]


class CanvasBackbone:
    """The network behind :class:`dllm_tui.engine.backbone.Backbone`.

    The clean stream is the encoder, always causal; the noised one the canvas, which only reads the cache.

    Args:
        network: the model, its weights in place.
    """

    def __init__(self, network: CanvasNetwork) -> None:
        self.network = network.eval()
        text: Any = network.config.text_config
        self.device: torch.device = network.decoder.device
        self.dtype: torch.dtype = network.decoder.dtype
        self.vocab_size = int(text.vocab_size)
        self.context_length = int(text.max_position_embeddings)
        self.softcap = float(text.final_logit_softcapping)
        self.window = int(text.sliding_window)
        self.windows = [self.window if kind == "sliding_attention" else None for kind in text.layer_types]

    def new_cache(self, capacity: int) -> LayeredCache:
        """An empty cache for up to ``capacity`` positions."""
        return LayeredCache(capacity, self.windows)

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
        """One forward; see :meth:`dllm_tui.engine.backbone.Backbone.forward`.

        Raises:
            ValueError: a mask is given, or the slots asked for are not what this network can do.
        """
        store = cache if isinstance(cache, LayeredCache) else self.new_cache(ids.numel())
        seen = store.length if context is None else context
        if mask is not None or (write_at is not None and (noised or write_at != seen)):
            raise ValueError("the encoder writes behind its context, the canvas nowhere, both without a mask")
        forward: Callable[..., Tensor] = self._canvas if noised else self._encode
        states = forward(ids, positions, store, seen, condition)
        if write_at is not None:
            store.length = max(store.length, seen + ids.numel())
        logits = self.network.lm_head(states if rows is None else states[rows]).float()
        return self.softcap * torch.tanh(logits / self.softcap)

    def _encode(
        self, ids: Tensor, positions: Tensor, store: LayeredCache, seen: int, _: Tensor | None
    ) -> Tensor:
        count = ids.numel()
        distance = (
            seen
            + torch.arange(count, device=ids.device)[:, None]
            - torch.arange(seen + count, device=ids.device)
        )
        masks = {
            "full_attention": (distance >= 0)[None, None],
            "sliding_attention": ((distance >= 0) & (distance < self.window))[None, None],
        }

        def update(keys: Tensor, values: Tensor, layer: int, **_: Any) -> tuple[Tensor, Tensor]:
            return store.put(layer, seen, keys, values)

        return self.network.encoder(
            input_ids=ids[None],
            attention_mask=masks,
            position_ids=positions[None],
            cache=SimpleNamespace(update=update),
        ).last_hidden_state[0]

    def _canvas(
        self, ids: Tensor, positions: Tensor, store: LayeredCache, seen: int, condition: Tensor | None
    ) -> Tensor:
        layers = [store.seen(layer, seen) for layer in range(len(self.windows))]
        return self.network.decoder(
            decoder_input_ids=ids[None],
            decoder_position_ids=positions[None],
            decoder_attention_mask={"full_attention": None, "sliding_attention": None},
            self_conditioning_logits=None if condition is None else condition[None],
            cache=SimpleNamespace(
                layers=[SimpleNamespace(keys=keys, values=values) for keys, values in layers],
                is_compileable=False,
            ),
        ).last_hidden_state[0]
