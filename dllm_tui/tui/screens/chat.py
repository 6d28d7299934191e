"""The main screen: conversation, knobs, meters and prompt, at any size of the terminal."""

from collections.abc import Callable, Sequence

from textual import events
from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.reactive import reactive
from textual.widget import Widget
from textual.widgets import Static

from dllm_tui.tui.actions import Keymap
from dllm_tui.tui.cells import cut
from dllm_tui.tui.commands import Completion
from dllm_tui.tui.palette import Palette
from dllm_tui.tui.pen import Drawn, Pen
from dllm_tui.tui.screens.thrifty import ThriftyScreen
from dllm_tui.tui.widgets.conversation import Conversation
from dllm_tui.tui.widgets.footer import FooterLine
from dllm_tui.tui.widgets.inspector import Inspector
from dllm_tui.tui.widgets.knobs import KnobPanel
from dllm_tui.tui.widgets.legend import Legend
from dllm_tui.tui.widgets.meters import Meters
from dllm_tui.tui.widgets.prompt import Composer
from dllm_tui.tui.widgets.status import StatusLine
from dllm_tui.tui.widgets.timeline import TimelineRow
from dllm_tui.tui.widgets.welcome import Welcome

SMALLEST = (40, 10)
"""Columns and rows below which nothing useful fits."""

NARROW = 76
"""Columns below which conversation and side panel don't fit beside each other."""
WIDE = 100
"""Columns from which the side panel is shown unasked."""
VAST = 160
"""Columns from which the inspector has room beside the side panel."""
FLAT = 16
"""Rows below which the conversation gets all there is."""
LOW = 28
"""Rows from which the timeline is shown unasked."""
CORNERS = 4
"""Columns of a frame that its title can't have."""
METERS = 5
"""Rows that the meters have at least, with their frame."""


class Talk(Vertical):
    """The frame of the conversation, which says as much of what that is about as there is room for."""

    about: reactive[str] = reactive("")

    def __init__(self, pen: Pen) -> None:
        super().__init__(id="talk")
        self._dots = pen.marks.dots

    def watch_about(self) -> None:
        """Say it."""
        room = self.outer_size.width - CORNERS or len(self.about)
        self.border_title = Content(cut(self.about, room, self._dots))

    def on_resize(self) -> None:
        """Say as much as fits now."""
        self.watch_about()


class ChatScreen(ThriftyScreen[None]):
    """Lays the parts out. Hiding is done by classes and the style sheet; no part knows the size."""

    HORIZONTAL_BREAKPOINTS = [  # noqa: RUF012 – Textual declares it so
        (0, "-narrow"),
        (NARROW, "-middle"),
        (WIDE, "-wide"),
        (VAST, "-vast"),
    ]
    VERTICAL_BREAKPOINTS = [(0, "-low"), (30, "-high")]  # noqa: RUF012
    AUTO_FOCUS = "#prompt"

    def __init__(
        self,
        palette: Palette,
        pen: Pen,
        *,
        keymap: Keymap,
        complete: Callable[[str], Sequence[Completion]],
    ) -> None:
        super().__init__()
        self.status = StatusLine(pen)
        self.welcome = Welcome()
        self.conversation = Conversation(palette, id="conversation")
        self.legend = Legend(palette, id="legend")
        self.panel = KnobPanel(pen)
        self.meters = Meters(pen)
        self.timeline = TimelineRow(pen)
        self.inspector = Inspector(pen)
        self.inspector_shown = False
        self.composer = Composer(complete, keymap)
        self.footer = FooterLine(pen)
        self._about = ""
        self._talk = Talk(pen)
        self._panel_wanted: bool | None = None
        """What a person asked for; ``None`` leaves it to the width."""
        self._timeline_wanted: bool | None = None
        """The same of the timeline and the height."""

    def compose(self) -> ComposeResult:
        """From the top down."""
        yield self.status
        with Horizontal(id="body"):
            with self._talk:
                yield self.welcome
                yield self.conversation
                yield self.legend
            with Vertical(id="side"):
                yield self.panel
                yield self.meters
            yield self.inspector
        yield self.timeline
        yield self.composer
        yield self.footer
        yield Static(id="too-small")

    @property
    def about(self) -> str:
        """What the conversation is about; empty for a new one."""
        return self._about

    @about.setter
    def about(self, title: str) -> None:
        self._about = title
        self._talk.about = title or "new chat"

    @property
    def side_shown(self) -> bool:
        """Whether the side panel is to be seen."""
        return bool(self.query_one("#side").display)

    def toggle_side(self) -> bool:
        """Show or hide the side panel; whether it is shown now."""
        self.show_side(not self.side_shown)
        return self.side_shown

    def show_side(self, wanted: bool) -> None:
        """Show or hide the side panel, whatever the width."""
        self._panel_wanted = wanted
        self._arrange(self.size.width, self.size.height)

    def show_inspector(self, shown: bool) -> None:
        """Show or hide the inspector, which stands in the side panel's place where both don't fit."""
        self.inspector_shown = shown
        self._arrange(self.size.width, self.size.height)

    def show_timeline(self, wanted: bool) -> None:
        """Show or hide the timeline, whatever the height."""
        self._timeline_wanted = wanted
        self._arrange(self.size.width, self.size.height)

    def on_resize(self, event: events.Resize) -> None:
        """Fit the parts to the new size."""
        self._arrange(event.size.width, event.size.height)

    def on_paste(self, event: events.Paste) -> None:
        """A paste that nothing else took is meant for the prompt."""
        self.set_focus(self.composer.prompt)
        self.composer.prompt.post_message(event)

    def draw_with(self, palette: Palette, pen: Pen) -> None:
        """Take another theme's colours."""
        self.conversation.palette = self.legend.palette = palette
        self.panel.pen = pen
        for widget in self.query(Drawn):
            widget.pen = pen

    def _arrange(self, width: int, height: int) -> None:
        # displays are set one by one: a class of the screen would have all rules matched anew
        shown = width >= WIDE if self._panel_wanted is None else self._panel_wanted
        inspecting = self.inspector_shown
        self.query_one("#side").display = shown and not (inspecting and width < VAST)
        self.inspector.display = inspecting
        self.query_one("#talk").display = width >= NARROW or not (shown or inspecting)
        timeline = height >= LOW if self._timeline_wanted is None else self._timeline_wanted
        self.timeline.display = timeline and height >= FLAT
        self.legend.display = self.meters.display = height >= FLAT
        # the numbers keep a place below the knobs, however many of those are shown
        self.panel.styles.max_height = max(height - METERS - 6 - 3 * self.timeline.display, 3)
        small = width < SMALLEST[0] or height < SMALLEST[1]
        self.set_class(small, "-too-small")
        if small:
            by = self.panel.pen.marks.times
            least = f"{SMALLEST[0]}{by}{SMALLEST[1]}"
            text = f"{width}{by}{height} is too small.\nMake the terminal at least {least}."
            self.query_one("#too-small", Static).update(text)
        elif self.focused is None:  # what had the focus was hidden meanwhile
            self.call_after_refresh(self.composer.prompt.focus)
        elif not all(node.display for node in self.focused.ancestors_with_self if isinstance(node, Widget)):
            self.set_focus(self.composer.prompt)
