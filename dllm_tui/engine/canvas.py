"""The ids of a run, prompt first, and which of the answer's cells are undecided. Lives on the host."""

import torch
from torch import Tensor

from dllm_tui.engine.revision import Reflow
from dllm_tui.events import Change, Kind


class Canvas:
    """Prompt and answer as one row of ids.

    Decisions are taken on the host: a step needs a few small tensors from the device anyway, for its
    event, and what goes back are the ids of the next window. Positions here are absolute (the prompt
    counts); those in events start at the answer.

    Args:
        prompt_ids: the prompt.
        mask_id: what an undecided cell holds.
        noisy: undecided cells hold any token, and that is what they show.
    """

    def __init__(self, prompt_ids: list[int], mask_id: int, *, noisy: bool = False) -> None:
        self.prompt = len(prompt_ids)
        self.mask_id = mask_id
        self.noisy = noisy
        self.ids = torch.tensor(prompt_ids, dtype=torch.int64)
        """int64 [length]."""
        self.open = torch.zeros(self.prompt, dtype=torch.bool)
        """bool [length], undecided cells."""
        self.confidence = torch.ones(self.prompt)
        """float32 [length], of each decided cell when it was decided."""
        self.given: dict[int, int] = {}
        """Cells of the answer that a person has set, by absolute position: their tokens."""
        self.kept: dict[int, int] = {}
        """Cells of the answer that were taken over from another run, by absolute position: their tokens."""
        self._moved: dict[int, Kind] = {}
        """How cells changed that others made room for, or closed up to; until it is told."""

    @property
    def length(self) -> int:
        """Cells of prompt and answer."""
        return self.ids.numel()

    def resize(self, length: int) -> None:
        """Cut the answer, or append undecided cells."""
        more = length - self.length
        if more > 0:
            self.ids = torch.cat([self.ids, torch.full((more,), self.mask_id)])
            self.open = torch.cat([self.open, torch.ones(more, dtype=torch.bool)])
            self.confidence = torch.cat([self.confidence, torch.zeros(more)])
            self._give(length - more, length)
        elif more < 0:
            self.ids, self.open = self.ids[:length], self.open[:length]
            self.confidence = self.confidence[:length]

    def _give(self, start: int, end: int) -> None:
        """Set the cells among ``start … end-1`` that are given."""
        for place, token in self.given.items():
            if start <= place < end:
                self.ids[place], self.open[place], self.confidence[place] = token, False, 1.0

    def keep(self, place: int, token: int, confidence: float) -> None:
        """Decide a cell as it was in another run."""
        self.kept[place] = token
        self.ids[place], self.open[place], self.confidence[place] = token, False, confidence

    def is_given(self, start: int, end: int) -> Tensor:
        """Which cells a person has set: bool [end - start]."""
        return torch.tensor([place in self.given for place in range(start, end)], dtype=torch.bool)

    def put(self, start: int, tokens: Tensor, where: Tensor, confidence: Tensor) -> None:
        """Decide cells of the span that begins at ``start``.

        Args:
            start: absolute position of the span's first cell.
            tokens: int64 [T].
            where: bool [T], the cells that are decided.
            confidence: float32 [T].
        """
        span = slice(start, start + tokens.numel())
        self.ids[span] = torch.where(where, tokens, self.ids[span])
        self.confidence[span] = torch.where(where, confidence, self.confidence[span])
        self.open[span] &= ~where

    def renoise(self, start: int, tokens: Tensor, noise: Tensor) -> None:
        """Lay a canvas of undecided cells anew.

        Args:
            start: absolute position of the first one.
            tokens: int64 [T].
            noise: bool [T], which of them are noise, not the model's.
        """
        self.ids[start : start + tokens.numel()] = tokens
        for index in noise.nonzero().flatten().tolist():
            self._moved[start + index] = "renoise"

    def close(self, stop_ids: frozenset[int]) -> None:
        """Fill everything behind the answer's first stop token with it."""
        stop = self.first_of(stop_ids, self.prompt, self.length)
        if stop is not None:
            rest = torch.full((self.length - stop - 1,), int(self.ids[stop]))
            self.put(stop + 1, rest, torch.ones_like(rest, dtype=torch.bool), torch.ones(rest.numel()))

    def remask(self, start: int, end: int) -> None:
        """Return the cells ``start … end-1`` to the mask, but for those that are given."""
        self.ids[start:end] = self.mask_id
        self.confidence[start:end] = 0.0
        self.open[start:end] = True
        for place in range(start, end):
            self.kept.pop(place, None)
        self._give(start, end)

    def reflow(self, start: int, reflow: Reflow, chances: Tensor) -> None:
        """Lay cells anew that may have moved.

        Args:
            start: absolute position of the first one.
            reflow: where each comes from, and what stands there now.
            chances: float32 [T, vocab], of every token at every cell before the move.
        """
        ids, confidence = self.ids.clone(), self.confidence.clone()
        gone = set(range(len(reflow.ids))) - set(reflow.source)
        for index, (token, source) in enumerate(zip(reflow.ids, reflow.source, strict=True)):
            place = start + index
            self.ids[place], self.open[place] = token, token == self.mask_id
            if source is None or token == self.mask_id:
                self.confidence[place] = 0.0
            elif token == ids[start + source]:
                self.confidence[place] = confidence[start + source]
            else:
                self.confidence[place] = chances[source, token]
            if source is None:
                self._moved[place] = "shift" if index >= len(reflow.ids) - reflow.padding else "insert"
            elif source != index:
                self._moved[place] = "delete" if index in gone else "shift"

    def masks(self, start: int, end: int) -> int:
        """Undecided cells among ``start … end-1``."""
        return int(self.open[start:end].sum())

    def first_of(self, ids: frozenset[int], start: int, end: int) -> int | None:
        """Position of the first decided cell among ``start … end-1`` that holds one of ``ids``."""
        wanted = torch.tensor(sorted(ids), dtype=torch.int64)
        found = (torch.isin(self.ids[start:end], wanted) & ~self.open[start:end]).nonzero()
        return start + int(found[0]) if found.numel() else None

    def answer(self, end: int) -> list[int]:
        """The decided ids between the prompt and ``end``, masks left out."""
        return self.ids[self.prompt : end][~self.open[self.prompt : end]].tolist()

    def known(self, end: int) -> int:
        """How many cells between the prompt and ``end`` hold what the run was given."""
        known = (self.kept | self.given).items()
        return sum(place < end and int(self.ids[place]) == token for place, token in known)

    def shown(self) -> Tensor:
        """int64 [answer]: the answer's ids, -1 where a cell is masked; for :meth:`changes_since`."""
        ids = self.ids[self.prompt :]
        return ids.clone() if self.noisy else ids.masked_fill(self.open[self.prompt :], -1)

    def changes_since(self, before: Tensor) -> tuple[Change, ...]:
        """How the answer differs from an earlier :meth:`shown`.

        Cells past its end count as undecided there, as they do for who rebuilds the canvas from events.
        """
        now = self.shown()
        size = now.numel()
        if before.numel() < size:
            before = torch.cat([before, torch.full((size - before.numel(),), -1)])
        places = (now != before[:size]).nonzero().flatten()
        moved, self._moved = self._moved, {}
        columns = (places, before[places], now[places], self.confidence[self.prompt :][places])
        return tuple(
            Change(
                position=place,
                token_id=None if new < 0 else new,
                confidence=round(confidence, 6),
                kind=moved.get(self.prompt + place) or self._kind(self.prompt + place, old, new),
            )
            for place, old, new, confidence in zip(*(c.tolist() for c in columns), strict=True)
        )

    def _kind(self, place: int, old: int, new: int) -> Kind:
        if self.given.get(place) == new:
            return "fix"
        if new < 0:
            return "remask"
        if old >= 0:
            return "edit"
        return "keep" if self.kept.get(place) == new else "fill"
