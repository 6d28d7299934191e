"""Both streams of a dense decoder, for many windows at once.

The *clean stream* is the base: causal, frozen, read once a chat. The *noised stream* runs over windows,
inputs at positions s-1 … s+B-2, which see the clean keys of the positions 0 … s-2 and each other, and say
what stands at s … s+B-1: a token is predicted at the position before it.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from dllm_tui.engine.geometry import Geometry
from dllm_tui.engine.lean import FUSED, PROJECTIONS


@dataclass(frozen=True)
class Layer:
    """One layer's weights."""

    attention_norm: Tensor
    mlp_norm: Tensor
    projections: dict[str, Tensor]
    """By the names of :data:`PROJECTIONS`: [out, in]."""
    qkv_bias: Tensor | None
    qk_norm: tuple[Tensor, Tensor] | None


@dataclass(frozen=True)
class Reading:
    """What the clean stream makes of one chat: T tokens."""

    keys: Tensor
    """[layers, kv_heads, T, head_dim], rotated."""
    values: Tensor
    """The same shape."""
    hidden: Tensor
    """[T, hidden], normed: what the head reads. Row i says what follows token i."""


@dataclass(frozen=True)
class Group:
    """Windows in one chat, the inputs of one after those of the other: N rows; see :func:`group`."""

    reading: Reading
    places: Tensor
    """int64 [N]: position of each input."""
    visible: Tensor
    """bool [N, C + N]: which of the first C clean positions each row sees, and which rows."""


class Projecting(Protocol):
    """How the noised stream multiplies: by the base's weights or by adapted ones."""

    def __call__(self, layer: int, name: str, x: Tensor) -> Tensor:
        """[rows, in] → [rows, out] by one of :data:`PROJECTIONS`, without its bias."""
        ...


class Network:
    """A base's weights in the layout that both streams share.

    Args:
        geometry: its sizes.
        weights: every tensor by its Hugging Face name.
        device: where they go.
        dtype: of weights and arithmetic.
    """

    def __init__(
        self, geometry: Geometry, weights: Mapping[str, Tensor], device: torch.device, dtype: torch.dtype
    ) -> None:
        self.geometry, self.device, self.dtype = geometry, device, dtype

        def take(name: str) -> Tensor:
            return weights[name].to(device, dtype)

        def layer(index: int) -> Layer:
            def own(name: str) -> Tensor:
                return take(f"model.layers.{index}.{name}")

            return Layer(
                own("input_layernorm.weight"),
                own("post_attention_layernorm.weight"),
                {name: torch.cat([own(part) for part in parts]) for name, parts in PROJECTIONS.items()},
                torch.cat([own(part) for part in FUSED["qkv_bias"]]) if geometry.qkv_bias else None,
                (own("self_attn.q_norm.weight"), own("self_attn.k_norm.weight"))
                if geometry.qk_norm
                else None,
            )

        self.embedding = take("model.embed_tokens.weight")
        self.norm = take("model.norm.weight")
        self.head = self.embedding if geometry.tied_head else take("lm_head.weight")
        self.layers = [layer(index) for index in range(geometry.layers)]
        exponents = torch.arange(0, geometry.head_dim, 2, dtype=torch.float32) / geometry.head_dim
        self._frequencies = (1.0 / geometry.rope_theta**exponents).to(device)

    def projected(self, layer: int, name: str, x: Tensor) -> Tensor:
        """By the base's own weights; see :class:`Projecting`."""
        return functional.linear(x, self.layers[layer].projections[name])

    @torch.no_grad()
    def read(self, ids: Tensor) -> Reading:
        """The clean stream over a chat, causal, without gradients: of int64 [T]."""
        return self.clean(ids)

    def clean(self, ids: Tensor, mask: Tensor | None = None) -> Reading:
        """The clean stream over a chat.

        Args:
            ids: int64 [T].
            mask: bool [T, T], who sees whom; causal by default.
        """
        g = self.geometry
        kept: dict[int, tuple[Tensor, Tensor]] = {}
        rotation = self.rotation(torch.arange(len(ids), device=self.device))

        def attend(layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
            kept[layer] = k, v
            k, v = (t.repeat_interleave(g.heads // g.kv_heads, dim=0) for t in (k, v))
            mixed = functional.scaled_dot_product_attention(
                q[None], k[None], v[None], attn_mask=mask, is_causal=mask is None
            )
            return mixed[0].transpose(0, 1).reshape(len(ids), -1)

        x = functional.embedding(ids.to(self.device), self.embedding)
        for index in range(g.layers):
            x = self.layer(index, x, rotation, attend, self.projected)
        keys, values = (torch.stack(each) for each in zip(*kept.values(), strict=True))
        return Reading(keys, values, self.normed(x, self.norm))

    def noised(
        self,
        x: Tensor,
        groups: Sequence[Group],
        projected: Projecting,
        *,
        recompute: bool = False,
    ) -> Tensor:
        """The noised stream over windows.

        Args:
            x: [N, hidden], input embeddings of all windows, in the order of the groups.
            groups: the windows.
            projected: the adapted linear layers.
            recompute: forget what lies within layers and compute it again for the gradient.

        Returns:
            [N, hidden], normed. Row b of a window that begins at s is about the position s+b.
        """
        rotation = self.rotation(torch.cat([group.places for group in groups]))
        counts = [len(group.places) for group in groups]
        masks = [self._mask(group) for group in groups]

        def attend(layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
            parts = zip(groups, masks, *(t.split(counts, dim=1) for t in (q, k, v)), strict=True)
            return torch.cat([self._windows(layer, group, mask, *rows) for group, mask, *rows in parts])

        for index in range(self.geometry.layers):
            if recompute:
                x = checkpoint(self.layer, index, x, rotation, attend, projected, use_reentrant=False)  # pyright: ignore[reportAssignmentType] (untyped)
            else:
                x = self.layer(index, x, rotation, attend, projected)
        return self.normed(x, self.norm)

    def layer(
        self,
        index: int,
        x: Tensor,
        rotation: tuple[Tensor, Tensor],
        attend: Callable[[int, Tensor, Tensor, Tensor], Tensor],
        projected: Projecting,
    ) -> Tensor:
        """One layer over rows.

        Args:
            index: which.
            x: [rows, hidden].
            rotation: of the rows, from :meth:`rotation`.
            attend: (layer, q [heads, rows, head_dim], k and v [kv_heads, rows, head_dim]) →
                [rows, heads * head_dim].
            projected: the linear layers.
        """
        g, layer = self.geometry, self.layers[index]
        fused = projected(index, "qkv", self.normed(x, layer.attention_norm))
        if layer.qkv_bias is not None:
            fused = fused + layer.qkv_bias
        q, k, v = fused.view(len(x), -1, g.head_dim).split([g.heads, g.kv_heads, g.kv_heads], dim=1)
        if layer.qk_norm:
            q, k = self.normed(q, layer.qk_norm[0]), self.normed(k, layer.qk_norm[1])
        q, k, v = (t.transpose(0, 1) for t in (rotate(q, rotation), rotate(k, rotation), v))
        x = x + projected(index, "output", attend(index, q, k, v))
        gate, up = projected(index, "gate_up", self.normed(x, layer.mlp_norm)).chunk(2, dim=-1)
        return x + projected(index, "down", functional.silu(gate) * up)

    def rotation(self, positions: Tensor) -> tuple[Tensor, Tensor]:
        """Cosines and sines, [rows, 1, head_dim / 2], of int64 [rows] positions."""
        angles = positions.to(torch.float32)[:, None, None] * self._frequencies
        return angles.cos().to(self.dtype), angles.sin().to(self.dtype)

    def normed(self, x: Tensor, weight: Tensor) -> Tensor:
        """RMSNorm over the last dimension."""
        return functional.rms_norm(x, weight.shape, weight, self.geometry.norm_eps)

    def _mask(self, group: Group) -> Tensor:
        """What is added to the scores of the query heads that share a key head."""
        barred = torch.zeros(group.visible.shape, device=self.device, dtype=self.dtype)
        barred.masked_fill_(~group.visible, -torch.inf)
        return barred.repeat(self.geometry.heads // self.geometry.kv_heads, 1)

    def _windows(self, layer: int, group: Group, mask: Tensor, *rows: Tensor) -> Tensor:
        """Attention of one group, to clean keys and to its own: [N, heads * head_dim].

        Query heads that share a key head are rows of one product.
        """
        q, k, v = rows
        g, count = self.geometry, len(group.places)
        seen = group.visible.shape[1] - count
        k = torch.cat([group.reading.keys[layer, :, :seen], k], dim=1)
        v = torch.cat([group.reading.values[layer, :, :seen], v], dim=1)
        q = q.reshape(g.kv_heads, -1, g.head_dim)
        if (
            self.device.type == "cpu"
        ):  # where torch's fused attention has a slower gradient than plain products
            scores = torch.baddbmm(mask.expand(g.kv_heads, -1, -1), q * g.head_dim**-0.5, k.transpose(1, 2))
            mixed = scores.softmax(-1) @ v
        else:
            mixed = functional.scaled_dot_product_attention(q[None], k[None], v[None], attn_mask=mask)
        return mixed.view(g.heads, count, g.head_dim).transpose(0, 1).reshape(count, -1)


def group(reading: Reading, windows: Sequence[tuple[Tensor, Tensor]]) -> Group:
    """Windows of one chat, laid out row after row.

    Args:
        reading: the clean stream's, of the chat.
        windows: of each size W windows of B inputs: int64 [W], the position s ≥ 1 of the first token that
            each says something of; bool [W, B], inputs that are read as the clean stream reads them, seeing
            nothing behind them. The inputs stand at s-1 … s+B-2.
    """
    places = torch.cat(
        [(starts[:, None] - 1 + torch.arange(known.shape[1])).flatten() for starts, known in windows]
    )
    first = torch.cat([(starts - 1).repeat_interleave(known.shape[1]) for starts, known in windows])
    sizes = torch.cat([torch.full((len(known),), known.shape[1]) for _, known in windows])
    window = torch.arange(len(sizes)).repeat_interleave(sizes)
    known = torch.cat([known.flatten() for _, known in windows])
    clean = torch.arange(int(first.max())) < first[:, None]
    own = (window[:, None] == window) & ~(known[:, None] & (places[:, None] < places))
    device = reading.keys.device
    return Group(reading, places.to(device), torch.cat([clean, own], dim=1).to(device))


def rotate(x: Tensor, rotation: tuple[Tensor, Tensor]) -> Tensor:
    """Rotary embedding of [rows, heads, head_dim], halves paired."""
    cos, sin = rotation
    first, second = x.chunk(2, dim=-1)
    return torch.cat([first * cos - second * sin, second * cos + first * sin], dim=-1)
