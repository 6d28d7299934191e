"""Decoders that change their mind: editing committed tokens, inserting and deleting (LLaDA 2.1 and 2.2).

The fifth switch of a family. Both rules bound themselves: a budget of steps on a block that is full.
"""

from dataclasses import dataclass, field, replace

import torch
from dllm_kernels.confidence import confidence as read_confidence
from torch import Tensor

from dllm_tui.engine.selection import commit


def edits(tokens: Tensor, confidence: Tensor, ids: Tensor, editable: Tensor, edit_threshold: float) -> Tensor:
    """Committed tokens that another prediction replaces (token to token): bool [T].

    Args:
        tokens: int64 [T], the best predictions.
        confidence: float [T], their probabilities.
        ids: int64 [T], what stands there.
        editable: bool [T]: committed, and not of the prompt.
        edit_threshold: probability that a replacement must exceed.
    """
    return editable & (confidence > edit_threshold) & (tokens != ids)


def repel_left(logits: Tensor, ids: Tensor, penalty: float) -> Tensor:
    """Logits in which the token that stands to the left of a position costs ``penalty`` there.

    SGLang's ``penalty_lambda``: keeps edits from repeating a token.

    Args:
        logits: float [T, vocab].
        ids: int64 [T].
        penalty: on the scale of logits.
    """
    cost = torch.full((ids.numel() - 1, 1), -penalty, dtype=logits.dtype, device=logits.device)
    repelled = logits.clone()
    repelled[1:].scatter_add_(-1, ids[:-1].unsqueeze(-1), cost)
    return repelled


@dataclass
class EditBudget:
    """How many forwards one block may spend on editing once it has no mask (LLaDA 2.1).

    The block ends before the forward that exceeds the budget, or after one that changed nothing while
    the block was full.
    """

    limit: int = 16
    spent: int = 0

    def allows(self, masks: int) -> bool:
        """Whether the block gets another forward; counts it if the block is full."""
        self.spent += masks == 0
        return masks > 0 or self.spent <= self.limit


@dataclass(frozen=True)
class Reflow:
    """A block after a step that may have moved its cells."""

    ids: list[int]
    source: list[int | None]
    """For each cell the index that it had before the step; ``None`` for a mask that is new."""
    done: bool
    """The block is final and the ids that the forward saw are these: its keys and values may be kept."""
    padding: int = 0
    """New masks at the end that no insertion made: deletions have closed up."""


@dataclass
class InsertDelete:
    """Joint-threshold decoding with insertion and deletion of one block, as SGLang 0.5.23 decodes LLaDA 2.2.

    A prediction may be DELETE, which takes the cell away, or SPLIT, which puts a new mask before it. The
    block keeps its length: new masks fill up its end, cells pushed past the end are lost. Masks of the
    beginning and masks that came in later are told apart (``original``): the answer is there once none of
    the former is left, and every step commits one more token than there are new masks, so that it gets
    there. From then on the edit budget runs; it is not given back when a new mask appears. When it is
    used up, a last step fills what is open with ordinary tokens. A block state that was seen before would
    repeat for ever: the least confident change then takes the best token that was not tried there.
    """

    ids: Tensor
    """int64 [T], the block now. Cells before the first mask are the prompt's, and stay."""
    mask_id: int
    delete_id: int
    split_id: int
    threshold: float = 0.5
    edit_threshold: float = 0.0
    max_post_steps: int = 16
    post_steps: int = 0
    """Steps that began without an original mask."""
    original: Tensor = field(init=False)
    """bool [T], the cells that were masked at the beginning; moves along with them, and outlives the mask."""
    _prompt: Tensor = field(init=False, repr=False)
    _steps: int = field(default=0, init=False, repr=False)
    _finished: bool = field(default=False, init=False, repr=False)
    _seen: set[tuple[int, ...]] = field(default_factory=set[tuple[int, ...]], init=False, repr=False)
    _tried: dict[int, set[int]] = field(default_factory=dict[int, set[int]], init=False, repr=False)

    def __post_init__(self) -> None:
        self.original = self.ids == self.mask_id
        self._prompt = ~self.original.cumsum(0).bool()

    @property
    def finished(self) -> bool:
        """Whether nothing changes any more."""
        return self._finished

    def step(self, logits: Tensor) -> Reflow:
        """The block after a forward over it.

        Args:
            logits: float [T, vocab], raw: the three special tokens may be predicted.
        """
        ids = self.ids
        unchanged = Reflow(ids.tolist(), list(range(ids.numel())), done=True)
        if self._finished:
            return unchanged
        read = read_confidence(logits)
        tokens, confidence = read.token, read.confidence
        masked = (ids == self.mask_id) & ~self._prompt
        open_original = masked & self.original
        originals, masks = int(open_original.sum()), int(masked.sum())
        self._steps += 1
        self.post_steps += originals == 0
        last = self._steps > ids.numel() + self.max_post_steps or (
            originals == 0 and self.post_steps >= self.max_post_steps
        )
        if not last:
            # An original mask that is predicted to stay one would never resolve.
            stuck = open_original & (tokens == self.mask_id)
            other = _best(logits, (self.mask_id,))
            tokens = torch.where(stuck, other, tokens)
            chance = (logits.gather(-1, other.unsqueeze(-1)).squeeze(-1) - read.lse).exp()
            confidence = torch.where(stuck, chance, confidence)

        if last or originals == 0:
            fills = masked
        else:
            fills = commit(confidence, masked, self.threshold, 1 + masks - originals)
            if self.max_post_steps == 0 and not (open_original & ~fills).any():
                last, fills = True, masked
        changed = edits(tokens, confidence, ids, ~masked & ~self._prompt, self.edit_threshold)
        written = fills | changed
        if not written.any():
            self._finished = True
            return unchanged

        seen = tuple(unchanged.ids) in self._seen
        self._seen.add(tuple(unchanged.ids))
        if last:
            special = (self.mask_id, self.delete_id, self.split_id)
            is_special = torch.stack([tokens == token for token in special]).any(0)
            tokens = torch.where(written & is_special, _best(logits, special), tokens)
        elif seen:
            tokens = self._untried(tokens, confidence, logits, written, open_original)
        for position in written.nonzero().flatten().tolist():
            self._tried.setdefault(position, set()).add(int(tokens[position]))

        reflow = self._reflow(torch.where(written, tokens, ids).tolist(), unchanged.ids)
        original = self.original.tolist()
        self.ids = ids.new_tensor(reflow.ids)
        self.original = torch.tensor(
            [source is not None and original[source] for source in reflow.source], device=ids.device
        )
        self._finished = last
        return reflow if not last else replace(reflow, done=reflow.ids == unchanged.ids)

    def _untried(
        self, tokens: Tensor, confidence: Tensor, logits: Tensor, written: Tensor, open_original: Tensor
    ) -> Tensor:
        """The tokens, with another one at the least confident change."""
        changes = written & (tokens != self.ids)
        if not changes.any():
            return tokens
        place = int(confidence.masked_fill(~changes, torch.inf).argmin())
        banned = self._tried.get(place, set()) | ({self.mask_id} if open_original[place] else set())
        tokens = tokens.clone()
        tokens[place] = _best(logits[place], tuple(banned))
        return tokens

    def _reflow(self, predicted: list[int], before: list[int]) -> Reflow:
        """The block once deletions have closed up and insertions have pushed."""
        length = len(before)
        cells: list[tuple[int, int | None]] = []
        for index, token in enumerate(predicted):
            if self._prompt[index]:
                cells.append((token, index))
            elif token == self.split_id:
                cells += [(self.mask_id, None), (before[index], index)]
            elif token != self.delete_id:
                cells.append((token, index))
        padding = max(0, length - len(cells))
        cells = (cells + [(self.mask_id, None)] * padding)[:length]
        ids, source = [token for token, _ in cells], [source for _, source in cells]
        return Reflow(ids, source, done=False, padding=padding)


def _best(logits: Tensor, banned: tuple[int, ...]) -> Tensor:
    """Best token of each row but the banned ones: int64, the shape of the rows."""
    if banned:
        logits = logits.index_fill(-1, torch.tensor(banned, device=logits.device), -torch.inf)
    return logits.argmax(-1)
