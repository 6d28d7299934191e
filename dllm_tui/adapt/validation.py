"""What an adapter has come to: a forecast from one forward while it is trained, and a table of real decoding.

The forecast asks, of blocks whose first token alone is known, how far the guesses can be trusted from the
left: decoding from the left and drafting for ``verify`` live by that. The table decodes.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise

import torch
from torch import Tensor

from dllm_tui.adapt.lowrank import LowRank
from dllm_tui.adapt.network import Network
from dllm_tui.adapt.readings import Readings
from dllm_tui.adapt.student import batch, forward
from dllm_tui.adapt.training import NEARBY
from dllm_tui.adapt.windows import Noise, leading
from dllm_tui.engine import Engine
from dllm_tui.engine.lean import LeanBackbone
from dllm_tui.engine.model import Model
from dllm_tui.engine.together import Together
from dllm_tui.errors import EngineError
from dllm_tui.events import Done
from dllm_tui.knobs import Knobs

AGREEMENT = 0.95
"""Share of committed tokens that have to be the right ones, for :attr:`Forecast.tokens`."""
CHUNK = 256
AT_ONCE = 50
"""Prompts that are decoded together; each has a cache of its own."""


@dataclass(frozen=True)
class Forecast:
    """What blocks say whose first token alone is known."""

    accuracy: tuple[float, ...]
    """Of the best guess, by the number of masks to the left: 1, 2, …; without any the base is exact."""
    verified: float
    """Tokens that ``verify`` would keep a cycle: the first, the base's own next, right guesses behind it."""
    tokens: float
    """Tokens a denoising forward, from the left, where :data:`AGREEMENT` of them are right."""
    threshold: float
    """At which that is so."""

    def __str__(self) -> str:
        """In one line, for people."""
        shares = " ".join(f"{share:.2f}" for share in self.accuracy)
        return (
            f"right by masks to the left {shares}; verify keeps {self.verified:.2f} tokens a cycle, the left "
            f"{self.tokens:.2f} a forward at threshold {self.threshold:.2f}"
        )


@torch.no_grad()
def forecast(
    network: Network, adapter: LowRank, readings: Readings, *, stop_id: int, size: int = 8
) -> Forecast:
    """Look at held-out chats; where they are greedy, what stands there is what ``verify`` asks for.

    Args:
        network: the base.
        adapter: what is judged.
        readings: of chats that were held out.
        stop_id: stands behind an answer's end.
        size: of the blocks.
    """
    sure, right = [], []
    masks = size - 2
    for index, chat in enumerate(readings.chats):
        starts = torch.cat([torch.arange(a, b - size + 1, size // 2) for a, b in chat.answers])
        if not len(starts):
            continue
        windows = leading(starts, masks, len(chat.ids), Noise())
        made = batch([(readings.lesson(index), [windows])], stop_id)
        hidden = forward(network, adapter, made)[made.rows]
        for rows, tokens in zip(hidden.split(CHUNK), made.target.token.split(CHUNK), strict=True):
            chances, best = (rows @ network.head.T).float().softmax(-1).max(-1)
            sure.append(chances.cpu())
            right.append((best == tokens).cpu())
    confidence = torch.cat(sure).view(-1, masks) if sure else torch.zeros(0, masks)
    hits = torch.cat(right).view(-1, masks) if right else torch.zeros(0, masks, dtype=torch.bool)
    threshold, tokens = _at_agreement(confidence, hits)
    return Forecast(
        tuple(hits.float().mean(0)[:NEARBY].tolist()),
        float(2 + hits.cumprod(1).sum(1).float().mean()),
        tokens,
        threshold,
    )


def _at_agreement(confidence: Tensor, hits: Tensor) -> tuple[float, float]:
    """The lowest threshold at which enough of what a forward commits is right, and how much that is.

    The first token of a forward is the base's own, and always committed.
    """
    found = (1.0, 1.0)
    for step in range(99, 9, -1):
        threshold = step / 100
        taken = (confidence > threshold).cumprod(1).bool()
        count = len(taken) + int(taken.sum())
        if count == 0 or len(taken) + int(hits[taken].sum()) < AGREEMENT * count:
            break
        found = (threshold, count / len(taken))
    return found


@dataclass(frozen=True)
class Row:
    """What one setting does, over some prompts."""

    name: str
    answers: int
    tokens: int
    denoising: float
    """Tokens a denoising forward, those that commit forwards bring included: for verify, tokens a cycle."""
    all_forwards: float
    """Tokens a forward of any kind but the prefill."""
    greedy: float
    """Share of the tokens that the base itself would have put after what stands before them."""
    likelihood: float
    """Of a token under the base, nats."""
    distinct: tuple[float, float]
    """Distinct words and pairs of words (tokens), each a share of all of an answer's."""


def settings(sizes: Sequence[int], thresholds: Sequence[float]) -> dict[str, Knobs]:
    """What is measured, by name: decoding from the left at each threshold, and ``verify`` after one step."""
    plain = Knobs(temperature=0.0, steps=64, seed=0)
    made: dict[str, Knobs] = {}
    for size in sizes:
        for threshold in thresholds:
            made[f"streaming, block {size}, threshold {threshold}"] = plain.replace(
                policy="streaming", block_size=size, threshold=threshold
            )
        made[f"verify, block {size}"] = plain.replace(policy="verify", block_size=size, steps=1)
    return made


@dataclass(frozen=True)
class _Answer:
    """One answer, and what the base thinks of it."""

    done: Done
    agreed: int
    """Tokens that the base itself would have put there."""
    likelihood: float
    """Of all of them, nats."""


def table(
    model: Model,
    prompts: Sequence[Sequence[int]],
    wanted: dict[str, Knobs],
    *,
    tokens: int = 64,
    told: Callable[[str, float], None] = lambda _text, _done: None,
) -> Iterator[Row]:
    """Decode prompts at every setting, many at once.

    Args:
        model: with two streams.
        prompts: ids, chat template included.
        wanted: the settings, by name.
        tokens: longest answer.
        told: is told how far it is.

    Raises:
        EngineError: the model has no two streams.
    """
    if not isinstance(model.backbone, LeanBackbone) or not model.family.two_streams:
        raise EngineError(
            f"{model.info.id} is no adapted model.", "Name smol, or a directory that adapt made."
        )
    together = Together(model.backbone)
    engine = Engine(replace(model, backbone=together))
    for place, (name, knobs) in enumerate(wanted.items()):
        now = knobs.replace(max_new_tokens=tokens)
        answers: list[_Answer] = []
        for first in range(0, len(prompts), AT_ONCE):
            told(name, (place + first / len(prompts)) / len(wanted))
            part = prompts[first : first + AT_ONCE]
            answers += together.run([partial(_answer, engine, prompt, now) for prompt in part])
        yield _row(name, answers)


def _answer(engine: Engine, prompt: Sequence[int], knobs: Knobs) -> _Answer:
    *_, done = engine.generate(prompt, knobs)
    if not isinstance(done, Done) or not done.token_ids:
        raise EngineError("A decoder ended without an answer.")
    answer = torch.tensor(done.token_ids)
    said = engine.logits([*prompt, *done.token_ids])[len(prompt) - 1 : -1].log_softmax(-1).cpu()
    agreed = int((said.argmax(-1) == answer).sum())
    return _Answer(done, agreed, float(said.gather(1, answer[:, None]).sum()))


def _row(name: str, answers: Sequence[_Answer]) -> Row:
    runs = [answer.done for answer in answers]
    single = pairs = 0.0
    for done in runs:
        single += len(set(done.token_ids)) / len(done.token_ids)
        pairs += len(set(pairwise(done.token_ids))) / max(1, len(done.token_ids) - 1)
    count = sum(done.tokens for done in runs)
    denoised = sum(done.nfe_by_phase.get("denoise", 0) for done in runs)
    committed = sum(done.nfe_by_phase.get("commit", 0) for done in runs)
    total = max(1, sum(len(done.token_ids) for done in runs))
    some = max(1, len(runs))
    return Row(
        name,
        len(runs),
        count,
        count / max(1, denoised),
        count / max(1, denoised + committed),
        sum(answer.agreed for answer in answers) / total,
        sum(answer.likelihood for answer in answers) / total,
        (single / some, pairs / some),
    )
