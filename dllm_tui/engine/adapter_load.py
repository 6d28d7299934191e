"""A base with an adapter: masked positions adapted, all others the autoregressive model as it is."""

import math
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from dllm_tui.engine.autoregressive import Base, find, from_gguf
from dllm_tui.engine.geometry import Geometry
from dllm_tui.engine.lean import Adaptation, LeanBackbone
from dllm_tui.engine.model import Model
from dllm_tui.errors import CheckpointError
from dllm_tui.events import ModelInfo
from dllm_tui.families.family import Family
from dllm_tui.families.smol import ADAPTER, BASE, FAMILY, family_of
from dllm_tui.store import Progress, fetch


def load_smol(device: torch.device, dtype: torch.dtype, progress: Progress | None = None) -> Model:
    """Fetch the base if need be, and load both streams.

    Args:
        device: where the model goes.
        dtype: of weights and arithmetic.
        progress: is told how far it is; may raise, to stop.

    Raises:
        StoreError: the base can't be fetched.
        CheckpointError: base or adapter are damaged, or don't belong together.
    """
    return assemble(fetch(BASE, progress), BASE.sha256, device, dtype, progress=progress)


def assemble(
    base: Path,
    sha256: str,
    device: torch.device,
    dtype: torch.dtype,
    *,
    adapter: Path = ADAPTER,
    progress: Progress | None = None,
) -> Model:
    """Load a base (GGUF of the Llama type) with an adapter of this project.

    Args:
        base: the GGUF file.
        sha256: its hash, which the adapter must name.
        device: where the model goes.
        dtype: of weights and arithmetic.
        adapter: safetensors with the adapter.
        progress: is told how far it is; may raise, to stop.

    Raises:
        CheckpointError: one is damaged, or they don't belong together.
    """
    return adapted(
        from_gguf(base, "smol"), sha256, adapter, family=FAMILY, device=device, dtype=dtype, progress=progress
    )


def load_adapter(
    path: Path, device: torch.device, dtype: torch.dtype, progress: Progress | None = None
) -> Model:
    """Load what ``dllm-chat adapt`` has made, with the base that it names.

    Args:
        path: the adapter's directory.
        device: where the model goes.
        dtype: of weights and arithmetic.
        progress: is told how far it is; may raise, to stop.

    Raises:
        StoreError: the base can't be fetched.
        CheckpointError: base or adapter are damaged, or don't belong together.
    """
    said = _read(path / ADAPTER.name)[0].get("base_source", "")
    if not said:
        raise CheckpointError(f"{path}: the adapter doesn't say what its base is.")
    base = find(said, progress)
    return adapted(
        base,
        base.sha256,
        path / ADAPTER.name,
        family=family_of(path),
        device=device,
        dtype=dtype,
        progress=progress,
        name=path.resolve().name,
    )


def adapted(
    base: Base,
    sha256: str,
    adapter: Path,
    *,
    family: Family,
    device: torch.device,
    dtype: torch.dtype,
    progress: Progress | None = None,
    name: str = "smol",
) -> Model:
    """A base with its adapter.

    Args:
        base: the autoregressive model.
        sha256: of its weights, which the adapter must name.
        adapter: safetensors with the adapter.
        family: what the model is then called.
        device: where the model goes.
        dtype: of weights and arithmetic.
        progress: is told how far it is; may raise, to stop.
        name: the model's, for people and traces.

    Raises:
        CheckpointError: one is damaged, or they don't belong together.
    """
    geometry = base.geometry
    adaptation = read_adapter(adapter, geometry, sha256)
    total = len(geometry.shapes())

    def counted() -> Iterator[tuple[str, Tensor]]:
        for index, named in enumerate(base.read()):
            if progress:
                progress(f"loading {family.title}", min(1.0, index / total))
            yield named

    backbone = LeanBackbone(geometry, counted(), device=device, dtype=dtype, adaptation=adaptation)
    return Model(
        family=family,
        backbone=backbone,
        tokenizer=base.words,
        mask_id=geometry.vocab_size,
        stop_ids=frozenset({base.stop_id}),
        pad_id=base.stop_id,
        info=ModelInfo(
            id=name,
            family=family.name,
            title=family.title,
            licence=family.licence,
            parameters=backbone.parameters,
            device=str(device),
            dtype=str(dtype).removeprefix("torch."),
            attention=family.attention.value,
            cache="exact",
            context_length=geometry.context_length,
            tokenizer_sha256=base.words.sha256,
            policies=family.policies,
            caches=family.caches,
            fixed_knobs=family.fixed_knobs,
            versions={library: version(library) for library in ("torch", "tokenizers", "gguf")},
        ),
    )


def read_adapter(path: Path, geometry: Geometry, sha256: str) -> Adaptation:
    """What an adapter adds on masked positions: there a linear layer is W + scale · B · A.

    Args:
        path: the adapter's safetensors file. Modules that it has no factors for stay as they are. A factor
            in int8 comes with one step for each of the ``rank`` components, ``….lora_A.step``.
        geometry: of the base.
        sha256: of the base's file, which the adapter must name.

    Raises:
        CheckpointError: the file is damaged, or was made for another base.
    """
    about, tensors = _read(path)
    if about.get("base_sha256") != sha256:
        raise CheckpointError(
            f"The adapter {path.name} is made for {about.get('base', 'another model')} with SHA-256 "
            f"{about.get('base_sha256', 'unknown')}; this base has {sha256}.",
            "An adapter works only with the very weights that it was trained on.",
        )
    rank, scale = _number(about, "rank", path), _number(about, "scale", path)
    targets = about.get("targets", "").split()
    factors: dict[str, Tensor] = {}
    for name, shape in _adapter_shapes(geometry, int(rank), targets).items():
        factors[name] = _dequantised(tensors, name)
        found = tuple(factors[name].shape)
        if found != shape or not bool(torch.isfinite(factors[name]).all()):
            raise CheckpointError(
                f"Tensor {name!r} of the adapter {path.name} is {found or 'missing'}, or not finite; "
                f"it should be {shape} for this base."
            )

    stems = [name.removesuffix(".lora_A") for name in factors if name.endswith(".lora_A")]
    pairs = {
        f"model.{stem}.weight": (
            factors[f"{stem}.lora_A"].T.contiguous(),
            (scale * factors[f"{stem}.lora_B"]).T.contiguous(),
        )
        for stem in stems
    }
    return Adaptation(pairs, factors["mask_embedding"])


def _read(path: Path) -> tuple[dict[str, str], dict[str, Tensor]]:
    """Metadata and tensors of an adapter's file.

    Raises:
        CheckpointError: it is damaged, or something else.
    """
    try:
        with safe_open(path, framework="pt") as file:
            about: dict[str, str] = file.metadata() or {}
            tensors: dict[str, Tensor] = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - no dict
    except (OSError, SafetensorError) as error:
        raise CheckpointError(f"The adapter {path.name} can't be read: {error}.", "Install again.") from error
    if about.get("format") != "dllm-adapter":
        raise CheckpointError(f"{path.name} is no adapter of dllm-chat.")
    return about, tensors


def _dequantised(tensors: dict[str, Tensor], name: str) -> Tensor:
    """A factor in float32; one of no dimensions where it is missing or its steps don't fit."""
    tensor, steps = tensors.get(name), tensors.get(f"{name}.step")
    if tensor is None:
        return torch.zeros(())
    if tensor.dtype is not torch.int8:
        return tensor.float()
    along = 0 if name.endswith("lora_A") else -1
    if tensor.dim() != 2 or steps is None or steps.shape != tensor.shape[along : along + 1 or None]:
        return torch.zeros(())
    return tensor.float() * (steps.float()[:, None] if along == 0 else steps.float())


def _number(about: dict[str, str], key: str, path: Path) -> float:
    try:
        number = float(about[key])
    except (KeyError, ValueError):
        number = math.nan
    if not math.isfinite(number):
        raise CheckpointError(f"The adapter {path.name} doesn't say its {key}.", "Install again.")
    return number


def _adapter_shapes(geometry: Geometry, rank: int, targets: list[str]) -> dict[str, tuple[int, ...]]:
    shapes: dict[str, tuple[int, ...]] = {"mask_embedding": (geometry.hidden_size,)}
    for name, shape in geometry.shapes().items():
        stem = name.removeprefix("model.").removesuffix(".weight")
        if name.endswith("_proj.weight") and (not targets or stem.rpartition(".")[2] in targets):
            shapes |= {f"{stem}.lora_A": (rank, shape[1]), f"{stem}.lora_B": (shape[0], rank)}
    return shapes
