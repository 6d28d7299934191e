"""What is trained beside frozen weights: two thin matrices for every linear layer, and the mask's embedding.

They act on masked positions alone. A position whose token is known is read by the base as it is, which keeps
what it says exact: the first masked position of a block always gets the base's own best token.

LoRA: arXiv 2106.09685; gated by position as in arXiv 2507.11851. Names as in the files of this project:
``layers.{l}.{module}.lora_A`` and ``lora_B``.
"""

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, nn

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
        shapes = network.geometry.layer_shapes()
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

    def on(self, rows: Tensor | None) -> Projecting:
        """The linear layers, adapted on some rows.

        Args:
            rows: int64 [M], the masked ones; ``None`` for all.
        """

        def projected(layer: int, name: str, x: Tensor) -> Tensor:
            base = self.network.projected(layer, name, x)
            change = self._change(layer, name, x if rows is None else x[rows])
            if change is None:
                return base
            return base + change if rows is None else base.index_add(0, rows, change)

        return projected

    def _change(self, layer: int, name: str, x: Tensor) -> Tensor | None:
        """What the factors add to a layer's output, [M, out]; ``None`` where it has none."""
        parts = PROJECTIONS[name]
        stems = [self._stem(layer, part) for part in parts]
        if not any(stems):
            return None
        downs: list[Tensor] = [self.parameters[f"{stem}.lora_A"] for stem in stems if stem]
        thin = iter((self.scale * x @ torch.cat(downs).to(x.dtype).T).split(self.rank, dim=-1))
        widths = self.network.geometry.layer_shapes()
        made = [
            next(thin) @ self.parameters[f"{stem}.lora_B"].to(x.dtype).T
            if stem
            else x.new_zeros(len(x), widths[part][0])
            for stem, part in zip(stems, parts, strict=True)
        ]
        return torch.cat(made, dim=-1) if len(made) > 1 else made[0]
