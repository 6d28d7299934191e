"""GGUF files of diffusion families, as llama.cpp writes them: LLaDA, Dream, LLaDA-MoE, RND1.

llama.cpp knows no others yet. Quantised weights are dequantised; they don't stay quantised in memory.
"""

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import torch
from torch import Tensor

from dllm_tui.engine import networks, tokenizer
from dllm_tui.engine.backbone import Backbone
from dllm_tui.engine.checkpoint import Tensors
from dllm_tui.engine.fitting import fit
from dllm_tui.engine.gguf import GGUF, hugging_face_name
from dllm_tui.engine.heap import large_blocks_returned
from dllm_tui.engine.lean import LeanBackbone
from dllm_tui.engine.model import Model, model_of
from dllm_tui.engine.shards import Entry
from dllm_tui.families import layout_for_gguf
from dllm_tui.families.layout import Config, Layout, Network, Place
from dllm_tui.families.stock import qwen3_moe
from dllm_tui.store import Progress


def load_gguf(
    path: Path, device: torch.device, dtype: torch.dtype, progress: Progress | None = None
) -> Model:
    """Load a model from one GGUF file.

    Args:
        path: the file.
        device: where the model goes.
        dtype: of weights and arithmetic.
        progress: is told how far it is; may raise, to stop.

    Raises:
        CheckpointError: the file is damaged, or no family that is known here.
    """
    file = GGUF(path)
    layout = layout_for_gguf(file.architecture, path.name)
    words = tokenizer.from_gguf(file)

    def told(done: float) -> None:
        if progress:
            progress(f"loading {path.name}", done)

    with large_blocks_returned():
        backbone, parameters = _backbone(file, layout, device, dtype, told)
    keys = {"mask_token_id": "mask", "eos_token_id": "eos", "pad_token_id": "padding"}
    config = {field: file.metadata.get(f"tokenizer.ggml.{key}_token_id") for field, key in keys.items()}
    return model_of(
        layout, Config(config, path.name), {}, words, backbone, name=path.name, parameters=parameters
    )


def _backbone(
    file: GGUF, layout: Layout, device: torch.device, dtype: torch.dtype, told: Callable[[float], None]
) -> tuple[Backbone, int]:
    """The backbone, filled, and how many weights it has."""
    tensors = Dequantised(file)
    if f"{file.architecture}.expert_count" in file.metadata:
        network = moe_network(file)
        module = networks.build(network, dtype)
        networks.fill(module, network, place_moe, tensors, lambda _: device, progress=told)
        return networks.backbone(module), sum(parameter.numel() for parameter in module.parameters())

    def counted() -> Iterator[tuple[str, Tensor]]:
        for index, named in enumerate(file.tensors()):
            told(index / len(file.entries))
            yield named

    geometry = file.geometry()
    fit(tensors, place_dense, Network("LlamaForCausalLM", {}), geometry.shapes(), {})
    lean = LeanBackbone(geometry, counted(), device=device, dtype=dtype)
    return lean, lean.parameters


def place_dense(name: str, network: Network) -> tuple[Place, ...]:
    """The tensor-name map of dense decoders."""
    return (Place(hugging_face_name(name) or name),)


NORMED = {"rnd1"}
"""Architectures that bring the weights of a token's experts to a sum of 1; llama.cpp knows that by name."""


def moe_network(file: GGUF) -> Network:
    """The network of a file of the Qwen3-MoE type.

    Raises:
        CheckpointError: a size is missing or can't be.
    """
    arch = file.architecture
    file.refuse_scaled_rope()
    embedding = file.entries.get("token_embd.weight")

    def number(key: str) -> int | None:
        return file.metadata.get(f"{arch}.{key}")

    fields = {
        "vocab_size": embedding.shape[0] if embedding else None,
        "hidden_size": number("embedding_length"),
        "intermediate_size": number("feed_forward_length") or number("expert_feed_forward_length"),
        "num_hidden_layers": number("block_count"),
        "num_attention_heads": number("attention.head_count"),
        "num_key_value_heads": number("attention.head_count_kv") or number("attention.head_count"),
        "head_dim": number("attention.key_length"),
        "max_position_embeddings": number("context_length"),
        "rms_norm_eps": number("attention.layer_norm_rms_epsilon"),
        "rope_theta": number("rope.freq_base") or 10_000.0,
        "hidden_act": "silu",
        "tie_word_embeddings": "output.weight" not in file.entries,
        "num_experts": number("expert_count"),
        "num_experts_per_tok": number("expert_used_count"),
        "moe_intermediate_size": number("expert_feed_forward_length"),
    }
    known = {name: value for name, value in fields.items() if value is not None}
    return qwen3_moe(Config(known, file.path.name), norm_topk_prob=arch in NORMED)


def place_moe(name: str, network: Network) -> tuple[Place, ...]:
    """The tensor-name map of files of the Qwen3-MoE type: experts are stacked there already."""
    if found := re.fullmatch(r"blk\.(\d+)\.ffn_gate_inp\.weight", name):
        return (Place(f"model.layers.{found[1]}.mlp.gate.weight"),)
    found = re.fullmatch(r"blk\.(\d+)\.ffn_(gate|up|down)_exps\.weight", name)
    if found is None:
        return place_dense(name, network)
    experts = f"model.layers.{found[1]}.mlp.experts"
    if found[2] == "down":
        return (Place(f"{experts}.down_proj"),)
    width = network.options["moe_intermediate_size"]
    first = 0 if found[2] == "gate" else width
    return (Place(f"{experts}.gate_up_proj", at=(slice(None), slice(first, first + width))),)


class Dequantised(Tensors):
    """A GGUF file's tensors, each dequantised to float32 when it is read."""

    def __init__(self, file: GGUF) -> None:
        super().__init__([])
        self.file = file
        self.entries = {
            name: Entry(torch.float32, entry.shape, entry.start, entry.size)
            for name, entry in file.entries.items()
        }

    def where(self, name: str) -> str:
        """Name of the file."""
        return self.file.path.name

    def pieces(self, name: str, first: int = 0, last: int | None = None) -> Iterator[tuple[int, Tensor]]:
        """The rows, all at once."""
        yield first, self.file.tensor(name)[first:last]
