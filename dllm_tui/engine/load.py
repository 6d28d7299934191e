"""From a name to a model that can decode: hub id, directory or GGUF file.

Nothing from a checkpoint is run: its files are read as data, into classes that are here or in transformers.
"""

import contextlib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

import torch
from torch import Tensor, nn

from dllm_tui.engine import networks, quantise, tokenizer
from dllm_tui.engine.backbone import Backbone
from dllm_tui.engine.checkpoint import Directory, Tensors
from dllm_tui.engine.fitting import Spot, fit
from dllm_tui.engine.geometry import geometry_of
from dllm_tui.engine.heap import large_blocks_returned
from dllm_tui.engine.hub import Repository
from dllm_tui.engine.lean import LeanBackbone
from dllm_tui.engine.model import Model, model_of
from dllm_tui.engine.quantise import Bits
from dllm_tui.engine.tokenizer import ChatTokenizer
from dllm_tui.errors import CheckpointError, StoreError
from dllm_tui.families import layout_for
from dllm_tui.families.layout import Layout, Network, Placing
from dllm_tui.store import Progress

Choice: TypeAlias = Literal["auto", "lean", "stock"]
"""Which backbone: the lean one where it knows the network, else the stock one."""

CONTROL = re.compile(r"<\|[^|<>]+\|>")
"""Control tokens as a chat template writes them."""

UNSPREAD = {"DDiT", "DiffusionGemma", "ModernBertForMaskedLM"}
"""Networks that one GPU holds anyway, or that aren't a plain stack of layers."""


def load_checkpoint(
    source: str | Path,
    device: torch.device,
    dtype: torch.dtype,
    progress: Progress | None = None,
    *,
    token: str | None = None,
    offline: bool = False,
    family: str | None = None,
    backbone: Choice = "auto",
    bits: Bits | None = None,
) -> Model:
    """Load a model.

    Args:
        source: a directory, a GGUF file, or a hub id, perhaps with ``@revision`` behind it; a path that
            exists is taken before a hub id.
        device: where the model goes.
        dtype: of weights and arithmetic.
        progress: is told how far it is; may raise, to stop.
        token: for private and gated models; the ``hf`` command's own by default.
        offline: take from the hub's cache on this machine only.
        family: the family's name, where neither config nor name tell it.
        backbone: ``stock`` is the transformers class, the reference for the other.
        bits: keep the weights in as many (CUDA, dense networks); ``dtype`` is then that of the arithmetic.

    Raises:
        EngineError: these weights can't be kept in so many bits there.
        StoreError: it can't be fetched.
        CheckpointError: it is damaged, unknown, or of a variant that isn't implemented.
    """
    path = Path(source).expanduser()
    if path.suffix == ".gguf":
        from dllm_tui.engine.gguf_load import load_gguf

        return load_gguf(path, device, dtype, progress)
    repository = None
    if not path.exists():
        repository = Repository.named(str(source), token, offline=offline)
        # An unknown family is refused before the weights are fetched.
        judged = Directory(repository.config())
        layout_for(judged.config, repository.id, family).network(judged.config)
        path = repository.fetch(progress)
    directory = Directory(path)
    name = repository.id if repository else path.resolve().name
    layout = layout_for(directory.config, name, family)
    network = layout.network(directory.config)
    if bits:
        quantise.check(network.kind, device)
    words = _tokenizer(directory, layout, repository)

    def told(done: float) -> None:
        if progress:
            progress(f"loading {name}", done)

    filling = Filled(directory.tensors(), layout.place, network, device, dtype, told)
    with large_blocks_returned():
        body, parameters = filling.quantised(bits) if bits else filling.backbone(backbone)
    return model_of(
        layout,
        directory.config,
        directory.generation,
        words,
        body,
        name=name,
        revision=path.resolve().name if repository else None,
        parameters=parameters,
        dtype=bits,
    )


@dataclass(frozen=True)
class Filled:
    """A network on its way from the files to the device."""

    tensors: Tensors
    place: Placing
    network: Network
    device: torch.device
    dtype: torch.dtype
    told: Callable[[float], None]
    """Gets how much is done, 0 … 1."""

    def backbone(self, choice: Choice) -> tuple[Backbone, int]:
        """The backbone, its weights in place, and how many there are.

        Raises:
            CheckpointError: a file is damaged, tensors and config don't fit, or the lean backbone doesn't
                know the network.
        """
        devices = (
            None if self.network.kind in UNSPREAD else networks.spread(self.network, self.device, self.dtype)
        )
        geometry = None if choice == "stock" or devices else geometry_of(self.network)
        if geometry:
            tied = {"lm_head.weight": "model.embed_tokens.weight"} if geometry.tied_head else {}
            spots = fit(self.tensors, self.place, self.network, geometry.shapes(), tied)
            lean = LeanBackbone(geometry, self._read(spots), device=self.device, dtype=self.dtype)
            return lean, lean.parameters
        if choice == "lean":
            raise CheckpointError(f"The lean backbone doesn't know {self.network.kind} with this config.")
        module = self._module(devices or (lambda _: self.device))
        return networks.backbone(module), sum(parameter.numel() for parameter in module.parameters())

    def quantised(self, bits: Bits) -> tuple[Backbone, int]:
        """As :meth:`backbone`, filled in the host's memory and quantised on the way to the device.

        Raises:
            CheckpointError: a file is damaged, or tensors and config don't fit.
        """
        host = torch.device("cpu")
        module = self._module(lambda _: host)
        count = sum(parameter.numel() for parameter in module.parameters())
        return networks.backbone(quantise.quantise(module, bits, self.device)), count

    def _module(self, devices: networks.Devices) -> nn.Module:
        module = networks.build(self.network, self.dtype)
        return networks.fill(module, self.network, self.place, self.tensors, devices, progress=self.told)

    def _read(self, spots: Sequence[Spot]) -> Iterator[tuple[str, Tensor]]:
        """Every tensor under the network's own name, one at a time, converted."""
        for index, spot in enumerate(spots):
            yield spot.target, self.tensors.read(spot.name, self.dtype)
            self.told((index + 1) / len(spots))


def _tokenizer(directory: Directory, layout: Layout, repository: Repository | None) -> ChatTokenizer | None:
    """The checkpoint's tokenizer with the family's template, or ``None`` where it has none."""

    def mend(own: str | None, known: Mapping[str, int]) -> str | None:
        ours = layout.chat_template
        template = ours if ours and set(CONTROL.findall(ours)) <= known.keys() else own
        return template and layout.template_preamble + template

    words = tokenizer.from_directory(directory.path, control=layout.mask_tokens, mend=mend)
    if words is None and layout.tokenizer and repository:
        other = Repository(layout.tokenizer, None, repository.token, repository.offline)
        with contextlib.suppress(StoreError):
            return tokenizer.from_directory(other.tokenizer(), control=layout.mask_tokens, mend=mend)
    return words
