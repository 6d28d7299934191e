"""How the references' knobs map to ours, family by family: the one place that knows both.

A mapping turns a decode case into a :class:`Setting`: the run that must leave the same trace. What a
reference does and no person should have to turn is a switch of the family, replaced here for the run.

Some references go on where ours is done, or stop where ours goes on. What of their trace is compared is
said here too; everything else must be equal:

* A commit forward after the answer's end keeps what nothing reads: left out on both sides.
* Ours cuts the canvas where the answer ends: cells behind it are not compared in the last step.
* References that fill whole blocks past ``gen_length`` get a longer answer from ours as well.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from dllm_tui.engine.draws import Draws
from dllm_tui.engine.loop import Decoder
from dllm_tui.families.family import Family, Renoising
from dllm_tui.knobs import Knobs
from tests.golden.cases import Case

Trace = list[tuple[str, list[int]]]
"""Of every forward: its kind, and the canvas after it, prompt included."""

MOST_STEPS = 4096


@dataclass(frozen=True, kw_only=True)
class Setting:
    """One run of ours, and what must come of it."""

    knobs: Knobs
    mask_id: int
    prompt: list[int]
    frame: tuple[int | None, ...] = ()
    stop_ids: frozenset[int] = frozenset()
    switches: dict[str, Any] = field(default_factory=dict[str, Any])
    """Fields of the family that are replaced."""
    expected: Trace
    noisy: list[list[int]] | None = None
    """Uniform noise: the canvas after every denoising step but each canvas's last one, which takes the best
    tokens; ``expected`` then holds those of every step."""
    draws: Callable[[Decoder], Draws] | None = None
    """What replays the reference's draws."""
    cut: bool = False
    """Only a part of the reference's run is compared."""
    kinds: bool = True
    """The reference has prefill and commit forwards too; if not, only denoising is compared."""


Map = Callable[[Case, Family], Setting]


def whole(length: int, size: int) -> int:
    """The length rounded up to whole blocks."""
    return -(-length // size) * size


def trace(case: Case) -> Trace:
    """The trace of a case that says of each forward what kind it is."""
    kinds = [kind for kind, _ in case.expected["forwards"]]
    return list(zip(kinds, case.expected["steps"], strict=True))


def denoising(case: Case) -> Trace:
    """The trace of a reference whose forwards all denoise."""
    return [("denoise", ids) for ids in case.expected["steps"]]


def without_empty_steps(case: Case) -> Trace:
    """The trace without the forwards after which the reference's schedule commits nothing."""
    kept: Trace = []
    before = case.expected["start"]
    for (kind, ids), count in zip(denoising(case), case.expected["committed_per_step"], strict=True):
        if count:
            kept.append((kind, ids))
        else:
            assert ids == before, f"{case.id}: a step that commits nothing changes the canvas"
        before = ids
    return kept


def until_answered(case: Case, expected: Trace, stop_ids: set[int], limit: int) -> Trace:
    """The trace up to the first forward after which the answer is there, without a mask before its end.

    LLaDA 2.0 looks for a stop token only in a step that commits one, WeDLM only in the next step; and
    both notice later than ours that the longest answer is complete.
    """
    start, mask_id = len(case.prompt), case.knobs["mask_token_id"]
    for number, (_, ids) in enumerate(expected):
        answer = ids[start : start + limit]
        stop = next((place for place, token in enumerate(answer) if token in stop_ids), len(answer))
        if (stop < len(answer) or len(answer) == limit) and mask_id not in answer[:stop]:
            return expected[: number + 1]
    return expected


def sdar(case: Case, family: Family) -> Setting:
    k, size = case.knobs, case.knobs["block_length"]
    return Setting(
        knobs=Knobs(
            steps=k["steps"],
            block_size=size,
            threshold=1.0 if k["threshold"] is None else k["threshold"],
            policy="sequential" if k["algorithm"] == "sequential" else "confidence",
            schedule="quota",
            temperature=k["temperature"],
            top_k=k["top_k"],
            top_p=k["top_p"],
            max_new_tokens=whole(len(case.prompt) + k["gen_length"], size) - len(case.prompt),
        ),
        mask_id=k["mask_token_id"],
        prompt=case.prompt,
        stop_ids=frozenset(k["stop_token_ids"]),
        switches={
            "grid": size,
            "finishes_block": True,
            "sampling": replace(family.sampling, greedy=k["sampling"] == "argmax"),
        },
        expected=trace(case),
    )


def llada(case: Case, family: Family) -> Setting:
    """The reference runs the empty steps of its schedule; ours goes on to the next block."""
    k = case.knobs
    suppressed = (k["eos_token_id"],) if k["logits_eos_inf"] else ()
    late = (k["eos_token_id"], k["eot_token_id"]) if k["confidence_eos_eot_inf"] else ()
    return Setting(
        knobs=Knobs(
            steps=k["steps"] // (k["gen_length"] // k["block_length"]),
            block_size=k["block_length"],
            threshold=1.0,
            policy="random" if k["remasking"] == "random" else "confidence",
            schedule="llada",
            temperature=k["temperature"],
            cfg_scale=k["cfg_scale"],
            max_new_tokens=k["gen_length"],
        ),
        mask_id=k["mask_token_id"],
        prompt=case.prompt,
        switches={"sampling": replace(family.sampling, suppressed=suppressed, late=late)},
        expected=without_empty_steps(case),
    )


def fast_dllm(case: Case, family: Family) -> Setting:
    """Version 1, over LLaDA: a threshold, the factor rule or the schedule."""
    k = case.knobs
    threshold = 1 - k["factor"] / 3 if k["factor"] else k["threshold"]
    by_policy = threshold is not None
    return Setting(
        knobs=Knobs(
            steps=MOST_STEPS if by_policy else k["steps"] // (k["gen_length"] // k["block_length"]),
            block_size=k["block_length"],
            threshold=threshold if by_policy else 1.0,
            policy="factor" if k["factor"] else "confidence",
            schedule="free" if by_policy else "llada",
            temperature=k["temperature"],
            cache=k["cache"],
            max_new_tokens=k["gen_length"],
        ),
        mask_id=k["mask_token_id"],
        prompt=case.prompt,
        expected=denoising(case),
    )


def llada2(case: Case, family: Family) -> Setting:
    """The reference keeps no cache: its forwards read everything again, and all of them denoise."""
    k, size = case.knobs, case.knobs["block_length"]
    stop_ids = {k["eos_token_id"]}
    expected = denoising(case)
    return Setting(
        knobs=Knobs(
            steps=min(k["steps"], k["gen_length"] // k["minimal_topk"]),
            block_size=size,
            threshold=k["threshold"],
            schedule="quota",
            temperature=k["temperature"],
            max_new_tokens=whole(len(case.prompt) + k["gen_length"], size) - len(case.prompt),
        ),
        mask_id=k["mask_token_id"],
        prompt=case.prompt,
        stop_ids=frozenset(stop_ids),
        switches={"grid": size, "finishes_block": not k["eos_early_stop"]},
        expected=until_answered(case, expected, stop_ids, MOST_STEPS) if k["eos_early_stop"] else expected,
        kinds=False,
    )


def llada21(case: Case, family: Family) -> Setting:
    """Without early stop the reference goes on to ``gen_length`` whatever it writes."""
    k, size = case.knobs, case.knobs["block_length"]
    return Setting(
        knobs=Knobs(
            steps=MOST_STEPS,
            block_size=size,
            threshold=k["threshold"],
            edit_threshold=k["editing_threshold"],
            schedule="free",
            temperature=k["temperature"],
            max_new_tokens=whole(len(case.prompt) + k["gen_length"], size) - len(case.prompt),
        ),
        mask_id=k["mask_token_id"],
        prompt=case.prompt,
        stop_ids=frozenset({k["eos_token_id"]} if k["eos_early_stop"] else ()),
        switches={"grid": size, "edit_steps": k["max_post_steps"], "least": k["num_to_transfer"]},
        expected=denoising(case),
        kinds=False,
    )


def dream(case: Case, family: Family) -> Setting:
    k = case.knobs
    policy = {"maskgit_plus": "confidence", "topk_margin": "margin"}.get(k["algorithm"], k["algorithm"])
    return Setting(
        knobs=Knobs(
            steps=k["steps"],
            block_size=k["max_new_tokens"],
            threshold=1.0,
            policy=policy,
            schedule="dream",
            entropy_bound=0.0,
            temperature=k["temperature"],
            top_p=1.0 if k["top_p"] is None else k["top_p"],
            top_k=k["top_k"] or 0,
            pick_temperature=k["alg_temp"] or 0.0,
            max_new_tokens=k["max_new_tokens"],
        ),
        mask_id=k["mask_token_id"],
        prompt=case.prompt,
        switches={"eps": k["eps"]},
        expected=trace(case),
    )


def dllm_mdlm(case: Case, family: Family) -> Setting:
    """Infilling: the whole sequence is the answer's frame, so that blocks count from its beginning."""
    k = case.knobs
    infills = k["entry"] == "infill"
    length = len(case.prompt) if infills else k["max_new_tokens"]
    blocks = -(-length // k["block_size"])
    mask_id = k["mask_token_id"]
    return Setting(
        knobs=Knobs(
            steps=-(-k["steps"] // blocks),
            block_size=k["block_size"],
            threshold=1.0,
            schedule="dllm",
            temperature=k["temperature"],
            cfg_scale=k["cfg_scale"],
            max_new_tokens=length,
        ),
        mask_id=mask_id,
        prompt=[] if infills else case.prompt,
        frame=tuple(None if token == mask_id else token for token in case.prompt) if infills else (),
        switches={"sampling": replace(family.sampling, suppressed=tuple(k["suppress_tokens"] or ()))},
        expected=trace(case),
    )


def dllm_bd3lm(case: Case, family: Family) -> Setting:
    """The reference pads the prompt on the left, ours lays the grid from its end: the same blocks.

    A pad token that the model itself writes is padding to the reference from the next block on, and
    hidden. Ours is right to see it: nothing after that block is compared.
    """
    k, size, pads = case.knobs, case.knobs["block_size"], case.expected["left_pad"]
    blocks = -(-k["max_new_tokens"] // size)
    expected = [(kind, ids[pads:]) for kind, ids in trace(case)]
    length, start = k["max_new_tokens"], len(case.prompt)
    for number, (kind, ids) in enumerate(expected):
        if kind == "commit" and k["pad_token_id"] in ids[start:]:
            expected, length = expected[:number], len(ids) - start
            break
    return Setting(
        knobs=Knobs(
            steps=k["steps_per_block"] or -(-k["steps"] // blocks),
            block_size=size,
            threshold=1.0,
            schedule="dllm",
            temperature=k["temperature"],
            cfg_scale=k["cfg_scale"],
            max_new_tokens=length,
        ),
        mask_id=k["mask_token_id"],
        prompt=case.prompt,
        stop_ids=frozenset({k["eos_token_id"]}),
        switches={"grid": size, "finishes_block": True},
        expected=expected,
        cut=length < k["max_new_tokens"],
    )


def rnd1(case: Case, family: Family) -> Setting:
    """The reference keeps the canvas's last cell back, and what follows the masks is given too."""
    k, start = case.knobs, len(case.prompt)
    suffix = k["suffix"] or []
    last = [] if k["eos_token_id"] is None else [k["eos_token_id" if k["add_eos_at_end"] else "pad_token_id"]]
    length = k["seq_len"] - start
    holes = length - len(suffix) - len(last)
    return Setting(
        knobs=Knobs(
            steps=k["steps"],
            block_size=length,
            threshold=1.0,
            policy="entropy" if k["eb_gamma"] is None else "eb",
            schedule="rnd1" if k["eb_gamma"] is None else "free",
            entropy_bound=k["eb_gamma"] or 0.0,
            temperature=k["temperature"],
            top_k=k["top_k"] or 0,
            top_p=1.0 if k["top_p"] is None else k["top_p"],
            max_new_tokens=length,
        ),
        mask_id=k["mask_token_id"],
        prompt=case.prompt,
        frame=(*[None] * holes, *suffix, *last),
        switches={"sampling": replace(family.sampling, greedy=k["greedy"])},
        expected=trace(case),
    )


def stable_diffcoder(case: Case, family: Family) -> Setting:
    k, size = case.knobs, case.knobs["block_length"]
    by_threshold = k["threshold"] is not None
    return Setting(
        knobs=Knobs(
            steps=MOST_STEPS if by_threshold else k["steps"] // (k["gen_length"] // size),
            block_size=size,
            threshold=k["threshold"] if by_threshold else 1.0,
            schedule="free" if by_threshold else "llada",
            temperature=k["temperature"],
            max_new_tokens=k["gen_length"],
        ),
        mask_id=k["mask_token_id"],
        prompt=case.prompt,
        stop_ids=frozenset() if k["eos_token_id"] is None else frozenset({k["eos_token_id"]}),
        switches={"grid": size, "finishes_block": True},
        expected=trace(case),
    )


def fast_dllm_v2(case: Case, family: Family) -> Setting:
    """Version 2. The last block is kept too, and the token that this gives belongs to the answer."""
    k, size, start = case.knobs, case.knobs["block_length"], len(case.prompt)
    batch = k["entry"] == "batch_sample"
    blocks = k["max_new_tokens"] // size + start // size
    expected = trace(case)
    for number, (kind, ids) in enumerate(expected):
        # ``batch_sample`` takes no notice of a stop token that a finished block gives.
        if kind == "commit" and set(ids[start:-1]) & set(k["stop_token_ids"]):
            expected = expected[:number]
            break
    return Setting(
        knobs=Knobs(
            steps=MOST_STEPS,
            block_size=k["sub_block_length"],
            threshold=k["threshold"],
            schedule="free",
            temperature=k["temperature"],
            top_p=k["top_p"],
            cache="dual" if k["sub_block_cache"] else "auto",
            max_new_tokens=blocks * size + 1 - start,
        ),
        mask_id=k["mask_token_id"],
        prompt=case.prompt,
        stop_ids=frozenset(k["stop_token_ids"]),
        switches={"grid": size, "finishes_block": batch},
        expected=expected,
    )


def wedlm(case: Case, family: Family) -> Setting:
    k = case.knobs
    limit = k["max_tokens"]
    return Setting(
        knobs=Knobs(
            steps=MOST_STEPS,
            block_size=k["window_size"],
            policy="low-entropy",
            schedule="free",
            entropy_bound=k["entropy_threshold"] or 0.0,
            distance_penalty=k["pos_penalty_factor"],
            temperature=k["temperature"],
            top_p=k["top_p"],
            top_k=k["top_k"],
            max_new_tokens=limit,
        ),
        mask_id=k["mask_token_id"],
        prompt=case.prompt,
        stop_ids=frozenset(k["stop_token_ids"]),
        expected=until_answered(case, trace(case), set(k["stop_token_ids"]), limit),
    )


def d3llm(case: Case, family: Family) -> Setting:
    k = case.knobs
    return Setting(
        knobs=Knobs(
            steps=MOST_STEPS,
            block_size=k["block_length"],
            policy="low-entropy",
            schedule="free",
            entropy_bound=k["threshold"],
            temperature=k["temperature"],
            max_new_tokens=k["gen_length"],
        ),
        mask_id=k["mask_token_id"],
        prompt=case.prompt,
        stop_ids=frozenset({k["eos_token_id"]} if k["early_stop"] else ()),
        switches={"overlap": k["block_add_threshold"], "closes": k["early_stop"]},
        expected=denoising(case),
    )


class Replay(Draws):
    """The draws of MDLM's and BD3-LM's references, which draw a token or the mask with one race.

    Each cell takes the token v with the largest weight[v] / e[v], e exponential, the mask being one of
    them. Ours draws the token and then whether to commit it: the same race, run first among the tokens.

    Args:
        decoder: the run; tells which cells are drawn for.
        uniforms: float32 [draws, cells of a block, vocab], or ``None`` where all is greedy.
        reveal: cell of the block that each step commits, where that is drawn apart (first hitting).
    """

    def __init__(self, decoder: Decoder, uniforms: Tensor | None, reveal: list[int] | None) -> None:
        super().__init__(0)
        self.decoder, self.uniforms, self.reveal = decoder, uniforms, reveal
        self.drawn = 0
        self.odds = torch.empty(0)

    def tokens(self, weights: Tensor) -> Tensor:
        block, canvas = self.decoder.block, self.decoder.canvas
        base = 0 if self.uniforms is None else block.start // self.uniforms.shape[1] * self.uniforms.shape[1]
        cells = canvas.open[block.start : block.end].nonzero().flatten() + block.start - base
        if self.uniforms is None:
            times = torch.ones_like(weights)
        else:
            times = 1e-10 - torch.log(self.uniforms[self.drawn][cells] + 1e-10)
        best = (weights / times).max(-1)
        # Committed where share · best > (1 - share) / e[mask].
        mask_times = times[:, canvas.mask_id]
        odds = torch.ones(block.end - block.start)
        odds[cells + base - block.start] = 1 / (1 + best.values * mask_times)
        self.odds = odds
        return best.indices

    def uniform(self, count: int) -> Tensor:
        drawn, self.drawn = self.drawn, self.drawn + 1
        if self.reveal is None:
            return self.odds
        block = self.decoder.block
        score = torch.zeros(count)
        score[self.reveal[drawn] - block.start % self.decoder.knobs.block_size] = 1.0
        return score


def updates(case: Case) -> Trace:
    """The trace, where what was drawn from one prediction is one forward.

    The references draw again without a forward after an update that changed nothing. MDLM goes on over a
    canvas that is full, and its last forward reads one that may not have changed.
    """
    result: Trace = []
    before, read = case.prompt, None
    forwards = trace(case)
    for number, (kind, ids) in enumerate(forwards):
        removal = number == len(forwards) - 1 and case.knobs.get("noise_removal", False)
        full = len(ids) == len(before) and case.knobs["mask_token_id"] not in before
        if full and kind != "commit":
            assert ids == before, f"{case.id}: forward {number} changes a full canvas"
        elif kind == "cached" or (removal and before == read):
            result[-1] = ("denoise", ids)
        else:
            result.append((kind, ids))
            read = before
        before = ids
    return result


def mdlm(case: Case, family: Family) -> Setting:
    k = case.knobs
    uniforms = case.stored(case.entry["uniforms"])
    return Setting(
        knobs=Knobs(
            steps=k["num_steps"] + 1,
            block_size=k["canvas_length"],
            threshold=1.0,
            policy="ancestral",
            schedule="mdlm",
            temperature=k["temperature"],
            max_new_tokens=k["canvas_length"],
        ),
        mask_id=k["mask_token_id"],
        prompt=case.prompt,
        switches={"eps": k["eps"]},
        draws=lambda decoder: Replay(decoder, uniforms, None),
        expected=updates(case),
    )


def bd3lm(case: Case, family: Family) -> Setting:
    k, size = case.knobs, case.knobs["block_length"]
    uniforms = case.stored(case.entry["uniforms"]) if "uniforms" in case.entry else None
    first_hitting = k["algorithm"] == "first_hitting"
    return Setting(
        knobs=Knobs(
            steps=MOST_STEPS if first_hitting else k["num_steps"],
            block_size=size,
            threshold=1.0,
            policy="random" if first_hitting else "ancestral",
            schedule="free" if first_hitting else "bd3lm",
            temperature=k["temperature"],
            # Where less than the best token's probability is allowed, it is greedy.
            top_p=max(0.01, k["nucleus_p"]),
            max_new_tokens=k["num_blocks"] * size - len(case.prompt),
        ),
        mask_id=k["mask_token_id"],
        prompt=case.prompt,
        switches={"grid": size},
        draws=lambda decoder: Replay(decoder, uniforms, case.expected.get("reveal")),
        expected=updates(case),
        kinds=k["kv_cache"],
    )


def mdlm_or_bd3lm(case: Case, family: Family) -> Setting:
    return (mdlm if "canvas_length" in case.knobs else bd3lm)(case, family)


class Recorded(Draws):
    """The draws of a DiffusionGemma run, one after the other."""

    def __init__(self, tokens: list[list[int]], ids: list[list[int]]) -> None:
        super().__init__(0)
        self._tokens, self._ids = iter(tokens), iter(ids)

    def tokens(self, weights: Tensor) -> Tensor:
        return torch.tensor(next(self._tokens))

    def ids(self, count: int, vocabulary: int) -> Tensor:
        return torch.tensor(next(self._ids))


def diffusion_gemma(case: Case, family: Family) -> Setting:
    k, canvases = case.knobs, case.expected["canvases"]
    steps = [step for canvas in canvases for step in canvas["steps"]]
    ids = [
        row for canvas in canvases for row in (canvas["init"], *(step["noise"] for step in canvas["steps"]))
    ]
    return Setting(
        knobs=Knobs(
            steps=k["max_denoising_steps"],
            block_size=k["canvas_length"],
            policy="entropy",
            entropy_bound=k["entropy_bound"],
            temperature=k["t_max"],
            max_new_tokens=whole(k["max_new_tokens"], k["canvas_length"]),
        ),
        mask_id=k["pad_token_id"],
        prompt=case.prompt,
        stop_ids=frozenset(k["eos_token_id"]),
        switches={
            "grid": k["canvas_length"],
            "renoising": Renoising(
                coldest=k["t_min"], stability=k["stability_threshold"], certainty=k["confidence_threshold"]
            ),
        },
        draws=lambda _: Recorded([step["candidates"] for step in steps], ids),
        expected=trace(case),
        noisy=[step["current"] for canvas in canvases for step in canvas["steps"][:-1]],
    )


MAPS: dict[str, Map] = {
    "low_confidence_static": sdar,
    "low_confidence_dynamic": sdar,
    "sequential": sdar,
    "llada_semi_ar": llada,
    "fast_dllm_v1": fast_dllm,
    "llada2_block": llada2,
    "llada21_joint_threshold": llada21,
    "maskgit_plus": dream,
    "topk_margin": dream,
    "entropy": dream,
    "low_confidence (dllm mdlm sampler)": dllm_mdlm,
    "low_confidence (dllm bd3lm sampler)": dllm_bd3lm,
    "rnd1_entropy": rnd1,
    "rnd1_entropy_bound": rnd1,
    "stable_diffcoder": stable_diffcoder,
    "fast_dllm_v2": fast_dllm_v2,
    "wedlm": wedlm,
    "diffusion_gemma": diffusion_gemma,
    "d3llm_multi_block": d3llm,
    "ddpm_cache": mdlm_or_bd3lm,
    "first_hitting": mdlm_or_bd3lm,
}
"""By the name of the reference's algorithm."""
