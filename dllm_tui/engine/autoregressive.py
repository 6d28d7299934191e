"""Autoregressive checkpoints, which diffusion models are made of: sizes, weights and tokenizer, as data.

What :mod:`dllm_tui.adapt` starts from, and what its adapters are loaded onto.
"""

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from dllm_tui.engine import tokenizer
from dllm_tui.engine.checkpoint import Directory
from dllm_tui.engine.geometry import Geometry, geometry_of
from dllm_tui.engine.gguf import GGUF
from dllm_tui.engine.hub import Repository
from dllm_tui.engine.tokenizer import ChatTokenizer
from dllm_tui.errors import CheckpointError
from dllm_tui.families.smol import BASE
from dllm_tui.families.stock import dense
from dllm_tui.store import Progress, fetch

KINDS = ("LlamaForCausalLM", "Qwen2ForCausalLM", "Qwen3ForCausalLM")
GGUF_KINDS = ("llama", "qwen2", "qwen3")
DENSE = "Take a dense checkpoint of the Llama, Qwen2 or Qwen3 type."
CHUNK = 1 << 20


@dataclass(frozen=True, kw_only=True)
class Base:
    """An autoregressive checkpoint; its weights are read when they are asked for."""

    name: str
    """For people."""
    said: str
    """What it is found by: ``smol``, a hub id, or a path."""
    geometry: Geometry
    words: ChatTokenizer
    stop_id: int
    """Ends a turn."""
    files: tuple[Path, ...]
    """That hold the weights."""
    read: Callable[[], Iterator[tuple[str, Tensor]]]
    """Gives every tensor by its Hugging Face name, one at a time, on the CPU."""
    config: dict[str, Any] | None = None
    """``config.json``, where there is one."""

    @property
    def sha256(self) -> str:
        """Over the bytes of the weight files, one after the other."""
        found = hashlib.sha256()
        for path in self.files:
            with path.open("rb") as file:
                for piece in iter(lambda: file.read(CHUNK), b""):
                    found.update(piece)
        return found.hexdigest()


def find(said: str, progress: Progress | None = None) -> Base:
    """A base by its name.

    Args:
        said: ``smol`` (SmolLM2-135M-Instruct), a GGUF file, a directory, or a hub id.
        progress: is told how far a download is; may raise, to stop.

    Raises:
        StoreError: it can't be fetched.
        CheckpointError: it is damaged, has no tokenizer, or is no dense Llama, Qwen2 or Qwen3.
    """
    if said == "smol":
        return from_gguf(fetch(BASE, progress), "SmolLM2-135M-Instruct, Q4_1", said)
    path = Path(said).expanduser()
    if path.suffix == ".gguf":
        return from_gguf(path, path.name)
    if path.exists():
        return _from_directory(Directory(path), path.resolve().name, str(path.resolve()))
    return _from_directory(Directory(Repository.named(said).fetch(progress)), said, said)


def from_gguf(path: Path, name: str, said: str = "") -> Base:
    """A base in a GGUF file.

    Args:
        path: the file.
        name: for people.
        said: what it is found by; the path by default.

    Raises:
        CheckpointError: it is damaged, or no dense Llama, Qwen2 or Qwen3.
    """
    file = GGUF(path)
    if file.architecture not in GGUF_KINDS:
        raise CheckpointError(
            f"{path.name} is a {file.architecture}; only {', '.join(GGUF_KINDS)} can be adapted.", DENSE
        )
    return Base(
        name=name,
        said=said or str(path.resolve()),
        geometry=file.geometry(),
        words=tokenizer.from_gguf(file),
        stop_id=file.get("tokenizer.ggml.eos_token_id", int),
        files=(path,),
        read=file.tensors,
    )


def _from_directory(directory: Directory, name: str, said: str) -> Base:
    config = directory.config
    if config.architecture not in KINDS:
        raise CheckpointError(
            f"{name}: {config.architecture or 'a config without architectures'} can't be adapted; "
            f"only {', '.join(KINDS)} can.",
            DENSE,
        )
    geometry = geometry_of(dense(config, config.architecture))
    if geometry is None:
        raise CheckpointError(f"{name} scales its rotary embedding; that can't be adapted here.", DENSE)
    words = tokenizer.from_directory(directory.path)
    if words is None:
        raise CheckpointError(
            f"{name} has no tokenizer.", "Put the base's tokenizer.json beside its config.json."
        )
    tensors = directory.tensors()

    def read() -> Iterator[tuple[str, Tensor]]:
        for tensor in tensors.entries:
            if not (geometry.tied_head and tensor == "lm_head.weight"):
                yield tensor, tensors.read(tensor, torch.float32)

    return Base(
        name=name,
        said=said,
        geometry=geometry,
        words=words,
        stop_id=_stop_id(directory, words, name),
        files=tuple(sorted({directory.file(tensors.where(tensor)) for tensor in tensors.entries})),
        read=read,
        config=dict(config.fields),
    )


def _stop_id(directory: Directory, words: ChatTokenizer, name: str) -> int:
    """The id that ends a turn: as the tokenizer names it, else as the configs do."""
    named = words.named_tokens.get("eos_token")
    if named in words.ids:
        return words.ids[named]
    for fields in (directory.generation, directory.config.fields):
        said = fields.get("eos_token_id")
        first = said[0] if isinstance(said, list) and said else said
        if type(first) is int:
            return first
    raise CheckpointError(
        f"{name} doesn't say which token ends an answer.", "Add eos_token_id to its config.json."
    )
