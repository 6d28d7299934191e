"""The adapter as a file: what ``smol`` is shipped as, and what ``dllm-chat --model ./my-adapter`` loads.

Tensors are named as in peft's files below their prefix. Factors are kept in int8, each of the ``rank``
components with a step of its own: half the size of bfloat16, and closer to the trained values than a smaller
rank would be.
"""

import json
from collections.abc import Mapping
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from dllm_tui.adapt.files import write_tensors
from dllm_tui.adapt.lowrank import MASK, LowRank
from dllm_tui.adapt.network import PROJECTIONS
from dllm_tui.errors import CheckpointError
from dllm_tui.paths import write_private

FILE, CONFIG = "adapter.safetensors", "adapter_config.json"
FORMAT = "dllm-adapter"


def write(directory: Path, adapter: LowRank, values: Mapping[str, Tensor], about: Mapping[str, str]) -> Path:
    """Write an adapter with its metadata.

    Args:
        directory: where ``adapter.safetensors`` and ``adapter_config.json`` go.
        adapter: whose rank, scale and targets it has.
        values: of its parameters, by name.
        about: base, recipe, data, figures.

    Returns:
        The adapter's file.

    Raises:
        OSError: it can't be written.
    """
    tensors: dict[str, Tensor] = {}
    for name, value in values.items():
        tensors |= {name: value.to(torch.bfloat16)} if name == MASK else quantised(name, value)
    told = {
        "format": FORMAT,
        "rank": str(adapter.rank),
        "scale": str(adapter.scale),
        "targets": " ".join(adapter.targets),
        "shift": "1",
        **about,
    }
    write_tensors(directory / FILE, tensors, told)
    everything = [part.split(".")[-2] for parts in PROJECTIONS.values() for part in parts]
    config = {
        "peft_type": "LORA",
        "task_type": "CAUSAL_LM",
        "base_model_name_or_path": about.get("base_source", ""),
        "r": adapter.rank,
        "lora_alpha": adapter.rank * adapter.scale,
        "target_modules": list(adapter.targets) or everything,
        "bias": "none",
        "dllm_chat": told,
    }
    write_private(directory / CONFIG, (json.dumps(config, indent=2) + "\n").encode())
    return directory / FILE


def quantised(name: str, value: Tensor) -> dict[str, Tensor]:
    """A factor in int8 with the steps of its components: rows of A, columns of B."""
    along = 1 if name.endswith("lora_A") else 0
    steps = (value.float().abs().amax(along, keepdim=True) / 127).clamp(min=1e-12)
    return {name: (value.float() / steps).round().to(torch.int8), f"{name}.step": steps.flatten()}


def start_from(adapter: LowRank, path: Path) -> None:
    """Give an adapter the values of another one's file.

    A larger rank takes what is there, and its further components begin as those of a new adapter do.

    Raises:
        CheckpointError: the file is damaged, of a larger rank or another scale, or for another base.
    """
    try:
        with safe_open(path, framework="pt") as file:
            about: dict[str, str] = file.metadata() or {}
            names: list[str] = list(file.keys())
            tensors: dict[str, Tensor] = {name: file.get_tensor(name) for name in names}
    except (OSError, SafetensorError) as error:
        raise CheckpointError(f"The adapter {path} can't be read: {error}.") from error
    if about.get("format") != FORMAT or about.get("scale") != str(adapter.scale):
        raise CheckpointError(f"{path} is no adapter with the scale {adapter.scale}.", "Use its --scale.")
    with torch.no_grad():
        for name, parameter in adapter.parameters.items():
            value = tensors.get(name)
            if value is None:
                continue
            if f"{name}.step" in tensors:
                steps = tensors[f"{name}.step"]
                value = value.float() * (steps[:, None] if name.endswith("lora_A") else steps)
            if value.dim() != parameter.dim() or any(
                a > b for a, b in zip(value.shape, parameter.shape, strict=True)
            ):
                raise CheckpointError(f"{path.name} doesn't fit: {name} is {list(value.shape)} there.")
            parameter[tuple(slice(n) for n in value.shape)] = value.to(parameter.device, torch.float32)
