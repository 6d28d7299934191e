"""How many tokens a step commits: the schedules of the reference samplers, as functions of numbers.

Several references compute their counts in float32, and the rounding decides; where that is so, the
arithmetic here is float32 too, and says so.
"""

import math

import torch


def pace(masks: int, steps_left: int) -> int:
    """Fewest commits of this step so that the block is full when its steps run out (design: §4).

    Args:
        masks: undecided positions now.
        steps_left: denoising steps that remain, this one included; less than 1 counts as 1.
    """
    return math.ceil(masks / max(1, steps_left))


def even(total: int, steps: int) -> list[int]:
    """``total`` commits over ``steps`` steps, the remainder going to the first of them.

    The schedule of LLaDA (``generate.py``), SDAR, LLaDA 2.0 and Stable-DiffCoder. They differ in
    ``total``: the masks of the block (LLaDA, Stable-DiffCoder) or the whole block (SDAR, LLaDA 2.0), in
    which case a step asks for more than is masked when a prompt fills a part of the block: commit no
    more than the masks that are left. With more steps than tokens, the last steps commit none.
    """
    share, rest = divmod(total, steps)
    return [share + (step < rest) for step in range(steps)]


def half_even(masks: int, steps: int) -> list[int]:
    """Commits per step of the dllm samplers (A2D, linear schedule); steps that commit none are left out.

    In step *j* of *S*, with t = (S − j)/S and s = (S − j − 1)/S, each mask is uncovered with probability
    1 − s/t; the expected number is rounded half to even. The ratio is one of float32 values, each 1 − α
    with α = 1 − t rounded too.
    """

    def masked_share(time: float) -> torch.Tensor:
        return 1 - (1 - torch.tensor(time, dtype=torch.float32))

    counts: list[int] = []
    left = masks
    for step in range(steps):
        ratio = masked_share((steps - step - 1) / steps) / masked_share((steps - step) / steps)
        count = min(left, round(left * (1 - ratio.item())))
        if count:
            counts.append(count)
        left -= count
    return counts


def dream(masks: int, step: int, steps: int, eps: float = 1e-3) -> int:
    """Commits of Dream's step ``step`` (from 0) of ``steps``, with ``masks`` positions undecided.

    ``int(masks · (1 − s/t))`` in float32 over t = linspace(1, eps, steps + 1); the last step commits
    what is left. Zero is possible: with as many steps as masks, the first step commits none.
    """
    if step >= steps - 1:
        return masks
    return int(torch.tensor(masks, dtype=torch.float32) * dream_share(step, steps, eps))


def dream_share(step: int, steps: int, eps: float = 1e-3) -> torch.Tensor:
    """Share 1 − s/t of the masks that Dream uncovers in a step: float32 scalar, 1 in the last step.

    Dream's ``origin`` sampler uncovers each mask with this probability, independently.
    """
    if step >= steps - 1:
        return torch.ones(())
    times = torch.linspace(1, eps, steps + 1)
    return 1 - times[step + 1] / times[step]


def ancestral_share(step: int, steps: int, eps: float, *, coarse: bool = False) -> float:
    """Share 1 − s/t of the masks that MDLM's and BD3-LM's ancestral samplers uncover in a step, on average.

    Over t = linspace(1, eps, steps); the last step takes what is left (MDLM's noise removal).

    Args:
        step: from 0.
        steps: of the block; those before the last are the reference's.
        eps: share of masks at which the schedule ends.
        coarse: s lies 1/steps before t, a little less than the distance of the times (BD3-LM).
    """
    if step >= steps - 1:
        return 1.0
    distance = 1 / steps if coarse else (1 - eps) / (steps - 1)
    return distance / (1 - step * (1 - eps) / (steps - 1))


def noise_level(time: float, least: float = 1e-3) -> float:
    """How much noise there is at a time: −log(1 − (1 − least)·t), SEDD's log-linear schedule."""
    return -math.log1p(-(1 - least) * time)


def sedd_times(step: int, steps: int, eps: float) -> tuple[float, float]:
    """The times that SEDD's step ``step`` (from 0) of ``steps`` goes from and to.

    All but the last go along linspace(1, eps, steps); the last one, from eps, removes all noise.
    """
    distance = (1 - eps) / max(1, steps - 1)
    if step >= steps - 1:
        return eps, 0.0
    return 1 - step * distance, 1 - (step + 1) * distance


def rnd1_kept(masks: int, steps: int) -> list[int]:
    """Positions that RND1 leaves masked after each of its steps − 1 rounds, of ``masks`` at the start.

    ``floor(masks · s/N)`` in float32, for s = N − 1 … 1. What is masked after the last round is committed
    with the predictions at hand, without another forward.
    """
    total = torch.tensor(masks, dtype=torch.float32)
    return [int(torch.floor(total * (left / steps))) for left in range(steps - 1, 0, -1)]


def temperature(step: int, steps: int, low: float, high: float) -> float:
    """DiffusionGemma's temperature in step ``step`` (from 0) of at most ``steps``: falls from high to low.

    ``low + (high − low) · r/N`` with r = steps that remain, this one included.
    """
    return low + (high - low) * ((steps - step) / steps)


def adaptive(steps: int, confidence: float, least: int = 1) -> int:
    """Steps for a block whose masks are ``confidence`` sure on average after the first forward.

    Spends the budget where it is needed: a block that the model is sure of gets few steps, one that it
    doubts gets up to ``steps``. Linear in the doubt 1 − confidence, rounded up, so that a doubt of one
    half already gets half the steps.

    Args:
        steps: most steps that the block may take.
        confidence: mean probability of the best tokens at the masked positions, 0 … 1.
        least: fewest steps.
    """
    doubt = min(1.0, max(0.0, 1.0 - confidence))
    return max(least, min(steps, math.ceil(steps * doubt)))
