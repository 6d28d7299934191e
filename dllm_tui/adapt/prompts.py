"""A prompt generator with wide coverage, for chats that a base writes itself.

Not a data set: templates and word lists, drawn from with a seed. About a tenth of the words is kept for
validation alone (``held_out``), so that no prompt of the one kind ever occurs among the other.
"""

import random
import tomllib
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_FILE: dict[str, Any] = tomllib.loads(Path(__file__).with_name("prompts.toml").read_text("utf-8"))
WORDS: dict[str, tuple[str, ...]] = {
    **{kind: tuple(words) for kind, words in _FILE["words"].items()},
    "number": tuple(map(str, (2, 3, 4, 5, 6, 7, 8, 10))),
    "small": tuple(map(str, range(2, 100))),
}
SENTENCES: tuple[tuple[str, ...], ...] = tuple(map(tuple, _FILE["sentences"].values()))
"""By kind: questions, advice, stories, lists, code, rewriting, all sorts."""
FOLLOW_UPS: tuple[str, ...] = tuple(_FILE["chats"]["follow_ups"])
SYSTEMS: tuple[str, ...] = tuple(_FILE["chats"]["systems"])
SPLIT = {kind for kind, known in WORDS.items() if len(known) >= 20}
"""Kinds of words of which some are kept for validation."""

LENGTHS = (32, 64, 128, 192, 256)
"""Where an answer is cut at the latest, drawn for each prompt: short and long ones."""
TEMPERATURES = (0.0, 0.0, 0.0, 0.3, 0.6)
"""Mostly greedy: the fewer ways an answer can go, the more of it can be drafted at once."""


@dataclass(frozen=True)
class Prompt:
    """What one chat is made of."""

    system: str | None
    turns: tuple[str, ...]
    """What the person says, one after the other."""
    most: int
    """Longest answer, in tokens."""
    temperature: float
    seed: int


def kept_for_validation(word: str) -> bool:
    """Whether prompts with this word are never trained on."""
    return zlib.crc32(word.encode()) % 10 == 0


def prompts(seed: int, *, held_out: bool = False) -> Iterator[Prompt]:
    """Prompts without end, each different from the ones before in words or answer's limits.

    Args:
        seed: same seed, same prompts.
        held_out: of words that training never sees, for validation; then greedy, and single turns.
    """
    draw = random.Random(seed)
    words = {
        kind: tuple(word for word in known if kind not in SPLIT or kept_for_validation(word) == held_out)
        for kind, known in WORDS.items()
    }

    def filled(template: str) -> str:
        parts = template.split("{")
        text = parts[0] + "".join(
            draw.choice(words[kind]) + rest for kind, rest in (part.split("}", 1) for part in parts[1:])
        )
        return text[0].upper() + text[1:]

    while True:
        kind = draw.choice(SENTENCES)
        template = draw.choice(kind)
        if held_out and not any(f"{{{kind}}}" in template for kind in SPLIT):
            continue
        more = 0 if held_out else draw.choices((0, 1, 2), (7, 2, 1))[0]
        yield Prompt(
            system=draw.choice(SYSTEMS) if not held_out and draw.random() < 0.15 else None,
            turns=(filled(template), *(filled(draw.choice(FOLLOW_UPS)) for _ in range(more))),
            most=draw.choice(LENGTHS),
            temperature=0.0 if held_out else draw.choice(TEMPERATURES),
            seed=draw.getrandbits(31),
        )
