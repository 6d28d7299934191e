"""GGUF files: header, metadata and tensors of llama.cpp's format, under their Hugging Face names.

The header is read here and not by the ``gguf`` package's reader, for two reasons: that one trusts every
length in the file, and it takes seconds for a vocabulary of 50,000 strings. Dequantising is the package's.

Format: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
"""

import math
import mmap
import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import numpy.typing as npt
from gguf.constants import GGML_QUANT_SIZES, GGMLQuantizationType
from gguf.quants import dequantize, quant_shape_to_byte_shape

from dllm_tui.engine.geometry import Geometry
from dllm_tui.errors import CheckpointError
from dllm_tui.families.stock import MOST_LAYERS

if TYPE_CHECKING:
    from torch import Tensor

T = TypeVar("T")

SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
"""Value types that have a fixed size, as :mod:`struct` codes."""
STRING, ARRAY = 8, 9

MAX_DIMENSIONS = 4
MAX_ITEMS = 1 << 24
"""Longest list of the metadata: no vocabulary comes near it."""

PERMUTED = {"llama", "llada"}
"""Architectures whose q and k rows llama.cpp reorders for its rotary layout."""

LAYER_NAMES = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "attn_q_norm": "self_attn.q_norm",
    "attn_k_norm": "self_attn.k_norm",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
OTHER_NAMES = {"token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head"}


def hugging_face_name(name: str) -> str | None:
    """The Hugging Face name of a dense decoder's tensor, or ``None`` where it has none."""
    stem, _, suffix = name.rpartition(".")
    if stem in OTHER_NAMES:
        return f"{OTHER_NAMES[stem]}.{suffix}"
    layer = re.fullmatch(r"blk\.(\d+)\.(\w+)", stem)
    if layer and layer[2] in LAYER_NAMES:
        return f"model.layers.{layer[1]}.{LAYER_NAMES[layer[2]]}.{suffix}"
    return None


@dataclass(frozen=True)
class TensorEntry:
    """Where a tensor lies in the file."""

    shape: tuple[int, ...]
    """Outermost dimension first, as torch has it."""
    kind: GGMLQuantizationType
    start: int
    """Byte offset in the file."""
    size: int
    """Bytes."""


class _Header:
    """A cursor over the bytes of a header that never reads or allocates past the file's end."""

    def __init__(self, data: mmap.mmap, path: Path) -> None:
        self.data = data
        self.path = path
        self.at = 0

    def broken(self, what: str) -> CheckpointError:
        return CheckpointError(
            f"{self.path.name} is not a readable GGUF file: {what}.",
            "It is damaged or was not copied to its end. Get the file again.",
        )

    def take(self, count: int) -> bytes:
        if not 0 <= count <= len(self.data) - self.at:
            raise self.broken(f"at byte {self.at} it names {count} bytes more than there are")
        taken = self.data[self.at : self.at + count]
        self.at += count
        return taken

    def number(self, code: str) -> Any:
        return struct.unpack("<" + code, self.take(struct.calcsize("<" + code)))[0]

    def string(self) -> str:
        raw = self.take(self.number("Q"))
        try:
            return raw.decode()
        except UnicodeDecodeError:
            raise self.broken(f"the text that ends at byte {self.at} is not UTF-8") from None

    def value(self) -> Any:
        kind = self.number("I")
        if kind == STRING:
            return self.string()
        if kind == ARRAY:
            return self.array()
        if kind not in SCALARS:
            raise self.broken(f"at byte {self.at} there is a value of the unknown type {kind}")
        return self.number(SCALARS[kind])

    def array(self) -> list[Any]:
        kind, count = self.number("I"), self.number("Q")
        if count > MAX_ITEMS:
            raise self.broken(f"at byte {self.at} there is a list that claims {count} items")
        if kind == STRING:
            return [self.string() for _ in range(count)]
        if kind not in SCALARS:
            raise self.broken(f"at byte {self.at} there is a list of the unknown type {kind}")
        raw = self.take(count * struct.calcsize("<" + SCALARS[kind]))
        return np.frombuffer(raw, np.dtype(SCALARS[kind]).newbyteorder("<")).tolist()


class GGUF:
    """An open GGUF file. Tensors are read when they are asked for; the file stays mapped meanwhile.

    Args:
        path: the file.

    Raises:
        CheckpointError: the file can't be read, is damaged or cut short, or is of a version that isn't known.
    """

    metadata: dict[str, Any]
    """Every key of the header; arrays are lists."""
    entries: dict[str, TensorEntry]
    """Every tensor by the file's own name."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            with path.open("rb") as file:
                self._data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        except (OSError, ValueError) as error:  # ValueError: the file is empty
            raise CheckpointError(f"{path.name} can't be read: {error}.") from error
        header = _Header(self._data, path)
        if header.take(4) != b"GGUF":
            raise header.broken("it doesn't begin with the letters GGUF")
        version = header.number("I")
        if version not in {2, 3}:
            raise CheckpointError(f"{path.name} is of GGUF version {version}; versions 2 and 3 can be read.")
        tensors, keys = header.number("Q"), header.number("Q")
        self.metadata = {}
        for _ in range(keys):
            key = header.string()
            self.metadata[key] = header.value()
        self.entries = self._read_entries(header, tensors)

    def _read_entries(self, header: _Header, count: int) -> dict[str, TensorEntry]:
        described: dict[str, tuple[tuple[int, ...], GGMLQuantizationType, int]] = {}
        for _ in range(count):
            name = header.string()
            dimensions = header.number("I")
            if not 1 <= dimensions <= MAX_DIMENSIONS:
                raise header.broken(f"tensor {name!r} has {dimensions} dimensions")
            shape = tuple(reversed([header.number("Q") for _ in range(dimensions)]))
            if 0 in shape:
                raise header.broken(f"tensor {name!r} has no values")
            kind = header.number("I")
            try:
                kind = GGMLQuantizationType(kind)
            except ValueError:
                raise header.broken(f"tensor {name!r} is of the unknown type {kind}") from None
            if name in described:
                raise header.broken(f"tensor {name!r} is there twice")
            described[name] = (shape, kind, header.number("Q"))

        alignment = self.metadata.get("general.alignment", 32)
        if not isinstance(alignment, int) or alignment < 1 or alignment & (alignment - 1):
            raise header.broken(f"the alignment is {alignment!r}")
        base = -(-header.at // alignment) * alignment
        entries: dict[str, TensorEntry] = {}
        for name, (shape, kind, offset) in described.items():
            block, block_bytes = GGML_QUANT_SIZES[kind]
            if shape[-1] % block:
                raise header.broken(f"rows of tensor {name!r} are not a multiple of {block}")
            size = math.prod(shape) // block * block_bytes
            if base + offset + size > len(self._data):
                raise CheckpointError(
                    f"{self.path.name} is cut short: tensor {name!r} ends at byte {base + offset + size}, "
                    f"the file at {len(self._data)}.",
                    "Get the file again.",
                )
            entries[name] = TensorEntry(shape, kind, base + offset, size)
        return entries

    def get(self, key: str, kind: type[T], default: T | None = None) -> T:
        """A value of the metadata.

        Raises:
            CheckpointError: it is missing (and has no default) or is not of this kind.
        """
        value = self.metadata.get(key, default)
        # A bool is an int to Python, and never meant as one in a file.
        if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
            problem = "lacks" if key not in self.metadata else "has a wrong value for"
            raise CheckpointError(f"{self.path.name} {problem} the key {key!r}.")
        return value

    @property
    def architecture(self) -> str:
        """llama.cpp's name of the architecture, e.g. ``llama``."""
        return self.get("general.architecture", str)

    def refuse_scaled_rope(self) -> None:
        """See that the rotary embedding is the plain one.

        Raises:
            CheckpointError: it is scaled.
        """
        kind = self.metadata.get(f"{self.architecture}.rope.scaling.type", "none")
        if "rope_freqs.weight" in self.entries or kind != "none":
            raise CheckpointError(f"{self.path.name} scales its rotary embedding; that isn't supported.")

    def geometry(self) -> Geometry:
        """The sizes of a dense decoder of the Llama, Qwen2 or Qwen3 type.

        Raises:
            CheckpointError: a size is missing or can't be, or the rotary embedding is scaled.
        """
        arch = self.architecture

        def size(key: str, default: int | None = None, most: int = 1 << 24) -> int:
            value = self.get(f"{arch}.{key}", int, default)
            if not 1 <= value <= most:
                raise CheckpointError(f"{self.path.name} says {arch}.{key} is {value}; that can't be.")
            return value

        self.refuse_scaled_rope()
        embedding = self.entries.get("token_embd.weight")
        if embedding is None or len(embedding.shape) != 2:
            raise CheckpointError(f"{self.path.name} has no tensor 'token_embd.weight' of two dimensions.")
        hidden, heads = size("embedding_length"), size("attention.head_count")
        return Geometry(
            vocab_size=embedding.shape[0],
            hidden_size=hidden,
            layers=size("block_count", most=MOST_LAYERS),
            heads=heads,
            kv_heads=size("attention.head_count_kv", heads),
            head_dim=size("attention.key_length", hidden // heads),
            intermediate_size=size("feed_forward_length"),
            norm_eps=self.get(f"{arch}.attention.layer_norm_rms_epsilon", float),
            rope_theta=self.get(f"{arch}.rope.freq_base", float, 10_000.0),
            context_length=size("context_length"),
            tied_head="output.weight" not in self.entries,
            qkv_bias="blk.0.attn_q.bias" in self.entries,
            qk_norm="blk.0.attn_q_norm.weight" in self.entries,
        )

    def tensor(self, name: str) -> "Tensor":
        """One tensor, dequantised: float32 in its own shape.

        Raises:
            CheckpointError: there is no such tensor, its quantisation isn't known, or it isn't finite.
        """
        import torch  # what only looks at the header needs none

        entry = self.entries.get(name)
        if entry is None:
            raise CheckpointError(f"{self.path.name} has no tensor {name!r}.")
        raw: npt.NDArray[np.uint8] = np.frombuffer(self._data, np.uint8, entry.size, entry.start)
        try:
            if entry.kind == GGMLQuantizationType.F32:
                values = raw.view("<f4").astype(np.float32)
            elif entry.kind == GGMLQuantizationType.F16:
                values = raw.view("<f2").astype(np.float32)
            else:
                rows = raw.reshape(quant_shape_to_byte_shape(entry.shape, entry.kind))
                with np.errstate(invalid="ignore", over="ignore"):  # told below, with the tensor's name
                    values = dequantize(rows, entry.kind)
        except NotImplementedError:
            raise CheckpointError(
                f"tensor {name!r} of {self.path.name} is of type {entry.kind.name}, which can't be read."
            ) from None
        tensor = torch.from_numpy(values.reshape(entry.shape))
        if not bool(torch.isfinite(tensor.sum())) and not bool(torch.isfinite(tensor).all()):
            raise CheckpointError(
                f"tensor {name!r} of {self.path.name} has values that are no numbers (NaN or infinite).",
                "The file is damaged. Get it again.",
            )
        return tensor

    def tensors(self) -> "Iterator[tuple[str, Tensor]]":
        """Every tensor of a dense decoder by its Hugging Face name, one at a time, in float32.

        Raises:
            CheckpointError: as :meth:`tensor`, or a tensor that such a decoder doesn't have.
        """
        permuted = self.architecture in PERMUTED
        heads = self.get(f"{self.architecture}.attention.head_count", int)
        kv_heads = self.get(f"{self.architecture}.attention.head_count_kv", int, heads)
        for name in self.entries:
            wanted = hugging_face_name(name)
            if wanted is None:
                raise CheckpointError(f"{self.path.name} has a tensor {name!r} that isn't known.")
            tensor = self.tensor(name)
            if permuted and ".attn_q." in name:
                tensor = undo_permutation(tensor, heads)
            elif permuted and ".attn_k." in name:
                tensor = undo_permutation(tensor, kv_heads)
            yield wanted, tensor


def undo_permutation(rows: "Tensor", heads: int) -> "Tensor":
    """Rows of q or k back in the order of Hugging Face.

    llama.cpp rotates neighbours (0, 1), (2, 3) …, Hugging Face pairs i with i + head_dim / 2.

    Args:
        rows: [heads * head_dim, ...].
        heads: the number of heads.
    """
    return rows.view(heads, -1, 2, *rows.shape[1:]).transpose(1, 2).reshape(rows.shape)
