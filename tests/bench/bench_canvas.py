"""What a frame of the canvas costs, from events to bytes for the terminal: python -m tests.bench.bench_canvas

A canvas of 512 tokens, every one with its own style, on a screen of 120x40. A frame is: fold the events, lay
out, draw the lines that changed, compose, write. The driver counts bytes and writes nowhere. Times are of the
processor, so that a busy machine counts for less.
"""

import asyncio
import json
import random
import statistics
import sys
import time
from collections.abc import Callable

from textual.app import App, ComposeResult
from textual.containers import VerticalScroll
from textual.drivers.headless_driver import HeadlessDriver

from dllm_tui import theming
from dllm_tui.events import BlockStart, Change, Commit, Guess, Pieces, Step
from dllm_tui.tui.canvas_state import CanvasState
from dllm_tui.tui.palette import Palette
from dllm_tui.tui.screens.thrifty import ThriftyScreen
from dllm_tui.tui.themes import textual_theme
from dllm_tui.tui.widgets.canvas import Canvas
from tests.tui.scripted import STORY

TOKENS = 512
FRAMES = 200
WORDS = [piece.encode() for piece in (*(" " + word for word in STORY.split()), "ly", "ing", ".", ",")]


class CountingDriver(HeadlessDriver):
    """Takes what a terminal would get."""

    written = 0

    @property
    def is_headless(self) -> bool:
        return False

    def write(self, data: str) -> None:
        CountingDriver.written += len(data.encode())


class Bench(App[None]):
    CSS = "Screen { background: $background; } VerticalScroll { padding: 2 4; }"

    def __init__(self) -> None:
        super().__init__(driver_class=CountingDriver)
        theme = theming.shipped()[theming.DEFAULT]
        self.register_theme(textual_theme(theme))
        self.theme = theme.name
        self.canvas = Canvas(Palette.of(theme))

    def get_default_screen(self) -> ThriftyScreen[None]:
        return ThriftyScreen()

    def compose(self) -> ComposeResult:
        with VerticalScroll():
            yield self.canvas


class Feed:
    """Makes up steps that change as many cells as asked for."""

    def __init__(self) -> None:
        self.draw = random.Random(0)
        self.nfe = 0

    def step(self, positions: list[int], *, masked: bool = False) -> Step:
        self.nfe += 1
        draw = self.draw
        made = [(position, draw.randrange(len(WORDS)), draw.uniform(0.2, 1)) for position in positions]
        guesses = tuple(Guess(position=p, token_id=t, confidence=c) for p, t, c in made) if masked else ()
        changes = () if masked else tuple(Change(position=p, token_id=t, confidence=c) for p, t, c in made)
        return Step(phase="denoise", nfe=self.nfe, length=TOKENS, changes=changes, guesses=guesses)

    def some(self, count: int) -> list[int]:
        return self.draw.sample(range(TOKENS), count)

    def neighbours(self, count: int) -> list[int]:
        start = self.draw.randrange(TOKENS - count)
        return list(range(start, start + count))


async def frames(
    make: Callable[[Feed], Step], *, masked: bool = False, redraw: bool = True
) -> dict[str, float]:
    """Milliseconds of CPU and bytes of a frame: median, and the 25th and 95th percentile of the time.

    On a machine that others use too the 25th is nearer to what it takes: the rest is lost to their caches.

    Without ``redraw`` nothing is folded and every line comes from the cache: what Textual itself takes to
    compose and write the whole canvas.
    """
    app, feed = Bench(), Feed()
    async with app.run_test(size=(120, 40), headless=False) as pilot:
        start = [Pieces(pieces=dict(enumerate(WORDS))), BlockStart(block=0, start=0, end=TOKENS)]
        app.canvas.fold([*start, feed.step(list(range(TOKENS)), masked=masked)])
        await pilot.pause()
        times, sizes = [], []
        for _ in range(FRAMES):
            step = make(feed)
            CountingDriver.written = 0
            began = time.thread_time()
            app.canvas.fold([step] if redraw else [])
            if not redraw:
                app.canvas.refresh()
            app.screen._on_timer_update()
            times.append((time.thread_time() - began) * 1e3)
            sizes.append(CountingDriver.written)
            await asyncio.sleep(0)
    return {
        "ms": statistics.median(times),
        "ms_p25": statistics.quantiles(times, n=4)[0],
        "ms_p95": statistics.quantiles(times, n=20)[-1],
        "bytes": statistics.median(sizes),
    }


def rebuild(steps: int = 10_000) -> float:
    """Milliseconds of CPU to fold a run of many steps from its start."""
    feed, events = Feed(), []
    for block in range(steps // 8):
        start, end = block * 16, block * 16 + 16
        events.append(BlockStart(block=block, start=start, end=end))
        for number in range(8):
            positions = range(start + 2 * number, start + 2 * number + 2)
            changes = tuple(Change(position=p, token_id=1, confidence=0.9) for p in positions)
            rest = range(positions.stop, end)
            guesses = tuple(Guess(position=p, token_id=2, confidence=0.3) for p in rest)
            feed.nfe += 1
            events.append(Step(phase="denoise", nfe=feed.nfe, length=end, changes=changes, guesses=guesses))
        events.append(Commit(block=block, start=start, end=end))
    began = time.thread_time()
    CanvasState.at(events)
    return (time.thread_time() - began) * 1e3


async def main() -> None:
    everything = list(range(TOKENS))
    figures = {
        "all tokens change": await frames(lambda feed: feed.step(everything)),
        "all guesses change": await frames(lambda feed: feed.step(everything, masked=True), masked=True),
        "8 change, anywhere": await frames(lambda feed: feed.step(feed.some(8))),
        "8 change, side by side": await frames(lambda feed: feed.step(feed.neighbours(8))),
        "nothing changes": await frames(lambda feed: feed.step([])),
        "(Textual alone, all lines)": await frames(lambda feed: feed.step([]), redraw=False),
    }
    if "--json" in sys.argv:
        print(json.dumps({**figures, "fold_10k_steps_ms": rebuild()}))
        return
    print(f"{'':26} {'ms':>7} {'p25':>7} {'p95':>7} {'KiB':>7}")
    for name, row in figures.items():
        print(
            f"{name:26} {row['ms']:7.2f} {row['ms_p25']:7.2f} {row['ms_p95']:7.2f} {row['bytes'] / 1024:7.1f}"
        )
    print(f"fold 10,000 steps: {rebuild():.0f} ms")


if __name__ == "__main__":
    asyncio.run(main())
