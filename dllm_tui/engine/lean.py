"""The lean backbone: one hand-written dense decoder for the Llama, Qwen2 and Qwen3 types.

Against the transformers classes it saves, per forward: two of three projections and one of two halves of
the feed-forward (fused), every copy of keys and values (a static cache, heads grouped into rows so that
none is repeated), the mask (in decoding a block sees everything that it is given), and head and last layer
of rows that nobody asked for. Numerically it is the same network; a test holds the two together.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

import torch
from torch import Tensor
from torch.nn import functional

from dllm_tui.engine.backbone import Cache
from dllm_tui.engine.cache import BlockCache, Window
from dllm_tui.engine.geometry import Geometry
from dllm_tui.engine.linear import Linear
from dllm_tui.errors import CheckpointError

FUSED = {
    "qkv": tuple(f"self_attn.{part}_proj.weight" for part in "qkv"),
    "qkv_bias": tuple(f"self_attn.{part}_proj.bias" for part in "qkv"),
    "qk_norm": tuple(f"self_attn.{part}_norm.weight" for part in "qk"),
    "gate_up": ("mlp.gate_proj.weight", "mlp.up_proj.weight"),
}
"""Tensors of a layer that are kept as one, by its name here."""

PROJECTIONS = {
    "qkv": FUSED["qkv"],
    "output": ("self_attn.o_proj.weight",),
    "gate_up": FUSED["gate_up"],
    "down": ("mlp.down_proj.weight",),
}
"""The linear layers, each made of one or several matrices of the checkpoint, row after row."""

EVERY = slice(None)


@dataclass(frozen=True, kw_only=True)
class Request:
    """One forward of several that are run as one: the arguments of Backbone's ``forward``."""

    ids: Tensor
    positions: Tensor
    noised: bool = False
    cache: Cache | None = None
    context: int | None = None
    write_at: int | None = None
    mask: Tensor | None = None
    causal: bool = False
    rows: Tensor | slice | None = None


@dataclass(frozen=True)
class Adaptation:
    """What makes the noised stream of a model with two streams (``smol``).

    It acts on masked positions alone. One whose token is known sees nothing behind it and is read by the
    clean stream's own weights: behind known tokens only, it says just what the clean stream says.
    """

    factors: Mapping[str, tuple[Tensor, Tensor]]
    """By a matrix's Hugging Face name: [in, R] and [R, out], whose product is added to its transpose."""
    mask_embedding: Tensor
    """[hidden_size]: becomes the input embedding of the id ``vocab_size``."""


class _Fused:
    """Tensors that become one, row after row; each is written into it as it comes.

    Args:
        shapes: of the parts, by name, in their order.
        dtype: of the whole.
        device: of the whole.
    """

    def __init__(self, shapes: dict[str, tuple[int, ...]], dtype: torch.dtype, device: torch.device) -> None:
        bounds = list(accumulate((shape[0] for shape in shapes.values()), initial=0))
        width = next(iter(shapes.values()))[1:]
        self.whole = torch.empty(bounds[-1], *width, dtype=dtype, device=device)
        self._spots = {name: slice(a, b) for name, a, b in zip(shapes, bounds, bounds[1:], strict=False)}

    def take(self, name: str, tensor: Tensor) -> bool:
        """Write one part; whether it was the last."""
        self.whole[self._spots.pop(name)] = tensor
        return not self._spots


class _Layer:
    """One layer's weights, fused while they are read: little more than the layer is ever held.

    Args:
        shapes: of the layer's tensors, by their names in the layer.
        dtype: of weights and arithmetic.
        device: where they go.
    """

    attention_norm: Tensor
    mlp_norm: Tensor
    qkv: Linear
    output: Linear
    gate_up: Linear
    down: Linear
    qk_norm: tuple[Tensor, Tensor] | None = None
    changes: dict[str, list[tuple[slice, Tensor, Tensor]]]
    """What an adapter adds on masked positions, by the name of the linear layer: columns of its output, and
    the factors. Those of one layer aren't joined: torch would cut so small a product up among threads, and
    waking them takes longer than to do it."""

    def __init__(self, shapes: dict[str, tuple[int, ...]], dtype: torch.dtype, device: torch.device) -> None:
        self._shapes, self._dtype, self._device = shapes, dtype, device
        self.changes = {}
        self._open: dict[str, _Fused] = {}
        has_bias = FUSED["qkv_bias"][0] in shapes
        self._bias = self._fused("qkv_bias").whole if has_bias else None

    def _fused(self, name: str) -> _Fused:
        if name not in self._open:
            shapes = {part: self._shapes[part] for part in FUSED.get(name, (name,))}
            self._open[name] = _Fused(shapes, self._dtype, self._device)
        return self._open[name]

    def take(self, part: str, tensor: Tensor) -> None:
        """One of the layer's tensors."""
        name = next((name for name, parts in FUSED.items() if part in parts), part)
        if not self._fused(name).take(part, tensor):
            return
        whole = self._open.pop(name).whole
        match name:
            case "input_layernorm.weight":
                self.attention_norm = whole
            case "post_attention_layernorm.weight":
                self.mlp_norm = whole
            case "qkv":
                self.qkv = Linear(whole, self._bias)
            case "qkv_bias":
                pass  # the projection has it already
            case "qk_norm":
                query, key = whole.chunk(2)
                self.qk_norm = (query, key)
            case "self_attn.o_proj.weight":
                self.output = Linear(whole)
            case "gate_up":
                self.gate_up = Linear(whole)
            case _:
                self.down = Linear(whole)

    def project(self, name: str, x: Tensor, masked: Tensor | None) -> Tensor:
        """One of :data:`PROJECTIONS`: [rows, in] → [rows, out].

        Args:
            name: which.
            x: [rows, in].
            masked: [rows, 1], 1 where the adapter acts, else 0; ``None`` where nowhere.
        """
        linear: Linear = getattr(self, name)
        out = linear(x)
        if masked is not None:
            for columns, down, up in self.changes[name]:
                out[:, columns].addmm_((x @ down).mul_(masked), up)
        return out

    def adapt(self, factors: Mapping[str, tuple[Tensor, Tensor]]) -> None:
        """Take the factors of an adapter, by the names of the layer's tensors."""
        for name, parts in PROJECTIONS.items():
            bounds = accumulate((self._shapes[part][0] for part in parts), initial=0)
            self.changes[name] = [
                (slice(first, last), self._own(factors[part][0]), self._own(factors[part][1]))
                for part, (first, last) in zip(parts, pairwise(bounds), strict=True)
                if part in factors
            ]

    def _own(self, tensor: Tensor) -> Tensor:
        return tensor.to(self._device, self._dtype)


class LeanBackbone:
    """A dense decoder behind :class:`~dllm_tui.engine.backbone.Backbone`.

    Args:
        geometry: its sizes.
        tensors: every weight by its Hugging Face name, in any order; each is converted and fused as it
            comes, so that little more than the model is ever held.
        device: where the model goes.
        dtype: of weights and arithmetic.
        adaptation: the noised stream, for a model with two.

    Raises:
        CheckpointError: a tensor is missing, unknown, there twice or of the wrong shape; it is named.
    """

    def __init__(
        self,
        geometry: Geometry,
        tensors: Iterable[tuple[str, Tensor]],
        *,
        device: torch.device,
        dtype: torch.dtype,
        adaptation: Adaptation | None = None,
    ) -> None:
        self.geometry = geometry
        self.device = device
        self.dtype = dtype
        self.vocab_size = geometry.vocab_size
        self.context_length = geometry.context_length
        self.parameters = 0
        """Weights read, those of an adapter not counted."""
        self._adaptation = adaptation
        shapes = geometry.layer_shapes()
        self._layers = [_Layer(shapes, dtype, device) for _ in range(geometry.layers)]
        exponents = torch.arange(0, geometry.head_dim, 2, dtype=torch.float32) / geometry.head_dim
        self._frequencies = (1.0 / geometry.rope_theta**exponents).to(device)
        with torch.inference_mode():
            self._read(tensors)
            factors = adaptation.factors if adaptation else {}
            for index, layer in enumerate(self._layers):
                stem = f"model.layers.{index}."
                layer.adapt({n.removeprefix(stem): f for n, f in factors.items() if n.startswith(stem)})

    def _read(self, tensors: Iterable[tuple[str, Tensor]]) -> None:
        missing = self.geometry.shapes()
        for name, tensor in tensors:
            shape = missing.pop(name, None)
            if shape is None:
                again = name in self.geometry.shapes()
                raise CheckpointError(f"tensor {name!r} " + ("is there twice." if again else "isn't known."))
            if tuple(tensor.shape) != shape:
                raise CheckpointError(
                    f"tensor {name!r} has the shape {tuple(tensor.shape)}; {shape} was expected."
                )
            self.parameters += tensor.numel()
            if name.startswith("model.layers."):
                index, part = name.removeprefix("model.layers.").split(".", 1)
                self._layers[int(index)].take(part, tensor)
            elif name == "model.embed_tokens.weight":
                self._take_embedding(tensor)
            elif name == "model.norm.weight":
                self._norm = tensor.to(self.device, self.dtype)
            else:
                self._head = Linear(tensor.to(self.device, self.dtype))
        if missing:
            more = f" (and {len(missing) - 1} more)" if len(missing) > 1 else ""
            raise CheckpointError(f"tensor {next(iter(missing))!r} is missing{more}.")

    def _take_embedding(self, table: Tensor) -> None:
        table = table.to(self.device, self.dtype)
        if self.geometry.tied_head:
            self._head = Linear(table)
        if self._adaptation:
            mask = self._adaptation.mask_embedding.to(self.device, self.dtype)
            table = torch.cat([table, mask[None]])
        self._embedding = table

    def new_cache(self, capacity: int) -> BlockCache:
        """An empty cache for up to ``capacity`` positions."""
        g = self.geometry
        shape = (g.layers, 2, g.kv_heads, capacity, g.head_dim)
        return BlockCache(torch.zeros(shape, device=self.device, dtype=self.dtype))

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
        """One forward over ``ids``; see :meth:`dllm_tui.engine.backbone.Backbone.forward`."""
        ids, positions = ids.to(self.device), positions.to(self.device)
        count = ids.shape[0]
        if context is None:
            context = cache.length if cache else 0
        window = Window(cache, context, write_at, count) if isinstance(cache, BlockCache) else None
        angles = positions.to(torch.float32)[:, None, None] * self._frequencies
        rotation = angles.cos().to(self.dtype), angles.sin().to(self.dtype)
        masked = None
        if noised and self._adaptation:
            masked = (ids == self.vocab_size)[:, None]
            mask = self._window_mask(masked, context) if mask is None else mask
            masked = masked.to(self.dtype)
        attend = self._attention(count, context, mask, causal)
        wanted = rows.to(self.device) if isinstance(rows, Tensor) else rows
        x = functional.embedding(ids, self._embedding)
        for index, layer in enumerate(self._layers):
            q, k, v = self._heads(layer, x, rotation, masked)
            if window:
                k, v = window.put(index, k, v)
            if wanted is not None and index == self.geometry.layers - 1:
                # What the last layer makes of other rows is read by nobody.
                x, q = x[wanted], q[:, wanted]
                if not len(x):
                    break
                attend = self._attention(count, context, mask, causal, wanted)
                masked = None if masked is None else masked[wanted]
            x = self._rest(layer, x, attend(q, k, v), masked)

        if window:
            window.close()
        return self._head(self._normed(x, self._norm)).float()

    @torch.inference_mode()
    def forward_together(self, requests: Sequence[Request]) -> list[Tensor]:
        """Several forwards, each with a cache of its own, in much less time than one after the other.

        Returns:
            What :meth:`forward` would give to each; other rounding apart, for the products are larger.
        """
        ids = torch.cat([request.ids for request in requests]).to(self.device)
        positions = torch.cat([request.positions for request in requests]).to(self.device)
        angles = positions.to(torch.float32)[:, None, None] * self._frequencies
        rotation = angles.cos().to(self.dtype), angles.sin().to(self.dtype)
        counts = [len(request.ids) for request in requests]
        gates = [
            (request.ids == self.vocab_size) & bool(request.noised and self._adaptation)
            for request in requests
        ]
        masked = torch.cat(gates)[:, None].to(self.device, self.dtype) if self._adaptation else None
        attends: list[Callable[[int, Tensor, Tensor, Tensor], Tensor]] = []
        windows: list[Window] = []
        for request, gate in zip(requests, gates, strict=True):
            count, context, mask = len(request.ids), request.context, request.mask
            if context is None:
                context = request.cache.length if request.cache else 0
            if mask is None and request.noised and self._adaptation:
                mask = self._window_mask(gate[:, None].to(self.device), context)
            attend = self._attention(count, context, mask, request.causal)
            if isinstance(request.cache, BlockCache):
                windows.append(Window(request.cache, context, request.write_at, count))
                attends.append(_through(windows[-1], attend))
            else:
                attends.append(lambda _, q, k, v, attend=attend: attend(q, k, v))
        x = functional.embedding(ids, self._embedding)
        for index, layer in enumerate(self._layers):
            parts = zip(
                *(t.split(counts, dim=1) for t in self._heads(layer, x, rotation, masked)), strict=True
            )
            mixed = [attend(index, *part) for attend, part in zip(attends, parts, strict=True)]
            x = self._rest(layer, x, torch.cat(mixed), masked)
        for window in windows:
            window.close()
        wanted = [
            part[EVERY if request.rows is None else request.rows]
            for part, request in zip(x.split(counts), requests, strict=True)
        ]
        logits = self._head(self._normed(torch.cat(wanted), self._norm)).float()
        return list(logits.split([len(part) for part in wanted]))

    def _rest(self, layer: _Layer, x: Tensor, mixed: Tensor, masked: Tensor | None) -> Tensor:
        """A layer behind its attention."""
        x = x + layer.project("output", mixed, masked)
        gate, up = layer.project("gate_up", self._normed(x, layer.mlp_norm), masked).chunk(2, dim=-1)
        return x + layer.project("down", functional.silu(gate) * up, masked)

    def _normed(self, x: Tensor, weight: Tensor) -> Tensor:
        return functional.rms_norm(x, weight.shape, weight, self.geometry.norm_eps)

    def _window_mask(self, masked: Tensor, context: int) -> Tensor:
        """Who sees whom in the noised stream, bool [T, context + T]; ``masked`` is bool [T, 1]."""
        own = torch.ones(len(masked), len(masked), dtype=torch.bool, device=self.device).tril() | masked
        return functional.pad(own, (context, 0), value=True)

    def _heads(
        self, layer: _Layer, x: Tensor, rotation: tuple[Tensor, Tensor], masked: Tensor | None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Rotated queries and keys, and values: [heads, T, head_dim] each."""
        g = self.geometry
        fused = layer.project("qkv", self._normed(x, layer.attention_norm), masked)
        fused = fused.view(x.shape[0], -1, g.head_dim)
        q, k, v = fused.split([g.heads, g.kv_heads, g.kv_heads], dim=1)
        if layer.qk_norm:
            q, k = self._normed(q, layer.qk_norm[0]), self._normed(k, layer.qk_norm[1])
            turned = torch.cat([q, k], dim=1)
        else:
            turned = fused[:, : g.heads + g.kv_heads]
        cos, sin = rotation
        first, second = turned.chunk(2, dim=-1)
        turned = torch.cat([first * cos - second * sin, second * cos + first * sin], dim=-1).transpose(0, 1)
        return turned[: g.heads], turned[g.heads :], v.transpose(0, 1)

    def _attention(
        self,
        count: int,
        context: int,
        mask: Tensor | None,
        causal: bool,
        rows: Tensor | slice = EVERY,
    ) -> Callable[[Tensor, Tensor, Tensor], Tensor]:
        """How some of ``count`` queries attend: (q of these rows, k, v) → [rows, heads * head_dim]."""
        group = self.geometry.heads // self.geometry.kv_heads
        if causal and context == 0 and rows is EVERY and count > 1:

            def from_scratch(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
                k, v = (t.repeat_interleave(group, dim=0) for t in (k, v))
                mixed = functional.scaled_dot_product_attention(q[None], k[None], v[None], is_causal=True)[0]
                return mixed.transpose(0, 1).reshape(count, -1)

            return from_scratch

        places = torch.arange(context, context + count, device=self.device)[rows]
        if causal and count > 1:
            mask = torch.arange(context + count, device=self.device) <= places.unsqueeze(-1)
        elif mask is not None:
            mask = mask.to(self.device)[rows]
        if mask is not None:
            mask = mask.repeat(group, 1)

        def grouped(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
            # Query heads that share a key head become rows of one product: nothing is repeated.
            q = q.reshape(k.shape[0], group * len(places), -1)
            mixed = functional.scaled_dot_product_attention(q[None], k[None], v[None], attn_mask=mask)[0]
            mixed = mixed.view(-1, group, len(places), mixed.shape[-1])
            return mixed.permute(2, 0, 1, 3).reshape(len(places), -1)

        return grouped


def _through(
    window: Window, attend: Callable[[Tensor, Tensor, Tensor], Tensor]
) -> Callable[[int, Tensor, Tensor, Tensor], Tensor]:
    """Attention in a layer, to what a cache holds as well."""
    return lambda layer, q, k, v: attend(q, *window.put(layer, k, v))
