"""The attention patterns: where blocks lie, and what each of the three kinds of forward sees.

A :class:`Plan` turns the canvas into :class:`Forward` s; the loop runs them and knows no pattern. Rows
come out in the order of the cells that were asked for, whatever the shift. Positions are absolute.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from dllm_tui.engine.canvas import Canvas
from dllm_tui.errors import EngineError
from dllm_tui.families.family import Attention, Family
from dllm_tui.knobs import Knobs

LAST = slice(-1, None)
NONE = slice(0, 0)


@dataclass(frozen=True, kw_only=True)
class Forward:
    """One forward, as :meth:`dllm_tui.engine.backbone.Backbone.forward` takes it; tensors on the host."""

    ids: Tensor
    start: int
    """Position of the first id; the others follow, if there is no ``order``."""
    noised: bool = False
    context: int = 0
    write_at: int | None = None
    mask: Tensor | None = None
    causal: bool = False
    rows: Tensor | slice | None = None
    condition: Tensor | None = None
    order: Tensor | None = None
    """int64 [T], position of each id less ``start``, where they are not in order."""

    @property
    def positions(self) -> Tensor:
        """int64 [T], the position of each id."""
        return self.start + (torch.arange(self.ids.numel()) if self.order is None else self.order)

    @property
    def predicts(self) -> bool:
        """Whether it is made for its predictions, not for keys and values alone."""
        return self.rows is not NONE


class Plan:
    """One attention pattern on one canvas."""

    caches = True
    """Whether forwards read and write a cache."""
    verifies = False
    """Whether a commit forward can judge its block: say what the autoregressive model puts after a token."""
    looks_ahead = False
    """Whether a block sees what is decided behind it."""

    def __init__(self, canvas: Canvas) -> None:
        self.canvas = canvas

    def prefill(self, end: int) -> Forward | None:
        """The forward over what stands before ``end``, if any. If it predicts, then the token there.

        That is the prompt, and the finished blocks of a run that this one goes on from.
        """
        raise NotImplementedError

    def lay(self, start: int, limit: int, knobs: Knobs) -> tuple[int, int]:
        """Where the block from ``start`` ends, and how long the canvas is meanwhile.

        Both may lie past the ``limit`` of the answer: a model trained on whole blocks reads whole blocks.
        """
        raise NotImplementedError

    def reach(self, start: int, is_open: Tensor) -> Tensor:
        """Undecided cells that a step may commit, of the block's from ``start`` on: bool [T]."""
        return is_open

    def leading(self, start: int, reached: Tensor) -> Tensor:
        """Those cells of :meth:`reach` from which a step commits at least its share: bool [T]."""
        return reached

    def denoise(self, start: int, end: int, cells: Tensor) -> Forward:
        """The forward over a block, predicting ``cells`` (int64 [n])."""
        raise NotImplementedError

    def hear(self, logits: Tensor, temperature: float) -> None:
        """Take notice of what the forward over a block said, where the next one is told."""

    def commit(self, start: int, end: int, *, judge: bool) -> Forward | None:
        """The forward that keeps a finished block, if any.

        If it predicts, then the token after the block; with ``judge``, after each of its tokens.
        """
        raise NotImplementedError


class TwoStreams(Plan):
    """Block-causal, with a clean stream that is the autoregressive model itself.

    The clean stream (prompt, finished blocks) is causal; its last row is the next token. The noised
    stream holds the block being denoised. With shift 1 (``smol``) its window begins one position early,
    at the last clean token, so that row j predicts the block's cell j; with shift 0 (Nemotron) it is the
    block. It sees the clean keys before the window and all of itself.

    With shift 1 the adapter acts on masks alone: the decided cells that lead a block are read as the clean
    stream reads them, so what is kept of them in one forward needs no rows in the next.

    Args:
        canvas: with the prompt on it.
        shift: 1 where a position's prediction is read one row before it.
    """

    verifies = True

    def __init__(self, canvas: Canvas, shift: int = 1) -> None:
        super().__init__(canvas)
        self.shift = shift
        self._start = 0
        self._kept = canvas.ids[:0]
        """What the cache holds from ``_start`` on, beside what is before it."""

    def prefill(self, end: int) -> Forward:
        """Clean, causal."""
        return Forward(ids=self.canvas.ids[:end], start=0, causal=True, write_at=0, rows=LAST)

    def lay(self, start: int, limit: int, knobs: Knobs) -> tuple[int, int]:  # noqa: D102
        return start + knobs.block_size, start + knobs.block_size

    def denoise(self, start: int, end: int, cells: Tensor) -> Forward:
        """Noised; with shift 1 from the token before the first of the cells on, or what isn't read yet."""
        if not self.shift:
            return Forward(
                ids=self.canvas.ids[start:end], start=start, noised=True, context=start, rows=cells - start
            )
        first = min(self._known(start), int(cells[0])) - 1
        leading = int((~self.canvas.open[start:end]).cumprod(0).sum())
        self._start, self._kept = start, self.canvas.ids[start : start + leading].clone()
        return Forward(
            ids=self.canvas.ids[first : end - 1],
            start=first,
            noised=True,
            context=first,
            write_at=first,
            rows=cells - 1 - first,
        )

    def _known(self, start: int) -> int:
        """Up to where the cache holds what stands on the canvas, at least to the block's ``start``."""
        if self._start != start:
            return start
        now = self.canvas.ids[start : start + len(self._kept)]
        same = now == self._kept[: len(now)]
        return start + int(same.cumprod(0).sum())

    def commit(self, start: int, end: int, *, judge: bool) -> Forward:
        """Clean, causal, the block, or what of it isn't read yet."""
        first = start if judge else min(self._known(start), end - 1)
        return Forward(
            ids=self.canvas.ids[first:end],
            start=first,
            causal=True,
            context=first,
            write_at=first,
            rows=None if judge else LAST,
        )


class BlockCausal(Plan):
    """A position sees its own block and all before it; one more forward keeps a finished block.

    The grid of blocks begins at position 0 (SDAR, LLaDA 2, Fast-dLLM v2: the prompt's last, partial block
    is denoised together with it), or at the end of the prompt (A2D: the prompt's first block is partial).
    A block may be filled in parts. With ``dual``, a forward then reads its part alone, and the keys and
    values of the block's other parts are those of the last forward over all of them: approximate.

    Args:
        canvas: with the prompt on it.
        size: of a block.
        shift: 1 where a position's prediction is read one row before it.
        from_response: the grid begins at the end of the prompt.
        whole: the last block keeps its size where it reaches past the answer's limit.
        dual: keep keys and values of an unfinished block.
    """

    def __init__(
        self,
        canvas: Canvas,
        size: int,
        shift: int = 0,
        *,
        from_response: bool = False,
        whole: bool = True,
        dual: bool = False,
    ) -> None:
        super().__init__(canvas)
        self.size, self.shift, self.whole, self.dual = size, shift, whole, dual
        self.offset = canvas.prompt % size if from_response else 0
        self.part = size
        self._kept = -1

    def _base(self, position: int) -> int:
        """First position of the grid's block that holds ``position``."""
        return max(0, position - (position - self.offset) % self.size)

    def prefill(self, end: int) -> Forward | None:
        """Whole blocks."""
        known = self._base(end)
        if known == 0:
            return None
        return Forward(
            ids=self.canvas.ids[:known],
            start=0,
            write_at=0,
            mask=block_mask(known, self.size, self.offset),
            rows=LAST if self.shift and known == end else NONE,
        )

    def lay(self, start: int, limit: int, knobs: Knobs) -> tuple[int, int]:  # noqa: D102
        self.part = knobs.block_size
        end = start - (start - self.offset) % self.size + self.size
        end = end if self.whole else min(end, limit)
        return end, end

    def _part(self, position: int) -> tuple[int, int]:
        """The part that holds ``position``: first position, and the one after the last."""
        base = self._base(position)
        first = position - (position - base) % self.part
        return first, min(first + self.part, base + self.size)

    def reach(self, start: int, is_open: Tensor) -> Tensor:
        """Those of the first part that has any."""
        if not is_open.any():
            return is_open
        first, end = self._part(start + int(is_open.to(torch.uint8).argmax()))
        places = torch.arange(start, start + is_open.numel())
        return is_open & (places >= first) & (places < end)

    def denoise(self, start: int, end: int, cells: Tensor) -> Forward:
        """The grid's block, with what the prompt has of it; with ``dual``, its part where that will do."""
        base = self._base(start)
        if self.dual:
            first, last = self._part(int(cells[0]))
            # A part whose first token is open has it predicted by the row before, which is another's.
            if self._kept == start and not (self.shift and self.canvas.open[first]):
                seen = torch.ones(last - first, end + last - first, dtype=torch.bool)
                seen[:, first:last] = False
                rows = cells - first - self.shift
                ids = self.canvas.ids[first:last]
                return Forward(ids=ids, start=first, context=end, write_at=first, mask=seen, rows=rows)
            self._kept = start
        rows = (cells - base - self.shift).clamp(min=0)
        write_at = base if self.dual else None
        return Forward(ids=self.canvas.ids[base:end], start=base, context=base, write_at=write_at, rows=rows)

    def commit(self, start: int, end: int, *, judge: bool) -> Forward:  # noqa: D102
        base = self._base(start)
        rows = LAST if self.shift else NONE
        return Forward(ids=self.canvas.ids[base:end], start=base, context=base, write_at=base, rows=rows)


class Reordered(Plan):
    """Causal over decided tokens first and masks last, each with its own rotary position (WeDLM).

    A window of masks slides over the answer. What is decided without a gap from the left comes first and
    sees only what is before it, so its keys and values are exact, and stay, once a forward had it.
    """

    looks_ahead = True

    def __init__(self, canvas: Canvas) -> None:
        super().__init__(canvas)
        self._kept = canvas.prompt

    def prefill(self, end: int) -> Forward:
        """Causal; the window predicts its own first token."""
        self._kept = end
        return Forward(ids=self.canvas.ids[:end], start=0, causal=True, write_at=0, rows=NONE)

    def lay(self, start: int, limit: int, knobs: Knobs) -> tuple[int, int]:
        """The window, and what has been decided beyond it."""
        end = max(start + knobs.block_size, self.canvas.length)
        return end, end

    def denoise(self, start: int, end: int, cells: Tensor) -> Forward:
        """Everything that isn't kept yet, in the new order."""
        kept, ids = self._kept, self.canvas.ids[self._kept : end]
        order = self.canvas.open[kept:end].to(torch.uint8).argsort(stable=True)
        self._kept = start
        rows = order.argsort()[cells - kept]
        return Forward(
            ids=ids[order], start=kept, order=order, context=kept, write_at=kept, causal=True, rows=rows
        )

    def commit(self, start: int, end: int, *, judge: bool) -> None:
        """None: the next step's forward keeps it."""


class EncoderCanvas(Plan):
    """A causal encoder of what is finished, and a canvas that sees it and all of itself (DiffusionGemma).

    The canvas is told what it said in the step before.
    """

    def __init__(self, canvas: Canvas) -> None:
        super().__init__(canvas)
        self._said: Tensor | None = None

    def prefill(self, end: int) -> Forward:
        """The encoder."""
        return Forward(ids=self.canvas.ids[:end], start=0, causal=True, write_at=0, rows=NONE)

    def lay(self, start: int, limit: int, knobs: Knobs) -> tuple[int, int]:  # noqa: D102
        self._said = None
        return start + knobs.block_size, start + knobs.block_size

    def denoise(self, start: int, end: int, cells: Tensor) -> Forward:
        """The canvas."""
        ids = self.canvas.ids[start:end]
        return Forward(
            ids=ids, start=start, noised=True, context=start, rows=cells - start, condition=self._said
        )

    def hear(self, logits: Tensor, temperature: float) -> None:
        """Keep the logits, after the temperature."""
        self._said = logits / temperature

    def commit(self, start: int, end: int, *, judge: bool) -> Forward:
        """The encoder, over the finished canvas."""
        ids = self.canvas.ids[start:end]
        return Forward(ids=ids, start=start, causal=True, context=start, write_at=start, rows=NONE)


class Full(Plan):
    """Every position sees every other: the whole canvas is there from the start, nothing can be kept.

    Blocks (semi-autoregressive decoding) only say where commits may fall.

    Args:
        canvas: with the prompt on it.
        shift: 1 where a position's prediction is read one row before it.
    """

    caches = False
    looks_ahead = True

    def __init__(self, canvas: Canvas, shift: int = 0) -> None:
        super().__init__(canvas)
        self.shift = shift

    def prefill(self, end: int) -> None:
        """None: the prompt is read again in every step."""

    def lay(self, start: int, limit: int, knobs: Knobs) -> tuple[int, int]:  # noqa: D102
        length = max(limit, self.canvas.length)
        return min(start + knobs.block_size, length), length

    def denoise(self, start: int, end: int, cells: Tensor) -> Forward:
        """The whole canvas."""
        return Forward(ids=self.canvas.ids, start=0, rows=(cells - self.shift).clamp(min=0))

    def commit(self, start: int, end: int, *, judge: bool) -> None:
        """None: there is nothing to keep."""


class Overlapping(Full):
    """The whole canvas, with blocks that begin before the one before them is full (D2F, d3LLM).

    To the loop it is one block; how far steps reach into it is decided here.

    Args:
        canvas: with the prompt on it.
        shift: 1 where a position's prediction is read one row before it.
        size: of a block.
        share: of a block that must be decided before the next one is begun.
    """

    def __init__(self, canvas: Canvas, shift: int, size: int, share: float) -> None:
        super().__init__(canvas, shift)
        self.size, self.share = size, share

    def lay(self, start: int, limit: int, knobs: Knobs) -> tuple[int, int]:  # noqa: D102
        length = max(limit, self.canvas.length)
        return length, length

    def reach(self, start: int, is_open: Tensor) -> Tensor:
        """Those of blocks that have begun."""
        reached = is_open.clone()
        for first in range(0, is_open.numel(), self.size):
            if is_open[first : first + self.size].float().mean() > 1 - self.share:
                reached[first + self.size :] = False
                break
        return reached

    def leading(self, start: int, reached: Tensor) -> Tensor:
        """Those of the first block that isn't full."""
        first = int(reached.to(torch.uint8).argmax()) // self.size * self.size
        leading = torch.zeros_like(reached)
        leading[first : first + self.size] = reached[first : first + self.size]
        return leading


class Approximate(Full):
    """The whole canvas with the caches of Fast-dLLM (arXiv 2505.22618): quick, and not quite the model.

    The first step of a block reads everything and keeps all keys and values. The further ones read what
    is new and take the rest as it was then, although every token of the block changes it: only the block
    with what follows (``prefix``), or the block alone (``dual``; its own are replaced in place).

    Args:
        canvas: with the prompt on it.
        shift: 1 where a position's prediction is read one row before it.
        dual: keep what follows the block as well.
    """

    caches = True

    def __init__(self, canvas: Canvas, shift: int = 0, *, dual: bool) -> None:
        super().__init__(canvas, shift)
        self.dual = dual
        self._kept = -1

    def denoise(self, start: int, end: int, cells: Tensor) -> Forward:
        """Everything once a block, then the little that is new."""
        ids, length = self.canvas.ids, self.canvas.length
        if self._kept != start:
            self._kept = start
            return Forward(ids=ids, start=0, write_at=0, rows=(cells - self.shift).clamp(min=0))
        base = max(0, start - self.shift)
        rows = (cells - base - self.shift).clamp(min=0)
        if not self.dual:
            return Forward(ids=ids[base:], start=base, context=base, rows=rows)
        seen = torch.ones(end - base, length + end - base, dtype=torch.bool)
        seen[:, base:end] = False
        return Forward(ids=ids[base:end], start=base, context=length, write_at=base, mask=seen, rows=rows)


def block_mask(length: int, size: int, offset: int = 0) -> Tensor | None:
    """Who sees whom in a block-causal sequence: bool [length, length], ``None`` where all see all.

    Args:
        length: positions, from 0.
        size: of a block.
        offset: where a block boundary lies, modulo ``size``.
    """
    blocks = (torch.arange(length) - offset).div(size, rounding_mode="floor")
    return None if blocks[0] == blocks[-1] else blocks.unsqueeze(-1) >= blocks


def sequence_mask(family: Family, length: int) -> Tensor | None:
    """Who sees whom among ``length`` decided tokens in the family's own attention; ``None``: all see all."""
    if family.attention is Attention.FULL:
        return None
    if family.two_streams or family.attention is not Attention.BLOCK_CAUSAL:
        return torch.ones(length, length, dtype=torch.bool).tril()
    size = family.grid or family.defaults.block_size
    return block_mask(length, size, length % size if family.response_grid else 0)


def plan_for(family: Family, canvas: Canvas, knobs: Knobs) -> Plan:
    """The plan of a family for one run.

    Args:
        family: its switches decide.
        canvas: with the prompt on it.
        knobs: in force at the start.

    Raises:
        EngineError: the family can't decode that way.
    """
    full = family.attention is Attention.FULL
    if knobs.cache not in family.caches:
        only = "has no exact cache" if full else "keeps an exact cache"
        raise EngineError(
            f"cache is {knobs.cache!r}, but {family.title} {only}.", f"Use one of {', '.join(family.caches)}."
        )
    if family.two_streams:
        return TwoStreams(canvas, family.shift)
    if full:
        return _full_plan(family, canvas, knobs)
    if family.attention is Attention.BLOCK_CAUSAL:
        size = family.grid or knobs.block_size
        return BlockCausal(
            canvas,
            size,
            family.shift,
            from_response=family.response_grid,
            whole=family.whole_blocks,
            dual=knobs.cache == "dual",
        )
    if family.attention is Attention.REORDERED:
        return Reordered(canvas)
    return EncoderCanvas(canvas)


def _full_plan(family: Family, canvas: Canvas, knobs: Knobs) -> Plan:
    if knobs.cache in ("prefix", "dual"):
        return Approximate(canvas, family.shift, dual=knobs.cache == "dual")
    if family.overlap < 1:
        return Overlapping(canvas, family.shift, knobs.block_size, family.overlap)
    return Full(canvas, family.shift)
