"""Networks built without memory and then filled tensor by tensor, straight from the files."""

import contextlib
import math
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
import transformers
from torch import Tensor, nn
from transformers.models.diffusion_gemma import DiffusionGemmaConfig

from dllm_tui.engine.backbone import Backbone
from dllm_tui.engine.checkpoint import Tensors
from dllm_tui.engine.ddit import DDiT, DDiTBackbone, DDiTConfig
from dllm_tui.engine.gemma import CanvasBackbone, CanvasNetwork
from dllm_tui.engine.spread import SPARE, SpreadBackbone, layer_of, plan
from dllm_tui.engine.stock import ATTENTION, EncoderBackbone, StockBackbone
from dllm_tui.errors import CheckpointError
from dllm_tui.families.layout import Network, Place, Placing

Devices = Callable[[str], torch.device]
"""Where a parameter lives, by its name."""

MISFIT = "The files don't belong together, or the config describes another variant."


def build(network: Network, dtype: torch.dtype, devices: Devices) -> nn.Module:
    """The module, its memory reserved but not written.

    What no file stores (rotary frequencies) is computed here: on the meta device it has no values.

    Args:
        network: class and config.
        dtype: of all parameters but those that the class keeps in float32.
        devices: where each goes.

    Raises:
        CheckpointError: the class refuses the config.
    """
    try:
        with torch.device("meta"), _default(dtype):
            module = _create(network)
    except Exception as error:  # whatever the class says about a config that it can't be built from
        raise CheckpointError(f"config.json: {network.kind} can't be built: {error}.", MISFIT) from error
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
    return module.eval()


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
    for name, parameter in build(network, dtype, lambda _: torch.device("meta")).named_parameters():
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


@dataclass
class Filling:
    """A module that takes its tensors one by one, and knows which are still missing.

    Args:
        module: its memory reserved.
        network: class and config, for the tensor-name map.
        place: the map.
    """

    module: nn.Module
    network: Network
    place: Placing
    targets: dict[str, Tensor] = field(init=False)
    """What waits for values, by name; tied parameters once."""
    tied: dict[str, str] = field(init=False)
    """Other names of tied parameters."""
    _filled: dict[str, int] = field(default_factory=dict[str, int], init=False)
    _placed: dict[str, str] = field(default_factory=dict[str, str], init=False)

    def __post_init__(self) -> None:
        state = self.module.state_dict(keep_vars=True)
        first: dict[Tensor, str] = {}
        for name, tensor in state.items():
            first.setdefault(tensor, name)
        self.targets = {name: tensor for tensor, name in first.items()}
        self.tied = {name: first[tensor] for name, tensor in state.items() if first[tensor] != name}

    def read(self, tensors: Tensors, progress: Callable[[float], None] | None = None) -> None:
        """Fill everything.

        Args:
            tensors: of the checkpoint.
            progress: told how much is done, 0 … 1.

        Raises:
            CheckpointError: a tensor is unknown, missing, there twice, of a wrong shape, or not finite.
        """
        done = 0
        repeated = repeats(tensors, self.place, self.network, self.tied)
        for name, entry in tensors.entries.items():
            if name not in repeated:
                for place in self.place(name, self.network):
                    self._take(tensors, name, place)
            done += entry.size
            if progress:
                progress(done / max(1, tensors.size))
        for name, tensor in self.targets.items():
            if self._filled.get(name, 0) < tensor.numel():
                part = "a part of " if name in self._filled else ""
                raise CheckpointError(f"The checkpoint is incomplete: nothing fills {part}{name!r}.", MISFIT)

    def _take(self, tensors: Tensors, name: str, place: Place) -> None:
        said = f"{tensors.where(name)}: tensor {name!r}"
        wanted_name = self.tied.get(place.target, place.target)
        target = self.targets.get(wanted_name)
        if target is None:
            raise CheckpointError(f"{said} isn't known.", MISFIT)
        spot = f"{wanted_name}{place.at}"
        if spot in self._placed:
            raise CheckpointError(f"{said} goes where {self._placed[spot]!r} went already.", MISFIT)
        self._placed[spot] = name
        shape = tensors.entries[name].shape
        first, last = place.rows or (0, shape[0] if shape else 1)
        try:
            view = target[place.at] if place.at else target
        except IndexError:
            raise CheckpointError(
                f"{said} doesn't fit in {place.target} of shape {list(target.shape)}.", MISFIT
            ) from None
        wanted = tuple(view.shape)
        if (last - first, *shape[1:]) != (wanted or (1,)) or last > (shape[0] if shape else 1):
            raise CheckpointError(f"{said} has the shape {list(shape)}; {list(wanted)} was expected.", MISFIT)
        with torch.no_grad():
            tensors.fill(view if view.dim() else view.view(1), name, first, last)
        self._filled[wanted_name] = self._filled.get(wanted_name, 0) + math.prod(wanted)


def repeats(tensors: Tensors, place: Placing, network: Network, tied: Mapping[str, str]) -> set[str]:
    """Tensors of the checkpoint that say again what one says that they are tied to.

    Args:
        tensors: of the checkpoint.
        place: the tensor-name map.
        network: class and config.
        tied: names in the network that are other names of a parameter, and its first name.

    Raises:
        CheckpointError: they are there and differ.
    """
    origin = {spot.target: name for name in tensors.entries for spot in place(name, network)}
    found = {origin[alias]: origin[name] for alias, name in tied.items() if {alias, name} <= origin.keys()}
    for name, other in found.items():
        if not tensors.equal(name, other):
            raise CheckpointError(
                f"{tensors.where(name)}: tensor {name!r} differs from {other!r}, though config.json says "
                "that they are one (tie_word_embeddings).",
                "If the model has a head of its own, set tie_word_embeddings to false in config.json.",
            )
    return set(found)
