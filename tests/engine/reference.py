"""Slow decoders, straight from the description: every forward reads everything again, with one big mask.

They share nothing with the engine but the tiny network's weights.
"""

import math

import torch
from torch import Tensor

from tests.engine.tiny import REAL_MASK, VIRTUAL_MASK, TinyNet


def clean_logits(net: TinyNet, ids: list[int]) -> Tensor:
    """Causal logits of the clean stream."""
    return net.everything(ids, causal(len(ids)))


def causal(size: int) -> Tensor:
    return torch.ones(size, size).tril().bool()


def greedy(net: TinyNet, prompt: list[int], count: int, stop: int | None = None) -> list[int]:
    """Autoregressive decoding, one token at a time."""
    ids = list(prompt)
    while len(ids) < len(prompt) + count and (len(ids) == len(prompt) or ids[-1] != stop):
        ids.append(int(clean_logits(net, ids)[-1].argmax()))
    return ids[len(prompt) :]


def window_logits(net: TinyNet, clean: list[int], block: list[int]) -> Tensor:
    """Rows s-1 … s+B-2: known tokens see what is before them, masks see everything and are adapted."""
    ids = [*clean, *block[:-1]]
    masks = torch.tensor(ids) == VIRTUAL_MASK
    return net.everything(ids, causal(len(ids)) | masks[:, None], masks)[len(clean) - 1 :]


def block_causal_logits(net: TinyNet, ids: list[int], size: int, offset: int = 0) -> Tensor:
    """Everything in one forward; a position sees its own block and those before it."""
    blocks = torch.tensor([(position - offset) // size for position in range(len(ids))])
    sees = blocks.unsqueeze(1) >= blocks.unsqueeze(0)
    return net.everything(ids, sees)


def full_logits(net: TinyNet, ids: list[int]) -> Tensor:
    """Everything sees everything."""
    size = len(ids)
    return net.everything(ids, torch.ones(size, size, dtype=torch.bool))


def pick(policy: str, rows: dict[int, Tensor], step: int, steps: int, threshold: float, bound: float) -> dict:
    """What a step commits: position → token. ``rows`` has the logits of every undecided position."""
    chances = {at: row.softmax(-1) for at, row in rows.items()}
    allowed = {at: row.clone() for at, row in chances.items()}
    for row in allowed.values():
        if len(row) > REAL_MASK and pick.ban is not None:
            row[pick.ban] = -1.0
    token = {at: int(row.argmax()) for at, row in allowed.items()}
    sure = {at: float(chances[at][token[at]]) for at in rows}
    least = math.ceil(len(rows) / max(1, steps - step + 1))
    places = sorted(rows)
    if policy == "sequential":
        chosen = places[:least]
    elif policy == "streaming":
        chosen = []
        for index, at in enumerate(places):
            echo = token[at] == token.get(at - 1)
            if index >= least and (sure[at] <= threshold or echo):
                break
            chosen.append(at)
    elif policy == "confidence":
        by = sorted(places, key=lambda at: -sure[at])
        chosen = set(by[:least]) | {at for at in places if sure[at] > threshold}
    elif policy == "margin":
        gap = {at: float(row.topk(2).values.diff().abs()) for at, row in allowed.items()}
        by = sorted(places, key=lambda at: -gap[at])
        chosen = set(by[:least]) | {at for at in places if sure[at] > threshold}
    elif policy == "entropy":
        nats = {at: float(-(row * row.log()).sum()) for at, row in chances.items()}
        by = sorted(places, key=lambda at: nats[at])
        chosen, total = set(by[:least]), 0.0
        for at in by:
            if total > bound:
                break
            chosen.add(at)
            total += nats[at]
    else:
        raise AssertionError(policy)
    return {at: token[at] for at in chosen}


pick.ban = None


def two_streams(net, prompt, *, size, count, policy, steps, threshold, bound=0.35, stop=None) -> list[int]:
    """The arithmetic of ``smol``: the first token of a block is known, the rest is denoised."""
    pick.ban = None
    done = list(prompt)
    end = len(prompt) + count
    while True:
        block = [int(clean_logits(net, done)[-1].argmax())] + [VIRTUAL_MASK] * (size - 1)
        step = 0
        while VIRTUAL_MASK in block:
            answer = (done + block)[len(prompt) :]
            if stop in answer and VIRTUAL_MASK not in answer[: answer.index(stop)]:
                break
            step += 1
            rows = window_logits(net, done, block)
            open_rows = {at: rows[at] for at in range(size) if block[at] == VIRTUAL_MASK}
            for at, token in pick(policy, open_rows, step, steps, threshold, bound).items():
                block[at] = token
            if VIRTUAL_MASK not in (done + block)[:end]:
                break
        done += block
        answer = done[len(prompt) :][:count]
        if stop in answer and VIRTUAL_MASK not in answer[: answer.index(stop)]:
            return answer[: answer.index(stop) + 1]
        if len(done) >= end:
            return answer


def one_stream(
    net, prompt, *, size, count, policy, steps, threshold, bound=0.35, shift=0, stop=None, pattern="absolute"
) -> list[int]:
    """Block-causal on a grid from 0 or from the end of the prompt, or full attention. No cache."""
    pick.ban = REAL_MASK
    ids = list(prompt)
    end = len(prompt) + count
    offset = len(prompt) % size if pattern == "response" else 0
    if pattern == "full":
        ids += [REAL_MASK] * count
    start = len(prompt)
    while start < end:
        until = start + size if pattern == "full" else start - (start - offset) % size + size
        if pattern == "full":
            until = min(until, end)
        else:
            ids += [REAL_MASK] * (until - len(ids))
        step = 0
        if shift and pattern != "full" and (start - offset) % size == 0:
            ids[start] = _banned_argmax(block_causal_logits(net, ids[:start], size, offset)[-1])
        while True:
            answer = ids[len(prompt) :]
            settled = stop in answer and REAL_MASK not in answer[: answer.index(stop)]
            if settled or REAL_MASK not in ids[start : min(until, end)]:
                break
            step += 1
            logits = (
                full_logits(net, ids) if pattern == "full" else block_causal_logits(net, ids, size, offset)
            )
            rows = {at: logits[max(0, at - shift)] for at in range(start, until) if ids[at] == REAL_MASK}
            for at, token in pick(policy, rows, step, steps, threshold, bound).items():
                ids[at] = token
        answer = ids[len(prompt) : end]
        if stop in answer and REAL_MASK not in answer[: answer.index(stop)]:
            return answer[: answer.index(stop) + 1]
        start = until
    return ids[len(prompt) : end]


def _banned_argmax(row: Tensor) -> int:
    row = row.clone()
    row[REAL_MASK] = -torch.inf
    return int(row.argmax())
