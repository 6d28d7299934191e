"""What a screen draws bit by bit is what it would draw as a whole."""

import random

import pyte
from rich.segment import Segment
from textual.app import App, ComposeResult
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.drivers.headless_driver import HeadlessDriver
from textual.geometry import Region
from textual.strip import Strip
from textual.widget import Widget

from dllm_tui.tui.screens.thrifty import ThriftyScreen

SIZE = (60, 20)


class Terminal(HeadlessDriver):
    """Takes what a terminal would get."""

    screen = pyte.Screen(*SIZE)
    stream = pyte.Stream(screen)

    @property
    def is_headless(self) -> bool:
        return False

    def write(self, data: str) -> None:
        Terminal.stream.feed(data)


class Rows(Widget):
    """Lines of its own, which may change one by one."""

    def __init__(self, id_: str, count: int) -> None:
        super().__init__(id=id_)
        self.said = [f"{id_} {row}" for row in range(count)]

    def render_line(self, y: int) -> Strip:
        text = self.said[y] if y < len(self.said) else ""
        return Strip([Segment(text)]).adjust_cell_length(self.size.width)


class Board(App[None]):
    CSS = """
    #left { width: 20; } #right { width: 1fr; border: round green; }
    #over { layer: above; offset: 8 6; width: 16; height: 5; border: solid red; }
    Screen { layers: below above; } VerticalScroll { height: 12; } #tall { height: 30; }
    """

    def get_default_screen(self) -> ThriftyScreen[None]:
        return ThriftyScreen()

    def compose(self) -> ComposeResult:
        with Horizontal():
            yield Rows("left", 20)
            with Vertical(id="right"), VerticalScroll():
                yield Rows("tall", 30)
        yield Rows("over", 3)


async def test_bit_by_bit_it_looks_as_it_does_whole():
    draw = random.Random(1)
    app = Board(driver_class=Terminal)
    async with app.run_test(size=SIZE, headless=False) as pilot:
        await pilot.pause()
        rows = list(app.query(Rows))
        for turn in range(60):
            for _ in range(draw.randint(1, 3)):
                part = draw.choice(rows)
                row = draw.randrange(len(part.said))
                part.said[row] = "x" * draw.randint(1, 12) + str(turn)
                part.refresh(Region(0, row, part.size.width, 1))
            if turn % 9 == 5:
                app.query_one(VerticalScroll).scroll_relative(y=draw.randint(-6, 6), animate=False)
            await pilot.pause()
            whole = [strip.text for strip in app.screen._compositor.render_strips()]
            assert Terminal.screen.display == whole


async def test_others_are_not_asked():
    app = Board(driver_class=Terminal)
    async with app.run_test(size=SIZE, headless=False) as pilot:
        await pilot.pause()
        left, tall = app.query_one("#left", Rows), app.query_one("#tall", Rows)
        drawn: list[object] = []
        tall.render_lines = drawn.append  # would fail if it were asked
        left.refresh(Region(0, 3, 20, 1))
        await pilot.pause()
        assert not drawn
