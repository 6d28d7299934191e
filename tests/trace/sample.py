"""A small session as its events: two answers, the second made again; and another model."""

from dllm_tui.events import (
    AnyEvent,
    BlockStart,
    Change,
    Commit,
    Done,
    Guess,
    Header,
    KnobChange,
    ModelInfo,
    Pieces,
    RunStart,
    Step,
    Turn,
)
from dllm_tui.knobs import Knobs

MODEL = ModelInfo(id="smol", family="smol", title="SmolLM2-135M", context_length=8192)


def run(index: int) -> list[AnyEvent]:
    """A block of three tokens, decided in two forwards."""
    return [
        RunStart(run=index, knobs=Knobs().to_dict(), prompt_tokens=9, seed=7),
        BlockStart(run=index, block=0, start=0, end=3),
        Pieces(run=index, pieces={5: b"Hel", 6: b"lo \xf0\x9f", 7: b"\x98\x80", 2: b"<end>"}, special=(2,)),
        Step(
            run=index,
            phase="denoise",
            step=1,
            nfe=2,
            t=0.25,
            length=3,
            changes=(Change(position=0, token_id=5, confidence=0.97),),
            guesses=(
                Guess(position=1, token_id=6, confidence=0.4, entropy=1.5, top=((6, 0.4), (7, 0.3))),
                Guess(position=2, token_id=7, confidence=0.2),
            ),
        ),
        KnobChange(run=index, t=0.3, changes={"threshold": 0.5}),
        Step(
            run=index,
            phase="denoise",
            step=2,
            nfe=3,
            t=0.5,
            length=3,
            changes=(
                Change(position=1, token_id=6, confidence=0.8),
                Change(position=2, token_id=7, confidence=0.9),
            ),
            decided=(Guess(position=1, token_id=6, confidence=0.8, entropy=0.7, top=((6, 0.8), (2, 0.1))),),
        ),
        Commit(run=index, block=0, start=0, end=3),
        Done(run=index, reason="stop", token_ids=(5, 6, 7, 2), tokens=4, nfe=3, seconds=0.5),
    ]


def session() -> list[AnyEvent]:
    """All events, as they stand in the file."""
    return [
        Header(app="dllm-chat 0.1.0", created="2026-11-30T15:00:00Z", model=MODEL),
        Turn(role="system", text="Be brief."),
        Turn(role="user", text="Tell me\nsomething [bold]nice[/] \x1b[31m שלום 😀"),
        *run(0),
        Turn(role="assistant", text="Hello 😀", run=0),
        Turn(role="user", text="More"),
        *run(1),
        Turn(role="assistant", text="Hello 😀", run=1),
        *run(2),
        Turn(role="assistant", text="Hello again", run=2, replaces=4),
        Header(app="dllm-chat 0.1.0", model=ModelInfo(id="other", family="llada")),
        Turn(role="user", text="And you?", replaces=3),
        *run(3),
        Turn(role="assistant", text="Hello 😀", run=3),
    ]


TEXTS = ["Be brief.", "Tell me\nsomething [bold]nice[/] \x1b[31m שלום 😀", "Hello 😀", "And you?", "Hello 😀"]
"""What the conversation is in the end."""
