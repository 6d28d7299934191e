"""Traces for films and replays: a session with everything in it, and others at the edge of what is valid."""

from collections.abc import Iterable
from pathlib import Path

import msgspec

from dllm_tui.events import (
    AnyEvent,
    Done,
    Error,
    Guess,
    Header,
    KnobChange,
    ModelInfo,
    Pieces,
    RunStart,
    Step,
    Turn,
    encode,
)
from dllm_tui.knobs import Knobs
from tests.tui.scripted import CODE, STORY, Script

MODEL = ModelInfo(
    id="smol",
    family="smol",
    title="SmolLM2-135M, block diffusion",
    parameters=134_515_008,
    context_length=8192,
)
OTHER = ModelInfo(id="other", family="llada", title="Another one", device="cuda", dtype="bfloat16")


def write(path: Path, events: Iterable[AnyEvent]) -> Path:
    path.write_bytes(b"".join(encode(event) + b"\n" for event in events))
    return path


def answer(run: int, text: str, *, at: float | None = None, lane: str | None = None) -> list[AnyEvent]:
    """A whole run. Its ids are its own: the same id has the same bytes all over a file."""
    events = [_moved(event, run) for event in Script(text, seed=run).events(block_size=8)]
    start = RunStart(run=run, knobs=Knobs(block_size=8, threshold=0.7).to_dict(), at=at, lane=lane)
    return [start, *events[1:]]


def _moved(event: AnyEvent, run: int) -> AnyEvent:
    by, replace = 1000 * run, msgspec.structs.replace
    match event:
        case Pieces():
            pieces = {token + by: data for token, data in event.pieces.items()}
            special = tuple(token + by for token in event.special)
            return replace(event, run=run, pieces=pieces, special=special)
        case Step():
            changes = tuple(
                replace(change, token_id=None if change.token_id is None else change.token_id + by)
                for change in event.changes
            )
            guesses = tuple(
                Guess(position=guess.position, token_id=guess.token_id + by, confidence=guess.confidence)
                for guess in event.guesses
            )
            return replace(event, run=run, changes=changes, guesses=guesses)
        case Done():
            return replace(event, run=run, token_ids=tuple(token + by for token in event.token_ids))
        case Header() | Turn():
            return event
        case _:
            return replace(event, run=run)


def ask(text: str, *, at: float | None = None, replaces: int | None = None) -> Turn:
    return Turn(role="user", text=text, at=at, replaces=replaces)


def said(run: int, text: str, *, at: float | None = None, replaces: int | None = None) -> Turn:
    return Turn(role="assistant", text=text, run=run, at=at, replaces=replaces)


def small() -> list[AnyEvent]:
    """One question, one short answer."""
    text = "Light from the sun is scattered by the air."
    return [Header(model=MODEL), ask("Why is the sky blue?"), *answer(0, text), said(0, text)]


def session() -> list[AnyEvent]:
    """Two answers, a knob turned in one, which is made again; a prompt edited; another model; a failure."""
    turned = answer(1, CODE)
    turned.insert(len(turned) // 2, KnobChange(run=1, t=0.0, changes={"threshold": 0.5, "block_size": 4}))
    failed = [*answer(4, STORY)[:9], Error(run=4, message="Out of memory.", hint="Take a smaller model.")]
    return [
        Header(model=MODEL),
        Turn(role="system", text="Be brief."),
        ask("Tell me a [b]story[/b].", at=1e9),
        *answer(0, STORY[:90], at=1e9),
        said(0, STORY[:90]),
        ask("Add two numbers.\nIn Python.", at=1e9 + 60),
        *turned,
        said(1, CODE),
        *answer(2, CODE[:60]),
        said(2, CODE[:60], replaces=4),
        ask("No: in French.", replaces=3),
        *answer(3, "Voilà : é à ç, 한글 and 😀."),
        said(3, "Voilà : é à ç, 한글 and 😀."),
        Header(model=OTHER),
        ask("Go on."),
        *failed,
        Done(run=4, reason="error", nfe=3, seconds=0.3),
    ]


def edges() -> dict[str, list[AnyEvent]]:
    """Valid, and odd."""
    run = answer(0, "Some words to begin with.")
    bare = [event for event in run if not isinstance(event, Pieces)]
    lanes = [
        event
        for pair in zip(answer(0, STORY[:60], lane="a"), answer(1, STORY[:60], lane="b"), strict=False)
        for event in pair
    ]
    return {
        "only a header": [Header()],
        "no run": [Header(model=MODEL), ask("Hello?")],
        "no turn": [Header(), *run],
        "cut off": [Header(), ask("Hello?"), *run[:7]],
        "cut off, and gone on with": [Header(), ask("Hello?"), *run[:7], Header(), ask("?", replaces=0)],
        "no bytes of tokens": [Header(), ask("Hello?"), *bare, said(0, "")],
        "nothing generated": [Header(), ask("Hello?"), RunStart(run=0), Done(run=0, reason="cancelled")],
        "an answer of nobody": [Header(), ask("Hello?"), Turn(role="assistant", text="I *am*."), ask("?")],
        "lanes": [Header(), ask("Race!"), *lanes],
        "knobs from elsewhere": [
            Header(),
            ask("Hello?"),
            RunStart(run=0, knobs={"steps": "many", "warp": 9, "threshold": 0.5, "policy": 3}),
            KnobChange(run=0, changes={"steps": -1, "block_size": 16}),
            *run[1:],
        ],
        "controls": [
            Header(),
            ask("\x1b[2J\x07[red]\u202e"),
            *answer(0, "\x1b[31m \t\r [/x] \x9b1A."),
            ask("\r\r"),
        ],
        "a large canvas": [
            Header(),
            RunStart(run=0),
            Step(run=0, phase="denoise", nfe=1, t=3e7, length=5000),
            Step(run=0, phase="denoise", nfe=2, t=3e7, length=0),
        ],
        "a wild header": [
            Header(model=ModelInfo(id="\x1b[31m" + "x" * 500, family="", title="[b]" * 100, device="\n\n")),
            ask("x" * 5000),
        ],
    }
