"""The answers that a prompt has got, side by side: what each took, and where they differ. Pure."""

from collections.abc import Sequence
from difflib import SequenceMatcher

import msgspec

from dllm_tui.events import AnyEvent, Canvas, Done, Pieces, RunStart, Step
from dllm_tui.tui.cells import Glyphs, clean, decode_each
from dllm_tui.tui.widgets.answer import ENDINGS, figures


class Version(msgspec.Struct, frozen=True, kw_only=True):
    """One of the answers."""

    run: int
    number: int
    """From 1, in the order in which they were begun."""
    figures: tuple[str, ...] = ()
    """Tokens, forwards, rates: what it took."""
    confidence: float | None = None
    """Mean over its tokens when they were committed, those left out that a person has set."""
    origin: str = ""
    """Where it branched off, for people; empty for one that was written from the start."""
    tokens: tuple[int, ...] = ()
    texts: tuple[str, ...] = ()
    """Of each token, safe to be shown; empty for control tokens."""


def version_of(
    run: int, number: int, events: Sequence[AnyEvent], numbers: dict[int, int], glyphs: Glyphs
) -> Version:
    """What is shown of an answer.

    Args:
        run: its run.
        number: its own,
        events: of its run; none where they weren't kept.
        numbers: and those of all answers, by run.
        glyphs: what stands for characters that can't be shown.
    """
    canvas, pieces, special = Canvas(), dict[int, bytes](), set[int]()
    fixed, start, done = set[int](), None, None
    for event in events:
        match event:
            case RunStart():
                start = event
            case Pieces():
                pieces.update(event.pieces)
                special.update(event.special)
            case Step():
                canvas.apply(event)
                fixed.update(change.position for change in event.changes if change.kind == "fix")
            case Done():
                done = event
            case _:
                pass
    if done is None:
        return Version(run=run, number=number)
    ids = done.token_ids
    decided = [at for at, token in enumerate(canvas.cells) if token is not None and at not in fixed]
    sure = [canvas.confidences[at] for at in decided]
    origin = ""
    if start is not None and start.parent is not None:
        parent = numbers.get(start.parent)
        origin = f"from forward {start.parent_nfe} of " + (
            f"version {parent}" if parent else "another version"
        )
    texts = decode_each([b"" if token in special else pieces.get(token, b"") for token in ids])
    return Version(
        run=run,
        number=number,
        figures=tuple(figures(done.tokens, done.nfe, done.seconds, ENDINGS[done.reason], done.given)),
        confidence=sum(sure) / len(sure) if sure else None,
        origin=origin,
        tokens=ids,
        texts=tuple(clean(text, glyphs) for text in texts),
    )


def different(one: Sequence[int], other: Sequence[int]) -> tuple[set[int], set[int]]:
    """Places of the tokens of each that the other doesn't have in the same order."""
    here, there = set[int](), set[int]()
    matcher = SequenceMatcher(None, one, other, autojunk=False)
    for kind, a, b, c, d in matcher.get_opcodes():
        if kind != "equal":
            here.update(range(a, b))
            there.update(range(c, d))
    return here, there
