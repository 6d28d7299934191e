"""What is trained beside frozen weights: two thin matrices for every linear layer, and the mask's embedding.

The merged matrix W + scale · B · A is made once a step; a forward is then one product, as it will be when the
adapter is used. The gradient of A and B never needs that of the whole matrix.

LoRA: arXiv 2106.09685. Names as in the files of this project: ``layers.{l}.{module}.lora_A`` and ``lora_B``.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd import Function

from dllm_tui.adapt.network import PROJECTIONS, Network

MASK = "mask_embedding"


class _Multiply(Function):
    """x @ merged.T, whose gradient goes to x and to the factors that ``merged`` was made with."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, merged: Tensor, scale: float, rows: tuple[slice, ...], *factors: Tensor
    ) -> Tensor:
        """Of x [T, in], merged [out, in]; the rows of it that each A and B made; then A, B, A, B …."""
        ctx.save_for_backward(x, merged, *factors)
        ctx.scale, ctx.rows = scale, rows
        return x @ merged.T

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        """As above."""
        (grad,) = grads
        x, merged, *factors = ctx.saved_tensors
        made: list[Tensor] = []
        for rows, down, up in zip(ctx.rows, factors[::2], factors[1::2], strict=True):
            part = grad[:, rows]
            thin = part @ up.to(part.dtype)
            made.append(ctx.scale * (thin.T @ x).to(down.dtype))
            made.append(ctx.scale * (part.T @ (x @ down.T.to(x.dtype))).to(up.dtype))
        return grad @ merged, None, None, None, *made


class LowRank:
    """The adapted linear layers of the noised stream; see :class:`dllm_tui.adapt.network.Projecting`.

    Args:
        network: the base.
        rank: width of the factors.
        scale: of B · A.
        targets: modules that get factors, e.g. ``("q_proj", "down_proj")``; all by default.
        seed: of A's first values; B begins with zeros.
    """

    def __init__(
        self, network: Network, *, rank: int, scale: float, targets: Sequence[str] = (), seed: int = 0
    ) -> None:
        self.network, self.rank, self.scale, self.targets = network, rank, scale, tuple(targets)
        self.parameters: dict[str, nn.Parameter] = {}
        self._factors: dict[tuple[int, str], list[tuple[str, slice]]] = {}
        self._merged: dict[tuple[int, str], Tensor] = {}
        random = torch.Generator().manual_seed(seed)
        shapes = network.geometry.layer_shapes()
        for layer in range(network.geometry.layers):
            for projection, parts in PROJECTIONS.items():
                row, kept = 0, []
                for part in parts:
                    rows, width = shapes[part]
                    stem = f"layers.{layer}.{part.removesuffix('.weight')}"
                    if not targets or stem.rpartition(".")[2] in targets:
                        down = torch.randn(rank, width, generator=random) * width**-0.5
                        self._add(f"{stem}.lora_A", down)
                        self._add(f"{stem}.lora_B", torch.zeros(rows, rank))
                        kept.append((stem, slice(row, row + rows)))
                    row += rows
                self._factors[layer, projection] = kept
        self._add(MASK, network.embedding.float().mean(0))

    def _add(self, name: str, value: Tensor) -> None:
        self.parameters[name] = nn.Parameter(value.to(self.network.device, torch.float32))

    @property
    def mask(self) -> Tensor:
        """The input embedding of a masked position, [hidden], in the network's dtype."""
        return self.parameters[MASK].to(self.network.dtype)

    @torch.no_grad()
    def merge(self) -> None:
        """Make the merged matrices anew; due whenever the parameters have changed."""
        for (layer, projection), factors in self._factors.items():
            weight = self.network.layers[layer].projections[projection]
            merged = self._merged.get((layer, projection))
            if merged is None:
                merged = self._merged[layer, projection] = torch.empty_like(weight)
            merged.copy_(weight)
            for stem, rows in factors:
                down, up = self.parameters[f"{stem}.lora_A"], self.parameters[f"{stem}.lora_B"]
                merged[rows].addmm_(up.to(weight.dtype), down.to(weight.dtype), alpha=self.scale)

    @torch.no_grad()
    def take(self, values: Mapping[str, Tensor]) -> None:
        """Give every parameter a value, and merge."""
        for name, parameter in self.parameters.items():
            parameter.copy_(values[name])
        self.merge()

    def __call__(self, layer: int, name: str, x: Tensor) -> Tensor:
        """[rows, in] → [rows, out]."""
        factors = self._factors[layer, name]
        flat = [self.parameters[f"{stem}.lora_{letter}"] for stem, _ in factors for letter in "AB"]
        rows = tuple(rows for _, rows in factors)
        return _Multiply.apply(x, self._merged[layer, name], self.scale, rows, *flat)  # pyright: ignore[reportReturnType] (untyped)
