"""From events to the numbers on the screen. Every number says what it counts; none is smoothed or guessed."""

from collections.abc import Iterable
from copy import copy
from typing import Any

import msgspec

from dllm_tui.events import (
    GIVEN,
    AnyEvent,
    BlockStart,
    Canvas,
    Commit,
    Done,
    KnobChange,
    Phase,
    Reason,
    RunStart,
    Step,
)
from dllm_tui.knobs import Knobs
from dllm_tui.tui.canvas_state import noise

HISTORY = 512
"""Forwards that the sparklines remember."""


class Reading(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of a run after some of its events."""

    tokens: int = 0
    """Tokens on the canvas that are no mask (at the end: tokens kept)."""
    given: int = 0
    """Those of them that the run didn't find: taken over from another one, or set by a person."""
    masks: int = 0
    """Positions still masked."""
    nfe: int = 0
    """Forwards of all kinds."""
    seconds: float = 0.0
    """Since the run began, prefill included."""
    phase: Phase | None = None
    block: int = 0
    """Counted from 0."""
    step: int = 0
    steps: int = 0
    """The most denoising steps that a block may take, as the knob stands."""
    seconds_per_forward: float = 0.0
    """Mean over denoise and commit forwards; prefill is left out, since it grows with the prompt."""
    threshold: float = 0.0
    block_size: int = 0
    per_forward: tuple[int, ...] = ()
    """Tokens gained by each forward after prefill, the newest last; below 0 where more was remasked."""
    lowest: tuple[float, ...] = ()
    """Of each step that committed something, the lowest confidence that it accepted, the newest last."""
    reason: Reason | None = None
    """Why the run ended, once it has."""

    @property
    def tokens_per_second(self) -> float:
        """Tokens that the run found ÷ seconds since it began."""
        return (self.tokens - self.given) / self.seconds if self.seconds > 0 else 0.0

    @property
    def tokens_per_forward(self) -> float:
        """Tokens that the run found ÷ forwards of all kinds."""
        return (self.tokens - self.given) / self.nfe if self.nfe else 0.0


class Meter:
    """Folds the events of one run; :attr:`reading` is where it stands."""

    def __init__(self) -> None:
        self.reading = Reading()
        self._canvas = Canvas()
        self._filled = self._given = self._found = 0
        self._noise: set[int] = set()
        self._forwards = 0
        self._busy = 0.0
        self._per_forward: list[int] = []
        self._lowest: list[float] = []

    def copy(self) -> "Meter":
        """An independent one that stands where this one does."""
        other = copy(self)
        other._canvas = Canvas()
        other._canvas.cells = self._canvas.cells.copy()
        other._canvas.confidences = self._canvas.confidences.copy()
        return other

    def fold(self, events: Iterable[AnyEvent]) -> bool:
        """Take the next events; whether any of them changed the reading."""
        news: dict[str, Any] = {}
        for event in events:
            match event:
                case RunStart():
                    news |= _settings(event.knobs)
                case KnobChange():
                    news |= _settings(event.changes)
                case BlockStart():
                    news |= {"block": event.block, "step": 0}
                case Step():
                    news |= self._step(event)
                case Done():
                    news |= {"reason": event.reason, "tokens": event.tokens, "nfe": event.nfe}
                    news |= {"given": event.given}
                    news |= {"seconds": event.seconds} if event.seconds else {}
                case _:
                    pass
        if news:
            news["per_forward"] = tuple(self._per_forward)
            news["lowest"] = tuple(self._lowest)
            self.reading = msgspec.structs.replace(self.reading, **news)
        return bool(news)

    def _step(self, step: Step) -> dict[str, Any]:
        self._filled += self._apply(step)
        self._noise = noise(self._noise, step)
        found = self._filled - _tokens(self._canvas.cells[at] for at in self._noise)
        gained, self._found = found - self._found, found
        given = sum(change.kind in GIVEN for change in step.changes)
        self._given += given
        news: dict[str, Any] = {
            "tokens": found,
            "given": self._given,
            "masks": step.length - found,
            "nfe": step.nfe,
            "seconds": step.t,
            "phase": step.phase,
        }
        if step.phase == "prefill":
            return news
        self._forwards += 1
        self._busy += step.seconds
        self._per_forward = [*self._per_forward[1 - HISTORY :], gained - given]
        news["seconds_per_forward"] = self._busy / self._forwards
        if step.phase == "denoise":
            news |= {"block": step.block, "step": step.step}
            accepted = [change.confidence for change in step.changes if change.kind == "fill"]
            if accepted:
                self._lowest = [*self._lowest[1 - HISTORY :], min(accepted)]
        return news

    def _apply(self, step: Step) -> int:
        """Take a step over, looking only at cells that change; how many tokens there are more."""
        cells = self._canvas.cells
        touched = {change.position for change in step.changes}
        before = _tokens(cells[step.length :]) + _tokens(cells[at] for at in touched if at < len(cells))
        self._canvas.apply(step)
        return _tokens(cells[at] for at in touched) - before


def _tokens(cells: Iterable[int | None]) -> int:
    return sum(cell is not None for cell in cells)


def _settings(values: dict[str, Any]) -> dict[str, Any]:
    names = {"steps": "steps", "threshold": "threshold", "block_size": "block_size"}
    return {field: values[name] for name, field in names.items() if name in values}


class Effects:
    """Tokens per forward that this session measured, by setting: what a knob's hint may say.

    A block counts for the setting it was denoised with; one during which a knob was turned counts for none.
    """

    ENOUGH = 12
    """Tokens below which a ratio would be noise."""

    def __init__(self) -> None:
        self._measured: dict[tuple[Any, ...], tuple[int, int]] = {}
        self._now: dict[str, Any] = {}
        self._turned = False
        self._forwards = 0

    def fold(self, events: Iterable[AnyEvent]) -> None:
        """Take the next events of a run."""
        for event in events:
            match event:
                case RunStart():
                    self._now = dict(event.knobs)
                case KnobChange():
                    self._now |= event.changes
                    self._turned = True
                case BlockStart():
                    self._forwards, self._turned = 0, False
                case Step() if event.phase != "prefill":
                    self._forwards += 1
                case Commit() if self._forwards and not self._turned:
                    key = self._key(self._now)
                    tokens, forwards = self._measured.get(key, (0, 0))
                    tokens += event.end - event.start
                    self._measured[key] = (tokens, forwards + self._forwards)
                case _:
                    pass

    def tokens_per_forward(self, knobs: Knobs) -> float | None:
        """Measured at this setting, or ``None`` where too little was."""
        tokens, forwards = self._measured.get(self._key(knobs.to_dict()), (0, 0))
        return tokens / forwards if forwards and tokens >= self.ENOUGH else None

    def comparison(self, name: str, knobs: Knobs) -> tuple[Any, float] | None:
        """Another measured value of one knob, all others alike, and how many times its rate we have now."""
        here = self.tokens_per_forward(knobs)
        if here is None or name not in _MATTERS:
            return None
        best: tuple[Any, float] | None = None
        for key in self._measured:
            value = dict(zip(_MATTERS, key, strict=True))[name]
            if value == getattr(knobs, name) or key != self._key(knobs.to_dict() | {name: value}):
                continue
            there = self.tokens_per_forward(knobs.replace(**{name: value}))
            if there and (best is None or abs(here / there - 1) > abs(best[1] - 1)):
                best = (value, here / there)
        return best

    @staticmethod
    def _key(values: dict[str, Any]) -> tuple[Any, ...]:
        return tuple(values.get(name) for name in _MATTERS)


_MATTERS: tuple[str, ...] = (
    "steps",
    "block_size",
    "threshold",
    "policy",
    "temperature",
    "distance_penalty",
    "entropy_bound",
)
"""Knobs that change how many tokens a forward commits."""
