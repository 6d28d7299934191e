"""The line at the bottom: the keys that make sense now, as many as fit. A click does what the key does."""

from collections.abc import Sequence
from typing import NamedTuple

from rich.cells import cell_len
from rich.segment import Segment
from textual import events
from textual.reactive import reactive
from textual.strip import Strip

from dllm_tui.tui.pen import Drawn, Pen

GAP = 2


class Item(NamedTuple):
    """One key and what it does."""

    action: str
    key: str
    word: str

    @property
    def width(self) -> int:
        """Cells that it takes."""
        return cell_len(self.key) + 1 + cell_len(self.word)


def fitting(items: Sequence[Item], width: int) -> list[Item]:
    """Items that fit side by side; the last two, which lead to all others, are kept the longest."""
    kept = list(items)
    while len(kept) > 1 and sum(item.width + GAP for item in kept) > width:
        del kept[max(len(kept) - 3, 0)]
    return kept


class FooterLine(Drawn):
    """Draws :attr:`items`."""

    items: reactive[tuple[Item, ...]] = reactive[tuple[Item, ...]](())

    def __init__(self, pen: Pen) -> None:
        super().__init__(pen, id="footer")

    def render_line(self, y: int) -> Strip:
        """Keys and words by turns."""
        segments: list[Segment] = []
        for item in fitting(self.items, self.size.width):
            segments.append(Segment(item.key, self.pen.bold))
            segments.append(Segment(f" {item.word}" + " " * GAP, self.pen.muted))
        return self.finish(Strip(segments))

    async def on_click(self, event: events.Click) -> None:
        """Do what is under the mouse."""
        x = event.x - self.gutter.left
        for item in fitting(self.items, self.size.width):
            if 0 <= x < item.width:
                await self.run_action(f"app.{item.action}")
                return
            x -= item.width + GAP
