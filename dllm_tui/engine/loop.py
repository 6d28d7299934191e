"""The one loop: prefill → (denoise → policy → apply)* → commit forward → next block.

What a family does differently is in its plan (who sees whom, :mod:`dllm_tui.engine.attention`), its rule
(what a step may change) and its policy (what it picks, :mod:`dllm_tui.engine.policies`).
"""

import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import pairwise
from time import perf_counter

import torch
from torch import Tensor

from dllm_tui.engine.attention import Forward, plan_for
from dllm_tui.engine.backbone import Cache
from dllm_tui.engine.canvas import Canvas
from dllm_tui.engine.draws import Draws
from dllm_tui.engine.model import Model
from dllm_tui.engine.policies import REDRAWS, Credit, View, reading, rule_for
from dllm_tui.engine.schedules import noise_level, sedd_times
from dllm_tui.engine.scores import Scores, read
from dllm_tui.errors import EngineError
from dllm_tui.events import (
    AnyEvent,
    BlockStart,
    Change,
    Commit,
    Done,
    Error,
    Guess,
    KnobChange,
    Phase,
    Pieces,
    Reason,
    RunStart,
    Step,
)
from dllm_tui.families.family import Noise
from dllm_tui.knobs import KNOBS, Knobs, LiveKnobs
from dllm_tui.ports import Origin

CACHE_ROOM = 1024
"""Slots reserved beyond the prompt where ``max_new_tokens`` asks for fewer: the knob may be turned up."""


@dataclass
class Block:
    """The active block: cells ``start … end-1``, absolute."""

    index: int
    start: int
    end: int
    ended: Reason | None = None
    """Why the answer ends in this block, as soon as that is known."""
    credit: Credit = field(default_factory=Credit)


class Decoder:
    """One run. Iterate :meth:`events` once.

    Args:
        model: what to decode with.
        prompt_ids: the prompt; checked by the caller.
        live: knobs; a change holds from the next step, of the block size from the next block.
        run: the number that the events carry.
        should_stop: asked before every forward; true ends the run with ``cancelled``.
        alternatives: how many of the best tokens each guess reports.
        frame: the answer's first cells, where some are given: a token, or ``None`` for one to be found.
        origin: a canvas to go on from.
        draws: where chance comes from, if not from the seed.

    Raises:
        EngineError: the knobs or the origin ask for what the family doesn't do.
    """

    def __init__(
        self,
        model: Model,
        prompt_ids: list[int],
        live: LiveKnobs,
        *,
        run: int = 0,
        should_stop: Callable[[], bool] = lambda: False,
        alternatives: int = 0,
        frame: Sequence[int | None] = (),
        origin: Origin | None = None,
        draws: Draws | None = None,
    ) -> None:
        self.model = model
        self.live = live
        self.run = run
        self.should_stop = should_stop
        self.alternatives = alternatives
        self.knobs = live.now
        vocabulary = model.backbone.vocab_size
        if model.mask_id is None and model.family.noise is Noise.ABSORBING:
            raise EngineError(
                f"{model.info.id} doesn't say which of its tokens is the mask.",
                "Add mask_token_id to its config.json.",
            )
        mask_id = vocabulary if model.mask_id is None else model.mask_id
        self.canvas = Canvas(prompt_ids, mask_id, noisy=model.family.noise is Noise.UNIFORM)
        self.canvas.given = {len(prompt_ids) + i: token for i, token in enumerate(frame) if token is not None}
        self.plan = plan_for(model.family, self.canvas, self.knobs)
        self._check_policy(self.knobs.policy)
        self.origin = origin
        if origin and model.family.unkept:
            raise EngineError(f"No run can go on from a canvas here: {model.family.unkept}.")
        real = mask_id < vocabulary
        self.forbidden = torch.tensor([mask_id], device=model.backbone.device) if real else None
        self.seed = random.SystemRandom().getrandbits(31) if self.knobs.seed is None else self.knobs.seed
        self.draws = draws or Draws(self.seed)
        self.cache = self.blind_cache = None
        self._shown = self.canvas.shown()
        finished = len(origin.blocks) if origin else 0
        self.block = Block(finished - 1, len(prompt_ids), len(prompt_ids))
        self.reason: Reason | None = None
        self.nfe: dict[str, int] = {"prefill": 0, "denoise": 0, "commit": 0}
        self.seconds: dict[str, float] = {"prefill": 0.0, "denoise": 0.0, "commit": 0.0}
        self._resumed: Origin | None = None
        """Until the block that was begun in another run goes on."""
        self._turned = self.knobs
        self._known: set[int] = set()
        self._began = self._clock = perf_counter()

    def events(self) -> Iterator[AnyEvent]:
        """The run, event by event; the last is ``done``."""
        self._began = perf_counter()
        yield RunStart(
            run=self.run,
            knobs=self.knobs.to_dict(),
            prompt_tokens=self.canvas.prompt,
            seed=self.seed,
            parent=self.origin and self.origin.run,
            parent_nfe=self.origin.nfe if self.origin else 0,
        )
        try:
            yield from self._prefill()
            while self.reason is None:
                yield from self._denoise()
                if self.reason is None:
                    yield from self._commit()
        except (MemoryError, RuntimeError) as error:
            if not out_of_memory(error):
                raise
            yield Error(
                run=self.run,
                message=f"Out of memory on {self.model.info.device} after {self.canvas.length} tokens.",
                hint="Shorten the conversation, take a smaller block, or a smaller model.",
            )
            self.reason = "error"
        finally:
            self.cache = self.blind_cache = None
        yield self._done()

    # The three kinds of forward

    def _prefill(self) -> Iterator[AnyEvent]:
        yield from self._turn()
        if self.reason is not None:
            return
        if self.plan.caches:
            room = self.canvas.prompt + max(self.knobs.max_new_tokens, CACHE_ROOM) + self.knobs.block_size
            self.cache = self.model.backbone.new_cache(min(room, self.context))
            if self.knobs.cfg_scale:
                self.blind_cache = self.model.backbone.new_cache(min(room, self.context))
        opened = None
        if self.origin is not None:
            opened = self._take_over(self.origin)
            self._clock = perf_counter()
            yield from self._step("prefill", 0)
            yield from self._taken_blocks(self.origin)
            if self.reason is not None:
                return
        start = self.canvas.prompt + (self.origin.start if self.origin else 0)
        forward = self.plan.prefill(start)
        seed = None
        if forward is not None:
            seed = self._predict(forward, "prefill")
            opened = self._open(start, seed) if opened is None else opened
            yield from self._step("prefill", 0, scores=seed, cells=torch.tensor([start]))
        yield from self._open(start) if opened is None else opened

    def _take_over(self, origin: Origin) -> list[AnyEvent] | None:
        """Lay the canvas as it was in another run; what opens its last block, if that had been begun."""
        canvas, first = self.canvas, self.canvas.prompt
        start, end = first + origin.start, first + len(origin.cells)
        canvas.given |= {
            first + at: cell.token_id for at, cell in enumerate(origin.cells) if cell and cell.fixed
        }
        canvas.resize(start)
        if self.plan.looks_ahead:
            canvas.resize(max(start, min(end, self.limit)))
        opened = self._open(start) if start < end else None
        self._resumed = origin if opened else None
        for place, cell in enumerate(origin.cells[: canvas.length - first], start=first):
            if cell is not None:
                canvas.keep(place, cell.token_id, cell.confidence)
        stop = canvas.first_of(self.model.stop_ids, first, canvas.length)
        if self.plan.looks_ahead and stop is not None and not canvas.masks(first, stop):
            canvas.resize(stop + 1)
            self.reason = "stop"
        return opened

    def _taken_blocks(self, origin: Origin) -> Iterator[AnyEvent]:
        """Where the finished blocks lie that were taken over."""
        for block, (start, end) in enumerate(pairwise((*origin.blocks, origin.start))):
            yield BlockStart(run=self.run, block=block, start=start, end=end)
            yield Commit(run=self.run, block=block, start=start, end=end)

    def _past(self, origin: Origin, reach: Callable[[Tensor], Tensor]) -> tuple[int, int, Tensor]:
        """Where the steps of a block stand that another run had begun.

        Returns:
            How many came before the part that is being filled, the undecided cells when that began, and
            which those were: bool [T].
        """
        start, end = self.block.start - self.canvas.prompt, self.block.end - self.canvas.prompt
        steps = torch.zeros(end - start, dtype=torch.int64)
        for place, cell in enumerate(origin.cells[start:end]):
            steps[place] = cell.step if cell else 0
        is_open = self.canvas.open[self.block.start : self.block.end]
        undecided, begun = is_open | (steps > 0), 0
        while True:
            reached = reach(undecided.clone())
            if (reached & is_open).any() or not reached.any():
                return begun, int(reached.sum()), reached
            begun = int(steps[reached].max())
            undecided &= ~reached

    def _denoise(self) -> Iterator[AnyEvent]:
        block, canvas = self.block, self.canvas
        origin, self._resumed = self._resumed, None
        rule = rule_for(self.model, origin.full if origin else 0)
        opened = step = begun = 0
        reached = torch.zeros(block.end - block.start, dtype=torch.bool)
        if origin is not None and origin.step and block.ended is None:
            step = origin.step
            begun, opened, reached = self._past(origin, partial(self.plan.reach, block.start))
        goes_on = block.ended is None and rule.goes_on(self._undecided())
        if not goes_on and block.ended is None:
            self._settle()
        while goes_on:
            yield from self._turn()
            if self.reason is not None:
                return
            step += 1
            is_open = self.plan.reach(block.start, canvas.open[block.start : block.end].clone())
            if is_open.any() and not (is_open & reached).any():
                # A block that is filled in parts begins anew with each of them.
                reached, opened, begun = is_open, int(is_open.sum()), step - 1
            wanted = rule.wanted(is_open)
            cells = wanted.nonzero().flatten() + block.start
            masks = canvas.masks(block.start, block.end)
            logits = self._logits(cells, wanted, step - begun)
            while True:
                knobs = reading(self.model.family, self.knobs, step - begun)
                scores = self._read(logits, knobs, self.alternatives)
                view = self._view(
                    scores, logits, wanted=wanted, is_open=is_open, step=step - begun, opened=opened
                )
                rule.apply(canvas, block.start, view)
                self.plan.hear(logits, knobs.temperature or 1.0)
                if self.knobs.policy not in REDRAWS or canvas.masks(block.start, block.end) < masks:
                    break
                step += 1
            if self.model.family.closes:
                canvas.close(self.model.stop_ids)
            goes_on = rule.goes_on(self._undecided())
            if not (goes_on and rule.revises):
                self._settle()
            yield from self._step("denoise", block.index, step, scores=scores, cells=cells)
            goes_on = goes_on and block.ended is None

    def _commit(self) -> Iterator[AnyEvent]:
        block, canvas = self.block, self.canvas
        yield from self._turn(at_end=block.ended is not None)
        if self.reason is not None:
            return
        end = min(block.end, canvas.length)
        judge = self.knobs.policy == "verify"
        # Nothing can build on a block that the answer's end has cut; one that is full is kept even so.
        keeps = end > block.start and (judge or (block.ended != "stop" and end == block.end))
        forward = self.plan.commit(block.start, end, judge=judge) if keeps else None
        following = None if forward is None else self._predict(forward, "commit")
        decided = ~canvas.open[block.start : end]
        if judge and following is not None:
            decided[1:] &= following.token[:-1] == canvas.ids[block.start + 1 : end]
        kept = int(decided.cumprod(0).sum())
        opened: list[AnyEvent] = []
        final = block.start + kept
        if block.ended is not None and final == end:
            self.reason = block.ended
        else:
            for cache in (self.cache, self.blind_cache):
                if cache is not None:
                    cache.truncate(final)
            if judge:
                canvas.remask(final, end)
            following = following and following.row(kept - 1 if judge else 0)
            opened = self._open(final, following)
        if forward is not None:
            yield from self._step("commit", block.index, scores=following, cells=torch.tensor([final]))
        first = canvas.prompt
        yield Commit(run=self.run, block=block.index, start=block.start - first, end=final - first)
        yield from opened

    # What they share

    @property
    def context(self) -> int:
        """Positions that the model can hold."""
        return self.model.backbone.context_length

    @property
    def limit(self) -> int:
        """Where the answer ends at the latest."""
        return min(self.canvas.prompt + self.knobs.max_new_tokens, self.context)

    def _undecided(self) -> Tensor:
        """Which cells of the active block are undecided, those past the limit left out: bool [T]."""
        return self.canvas.open[self.block.start : min(self.block.end, self.limit)]

    def _open(self, start: int, seed: Scores | None = None) -> list[AnyEvent]:
        """Make the block at ``start`` the active one; ``seed`` is its first token, where it is known."""
        canvas, limit = self.canvas, self.limit
        if start >= limit:
            canvas.resize(start)
            self.reason = self._at_limit()
            return []
        end, length = (min(place, self.context) for place in self.plan.lay(start, limit, self.knobs))
        canvas.resize(length)
        if self.model.family.noise is Noise.UNIFORM:
            noise = self.draws.ids(length - start, self.model.backbone.vocab_size)
            canvas.renoise(start, noise, torch.ones_like(noise, dtype=torch.bool))
        self.block = block = Block(self.block.index + 1, start, end)
        if seed is not None and start not in canvas.given:
            canvas.put(start, seed.token, torch.ones(1, dtype=torch.bool), seed.confidence)
            self._settle()
        shown = min(end, canvas.length) - canvas.prompt
        return [BlockStart(run=self.run, block=block.index, start=start - canvas.prompt, end=shown)]

    def _settle(self) -> None:
        """See whether the answer ends in the active block, and cut the canvas there if it does."""
        block, canvas = self.block, self.canvas
        end = min(block.end, self.limit)
        stop = canvas.first_of(self.model.stop_ids, block.start, end)
        last = block.end if self.model.family.finishes_block else stop
        if stop is not None and last is not None and not canvas.masks(block.start, min(last, end)):
            block.ended = "stop"
            canvas.resize(stop + 1)
        elif end == self.limit and not canvas.masks(block.start, end):
            block.ended = self._at_limit()
            canvas.resize(max(end, block.start))

    def _at_limit(self) -> Reason:
        return "context" if self.limit < self.canvas.prompt + self.knobs.max_new_tokens else "length"

    def _turn(self, *, at_end: bool = False) -> Iterator[AnyEvent]:
        """Before a forward: heed cancel (unless the answer is complete) and knobs that were turned."""
        if self.should_stop() and not at_end:
            self.reason = "cancelled"
            return
        turned = self.live.now
        if turned is self._turned:
            return
        self._turned = turned
        changes = {
            name: value
            for name, value in turned.to_dict().items()
            if value != getattr(self.knobs, name) and KNOBS[name].holds != "run"
        }
        try:
            self._check_policy(turned.policy)
        except EngineError as error:
            del changes["policy"]
            yield Error(run=self.run, message=error.message, hint=error.hint)
        if changes:
            self.knobs = self.knobs.replace(**changes)
            yield KnobChange(run=self.run, t=perf_counter() - self._began, changes=changes)

    def _check_policy(self, policy: str) -> None:
        if policy == "verify" and not self.plan.verifies:
            raise EngineError(
                f"Policy verify needs an autoregressive stream; {self.model.family.title} has none.",
                f"Choose one of {', '.join(self.model.family.policies)}.",
            )

    def _logits(self, cells: Tensor, wanted: Tensor, step: int) -> Tensor:
        """What the network says of the active block's ``cells``, the ``wanted`` ones (bool [T]) of it."""
        family, block = self.model.family, self.block
        forward = self.plan.denoise(block.start, block.end, cells)
        if family.knows_noise:
            time, _ = sedd_times(step - 1, self.knobs.steps, family.eps)
            forward = replace(forward, condition=torch.tensor(noise_level(time)))
        logits = self._run(forward, "denoise")
        return block.credit.fuse(logits, wanted) if self.knobs.policy == "credit" else logits

    def _view(
        self, scores: Scores, logits: Tensor, *, wanted: Tensor, is_open: Tensor, step: int, opened: int
    ) -> View:
        """What the policy sees of the active block."""
        block = self.block
        return View(
            ids=self.canvas.ids[block.start : block.end].clone(),
            open=is_open,
            leading=self.plan.leading(block.start, is_open),
            token=_spread(scores.token, wanted),
            confidence=_spread(scores.confidence, wanted),
            entropy=_spread(scores.entropy, wanted),
            margin=_spread(scores.margin, wanted),
            lse=_spread(scores.lse, wanted),
            logits=logits,
            step=step,
            opened=opened,
            knobs=self.knobs,
            family=self.model.family,
            draws=self.draws,
        )

    def _predict(self, forward: Forward, phase: Phase) -> Scores | None:
        """Run a forward that keeps something; its scores, if it predicts anything."""
        logits = self._run(forward, phase)
        if forward.predicts:
            return self._read(logits, self.knobs, self.alternatives)
        if self.model.backbone.device.type == "cuda":
            # Nothing is read back: without this the time would be the next forward's.
            torch.cuda.synchronize(self.model.backbone.device)
        return None

    @torch.inference_mode()
    def _read(self, logits: Tensor, knobs: Knobs, alternatives: int = 0) -> Scores:
        """Score a forward's rows."""
        return read(
            logits,
            knobs,
            sampling=self.model.family.sampling,
            draws=self.draws,
            forbidden=self.forbidden,
            alternatives=alternatives,
        )

    @torch.inference_mode()
    def _run(self, forward: Forward, phase: Phase) -> Tensor:
        self._clock = perf_counter()
        self.nfe[phase] += 1
        logits = self._forward(forward, self.cache)
        if self.knobs.cfg_scale:
            blind = forward.ids.masked_fill(forward.positions < self.canvas.prompt, self.canvas.mask_id)
            unguided = self._forward(replace(forward, ids=blind), self.blind_cache)
            logits = unguided + (self.knobs.cfg_scale + 1) * (logits - unguided)
        return logits

    def _forward(self, forward: Forward, cache: Cache | None) -> Tensor:
        backbone, device = self.model.backbone, self.model.backbone.device
        rows = forward.rows
        return backbone.forward(
            forward.ids.to(device, non_blocking=True),
            forward.positions.to(device, non_blocking=True),
            noised=forward.noised,
            cache=cache,
            context=None if cache is None else forward.context,
            write_at=forward.write_at,
            mask=None if forward.mask is None else forward.mask.to(device, non_blocking=True),
            causal=forward.causal,
            rows=rows.to(device, non_blocking=True) if isinstance(rows, Tensor) else rows,
            condition=None if forward.condition is None else forward.condition.to(device),
        )

    # Events

    def _step(
        self,
        phase: Phase,
        block: int,
        step: int = 0,
        *,
        scores: Scores | None = None,
        cells: Tensor | None = None,
    ) -> Iterator[AnyEvent]:
        """The event of the forward that has just been applied, after the pieces it needs.

        Args:
            phase: of the forward.
            block: the active one.
            step: of the block.
            scores: what the forward said, if anything.
            cells: int64 [n], of which positions.
        """
        canvas = self.canvas
        now = perf_counter()
        self.seconds[phase] += now - self._clock
        changes = canvas.changes_since(self._shown)
        self._shown = canvas.shown()
        guesses = decided = ()
        if scores is not None and cells is not None:
            guesses = self._guesses(scores, cells) if phase == "denoise" else ()
            decided = self._decided(scores, cells, changes) if self.alternatives else ()
        named = [change.token_id for change in changes if change.token_id is not None]
        for guess in (*guesses, *decided):
            named += [guess.token_id, *(token for token, _ in guess.top)]
        yield from self._pieces(named)
        yield Step(
            run=self.run,
            phase=phase,
            block=block,
            step=step,
            nfe=sum(self.nfe.values()),
            t=now - self._began,
            seconds=now - self._clock,
            length=canvas.length - canvas.prompt,
            changes=changes,
            guesses=guesses,
            decided=decided,
        )

    def _guesses(self, scores: Scores, cells: Tensor) -> tuple[Guess, ...]:
        """What the model would put at the cells that are still undecided."""
        canvas = self.canvas
        undecided = cells < canvas.length
        undecided &= canvas.open[cells.clamp(max=canvas.length - 1)]
        return self._told(scores, cells, undecided)

    def _decided(self, scores: Scores, cells: Tensor, changes: Sequence[Change]) -> tuple[Guess, ...]:
        """What the model held possible at the cells that it decided just now."""
        canvas = self.canvas
        found = [
            change.position + canvas.prompt
            for change in changes
            if change.kind in {"fill", "edit"}  # the others came from elsewhere
        ]
        decided = torch.isin(cells, torch.tensor(found, dtype=torch.int64))
        decided &= ~canvas.open[cells.clamp(max=canvas.length - 1)]
        return self._told(scores, cells, decided)

    def _told(self, scores: Scores, cells: Tensor, where: Tensor) -> tuple[Guess, ...]:
        """Scores as people are told them, of some of the cells: bool [n]."""
        columns = (
            cells - self.canvas.prompt,
            scores.token,
            scores.confidence,
            scores.entropy,
            scores.top,
        )
        return tuple(
            Guess(
                position=position,
                token_id=token,
                confidence=round(confidence, 6),
                entropy=round(entropy, 6),
                top=tuple((int(other), round(chance, 6)) for other, chance in top),
            )
            for position, token, confidence, entropy, top in zip(
                *(column[where].tolist() for column in columns), strict=True
            )
        )

    def _pieces(self, ids: Iterable[int]) -> Iterator[Pieces]:
        """The bytes of ids that the run names for the first time."""
        tokenizer = self.model.tokenizer
        new = set(ids) - self._known
        if tokenizer is None or not new:
            return
        self._known |= new
        yield Pieces(
            run=self.run,
            pieces={token: tokenizer.piece(token) for token in sorted(new)},
            special=tuple(token for token in sorted(new) if tokenizer.is_special(token)),
        )

    def _done(self) -> Done:
        canvas = self.canvas
        stop = canvas.first_of(self.model.stop_ids, canvas.prompt, canvas.length)
        answer = canvas.answer(canvas.length if stop is None else stop + 1)
        return Done(
            run=self.run,
            reason=self.reason or "error",
            token_ids=tuple(answer),
            tokens=len(answer),
            given=canvas.known(canvas.length if stop is None else stop + 1),
            nfe=sum(self.nfe.values()),
            nfe_by_phase=dict(self.nfe),
            seconds=perf_counter() - self._began,
            seconds_by_phase=dict(self.seconds),
        )


def _spread(values: Tensor, where: Tensor) -> Tensor:
    """The values at the true places of ``where``, 0 elsewhere."""
    return values.new_zeros(where.numel()).masked_scatter_(where, values)


def out_of_memory(error: BaseException) -> bool:
    """Whether an error of torch or Python means that memory ran out."""
    if isinstance(error, MemoryError | torch.OutOfMemoryError):
        return True
    text = str(error).lower()
    return "not enough memory" in text or "can't allocate memory" in text
