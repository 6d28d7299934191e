"""From a name to a model that can decode: hub id, directory or GGUF file.

Nothing from a checkpoint is run: its files are read as data, into classes that are here or in transformers.
"""

import contextlib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal, TypeAlias, TypeGuard

import torch
from torch import Tensor, nn

from dllm_tui.engine import networks, quantise, tokenizer
from dllm_tui.engine.backbone import Backbone
from dllm_tui.engine.checkpoint import Directory, Tensors
from dllm_tui.engine.fitting import MISFIT, Spot, fit
from dllm_tui.engine.geometry import Geometry
from dllm_tui.engine.heap import large_blocks_returned
from dllm_tui.engine.hub import Repository
from dllm_tui.engine.lean import LeanBackbone
from dllm_tui.engine.model import Model
from dllm_tui.engine.quantise import Bits
from dllm_tui.engine.tokenizer import ChatTokenizer
from dllm_tui.errors import CheckpointError, StoreError
from dllm_tui.events import ModelInfo
from dllm_tui.families import layout_for
from dllm_tui.families.family import Attention, Noise
from dllm_tui.families.layout import Config, Layout, Network, Placing
from dllm_tui.store import Progress

Choice: TypeAlias = Literal["auto", "lean", "stock"]
"""Which backbone: the lean one where it knows the network, else the stock one."""

CONTROL = re.compile(r"<\|[^|<>]+\|>")
"""Control tokens as a chat template writes them."""

UNSPREAD = {"DDiT", "DiffusionGemma", "ModernBertForMaskedLM"}
"""Networks that one GPU holds anyway, or that aren't a plain stack of layers."""

LEAN = {"LlamaForCausalLM", "Qwen2ForCausalLM", "Qwen3ForCausalLM"}


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


def geometry_of(network: Network) -> Geometry | None:
    """The sizes for the lean backbone, or ``None`` where it doesn't know the network."""
    o = network.options
    if network.kind not in LEAN or o["rope_parameters"].get("rope_type") != "default":
        return None
    return Geometry(
        vocab_size=o["vocab_size"],
        hidden_size=o["hidden_size"],
        layers=o["num_hidden_layers"],
        heads=o["num_attention_heads"],
        kv_heads=o["num_key_value_heads"],
        head_dim=o.get("head_dim", o["hidden_size"] // o["num_attention_heads"]),
        intermediate_size=o["intermediate_size"],
        norm_eps=o["rms_norm_eps"],
        rope_theta=o["rope_parameters"]["rope_theta"],
        context_length=o["max_position_embeddings"],
        tied_head=o["tie_word_embeddings"],
        qkv_bias=network.kind == "Qwen2ForCausalLM",
        qk_norm=network.kind == "Qwen3ForCausalLM",
    )


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


def model_of(
    layout: Layout,
    config: Config,
    generation: Mapping[str, Any],
    words: ChatTokenizer | None,
    backbone: Backbone,
    *,
    name: str,
    parameters: int,
    revision: str | None = None,
    dtype: str | None = None,
) -> Model:
    """The model, its ids resolved.

    Args:
        layout: of its family.
        config: the checkpoint's.
        generation: fields of ``generation_config.json``.
        words: its tokenizer, if it has one.
        backbone: filled.
        name: for people: hub id, or name of the directory or file.
        parameters: number of weights.
        revision: of a hub id.
        dtype: of the weights, where it isn't the arithmetic's.

    Raises:
        CheckpointError: an id is missing or outside the vocabulary.
    """
    family = layout.settled(config)
    ids = words.ids if words else {}
    size = backbone.vocab_size
    said = [source.get("eos_token_id") for source in (config, generation, config.table("text_config"))]
    stops = [stop for value in said for stop in (value if isinstance(value, list) else [value])]
    stops += [ids[token] for token in layout.stop_tokens if token in ids]
    pad = config.get("pad_token_id", generation.get("pad_token_id"))
    mask = None if family.noise is Noise.UNIFORM else _mask_id(layout, config, words, size)
    delete = config.get("delete_token_id", layout.delete_id)
    split = config.get("split_token_id", layout.split_id)
    for role, token in {"mask": mask, "delete": delete, "split": split}.items():
        if token is not None and not _is_id(token, size):
            raise CheckpointError(
                f"{name}: the {role} token's id is {token!r}, and the network has ids 0 to {size - 1}.",
                MISFIT,
            )
    return Model(
        family=family,
        backbone=backbone,
        tokenizer=words,
        mask_id=mask,
        stop_ids=frozenset(stop for stop in stops if _is_id(stop, size)),
        pad_id=pad if _is_id(pad, size) else None,  # some configs have -1
        delete_id=delete,
        split_id=split,
        info=ModelInfo(
            id=name,
            family=family.name,
            title=f"{name.rpartition('/')[2]} ({family.title})",
            revision=revision,
            licence=family.licence,
            parameters=parameters,
            device=str(backbone.device),
            dtype=dtype or str(backbone.dtype).removeprefix("torch."),
            attention=family.attention.value,
            cache="none" if family.attention is Attention.FULL else "exact",
            context_length=backbone.context_length,
            tokenizer_sha256=words.sha256 if words else None,
            policies=family.policies,
            fixed_knobs=family.fixed_knobs,
            unkept=family.unkept,
            versions={library: version(library) for library in ("torch", "transformers", "tokenizers")},
        ),
    )


def _is_id(token: object, size: int) -> TypeGuard[int]:
    return type(token) is int and 0 <= token < size


def _mask_id(layout: Layout, config: Config, words: ChatTokenizer | None, vocabulary: int) -> int | None:
    """The mask's id: as the config has it, else the tokenizer, else the published checkpoints.

    ``None`` where nothing says; whoever uses the model then has to know.
    """
    if (said := config.get("mask_token_id")) is not None:
        return said
    fixed = layout.mask_id
    if fixed is not None and fixed < 0:
        return vocabulary + fixed
    if words is None:
        return fixed if fixed is not None and fixed < vocabulary else None
    named = words.named_tokens.get("mask_token")
    for token in (*layout.mask_tokens, *([named] if named else [])):
        if token in words.ids:
            return words.ids[token]
    raise CheckpointError(
        f"{words.name}: neither config.json (mask_token_id) nor the tokenizer say which token is the mask; "
        f"looked for {' or '.join(layout.mask_tokens) or 'a mask_token'}.",
        "Add mask_token_id to config.json if you know it.",
    )
