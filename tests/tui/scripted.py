"""Runs written by hand: events as the engine would send them, for a text that is known beforehand."""

import random
import re

from dllm_tui.events import (
    AnyEvent,
    BlockStart,
    Change,
    Commit,
    Done,
    Guess,
    Pieces,
    RunStart,
    Step,
)

STOP = 2
STORY = (
    "The lighthouse keeper, a kind-hearted and resourceful man named Malcolm Blackstone, was a gruff but "
    "lovable man with a heart full of compassion. He had spent his whole life on the cliffs of Nova Scotia, "
    "watching over the ships that came and went, and he knew every rock by its name."
)
CODE = (
    "Here is a function that adds two numbers:\n\n```python\ndef add(a: int, b: int) -> int:\n"
    '    """Return the sum."""\n    return a + b\n```\n\n- It is **short**.\n- It is typed, see `add`.\n'
)


def pieces_of(text: str) -> list[bytes]:
    """``text`` cut roughly as a byte-pair tokenizer would: spaces lead their word."""
    return [piece.encode() for piece in re.findall(r"\n+|[ ]+(?=[ ])| ?\w{1,7}| ?[^\w\s]{1,2}|\s", text)]


class Script:
    """Writes the events of one run."""

    def __init__(self, text: str, *, seed: int = 0) -> None:
        self.draw = random.Random(seed)
        self.pieces: dict[int, bytes] = {STOP: b"<|im_end|>"}
        ids = {b"<|im_end|>": STOP}
        self.tokens: list[int] = []
        for piece in pieces_of(text):
            token_id = ids.setdefault(piece, len(ids) + 10)
            self.pieces[token_id] = piece
            self.tokens.append(token_id)
        self.tokens.append(STOP)
        self.ordinary = [token_id for token_id in self.pieces if token_id != STOP]
        self.nfe = 0
        self.t = 0.0

    def step(self, phase: str, length: int, **fields: object) -> Step:
        self.nfe += 1
        self.t += 0.038
        return Step(phase=phase, nfe=self.nfe, t=self.t, seconds=0.038, length=length, **fields)  # type: ignore[arg-type]

    def guess(self, position: int, left: int) -> Guess:
        """Right more often, and surer, the fewer masks stand before it."""
        sure = self.draw.random() < 0.8 * 0.75**left
        token_id = self.tokens[position] if sure else self.draw.choice(self.ordinary)
        confidence = self.draw.betavariate(6, 2) if sure else self.draw.betavariate(1.4, 6)
        return Guess(position=position, token_id=token_id, confidence=confidence * 0.97**left)

    def events(self, *, block_size: int = 16, threshold: float = 0.7, reason: str = "stop") -> list[AnyEvent]:
        """Prefill, and then block by block until the stop token."""
        total = len(self.tokens)
        events: list[AnyEvent] = [
            RunStart(knobs={}, prompt_tokens=24),
            Pieces(pieces=self.pieces, special=(STOP,)),
            self.step("prefill", 0),
        ]
        for number, start in enumerate(range(0, total, block_size)):
            end = min(start + block_size, total)
            events.append(BlockStart(block=number, start=start, end=end))
            masked = list(range(start, end))
            steps = 0
            while masked:
                steps += 1
                guesses = [self.guess(position, index) for index, position in enumerate(masked)]
                best = max(guesses, key=lambda guess: guess.confidence)
                picked = [guess for guess in guesses if guess.confidence > threshold] or [best]
                changes = tuple(
                    Change(
                        position=guess.position,
                        token_id=self.tokens[guess.position],
                        confidence=guess.confidence,
                    )
                    for guess in picked
                )
                decided = {change.position for change in changes}
                masked = [position for position in masked if position not in decided]
                rest = tuple(guess for guess in guesses if guess.position not in decided)
                events.append(
                    self.step("denoise", end, block=number, step=steps, changes=changes, guesses=rest)
                )
            events.append(self.step("commit", end, block=number))
            events.append(Commit(block=number, start=start, end=end))
        events.append(
            Done(
                reason=reason,  # type: ignore[arg-type]
                token_ids=tuple(self.tokens),
                tokens=total,
                nfe=self.nfe,
                seconds=self.t,
            )
        )
        return events
