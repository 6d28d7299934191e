"""``dllm-chat adapt``: from an autoregressive checkpoint to a block-diffusion one."""

import json
import signal
import sys
from collections import deque
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from threading import Event
from time import perf_counter
from typing import Any

import typer

from dllm_tui.cli.console import Told as Telling
from dllm_tui.cli.console import note, progress
from dllm_tui.settings import Settings

LOG_SECONDS = 10.0
"""Between two lines in a log."""
AVERAGED = 20
"""Steps that loss and speed are averaged over."""


def adapt(
    settings: Settings,
    base: str,
    out: Path,
    *,
    plan: dict[str, Any],
    recipe: dict[str, Any],
    measured: int,
) -> None:
    """Train, and say what came of it.

    Args:
        settings: whose device and dtype are used.
        base: ``smol``, a GGUF file, a directory or a hub id.
        out: the adapter's directory.
        plan: further fields of :class:`dllm_tui.adapt.workshop.Plan`.
        recipe: what was said of the recipe, by field; fields of the noise among them.
        measured: prompts that the table at the end is made of; none if 0.

    Raises:
        DllmError: base, data or checkpoint are missing, damaged, or don't fit together.
    """
    from dllm_tui.adapt.workshop import Plan, Workshop
    from dllm_tui.engine.device import pick_device, pick_dtype, settle_threads

    device = pick_device(settings.device)
    dtype = pick_dtype(settings.dtype, device)
    if device.type == "cpu":
        settle_threads()
    chosen = Plan(base=base, out=out, **plan)
    recipe_now = _recipe(chosen.checkpoint, recipe)
    with progress() as told, _stopping() as is_asked:
        try:
            workshop = Workshop(chosen, recipe_now, device, dtype, _Teller(told, is_asked))
            figures = workshop.adapt()
        except KeyboardInterrupt:
            if chosen.checkpoint.exists():
                note(f"stopped; the same command goes on from {chosen.checkpoint}")
            raise
    if figures is None:
        print(f"{out}: a whole checkpoint\n\nchat with it: dllm-chat --model {out}")
        return
    print(f"{out}: adapter, {(out / 'adapter.safetensors').stat().st_size / 1e6:.1f} MB")
    print("best guess right, by masks to the left:", " ".join(f"{share:.2f}" for share in figures.accuracy))
    print(f"verify keeps {figures.verified:.2f} tokens a cycle (forecast on held-out chats)")
    print(f"from the left {figures.tokens:.2f} tokens a denoising forward where 95 % are right")
    if measured:
        measure(out, settings, prompts=measured)
    print(f"\nchat with it: dllm-chat --model {out}")


def measure(
    model: Path | str,
    settings: Settings,
    *,
    prompts: int,
    tokens: int = 64,
    sizes: tuple[int, ...] = (8, 16, 32),
    thresholds: tuple[float, ...] = (0.95, 0.9, 0.8, 0.7, 0.6, 0.5),
    as_json: bool = False,
) -> None:
    """Decode held-out prompts at many settings, and print what each gives.

    Args:
        model: with two streams: ``smol`` or an adapter's directory.
        settings: whose device and dtype are used.
        prompts: how many.
        tokens: longest answer.
        sizes: of blocks.
        thresholds: for decoding from the left.
        as_json: rows as JSON, one a line.

    Raises:
        DllmError: the model can't be loaded, or has no such streams.
    """
    from itertools import islice

    from dllm_tui.adapt.prompts import prompts as drawn
    from dllm_tui.adapt.validation import settings as measured
    from dllm_tui.adapt.validation import table
    from dllm_tui.engine import Engine
    from dllm_tui.errors import EngineError
    from dllm_tui.session import Message

    with progress() as told:
        engine = Engine.load(model, settings.device, settings.dtype, told)
        words = engine.tokenizer
        if words is None:
            raise EngineError(
                f"{model} comes without a tokenizer.", "Name smol, or a directory that adapt made."
            )
        asked = [
            words.encode_chat([Message("user", prompt.turns[0])])
            for prompt in islice(drawn(MEASURED_SEED, held_out=True), prompts)
        ]
        if not as_json:
            print(HEAD)
        wanted = measured(sizes, thresholds)
        for row in table(engine.model, asked, wanted, tokens=tokens, told=told):
            if as_json:
                print(json.dumps(asdict(row)), flush=True)
                continue
            figures = (row.denoising, row.all_forwards, row.greedy, row.likelihood, *row.distinct)
            print(f"| {row.name} | " + " | ".join(f"{figure:.2f}" for figure in figures) + " |", flush=True)


MEASURED_SEED = 77
HEAD = """\
| setting | tokens per denoising forward | per forward | as the base | log-likelihood | distinct-1 | -2 |
|---|---|---|---|---|---|---|"""


def numbers(text: str | None, option: str) -> tuple[int, ...] | None:
    """Whole numbers with commas between them.

    Raises:
        typer.BadParameter: they are something else.
    """
    if text is None:
        return None
    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError:
        raise typer.BadParameter("give whole numbers, like 4,8,16", param_hint=option) from None


def _recipe(checkpoint: Path, said: dict[str, Any]) -> Any:
    """The recipe: what was said, and else what the checkpoint was begun with, or the defaults."""
    from dllm_tui.adapt.training import Recipe, recipe_of
    from dllm_tui.adapt.windows import Noise

    recipe = recipe_of(checkpoint) if checkpoint.exists() else Recipe()
    noise = {name: value for name, value in said.items() if name in Noise.__dataclass_fields__}
    rest = {name: value for name, value in said.items() if name not in noise}
    try:
        return replace(recipe, noise=replace(recipe.noise, **noise), **rest)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None


@contextmanager
def _stopping() -> Generator[Event]:
    """Gives an event that is set when somebody asks to stop, by Ctrl+C or SIGTERM; twice stops at once."""
    asked = Event()

    def stop(*_: object) -> None:
        if asked.is_set():
            raise KeyboardInterrupt
        asked.set()

    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield asked
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


class _Teller:
    """Says how far an adaptation is: in the bar, or in a log every few seconds.

    Args:
        told: shows what is being done.
        is_asked: set, when it is to stop: it does before the next step.
    """

    def __init__(self, told: Telling, is_asked: Event) -> None:
        self._told, self._is_asked = told, is_asked
        self._reports: deque[Any] = deque(maxlen=AVERAGED)
        self._said = 0.0

    def __call__(self, told: Any) -> None:
        """Take note of a :class:`dllm_tui.adapt.workshop.Told`."""
        if self._is_asked.is_set():
            raise KeyboardInterrupt
        report = told.report
        if report is not None:
            self._reports.append(report)
        if told.done is not None or report is not None:
            # A log would get a line for every step.
            if not sys.stderr.isatty() and perf_counter() - self._said < LOG_SECONDS:
                return
            self._said = perf_counter()
        if report is None:
            self._told(told.doing, told.done)
            return
        loss = sum(each.loss for each in self._reports) / len(self._reports)
        seconds = sum(each.seconds for each in self._reports)
        speed = sum(each.tokens_per_second * each.seconds for each in self._reports) / seconds
        left = "" if told.left is None else f", {_time(told.left)} left"
        text = f"training, {report.tokens} tokens, {speed:.0f} tokens/s, loss {loss:.3f}{left}"
        self._told(text, told.done)


def _time(seconds: float) -> str:
    minutes = round(seconds / 60)
    return f"{minutes // 60} h {minutes % 60:02} min" if minutes >= 60 else f"{max(1, minutes)} min"
