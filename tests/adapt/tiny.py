"""A tiny base with random weights, of each of the three kinds."""

import torch
from torch import Tensor

from dllm_tui.adapt.lowrank import LowRank
from dllm_tui.adapt.network import Network
from dllm_tui.engine.geometry import Geometry
from dllm_tui.engine.lean import Adaptation, LeanBackbone

CPU = torch.device("cpu")
KINDS = {"llama": {}, "qwen2": {"qkv_bias": True}, "qwen3": {"qk_norm": True, "tied_head": False}}


def geometry(kind: str = "llama", **sizes: int) -> Geometry:
    plain = {
        "vocab_size": 40,
        "hidden_size": 32,
        "layers": 2,
        "heads": 4,
        "kv_heads": 2,
        "head_dim": 8,
        "intermediate_size": 48,
        "norm_eps": 1e-5,
        "rope_theta": 10_000.0,
        "context_length": 256,
        "tied_head": True,
    }
    return Geometry(**{**plain, **KINDS[kind], **sizes})


def weights(g: Geometry, seed: int = 0) -> dict[str, Tensor]:
    random = torch.Generator().manual_seed(seed)
    return {
        name: torch.randn(shape, generator=random) * shape[-1] ** -0.5
        if len(shape) == 2
        else 1 + 0.1 * torch.randn(shape, generator=random)
        for name, shape in g.shapes().items()
    }


def stirred(network: Network, rank: int = 4) -> LowRank:
    """An adapter that does something: none of its factors is zero."""
    adapter = LowRank(network, rank=rank, scale=0.5, seed=1)
    random = torch.Generator().manual_seed(2)
    for name, parameter in adapter.parameters.items():
        if name.endswith("lora_B"):
            parameter.data = torch.randn(parameter.shape, generator=random) * 0.3
    return adapter


def backbone(g: Geometry, tensors: dict[str, Tensor], adapter: LowRank) -> LeanBackbone:
    """The decoder's own network with the same weights."""
    factors = {name: parameter.detach() for name, parameter in adapter.parameters.items()}

    pairs = {
        name.replace("layers", "model.layers").replace("lora_A", "weight"): (
            factors[name].T,
            adapter.scale * factors[name.replace("lora_A", "lora_B")].T,
        )
        for name in factors
        if name.endswith("lora_A")
    }
    adaptation = Adaptation(pairs, factors["mask_embedding"])
    return LeanBackbone(g, tensors.items(), device=CPU, dtype=torch.float32, adaptation=adaptation)
