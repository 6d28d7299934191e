"""Weights in 8 or 4 bits on a GPU, by torchao: less memory, slightly other answers."""

import importlib
import logging
import warnings
from typing import Any, Literal, TypeAlias

import torch
from torch import nn

from dllm_tui.errors import EngineError

Bits: TypeAlias = Literal["int8", "int4"]

KINDS = {"LlamaForCausalLM", "Qwen2ForCausalLM", "Qwen3ForCausalLM", "Ministral3ForCausalLM"}
"""Networks whose weights are linear layers; the experts of a mixture aren't, and would stay as they are."""

GROUP = 128
"""Weights of a row that share a scale in 4 bits."""


def check(kind: str, device: torch.device) -> None:
    """See whether a network can be quantised.

    Raises:
        EngineError: not on this device, not this network, or torchao isn't installed.
    """
    if device.type != "cuda":
        raise EngineError("int8 and int4 are for CUDA GPUs.", "Use dtype bfloat16 or float32 here.")
    if kind not in KINDS:
        raise EngineError(
            f"int8 and int4 can't be used with {kind}: most of its weights would stay as they are.",
            "Use dtype bfloat16, or a dense model.",
        )
    try:
        _torchao()
    except ImportError:
        raise EngineError(
            "int8 and int4 need torchao.", "Install it: pip install 'dllm-chat[quant]'."
        ) from None


def quantise(module: nn.Module, bits: Bits, device: torch.device) -> nn.Module:
    """Quantise every linear layer but the head, one after the other, each on its way to the device.

    Args:
        module: filled, in bfloat16, in the host's memory.
        bits: of the weights.
        device: where it goes.
    """
    ao = _torchao()
    config: Any = ao.Int8WeightOnlyConfig()
    if bits == "int4":
        config = ao.Int4WeightOnlyConfig(group_size=GROUP, int4_packing_format="tile_packed_to_4d")
    network: Any = module
    head = network.get_output_embeddings()

    def wanted(part: nn.Module, _: str) -> bool:
        return isinstance(part, nn.Linear) and part is not head

    ao.quantize_(module, config, filter_fn=wanted, device=device)
    return module.to(device)


def _torchao() -> Any:
    """The library, without what it prints when it is imported."""
    logging.getLogger("torchao").setLevel(logging.ERROR)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return importlib.import_module("torchao.quantization")
