"""What ``dllm-chat bench`` measures: this engine on this machine, in ratios taken within one run."""

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from time import perf_counter
from typing import Any

import torch
from torch import Tensor

from dllm_tui.engine.api import Engine
from dllm_tui.engine.backbone import Backbone
from dllm_tui.errors import EngineError
from dllm_tui.events import Done, Step
from dllm_tui.knobs import Knobs
from dllm_tui.ports import Message

PROMPTS = (
    "What is the capital of France?",
    "List five tips for sleeping better.",
    "Write a Python function that checks if a number is even.",
)
THRESHOLDS = (0.9, 0.7, 0.5)
BLOCKS = (1, 8, 16, 32)
CONTEXT = 256
"""Cached positions that the timed forwards see."""
ROUNDS = 12
BASELINE = "transformers, greedy"


@dataclass(frozen=True)
class Speed:
    """One way to generate, over all prompts."""

    name: str
    tokens: int
    seconds: float
    forwards: int
    ratio: float | None = None
    """Tokens per second over those of transformers."""

    @property
    def tokens_per_second(self) -> float:
        """Everything counts: prefill, denoising, commit forwards."""
        return self.tokens / self.seconds

    @property
    def tokens_per_forward(self) -> float:
        """Tokens kept over forwards of all kinds."""
        return self.tokens / self.forwards


@dataclass(frozen=True, kw_only=True)
class Report:
    """The figures."""

    model: str
    device: str
    dtype: str
    threads: int
    load_seconds: float
    forward_ms: dict[int, float] = field(default_factory=dict[int, float])
    """Median milliseconds of a bare forward by block size, with :data:`CONTEXT` cached positions."""
    step_ratio: float | None = None
    """Median of a denoising step's time over that of the backbone's forward inside it."""
    speeds: tuple[Speed, ...] = ()
    verify_is_exact: bool | None = None
    """Whether verify gave the very tokens of transformers' greedy decoding."""

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        names = ("model", "device", "dtype", "threads", "load_seconds", "forward_ms", "step_ratio")
        speeds = [
            {
                "name": speed.name,
                "tokens_per_second": speed.tokens_per_second,
                "tokens_per_forward": speed.tokens_per_forward,
                "tokens": speed.tokens,
                "seconds": speed.seconds,
                "forwards": speed.forwards,
                "ratio": speed.ratio,
            }
            for speed in self.speeds
        ]
        found = {name: getattr(self, name) for name in names}
        return {**found, "speeds": speeds, "verify_is_exact": self.verify_is_exact}


def measure(
    model: str = "smol",
    device: str = "auto",
    dtype: str = "auto",
    *,
    tokens: int = 64,
    progress: Callable[[str, float], None] = lambda text, done: None,
) -> Report:
    """Load a model and time it; takes a minute or two on a CPU.

    Args:
        model: as for :meth:`dllm_tui.engine.Engine.load`.
        device: where.
        dtype: in which.
        tokens: longest answer.
        progress: is told what goes on.

    Raises:
        DllmError: the model can't be loaded, or has no tokenizer.
    """
    began = perf_counter()
    engine = Engine.load(model, device, dtype, progress)
    _wait(engine.device)
    loaded = perf_counter() - began
    if engine.tokenizer is None:
        raise EngineError(f"{engine.info.id} comes without a tokenizer.")
    prompts = [engine.tokenizer.encode_chat([Message("user", text)]) for text in PROMPTS]
    progress("timing forwards", 0.0)
    forward_ms = {size: _forward_ms(engine, size) for size in BLOCKS}
    step_ratio = _step_ratio(engine, prompts[0])
    speeds, exact = _speeds(engine, prompts, tokens, progress)
    return Report(
        model=engine.info.id,
        device=str(engine.device),
        dtype=engine.info.dtype,
        threads=torch.get_num_threads(),
        load_seconds=loaded,
        forward_ms=forward_ms,
        step_ratio=step_ratio,
        speeds=speeds,
        verify_is_exact=exact,
    )


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def _forward_ms(engine: Engine, size: int) -> float:
    backbone = engine.model.backbone
    cache = backbone.new_cache(CONTEXT + size)
    ids = torch.randint(backbone.vocab_size, (CONTEXT + size,)).to(engine.device)
    if engine.model.mask_id is not None:
        ids[CONTEXT + 1 :] = engine.model.mask_id  # as in a block's first step
    places = torch.arange(CONTEXT + size, device=engine.device)
    head, tail = slice(0, CONTEXT), slice(CONTEXT, None)
    times: list[float] = []
    with torch.inference_mode():
        backbone.forward(ids[head], places[head], cache=cache, write_at=0, causal=True, rows=slice(0, 0))
        for _ in range(ROUNDS):
            _wait(engine.device)
            began = perf_counter()
            backbone.forward(
                ids[tail], places[tail], noised=engine.family.two_streams, cache=cache, context=CONTEXT
            )
            _wait(engine.device)
            times.append(perf_counter() - began)
    return 1000 * statistics.median(times[2:])


class _Stopwatch:
    """A backbone that notes how long each forward takes."""

    def __init__(self, backbone: Backbone) -> None:
        self._backbone = backbone
        self.last = 0.0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._backbone, name)

    def forward(self, ids: Tensor, positions: Tensor, **options: Any) -> Tensor:
        _wait(self._backbone.device)
        began = perf_counter()
        logits = self._backbone.forward(ids, positions, **options)
        _wait(self._backbone.device)
        self.last = perf_counter() - began
        return logits


def _step_ratio(engine: Engine, prompt: list[int]) -> float | None:
    watch = _Stopwatch(engine.model.backbone)
    timed: Any = replace(engine.model, backbone=watch)
    ratios = [
        event.seconds / watch.last
        for event in Engine(timed).generate(prompt, engine.defaults.replace(max_new_tokens=32, seed=0))
        if isinstance(event, Step) and event.phase == "denoise"
    ]
    return statistics.median(ratios) if ratios else None


def _speeds(
    engine: Engine, prompts: list[list[int]], tokens: int, progress: Callable[[str, float], None]
) -> tuple[tuple[Speed, ...], bool | None]:
    """Every setting over every prompt, and whether verify gave what transformers gave."""
    base = engine.defaults.replace(max_new_tokens=tokens, seed=0)
    settings = {f"threshold {value:g}": base.replace(threshold=value) for value in THRESHOLDS}
    if "verify" in engine.family.policies:
        settings["verify"] = base.replace(policy="verify", steps=1)
    ways = {name: partial(_generate, engine, knobs=knobs) for name, knobs in settings.items()}
    if engine.info.id == "smol":
        ways = {BASELINE: _transformers(engine, tokens), **ways}
    speeds = {name: Speed(name, 0, 0.0, 0) for name in ways}
    same: list[bool] = []
    # Round robin, so that what else the machine does falls on all alike.
    for index, prompt in enumerate(prompts):
        answers: dict[str, Sequence[int]] = {}
        for place, (name, way) in enumerate(ways.items()):
            progress(f"generating: {name}", (index + place / len(ways)) / len(prompts))
            began = perf_counter()
            answers[name], forwards = way(prompt)
            speed, seconds = speeds[name], perf_counter() - began
            count = speed.tokens + len(answers[name])
            speeds[name] = Speed(name, count, speed.seconds + seconds, speed.forwards + forwards)
        if BASELINE in answers and "verify" in answers:
            same.append(list(answers["verify"]) == list(answers[BASELINE]))
    if BASELINE in speeds:
        against = speeds[BASELINE].tokens_per_second
        speeds = {name: replace(row, ratio=row.tokens_per_second / against) for name, row in speeds.items()}
    return tuple(speeds.values()), all(same) if same else None


def _generate(engine: Engine, prompt: list[int], knobs: Knobs) -> tuple[Sequence[int], int]:
    """The answer's ids and the number of forwards."""
    *_, done = engine.generate(prompt, knobs)
    if not isinstance(done, Done):
        raise AssertionError("a run ends with done")
    return done.token_ids, done.nfe


def _transformers(engine: Engine, tokens: int) -> Callable[[list[int]], tuple[Sequence[int], int]]:
    """Greedy decoding by transformers' own classes, on the default model's dequantised base."""
    from transformers import LlamaConfig, LlamaForCausalLM

    from dllm_tui.engine.gguf import GGUF
    from dllm_tui.families import smol
    from dllm_tui.store import fetch

    file = GGUF(fetch(smol.BASE))
    shape = file.geometry()
    config = LlamaConfig(
        vocab_size=shape.vocab_size,
        hidden_size=shape.hidden_size,
        intermediate_size=shape.intermediate_size,
        num_hidden_layers=shape.layers,
        num_attention_heads=shape.heads,
        num_key_value_heads=shape.kv_heads,
        rms_norm_eps=shape.norm_eps,
        rope_parameters={"rope_type": "default", "rope_theta": shape.rope_theta},
        max_position_embeddings=shape.context_length,
        tie_word_embeddings=True,
        eos_token_id=sorted(engine.model.stop_ids),
        pad_token_id=engine.model.pad_id,
    )
    stock: Any = LlamaForCausalLM.from_pretrained(
        None, config=config, state_dict=dict(file.tensors()), dtype=engine.model.backbone.dtype
    )
    stock.to(engine.device)

    def greedy(prompt: list[int]) -> tuple[Sequence[int], int]:
        ids = torch.tensor([prompt], device=engine.device)
        with torch.inference_mode():
            whole = stock.generate(
                ids, attention_mask=torch.ones_like(ids), max_new_tokens=tokens, do_sample=False
            )
        answer: list[int] = whole[0, len(prompt) :].tolist()
        return answer, len(answer)

    return greedy
