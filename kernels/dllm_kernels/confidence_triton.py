"""The Triton side of :mod:`dllm_kernels.confidence`: one pass over the logits, split over the vocabulary.

A program a row would leave most of a GPU idle at the few rows that a decoder has, so a row is cut into
spans. Each program carries, over the tiles of its span, the online-softmax sums Σe and Σe·z (z = x − max,
e = exp z), the two largest logits, and the largest of those that may be chosen; a second kernel joins the
spans. Arithmetic is float32 whatever the logits are.
"""
# Inside a kernel, parameters are pointers and compile-time constants: Python's types and names don't fit.
# ruff: noqa: ANN001, ANN202, N803, PLR0917
# pyright: basic, reportCallIssue=false, reportArgumentType=false

import torch
import triton
import triton.language as tl
from torch import Tensor

from dllm_kernels.confidence import Confidence

_SPAN = 4096
"""Columns per program: at 8 rows of 49,152 logits that makes 96 programs, at 32 of 157,184 1,248."""
_TILE = 1024
"""Columns that a program holds at once."""
_FIELDS = 5
"""What a span reports besides its token: max, Σe, Σe·z, second-largest, largest that may be chosen."""


def confidence(logits: Tensor, forbidden: Tensor | None = None) -> Confidence:
    """Reduce every row of logits; see :func:`dllm_kernels.confidence.confidence`."""
    rows, columns = logits.shape
    spans = triton.cdiv(columns, _SPAN)
    device = logits.device
    partial = torch.empty((rows, spans, _FIELDS), dtype=torch.float32, device=device)
    tokens = torch.empty((rows, spans), dtype=torch.int32, device=device)
    token = torch.empty(rows, dtype=torch.int64, device=device)
    result = torch.empty((4, rows), dtype=torch.float32, device=device)
    if forbidden is None:
        forbidden = token  # not read
        banned = 0
    else:
        banned = forbidden.numel()
    if rows:
        _reduce_spans[(rows, spans)](
            logits, forbidden, partial, tokens, columns, logits.stride(0), logits.stride(1), spans,
            BANNED=banned, SPAN=_SPAN, TILE=_TILE, FIELDS=_FIELDS, num_warps=4,
        )  # fmt: skip
        _join_spans[(rows,)](
            partial, tokens, token, result, rows, spans,
            SPANS=triton.next_power_of_2(spans), FIELDS=_FIELDS, num_warps=1,
        )  # fmt: skip
    return Confidence(token, *result.unbind(0))


@triton.jit
def _reduce_spans(
    logits, forbidden, partial, tokens, columns, row_stride, column_stride, spans,
    BANNED: tl.constexpr, SPAN: tl.constexpr, TILE: tl.constexpr, FIELDS: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0)
    span = tl.program_id(1)
    start = span * SPAN
    logits += row.to(tl.int64) * row_stride
    peak = -float("inf")
    second = -float("inf")
    total = 0.0
    energy = 0.0
    best = -float("inf")
    token = start
    for offset in range(0, SPAN, TILE):
        column = start + offset + tl.arange(0, TILE)
        inside = column < columns
        x = tl.load(logits + column.to(tl.int64) * column_stride, mask=inside, other=-float("inf"))
        x = x.to(tl.float32)

        tile_peak = tl.max(x, axis=0)
        at_peak = tl.min(tl.where(x == tile_peak, column, columns), axis=0)
        tile_second = tl.max(tl.where(column == at_peak, -float("inf"), x), axis=0)
        second = tl.maximum(tl.minimum(peak, tile_peak), tl.maximum(second, tile_second))

        allowed = inside
        for place in tl.static_range(BANNED):
            allowed = allowed & (column != tl.load(forbidden + place))
        y = tl.where(allowed, x, -float("inf"))
        tile_best = tl.max(y, axis=0)
        at_best = tl.min(tl.where((y == tile_best) & allowed, column, columns), axis=0)
        token = tl.where(tile_best > best, at_best, token)
        best = tl.maximum(best, tile_best)

        # A tile of -inf alone has no maximum to subtract.
        new_peak = tl.maximum(peak, tile_peak)
        origin = tl.where(new_peak == -float("inf"), 0.0, new_peak)
        moved = tl.where(peak == -float("inf"), 0.0, peak - origin)
        z = tl.where(x == -float("inf"), 0.0, x - origin)
        e = tl.where(x == -float("inf"), 0.0, tl.exp(z))
        scale = tl.exp(moved)
        energy = (energy + moved * total) * scale + tl.sum(e * z, axis=0)
        total = total * scale + tl.sum(e, axis=0)
        peak = new_peak
    place = row.to(tl.int64) * spans + span
    tl.store(tokens + place, token)
    partial += place * FIELDS
    tl.store(partial, peak)
    tl.store(partial + 1, total)
    tl.store(partial + 2, energy)
    tl.store(partial + 3, second)
    tl.store(partial + 4, best)


@triton.jit
def _join_spans(
    partial, tokens, token, result, rows, spans, SPANS: tl.constexpr, FIELDS: tl.constexpr
):  # fmt: skip
    row = tl.program_id(0)
    span = tl.arange(0, SPANS)
    inside = span < spans
    place = row.to(tl.int64) * spans + span
    fields = partial + place * FIELDS
    peaks = tl.load(fields, mask=inside, other=-float("inf"))
    totals = tl.load(fields + 1, mask=inside, other=0.0)
    energies = tl.load(fields + 2, mask=inside, other=0.0)
    seconds = tl.load(fields + 3, mask=inside, other=-float("inf"))
    bests = tl.load(fields + 4, mask=inside, other=-float("inf"))

    peak = tl.max(peaks, axis=0)
    leader = tl.min(tl.where(peaks == peak, span, SPANS), axis=0)
    second = tl.maximum(
        tl.max(tl.where(span == leader, -float("inf"), peaks), axis=0), tl.max(seconds, axis=0)
    )
    best = tl.max(bests, axis=0)
    chosen = tl.min(tl.where((bests == best) & inside, span, SPANS), axis=0)

    moved = tl.where(peaks == -float("inf"), 0.0, peaks - peak)
    scale = tl.exp(moved)
    total = tl.sum(totals * scale, axis=0)
    energy = tl.sum((energies + moved * totals) * scale, axis=0)
    log_total = tl.log(total)
    other = tl.where(best == peak, second, peak)
    chance = tl.exp(best - peak) / total

    tl.store(token + row, tl.load(tokens + row.to(tl.int64) * spans + chosen).to(tl.int64))
    tl.store(result + row, chance)
    tl.store(result + rows + row, peak + log_total)
    tl.store(result + 2 * rows + row, log_total - energy / total)
    tl.store(result + 3 * rows + row, chance - tl.exp(other - peak) / total)
