"""The port between a conversation and the engine: what is asked for, and what comes back. No torch.

Requests, knob turns and cancel go down through :class:`Host`, events come up in a :class:`Run`, which keeps
every event of one generation in an append-only list that any thread may read by index.
"""

import threading
from collections.abc import Callable, Sequence
from typing import Literal, Protocol

import msgspec

from dllm_tui.events import AnyEvent, Done, Error, ModelInfo, Pieces, text_of
from dllm_tui.knobs import Knobs, LiveKnobs

Sink = Callable[[AnyEvent], None]
"""Gets every event of a run, on the engine's thread, before the interface can see it."""


class Message(msgspec.Struct, frozen=True):
    """One message of a chat as the model reads it."""

    role: Literal["system", "user", "assistant"]
    text: str


class Kept(msgspec.Struct, frozen=True):
    """A cell with which a run begins."""

    token_id: int
    confidence: float = 1.0
    """Of the token when it was committed."""
    step: int = 0
    """Denoising step of its block in which that was; 0 where it was in none, or doesn't matter any more."""
    fixed: bool = False
    """A person has set it: it stays, whatever the model makes of it."""


class Origin(msgspec.Struct, frozen=True, kw_only=True):
    """A canvas that a new run goes on from: how another run stood, and what a person made of it."""

    run: int
    """The other run."""
    nfe: int
    """After which of its forwards."""
    prompt_tokens: int
    """Length of its prompt, which must be the new one's."""
    cells: tuple[Kept | None, ...]
    """By position; ``None`` is the mask. What a family can't keep behind the block that is resumed goes."""
    start: int = 0
    """Cells before this one are of finished blocks."""
    blocks: tuple[int, ...] = ()
    """Where each of the finished blocks began."""
    step: int = 0
    """Denoising steps that the block at :attr:`start` has had; 0 where it is to begin them anew."""
    full: int = 0
    """Those of them that began without a mask: families that edit have a budget for these."""


class HostState(msgspec.Struct, frozen=True, kw_only=True):
    """Where the host stands; a new object whenever something changed."""

    phase: Literal["empty", "fetching", "loading", "ready", "failed"] = "empty"
    requested: str = ""
    """The model that was asked for."""
    detail: str = ""
    """What is going on, for people, e.g. ``downloading SmolLM2-135M (98 MB)``."""
    progress: float | None = None
    """0 … 1 where it is known."""
    model: ModelInfo | None = None
    """The model that is ready."""
    defaults: Knobs = Knobs()
    """The ready model's default knobs."""
    notice: str = ""
    """What people must know of the ready model's licence, where it restricts use."""
    error: Error | None = None


class Run:
    """One generation, running or ended. Written by the engine's thread, read by any."""

    def __init__(self, knobs: LiveKnobs) -> None:
        self.knobs = knobs
        self.events: list[AnyEvent] = []
        self.pieces: dict[int, bytes] = {}
        self.special: set[int] = set()
        self._cancel = threading.Event()
        self._ended = threading.Event()

    def cancel(self) -> None:
        """Ask the engine to stop; it does within one forward and ends the run with ``cancelled``."""
        self._cancel.set()

    @property
    def cancelled(self) -> bool:
        """Whether a stop was asked for."""
        return self._cancel.is_set()

    @property
    def ended(self) -> bool:
        """Whether the last event, ``done``, is there."""
        return self._ended.is_set()

    def wait(self, timeout: float | None = None) -> bool:
        """Block until the run ends or ``timeout`` seconds passed; whether it ended."""
        return self._ended.wait(timeout)

    def add(self, event: AnyEvent) -> None:
        """Take the next event (engine's thread only)."""
        if isinstance(event, Pieces):
            self.pieces.update(event.pieces)
            self.special.update(event.special)
        self.events.append(event)
        if isinstance(event, Done):
            self._ended.set()

    @property
    def done(self) -> Done | None:
        """The last event, once it is there."""
        last = self.events[-1] if self.events else None
        return last if isinstance(last, Done) else None

    def text(self, token_ids: Sequence[int | None]) -> str:
        """The text of some tokens, control tokens left out; broken UTF-8 becomes U+FFFD."""
        return text_of(token_ids, self.pieces, self.special)


class Host(Protocol):
    """Owns the model and one worker thread. Every method returns at once."""

    @property
    def state(self) -> HostState:
        """Where it stands now (safe to read from any thread)."""
        ...

    def load(self, model: str) -> None:
        """Fetch and load a model in the background, in place of the present one."""
        ...

    def generate(
        self,
        messages: Sequence[Message],
        knobs: LiveKnobs,
        *,
        sinks: Sequence[Sink] = (),
        index: int = 0,
        origin: Origin | None = None,
    ) -> Run:
        """Answer a conversation in the background. ``index`` becomes ``run`` in the run's events.

        With ``origin`` the answer goes on from a canvas. Whatever fails ends up in the run as ``error`` and
        then ``done``.
        """
        ...

    def pieces(self, text: str) -> Sequence[tuple[int, bytes]]:
        """The tokens of plain text, each with its bytes.

        Raises:
            DllmError: no model is ready, or it comes without a tokenizer.
        """
        ...

    def close(self) -> None:
        """Cancel what runs and free the model; returns within about a second."""
        ...
