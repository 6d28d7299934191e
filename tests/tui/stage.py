"""A small app around one widget, in the default theme."""

from pathlib import Path

from textual.app import App, ComposeResult
from textual.widget import Widget

from dllm_tui import theming
from dllm_tui.knobs import Knobs, LiveKnobs
from dllm_tui.session import Run
from dllm_tui.tui.palette import Palette
from dllm_tui.tui.themes import textual_theme

DATA = Path(__file__).parent / "data"
THEME = theming.shipped()[theming.DEFAULT]
PALETTE = Palette.of(THEME)


class Stage(App[None]):
    """Shows one widget and keeps the messages that reach the app."""

    CSS = "Screen { background: $background; color: $foreground; }"

    def __init__(self, widget: Widget, theme: theming.Theme = THEME) -> None:
        super().__init__()
        self.register_theme(textual_theme(theme))
        self.theme = theme.name
        self.widget = widget
        self.heard: list[object] = []

    def compose(self) -> ComposeResult:
        yield self.widget

    def lines(self) -> list[str]:
        """What stands on the screen, without styles."""
        strips = self.screen._compositor.render_strips()
        return ["".join(segment.text for segment in strip).rstrip() for strip in strips]

    def text(self) -> str:
        """All of it."""
        return "\n".join(self.lines())


def run_of(events=()) -> Run:
    """A run with some events."""
    run = Run(LiveKnobs(Knobs()))
    for event in events:
        run.add(event)
    return run
