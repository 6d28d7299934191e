"""Safetensors files, read piece by piece straight from the disk: no file is mapped, no tensor is held whole.

A mapped file counts as memory of the process, so a model of one file would need twice its size while it
loads. Here a small buffer does. Every length that a file names is checked before it is used.

Format: https://huggingface.co/docs/safetensors
"""

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from dllm_tui.errors import CheckpointError

PIECE = 8 << 20
"""Bytes that are read at a time (a single row may be longer)."""

HEADER_LIMIT = 100_000_000
"""Longest header of the format."""

DTYPES = {
    "F64": torch.float64,
    "F32": torch.float32,
    "F16": torch.float16,
    "BF16": torch.bfloat16,
    "I64": torch.int64,
    "I32": torch.int32,
    "I16": torch.int16,
    "I8": torch.int8,
    "U8": torch.uint8,
    "BOOL": torch.bool,
}

DAMAGED = "It is damaged or was not copied to its end. Get the file again."


@dataclass(frozen=True)
class Entry:
    """Where a tensor lies in its file."""

    dtype: torch.dtype
    shape: tuple[int, ...]
    start: int
    """Byte offset in the file."""
    size: int
    """Bytes."""


class Shard:
    """One safetensors file.

    Args:
        path: the file.

    Raises:
        CheckpointError: the file can't be read, is damaged or cut short, or holds unsupported types.
    """

    entries: dict[str, Entry]
    """Every tensor by name, in the order of the file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            length = path.stat().st_size
            with path.open("rb") as file:
                header_size = int.from_bytes(file.read(8), "little")
                if length < 8 or header_size > min(HEADER_LIMIT, length - 8):
                    raise self._broken(f"it claims a header of {header_size} bytes")
                header = _parse(file.read(header_size))
        except OSError as error:
            raise CheckpointError(f"{path.name} can't be read: {error.strerror}.") from error
        except (ValueError, RecursionError):
            raise self._broken("its header is not JSON, or names a tensor twice") from None
        if not isinstance(header, dict):
            raise self._broken("its header is no table of tensors")
        header.pop("__metadata__", None)
        described = {name: self._entry(name, said, 8 + header_size, length) for name, said in header.items()}
        self.entries = dict(sorted(described.items(), key=lambda item: item[1].start))

    def _broken(self, what: str) -> CheckpointError:
        return CheckpointError(f"{self.path.name} is not a readable safetensors file: {what}.", DAMAGED)

    def _entry(self, name: str, said: Any, base: int, length: int) -> Entry:
        try:
            kind, shape, (begin, end) = said["dtype"], tuple(said["shape"]), said["data_offsets"]
            sound = all(type(number) is int and number >= 0 for number in (*shape, begin, end))
        except (TypeError, KeyError, ValueError):
            sound, kind, shape, begin, end = False, "", (), 0, 0
        if not sound:
            raise self._broken(f"tensor {name!r} is not described properly")
        if kind not in DTYPES:
            raise CheckpointError(
                f"{self.path.name}: tensor {name!r} is of type {kind!r}, which isn't supported.",
                "Quantised checkpoints can't be loaded: use the original weights, or a GGUF file.",
            )
        dtype = DTYPES[kind]
        if end - begin != math.prod(shape) * dtype.itemsize:
            raise self._broken(f"tensor {name!r} of shape {list(shape)} claims {end - begin} bytes")
        if base + end > length:
            raise CheckpointError(
                f"{self.path.name} is cut short: tensor {name!r} ends at byte {base + end}, "
                f"the file at {length}.",
                "Get the file again.",
            )
        return Entry(dtype, shape, base + begin, end - begin)

    def pieces(
        self, name: str, first: int = 0, last: int | None = None, into: Tensor | None = None
    ) -> Iterator[tuple[int, Tensor]]:
        """Rows ``first … last-1`` of a tensor, in order, a few at a time.

        Args:
            name: the tensor; one without dimensions counts as one row.
            first: first row.
            last: row after the last one; to the end by default.
            into: contiguous memory of the host for all these rows, of the tensor's dtype: they are read
                there and stay. Otherwise the next piece overwrites them.

        Yields:
            The index of the piece's first row, and the rows [n, ...] in the file's dtype.

        Raises:
            CheckpointError: the file can't be read, or the rows hold NaN or infinite values.
        """
        entry = self.entries[name]
        shape = entry.shape or (1,)
        last = shape[0] if last is None else last
        if entry.size == 0 or first >= last:
            return
        row_bytes = entry.size // shape[0]
        step = min(max(1, PIECE // row_bytes), last - first)
        if into is None:
            buffer = torch.empty(step * row_bytes, dtype=torch.uint8)
        else:
            buffer = into.view(-1).view(torch.uint8)
        try:
            with self.path.open("rb", buffering=0) as file:
                file.seek(entry.start + first * row_bytes)
                for row in range(first, last, step):
                    count = min(step, last - row)
                    start = 0 if into is None else (row - first) * row_bytes
                    raw = buffer[start : start + count * row_bytes]
                    if _read_into(file, raw) < raw.numel():
                        raise CheckpointError(f"{self.path.name} ended inside tensor {name!r}.", DAMAGED)
                    rows = raw.view(entry.dtype).view(count, *shape[1:])
                    if not _is_finite(rows):
                        raise CheckpointError(
                            f"{self.path.name}: tensor {name!r} has values that are no numbers "
                            "(NaN or infinite).",
                            "The file is damaged, or its training failed. Get it again.",
                        )
                    yield row, rows
        except OSError as error:
            raise CheckpointError(
                f"{self.path.name} can't be read at tensor {name!r}: {error.strerror}."
            ) from error


def _parse(header: bytes) -> Any:
    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        table = dict(pairs)
        if len(table) < len(pairs):
            raise ValueError
        return table

    return json.loads(header, object_pairs_hook=unique)


def _read_into(file: Any, raw: Tensor) -> int:
    """Fill the bytes from a file without a buffer of its own; the number of bytes that were there."""
    view: Any = memoryview(raw.numpy())  # pyright: ignore[reportArgumentType] (a buffer since numpy 2)
    done = 0
    while done < len(view) and (count := file.readinto(view[done:])):
        done += count
    return done


def _is_finite(rows: Tensor) -> bool:
    if not rows.is_floating_point():
        return True
    low, high = torch.aminmax(rows)
    return bool(torch.isfinite(low) & torch.isfinite(high))
