"""A tiny random network with two streams, behind the engine's interface and, separately, as plain formulas.

``TinyBackbone`` keeps a cache and reads what the loop tells it. ``TinyNet.everything`` knows no cache: it
takes a whole sequence, says row by row which weights apply and who sees whom, and is what the slow
references in the tests are written with.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from dllm_tui.engine.model import Model
from dllm_tui.events import ModelInfo
from dllm_tui.families.family import Attention, Family, Revision
from dllm_tui.knobs import Knobs

VOCAB, STOP = 64, 3
VIRTUAL_MASK = VOCAB
REAL_MASK = VOCAB - 1


class TinyNet:
    """Two layers, two heads, rotary positions; random weights, other ones for masks in the noised stream."""

    def __init__(self, seed: int = 0, scale: float = 1.0, width: int = 32, stop_bias: float = 0.0) -> None:
        generator = torch.Generator().manual_seed(seed)

        def make(*shape: int) -> Tensor:
            return torch.randn(*shape, generator=generator) / shape[-1] ** 0.5

        self.width, self.heads = width, 2
        self.embedding = torch.randn(VOCAB + 1, width, generator=generator)
        self.head = make(VOCAB, width) * 4 * scale
        self.bias = torch.zeros(VOCAB)
        self.bias[STOP] = stop_bias
        self.layers = [
            {name: (make(width, width), make(width, width) * 0.3) for name in ("q", "k", "v", "o", "up")}
            for _ in range(2)
        ]

    def product(self, layer: dict, name: str, x: Tensor, adapted: Tensor) -> Tensor:
        """A linear layer on x [T, width]; ``adapted`` is bool [T, 1]: rows that read the other weights."""
        base, extra = layer[name]
        return x @ base.T + (x @ extra.T) * adapted

    def rotate(self, x: Tensor, positions: Tensor) -> Tensor:
        """Rotary embedding over x [heads, T, d]."""
        half = x.shape[-1] // 2
        angles = positions.unsqueeze(-1) / 100.0 ** (torch.arange(half) / half)
        cos, sin = angles.cos(), angles.sin()
        a, b = x[..., :half], x[..., half:]
        return torch.cat([a * cos - b * sin, b * cos + a * sin], -1)

    def split(self, x: Tensor) -> Tensor:
        return x.unflatten(-1, (self.heads, -1)).transpose(0, 1)

    def project(
        self, layer: dict, x: Tensor, positions: Tensor, adapted: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        q, k, v = (self.split(self.product(layer, name, x, adapted)) for name in ("q", "k", "v"))
        return self.rotate(q, positions), self.rotate(k, positions), v

    def finish(self, layer: dict, x: Tensor, mixed: Tensor, adapted: Tensor) -> Tensor:
        x = x + self.product(layer, "o", mixed.transpose(0, 1).flatten(1), adapted)
        return x + torch.tanh(self.product(layer, "up", x, adapted))

    def logits(self, x: Tensor) -> Tensor:
        return x @ self.head.T + self.bias

    def everything(
        self, ids: list[int], sees: Tensor, adapted: Tensor | None = None, positions: list[int] | None = None
    ) -> Tensor:
        """Logits of every row of a sequence. No cache.

        Args:
            ids: T of them.
            sees: bool [T, T], who sees whom.
            adapted: bool [T], rows that read the other weights; none by default.
            positions: of the ids; 0, 1, … by default.
        """
        x = self.embedding[torch.tensor(ids)]
        place = torch.tensor(positions or list(range(len(ids))), dtype=torch.float32)
        other = torch.zeros(len(ids), 1, dtype=torch.bool) if adapted is None else adapted[:, None]
        for layer in self.layers:
            q, k, v = self.project(layer, x, place, other)
            scores = (q @ k.transpose(1, 2)) / q.shape[-1] ** 0.5
            mixed = scores.masked_fill(~sees, -torch.inf).softmax(-1) @ v
            x = self.finish(layer, x, mixed, other)
        return self.logits(x)


@dataclass
class TinyCache:
    slots: list
    capacity: int
    length: int = 0

    def truncate(self, length: int) -> None:
        self.length = min(self.length, length)


class TinyBackbone:
    """The network as the loop sees it."""

    def __init__(self, net: TinyNet, context_length: int = 256) -> None:
        self.net = net
        self.device, self.dtype = torch.device("cpu"), torch.float32
        self.vocab_size, self.context_length = VOCAB, context_length
        self.calls = 0

    def new_cache(self, capacity: int) -> TinyCache:
        heads, width = self.net.heads, self.net.width // self.net.heads
        empty = [[torch.full((heads, capacity, width), torch.nan) for _ in "kv"] for _ in self.net.layers]
        return TinyCache(empty, capacity)

    def forward(
        self,
        ids,
        positions,
        *,
        noised=False,
        cache=None,
        context=None,
        write_at=None,
        mask=None,
        causal=False,
        rows=None,
        condition=None,
    ):
        self.calls += 1
        size = ids.numel()
        seen = 0 if cache is None else cache.length if context is None else context
        assert cache is None or seen <= cache.length, "reads slots that nobody wrote"
        sees = torch.ones(size, seen + size, dtype=torch.bool)
        if causal:
            sees[:, seen:] = torch.ones(size, size).tril().bool()
        if mask is not None:
            sees = mask
        adapted = (ids == VIRTUAL_MASK)[:, None] & noised
        if noised:
            sees[:, seen:] = torch.ones(size, size).tril().bool() | adapted
        x = self.net.embedding[ids]
        for index, layer in enumerate(self.net.layers):
            q, k, v = self.net.project(layer, x, positions.float(), adapted)
            all_k, all_v = k, v
            if cache is not None:
                all_k, all_v = (
                    torch.cat([kept[:, :seen], own], 1)
                    for kept, own in zip(cache.slots[index], (k, v), strict=True)
                )
                if write_at is not None:
                    for kept, own in zip(cache.slots[index], (k, v), strict=True):
                        kept[:, write_at : write_at + size] = own
            scores = (q @ all_k.transpose(1, 2)) / q.shape[-1] ** 0.5
            mixed = scores.masked_fill(~sees, -torch.inf).softmax(-1) @ all_v
            x = self.net.finish(layer, x, mixed, adapted)
        if cache is not None and write_at is not None:
            cache.length = max(cache.length, write_at + size)
        return self.net.logits(x if rows is None else x[rows])


def tiny_model(
    net: TinyNet | None = None,
    *,
    two_streams: bool = False,
    attention: Attention = Attention.BLOCK_CAUSAL,
    shift: int = 0,
    grid: int | None = None,
    response_grid: bool = False,
    revision: Revision = Revision.MONOTONE,
    stops: frozenset[int] = frozenset(),
    context_length: int = 256,
    tokenizer=None,
) -> Model:
    family = Family(
        name="tiny",
        title="Tiny",
        explanation="",
        licence="",
        attention=attention,
        shift=1 if two_streams else shift,
        two_streams=two_streams,
        grid=grid,
        response_grid=response_grid,
        revision=revision,
        defaults=Knobs(block_size=8),
    )
    return Model(
        family=family,
        backbone=TinyBackbone(net or TinyNet(), context_length),
        tokenizer=tokenizer,
        mask_id=VIRTUAL_MASK if two_streams else REAL_MASK,
        stop_ids=stops,
        info=ModelInfo(id="tiny", family="tiny", context_length=context_length),
    )
