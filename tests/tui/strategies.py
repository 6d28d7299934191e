"""Runs as hypothesis draws them: any changes, in any order, of any kind that a family may send."""

import random

from hypothesis import strategies as st

from dllm_tui.events import BlockStart, Change, Commit, Done, Guess, Pieces, Step

PIECES = {
    1: b" the",
    2: b" lighthouse",
    3: b",",
    4: b"\n",
    5: b" a\n\n  b",
    6: "日本".encode(),
    7: "🎉".encode()[:2],
    8: "🎉".encode()[2:],
    9: b"<|im_end|>",
    10: b"   ",
    11: b"-",
    12: b"supercalifragilistic",
    13: b"",
}
SPECIAL = (9,)
KINDS = ("fill", "edit", "remask", "insert", "delete", "shift", "renoise", "fix")


def make_run(seed, steps, longest):
    """The events of a run, from its pieces to its end."""
    draw = random.Random(seed)
    ids = [*PIECES, 99]
    events = [Pieces(pieces=PIECES, special=SPECIAL)]
    length = block = start = 0
    for nfe in range(1, steps + 1):
        if draw.random() < 0.5:
            events.append(BlockStart(block=block, start=start, end=draw.randint(start, longest)))
            block += 1
        if draw.random() < 0.5:
            length = draw.randint(0, longest)
        changes = [
            Change(
                position=draw.randrange(length),
                token_id=draw.choice([None, *ids]),
                confidence=draw.random(),
                kind=draw.choice(KINDS),
            )
            for _ in range(draw.randint(0, 4) if length else 0)
        ]
        guesses = [
            Guess(position=position, token_id=draw.choice(ids), confidence=draw.random())
            for position in draw.sample(range(length), draw.randint(0, min(6, length)))
        ]
        events.append(
            Step(
                phase=draw.choice(("denoise", "denoise", "commit", "prefill")),
                block=block,
                nfe=nfe,
                length=length,
                changes=tuple(changes),
                guesses=tuple(guesses),
            )
        )
        if draw.random() < 0.5:
            start = draw.randint(0, length)
            events.append(Commit(block=block, start=0, end=start))
    if draw.random() < 0.5:
        events.append(Done(reason="stop"))
    return events


def runs(most_steps=12, longest=24):
    """Runs of up to so many steps and cells."""
    sizes = st.integers(0, most_steps), st.integers(0, longest)
    return st.builds(make_run, st.integers(0, 2**32), *sizes)
