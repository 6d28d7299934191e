"""What is trained beside frozen weights: two thin matrices for every linear layer, and the mask's embedding.

They act on masked positions alone. A position whose token is known is read by the base as it is, which keeps
what it says exact: the first masked position of a block always gets the base's own best token.

LoRA: arXiv 2106.09685; gated by position as in arXiv 2507.11851. Names as in the files of this project:
``layers.{l}.{module}.lora_A`` and ``lora_B``.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd import Function

from dllm_tui.adapt.network import PROJECTIONS, Network, Projecting

MASK = "mask_embedding"


class LowRank:
    """The factors of the linear layers.

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
        random = torch.Generator().manual_seed(seed)
        self._shapes = shapes = network.geometry.layer_shapes()
        for layer in range(network.geometry.layers):
            for parts in PROJECTIONS.values():
                for part in parts:
                    rows, width = shapes[part]
                    if stem := self._stem(layer, part):
                        down = torch.randn(rank, width, generator=random) * width**-0.5
                        self._add(f"{stem}.lora_A", down)
                        self._add(f"{stem}.lora_B", torch.zeros(rows, rank))
        self._add(MASK, network.embedding.float().mean(0))

    def _stem(self, layer: int, part: str) -> str:
        """What the factors of a matrix are named by; empty where it has none."""
        stem = f"layers.{layer}.{part.removesuffix('.weight')}"
        return stem if not self.targets or stem.rpartition(".")[2] in self.targets else ""

    def _add(self, name: str, value: Tensor) -> None:
        self.parameters[name] = nn.Parameter(value.to(self.network.device, torch.float32))

    @property
    def mask(self) -> Tensor:
        """The input embedding of a masked position, [hidden], in the network's dtype."""
        return self.parameters[MASK].to(self.network.dtype)

    @torch.no_grad()
    def take(self, values: Mapping[str, Tensor]) -> None:
        """Give every parameter a value."""
        for name, parameter in self.parameters.items():
            parameter.copy_(values[name])

    def on(self, masked: Tensor) -> Projecting:
        """The linear layers, adapted where a position is masked: bool [rows]."""
        gate = self.scale * masked[:, None].to(self.network.dtype)

        def projected(layer: int, name: str, x: Tensor) -> Tensor:
            first, columns, factors = 0, [], []
            for part in PROJECTIONS[name]:
                last = first + self._shapes[part][0]
                if stem := self._stem(layer, part):
                    columns.append(slice(first, last))
                    factors += [self.parameters[f"{stem}.lora_A"], self.parameters[f"{stem}.lora_B"]]
                first = last
            if not factors:
                return self.network.projected(layer, name, x)
            product: Any = _Adapted.apply(
                x, self.network.layers[layer].projections[name], gate, columns, *factors
            )
            return product

        return projected


class _Adapted(Function):
    """x Wᵀ + (g ∘ x Aᵀ) Bᵀ on columns of W's output, for frozen W: written in place, nothing kept twice."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, weight: Tensor, gate: Tensor, columns: list[slice], *factors: Tensor
    ) -> Tensor:
        down = torch.cat(factors[::2]).to(x.dtype)
        ups = [up.to(x.dtype) for up in factors[1::2]]
        thin = (x @ down.T).mul_(gate)
        out = x @ weight.T
        for where, part, up in zip(columns, thin.chunk(len(ups), dim=-1), ups, strict=True):
            out[:, where].addmm_(part, up.T)
        ctx.columns = columns
        ctx.save_for_backward(x, weight, gate, thin, down, *ups)
        return out

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        (grad,) = grads
        x, weight, gate, thin, down, *ups = ctx.saved_tensors
        pieces = [grad[:, where] for where in ctx.columns]
        thinned = torch.cat([piece @ up for piece, up in zip(pieces, ups, strict=True)], dim=-1).mul_(gate)
        downs = (thinned.T @ x).chunk(len(ups))
        widened = [piece.T @ part for piece, part in zip(pieces, thin.chunk(len(ups), dim=-1), strict=True)]
        factors = [each for pair in zip(downs, widened, strict=True) for each in pair]
        return (grad @ weight).addmm_(thinned, down), None, None, None, *factors
