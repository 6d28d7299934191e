"""What a run tells the world: frozen structs, one schema for the wire, the file and the interface.

An event is a JSON object with a ``type``. The engine yields events, the trace stores one a line, the
interface folds them into what it draws. Nothing here needs torch.

Positions count from the first generated token: the prompt is not on the canvas. The canvas after any
step is rebuilt from ``step`` events alone (:class:`Canvas`): a step names the canvas length after it
and every cell that changed; cells beyond the former length are new and masked, cells past the length
are gone.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Annotated, Any, Literal, TypeAlias

import msgspec

SCHEMA_VERSION = 2
"""2 added ``screen`` and ``set``; traces of schema 1 are read as they are."""

MAX_CELLS = 1 << 16
"""Longest canvas that is read from a file, twice the longest answer: more is broken or hostile."""

Phase: TypeAlias = Literal["prefill", "denoise", "commit"]
"""The three kinds of forward; ``commit`` writes a finished block's keys and values."""

Kind: TypeAlias = Literal["fill", "edit", "remask", "insert", "delete", "shift", "renoise", "fix", "keep"]
"""How a cell changed. ``shift`` is a neighbour moved by an insert or delete; ``fix`` was set by a person,
``keep`` taken over from the run that this one goes on from."""

GIVEN: frozenset[Kind] = frozenset({"fix", "keep"})
"""Kinds of changes that no forward made."""

Reason: TypeAlias = Literal["stop", "length", "context", "cancelled", "error"]
"""Why a run ended: stop token, ``max_new_tokens``, the model's context is full, cancelled, failed."""


Position: TypeAlias = Annotated[int, msgspec.Meta(ge=0, lt=MAX_CELLS)]
Length: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=MAX_CELLS)]
Cells: TypeAlias = Annotated[int, msgspec.Meta(ge=1, le=1 << 14)]
"""Columns or rows of a terminal."""
Count: TypeAlias = Annotated[int, msgspec.Meta(ge=0, lt=2**53)]
Probability: TypeAlias = Annotated[float, msgspec.Meta(ge=0.0, le=1.0 + 1e-3)]
"""0 … 1, with room for the rounding of a softmax."""
Seconds: TypeAlias = Annotated[float, msgspec.Meta(ge=0.0, le=366 * 86400.0)]
"""A year at most: no run takes longer."""
Moment: TypeAlias = Annotated[float, msgspec.Meta(ge=0.0, lt=253_402_300_800.0)]
"""In seconds since 1970, UTC, before the year 10000."""


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """A part of an event. Reads as a mapping too: ``record["position"]`` is ``record.position``."""

    def keys(self) -> Iterator[str]:
        """Names that ``record[name]`` knows, ``type`` included for events."""
        if self.__struct_config__.tag is not None:
            yield "type"
        yield from self.__struct_fields__

    def __getitem__(self, key: str) -> Any:
        if key == "type" and self.__struct_config__.tag is not None:
            return self.__struct_config__.tag
        if key not in self.__struct_fields__:
            raise KeyError(key)
        return getattr(self, key)

    def get(self, key: str, default: Any = None) -> Any:
        """``record[key]``, or ``default`` where there is no such field."""
        return self[key] if key in tuple(self.keys()) else default


class Event(Record, frozen=True, kw_only=True, tag_field="type"):
    """Base of everything that a run or a session reports."""

    @property
    def type(self) -> str:
        """The event's name on the wire."""
        return str(self.__struct_config__.tag)


class ModelInfo(Record, frozen=True, kw_only=True):
    """What a loaded model says of itself, for people and for the trace's header."""

    id: str
    """Catalogue name, hub id or file name; never a private path."""
    family: str
    """Name of the family, e.g. ``smol``."""
    title: str = ""
    """One line for people, e.g. ``SmolLM2-135M, block diffusion``."""
    revision: str | None = None
    licence: str | None = None
    parameters: int = 0
    """Number of weights."""
    device: str = "cpu"
    dtype: str = "float32"
    attention: str = "block-causal"
    """Attention pattern: full, block-causal, reordered or encoder-canvas."""
    cache: str = "exact"
    """none, exact or approximate: what the default run uses."""
    context_length: int = 0
    """Tokens that prompt and answer may have together; 0 = not known."""
    tokenizer_sha256: str | None = None
    policies: tuple[str, ...] = ()
    """Policies that make sense for this model, the default first."""
    caches: tuple[str, ...] = ()
    """Caches that it can decode with."""
    unkept: str = ""
    """Why no run can go on from a canvas that a person has changed; empty where one can."""
    fixed_knobs: dict[str, str] = {}
    """Knobs that this family doesn't have, each with the reason."""
    versions: dict[str, str] = {}
    """Versions of the libraries that decide numbers, e.g. ``{"torch": "2.13.0"}``."""


class Header(Event, frozen=True, kw_only=True, tag="header"):
    """First line of a trace. Another one further down: a new sitting, or another model."""

    schema: int = SCHEMA_VERSION
    app: str = ""
    """Name and version of the program that wrote it."""
    created: str = ""
    """UTC, ISO 8601, to the second."""
    model: ModelInfo | None = None


class Turn(Event, frozen=True, kw_only=True, tag="turn"):
    """A message of the conversation, by a person (``user``), the model or the ``system``.

    ``replaces`` is the index of the turn (counted over the conversation) from which the conversation was
    cut before this one was appended: that is how a prompt is edited, or an answer made again.
    """

    role: Literal["system", "user", "assistant"]
    text: str
    run: Count | None = None
    """The run that produced this answer."""
    replaces: Count | None = None
    at: Moment | None = None
    """When it was said, in seconds since 1970, UTC; ``None`` where that isn't known."""


class ScreenSize(Event, frozen=True, kw_only=True, tag="screen"):
    """From now on the interface has this size: where a sitting begins, and when the terminal is resized."""

    columns: Cells
    rows: Cells
    at: Moment | None = None
    """When, in seconds since 1970, UTC; ``None`` where that isn't known."""


class KnobsSet(Event, frozen=True, kw_only=True, tag="set"):
    """Knobs stand like this while nothing runs: all where a sitting begins, those that are turned later."""

    changes: dict[str, Any]
    """Values by name."""
    at: Moment | None = None
    """When, in seconds since 1970, UTC; ``None`` where that isn't known."""


class RunStart(Event, frozen=True, kw_only=True, tag="run"):
    """A generation begins. All positions of the run's events are on its own canvas."""

    run: Count = 0
    knobs: dict[str, Any] = {}
    """Every knob by name (:meth:`dllm_tui.knobs.Knobs.to_dict`)."""
    prompt_tokens: Count = 0
    seed: Count = 0
    """The seed in force (a drawn one if the knob was unset)."""
    lane: str | None = None
    """Label, where several runs are shown beside each other."""
    parent: Count | None = None
    """The run that this one goes on from. Its first step is then no forward: it tells the canvas that was
    taken over."""
    parent_nfe: Count = 0
    """After which of that run's forwards it begins."""
    at: Moment | None = None
    """When it began, in seconds since 1970, UTC; ``None`` where that isn't known."""


class BlockStart(Event, frozen=True, kw_only=True, tag="block"):
    """Positions ``start … end-1`` are denoised together from now on."""

    run: Count = 0
    block: Count
    start: Length
    end: Length


class Pieces(Event, frozen=True, kw_only=True, tag="pieces"):
    """The bytes of tokens, sent once a run when an id first occurs (base64 in JSON).

    A piece is not always valid UTF-8 alone: join the bytes of neighbours before decoding.
    """

    run: Count = 0
    pieces: dict[Count, bytes]
    special: tuple[Count, ...] = ()
    """Those of the ids that are control tokens (end of turn …): not part of the text."""


class Change(Record, frozen=True, kw_only=True):
    """One cell of the canvas after a step."""

    position: Position
    token_id: Count | None
    """The token now at this position; ``None`` is the mask."""
    confidence: Probability = 1.0
    """Probability of the token at the time of the change, before noise; 0 … 1."""
    kind: Kind = "fill"


class Guess(Record, frozen=True, kw_only=True, omit_defaults=True):
    """What the model would put at a cell: one that stays undecided, or one that the step decided."""

    position: Position
    token_id: Count
    confidence: Probability
    entropy: float | None = None
    """Of the position's distribution, in nats."""
    top: tuple[tuple[Count, Probability], ...] = ()
    """Alternatives as (token id, probability), best first."""


class Step(Event, frozen=True, kw_only=True, tag="step"):
    """One forward and what changed after it."""

    run: Count = 0
    phase: Phase
    block: Count = 0
    step: Count = 0
    """Denoising steps of this block so far, this one included; 0 outside denoising."""
    nfe: Count
    """Forwards of this run so far, all kinds, this one included; a guided one, with two rows, counts once."""
    t: Seconds = 0.0
    """Seconds since the run began, monotonic, at the end of this step."""
    seconds: Seconds = 0.0
    """Duration of this step."""
    length: Length
    """Cells of the canvas after the step."""
    changes: tuple[Change, ...] = ()
    guesses: tuple[Guess, ...] = ()
    """Undecided cells of the active block (empty outside denoising)."""
    decided: tuple[Guess, ...] = ()
    """What the model held possible at the cells that this step decided, where alternatives are recorded."""


class KnobChange(Event, frozen=True, kw_only=True, tag="knobs"):
    """A knob was turned during the run; it holds from the next step (block size: from the next block)."""

    run: Count = 0
    t: Seconds = 0.0
    changes: dict[str, Any]
    """New values by name."""


class Commit(Event, frozen=True, kw_only=True, tag="commit"):
    """Positions ``start … end-1`` are final: their block is frozen."""

    run: Count = 0
    block: Count
    start: Length
    end: Length


class Error(Event, frozen=True, kw_only=True, tag="error"):
    """Something failed. A run that fails still ends with ``done`` (reason ``error``)."""

    run: Count = 0
    message: str
    """What is wrong and where, in one or two sentences for people."""
    hint: str = ""
    """What to do about it."""


class Done(Event, frozen=True, kw_only=True, tag="done"):
    """Last event of a run."""

    run: Count = 0
    reason: Reason
    token_ids: tuple[Count, ...] = ()
    """The answer, up to and including the stop token; masks are left out."""
    tokens: Count = 0
    """Number of tokens kept (the stop token counts: it was decided)."""
    given: Count = 0
    """Those of them that the run didn't find: taken over from another one, or set by a person."""
    nfe: Count = 0
    nfe_by_phase: dict[str, Count] = {}
    seconds: Seconds = 0.0
    seconds_by_phase: dict[str, Seconds] = {}


RunEvent: TypeAlias = RunStart | BlockStart | Pieces | Step | KnobChange | Commit | Error | Done
"""What a generation reports; each names its ``run``."""

SessionEvent: TypeAlias = Header | Turn | ScreenSize | KnobsSet
"""What happens around generations."""

AnyEvent: TypeAlias = SessionEvent | RunEvent

_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(AnyEvent)


def encode(event: AnyEvent) -> bytes:
    """One line of JSON, without the newline."""
    return _encoder.encode(event)


def decode(line: bytes | str) -> AnyEvent:
    """The event of one line.

    Raises:
        msgspec.DecodeError: not JSON, or not an event of this schema; the message names the field.
    """
    return _decoder.decode(line)


def text_of(token_ids: Iterable[int | None], pieces: Mapping[int, bytes], special: Collection[int]) -> str:
    """The text of some tokens; masks and control tokens are left out, broken UTF-8 becomes U+FFFD."""
    parts = [pieces.get(i, b"") for i in token_ids if i is not None and i not in special]
    return b"".join(parts).decode("utf-8", errors="replace")


class Canvas:
    """The cells of one run, rebuilt from its steps: token ids, ``None`` for a mask."""

    def __init__(self) -> None:
        self.cells: list[int | None] = []
        self.confidences: list[float] = []

    def apply(self, step: Step) -> None:
        """Bring the canvas to its state after ``step``.

        Raises:
            ValueError: a change lies outside the canvas.
        """
        del self.cells[step.length :], self.confidences[step.length :]
        missing = step.length - len(self.cells)
        self.cells.extend([None] * missing)
        self.confidences.extend([0.0] * missing)
        for change in step.changes:
            if not 0 <= change.position < step.length:
                raise ValueError(f"position {change.position} is outside the canvas of {step.length} cells")
            self.cells[change.position] = change.token_id
            self.confidences[change.position] = change.confidence
