"""The Triton side of :mod:`dllm_kernels.block_attention`: split over the keys (flash decoding).

A block of queries keeps few programs busy, so the slots in use are divided among ``splits`` programs per
key head; each leaves its part of the sum with the maximum it is relative to, and a second kernel joins
the parts. The number of splits depends on the capacity alone, and the length is read on the device:
the launch is the same for every step.
"""
# Inside a kernel, parameters are pointers and compile-time constants: Python's types and names don't fit.
# ruff: noqa: ANN001, ANN202, N803, PLR0917
# pyright: basic, reportCallIssue=false, reportArgumentType=false

import torch
import triton
import triton.language as tl
from torch import Tensor

_KEYS = 64
"""Keys that a program holds at once."""
_MOST_ROWS = 64
"""Query rows that a program holds at once."""
_MOST_SPLITS = 32


def block_attention(query: Tensor, keys: Tensor, values: Tensor, length: Tensor) -> Tensor:
    """Softmax attention over the slots in use; see :func:`dllm_kernels.block_attention.block_attention`."""
    heads, count, width = query.shape
    kv_heads, capacity, _ = keys.shape
    rows = heads // kv_heads * count
    grouped = query.reshape(kv_heads, rows, width).contiguous()
    splits = min(_MOST_SPLITS, triton.cdiv(capacity, 4 * _KEYS))
    tile = min(_MOST_ROWS, max(16, triton.next_power_of_2(rows)))
    partial = torch.empty((kv_heads, rows, splits, width), dtype=torch.float32, device=query.device)
    peaks = torch.empty((2, kv_heads, rows, splits), dtype=torch.float32, device=query.device)
    output = torch.empty_like(grouped)
    _attend_splits[(triton.cdiv(rows, tile), kv_heads, splits)](
        grouped, keys, values, length, partial, peaks, width**-0.5,
        rows, splits, kv_heads * rows * splits,
        *keys.stride(), *values.stride(),
        ROWS=tile, KEYS=_KEYS, WIDTH=width, WIDTH_TILE=max(16, triton.next_power_of_2(width)), num_warps=4,
    )  # fmt: skip
    _join_splits[(rows, kv_heads)](
        partial, peaks, output, rows, splits, kv_heads * rows * splits,
        SPLITS=triton.next_power_of_2(splits),
        WIDTH=width, WIDTH_TILE=triton.next_power_of_2(width), num_warps=2,
    )  # fmt: skip
    return output.reshape(heads, count, width)


@triton.jit
def _attend_splits(
    query, keys, values, length, partial, peaks, scale,
    rows, splits, peak_count,
    key_head, key_slot, key_column, value_head, value_slot, value_column,
    ROWS: tl.constexpr, KEYS: tl.constexpr, WIDTH: tl.constexpr, WIDTH_TILE: tl.constexpr,
):  # fmt: skip
    head = tl.program_id(1).to(tl.int64)
    split = tl.program_id(2)
    used = tl.load(length).to(tl.int32)
    # Whole tiles, so that only the last program of all meets an end within one.
    share = tl.cdiv(tl.cdiv(used, splits), KEYS) * KEYS
    first = split * share
    last = tl.minimum(first + share, used)

    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    column = tl.arange(0, WIDTH_TILE)
    real_row = row < rows
    real_column = column < WIDTH
    place = (head * rows + row)[:, None] * WIDTH + column[None, :]
    q = tl.load(query + place, mask=real_row[:, None] & real_column[None, :], other=0.0)

    peak = tl.full([ROWS], -float("inf"), tl.float32)
    total = tl.zeros([ROWS], tl.float32)
    mixed = tl.zeros([ROWS, WIDTH_TILE], tl.float32)
    for start in range(first, last, KEYS):
        slot = start + tl.arange(0, KEYS)
        seen = slot < last
        inside = seen[:, None] & real_column[None, :]
        k = tl.load(
            keys + head * key_head + slot[:, None].to(tl.int64) * key_slot + column[None, :] * key_column,
            mask=inside, other=0.0,
        )  # fmt: skip
        score = tl.dot(q, tl.trans(k), input_precision="ieee") * scale
        score = tl.where(seen[None, :], score, -float("inf"))
        new_peak = tl.maximum(peak, tl.max(score, axis=1))
        weight = tl.exp(score - new_peak[:, None])
        shrink = tl.exp(peak - new_peak)
        v = tl.load(
            values + head * value_head + slot[:, None].to(tl.int64) * value_slot
            + column[None, :] * value_column,
            mask=inside, other=0.0,
        )  # fmt: skip
        mixed = mixed * shrink[:, None] + tl.dot(weight.to(v.dtype), v, input_precision="ieee")
        total = total * shrink + tl.sum(weight, axis=1)
        peak = new_peak

    # Relative to its own peak and not yet divided; a program that had no key leaves -inf and zeros.
    part = (head * rows + row) * splits + split
    tl.store(peaks + part, peak, mask=real_row)
    tl.store(peaks + peak_count + part, total, mask=real_row)
    tl.store(
        partial + part[:, None] * WIDTH + column[None, :], mixed,
        mask=real_row[:, None] & real_column[None, :],
    )  # fmt: skip


@triton.jit
def _join_splits(
    partial, peaks, output, rows, splits, peak_count,
    SPLITS: tl.constexpr, WIDTH: tl.constexpr, WIDTH_TILE: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(1).to(tl.int64) * rows + tl.program_id(0)
    split = tl.arange(0, SPLITS)
    column = tl.arange(0, WIDTH_TILE)
    real_split = split < splits
    real_column = column < WIDTH
    part = row * splits + split
    peak = tl.load(peaks + part, mask=real_split, other=-float("inf"))
    total = tl.load(peaks + peak_count + part, mask=real_split, other=0.0)
    mixed = tl.load(
        partial + part[:, None] * WIDTH + column[None, :],
        mask=real_split[:, None] & real_column[None, :], other=0.0,
    )  # fmt: skip
    weight = tl.exp(peak - tl.max(peak, axis=0))
    mean = tl.sum(mixed * weight[:, None], axis=0) / tl.sum(total * weight, axis=0)
    tl.store(output + row * WIDTH + column, mean.to(output.dtype.element_ty), mask=real_column)
