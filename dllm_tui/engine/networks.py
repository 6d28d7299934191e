"""Networks built without memory and then filled tensor by tensor, straight from the files."""

import contextlib
from collections.abc import Callable, Generator
from typing import Any

import torch
import transformers
from torch import Tensor, nn
from transformers.models.diffusion_gemma import DiffusionGemmaConfig

from dllm_tui.engine.backbone import Backbone
from dllm_tui.engine.checkpoint import Tensors
from dllm_tui.engine.ddit import DDiT, DDiTBackbone, DDiTConfig
from dllm_tui.engine.fitting import MISFIT, fit
from dllm_tui.engine.gemma import CanvasBackbone, CanvasNetwork
from dllm_tui.engine.spread import SPARE, SpreadBackbone, layer_of, plan
from dllm_tui.engine.stock import ATTENTION, EncoderBackbone, StockBackbone
from dllm_tui.errors import CheckpointError
from dllm_tui.families.layout import Network, Placing

Devices = Callable[[str], torch.device]
"""Where a parameter lives, by its name."""


def build(network: Network, dtype: torch.dtype) -> nn.Module:
    """The module, all of it on the meta device: it has shapes, but no memory yet.

    Args:
        network: class and config.
        dtype: of all parameters but those that the class keeps in float32.

    Raises:
        CheckpointError: the class refuses the config.
    """
    try:
        with torch.device("meta"), _default(dtype):
            return _create(network).eval()
    except Exception as error:  # whatever the class says about a config that it can't be built from
        raise CheckpointError(f"config.json: {network.kind} can't be built: {error}.", MISFIT) from error


def fill(
    module: nn.Module,
    network: Network,
    place: Placing,
    tensors: Tensors,
    devices: Devices,
    *,
    progress: Callable[[float], None] | None = None,
) -> nn.Module:
    """Give a module memory and weights, tensor by tensor, once it is known that they fit.

    Args:
        module: as it was built.
        network: class and config, for the tensor-name map.
        place: the map.
        tensors: of the checkpoint.
        devices: where each parameter goes.
        progress: told how much is done, 0 … 1.

    Raises:
        CheckpointError: a tensor is unknown, missing, there twice, of a wrong shape, or not finite.
    """
    state = module.state_dict(keep_vars=True)
    first: dict[Tensor, str] = {}
    for name, tensor in state.items():
        first.setdefault(tensor, name)
    shapes = {name: tuple(tensor.shape) for tensor, name in first.items()}
    tied = {name: first[tensor] for name, tensor in state.items() if first[tensor] != name}
    spots = fit(tensors, place, network, shapes, tied)
    _reserve(module, devices)
    targets = module.state_dict(keep_vars=True)
    for index, spot in enumerate(spots):
        target = targets[spot.target]
        view = target[spot.at] if spot.at else target
        with torch.no_grad():
            tensors.fill(view if view.dim() else view.view(1), spot.name, spot.first, spot.last)
        if progress:
            progress((index + 1) / len(spots))
    return module


def _reserve(module: nn.Module, devices: Devices) -> None:
    """Take the memory of parameters and buffers, and compute what no file stores: rotary frequencies."""
    made: dict[nn.Parameter, nn.Parameter] = {}
    for prefix, part in module.named_modules():
        for name, parameter in part.named_parameters(recurse=False):
            if parameter not in made:  # what is tied stays one
                room = torch.empty_like(parameter, device=devices(f"{prefix}.{name}"))
                made[parameter] = nn.Parameter(room, requires_grad=False)
            setattr(part, name, made[parameter])
        for name, buffer in part.named_buffers(recurse=False):
            setattr(part, name, torch.empty_like(buffer, device=devices(f"{prefix}.{name}")))
    for parameter in made.values():
        # transformers' own mark: its initialisers leave such parameters alone.
        setattr(parameter, "_is_hf_initialized", True)  # noqa: B010 (it isn't declared)
    for owner in module.modules():
        if isinstance(owner, transformers.PreTrainedModel):
            _compute_buffers(owner)


def spread(network: Network, device: torch.device, dtype: torch.dtype) -> Devices | None:
    """Where each parameter goes when one GPU can't hold them all; ``None`` where it can, or all can't.

    Args:
        network: class and config.
        device: the one that was asked for.
        dtype: of the weights.

    Raises:
        CheckpointError: the class refuses the config.
    """
    if device.type != "cuda" or torch.cuda.device_count() < 2:
        return None
    sizes: dict[int | None, int] = {}
    for name, parameter in build(network, dtype).named_parameters():
        layer = layer_of(name)
        sizes[layer] = sizes.get(layer, 0) + parameter.numel() * parameter.element_size()
    others = [torch.device("cuda", n) for n in range(torch.cuda.device_count()) if n != device.index]
    gpus = [device, *others]
    free = [torch.cuda.mem_get_info(gpu)[0] for gpu in gpus]
    if sum(sizes.values()) <= free[0] * (1 - SPARE):
        return None
    home = sizes.pop(None, 0)
    placed = plan([size for _, size in sorted(sizes.items())], home, free)
    if placed is None:
        return None

    def place(name: str) -> torch.device:
        layer = layer_of(name)
        return device if layer is None else gpus[placed[layer]]

    return place


def backbone(module: nn.Module) -> Backbone:
    """The backbone around a filled module."""
    if isinstance(module, DDiT):
        return DDiTBackbone(module)
    if isinstance(module, CanvasNetwork):
        return CanvasBackbone(module)
    if isinstance(module, transformers.ModernBertForMaskedLM):
        return EncoderBackbone(module)
    several = len({parameter.device for parameter in module.parameters()}) > 1
    return SpreadBackbone(module) if several else StockBackbone(module)


def _create(network: Network) -> nn.Module:
    if network.kind == "DDiT":
        return DDiT(DDiTConfig(**network.options))
    if network.kind == "DiffusionGemma":
        config: Any = DiffusionGemmaConfig
        return CanvasNetwork(config(**network.options, attn_implementation=ATTENTION))
    kind: Any = getattr(transformers, network.kind)
    return kind(kind.config_class(**network.options, attn_implementation=ATTENTION))


@contextlib.contextmanager
def _default(dtype: torch.dtype) -> Generator[None]:
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


def _compute_buffers(owner: Any) -> None:
    """Give every buffer that isn't stored its value, as transformers itself does after loading."""
    stored = owner.state_dict().keys()
    for prefix, part in owner.named_modules():
        names = [f"{prefix}.{name}".lstrip(".") for name, _ in part.named_buffers(recurse=False)]
        if any(name not in stored for name in names):
            with torch.no_grad():
                owner._init_weights(part)
