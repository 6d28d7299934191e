"""A model over several GPUs of one machine: its layers in runs, one run a device.

Embedding, last norm and head stay on the first device, the home. Where a run begins, the hidden states
and what goes with them are carried over; keys and values stay with their layers.
"""

import re
from itertools import groupby
from typing import Any

import torch
from torch import Tensor, nn

from dllm_tui.engine.backbone import Cache
from dllm_tui.engine.cache import BlockCache
from dllm_tui.engine.stock import CacheView, StockBackbone

SPARE = 0.1
"""Share of a device's free memory that is left for activations, keys and values."""

_LAYER = re.compile(r"(?:^|\.)layers\.(\d+)\.")


def layer_of(name: str) -> int | None:
    """The layer that a parameter belongs to, or ``None`` for what stays at home."""
    found = _LAYER.search(name)
    return int(found[1]) if found else None


def plan(layers: list[int], home: int, free: list[int]) -> list[int] | None:
    """Which device each layer goes to: in order, as evenly as memory allows.

    Args:
        layers: bytes of each layer.
        home: bytes of what stays on the first device.
        free: free bytes of each device.

    Returns:
        An index of ``free`` for each layer, rising; ``None`` where they don't fit.
    """
    room = [int(bytes_free * (1 - SPARE)) for bytes_free in free]
    room[0] -= home
    if room[0] < 0:
        return None
    # The smallest share of each device's room with which all layers find a place, in steps of a hundredth.
    for percent in range(1, 101):
        placed: list[int] = []
        device, used = 0, 0
        for size in layers:
            while device < len(room) and used + size > room[device] * percent / 100:
                device, used = device + 1, 0
            if device == len(room):
                break
            placed.append(device)
            used += size
        if len(placed) == len(layers):
            return placed
    return None


def _carry(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Bring a layer's inputs to where the layer is."""
    device = next(module.parameters()).device

    def carried(value: Any) -> Any:
        if isinstance(value, tuple):
            return tuple(carried(part) for part in value)
        return value.to(device, non_blocking=True) if isinstance(value, Tensor) else value

    return carried(args), {name: carried(value) for name, value in kwargs.items()}


class SpreadCache:
    """Keys and values where their layers are: one cache a run of layers.

    Args:
        parts: first layer of each run, and its cache.
    """

    def __init__(self, parts: list[tuple[int, BlockCache]]) -> None:
        self.parts = parts
        self.capacity = parts[0][1].capacity
        self.length = 0

    def truncate(self, length: int) -> None:
        """Forget every slot from ``length`` on."""
        self.length = min(self.length, length)
        for _, part in self.parts:
            part.truncate(length)


class SpreadView:
    """The caches of all runs as one forward sees them; see :class:`dllm_tui.engine.stock.CacheView`."""

    def __init__(self, cache: SpreadCache, context: int, write_at: int | None, count: int) -> None:
        self.cache = cache
        self.views = [(first, CacheView(part, context, write_at, count)) for first, part in cache.parts]

    def update(self, key: Tensor, value: Tensor, layer: int, *_: Any, **__: Any) -> tuple[Tensor, Tensor]:
        """All keys and values that the queries see."""
        first, view = max((run for run in self.views if run[0] <= layer), key=lambda run: run[0])
        return view.update(key, value, layer - first)

    def close(self) -> None:
        """Leave the own keys and values where they stay."""
        for _, view in self.views:
            view.close()
        self.cache.length = self.cache.parts[0][1].length


class SpreadBackbone(StockBackbone):
    """A stock decoder whose layers lie on several devices.

    Args:
        network: the model, its weights in place.
    """

    def __init__(self, network: Any) -> None:
        super().__init__(network)
        layers: list[nn.Module] = list(network.get_decoder().layers)
        places = [next(layer.parameters()).device for layer in layers]
        self.device = network.get_input_embeddings().weight.device
        self.runs: list[tuple[torch.device, int, int]] = []
        """Device, first layer and number of layers of each run."""
        for place, run in groupby(range(len(places)), lambda number: places[number]):
            numbers = list(run)
            self.runs.append((place, numbers[0], len(numbers)))
        for module in (*layers, network.get_decoder().norm):
            module.register_forward_pre_hook(_carry, with_kwargs=True)

    def new_cache(self, capacity: int) -> SpreadCache:
        """An empty cache for up to ``capacity`` positions."""
        return SpreadCache([(first, self.slots(count, capacity, place)) for place, first, count in self.runs])

    def view(self, cache: Cache | None, context: int, write_at: int | None, count: int) -> SpreadView | None:
        """The cache as the layers see it."""
        return SpreadView(cache, context, write_at, count) if isinstance(cache, SpreadCache) else None
