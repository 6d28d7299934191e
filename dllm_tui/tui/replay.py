"""Watching a recorded session in the app: at any speed, to and fro, around and around."""

import time
from collections.abc import Callable
from typing import Any, ClassVar

from textual.binding import BindingType
from textual.content import Content

from dllm_tui.settings import Settings
from dllm_tui.trace.archive import Archive
from dllm_tui.trace.player import Course, Player
from dllm_tui.tui.actions import Action, key_text
from dllm_tui.tui.stage import Stage
from dllm_tui.tui.widgets.footer import Item

LOOP_HOLD = 2.0
"""Seconds at the end before a loop begins again."""

CONTROLS = (
    Action("play", "Play and pause", ("space",), "View", footer="play/pause"),
    Action("step_back", "A step back", ("left",), "View", footer="step back"),
    Action("step_on", "A step on", ("right",), "View", footer="on"),
    Action("block_back", "A block back", ("shift+left",), "View", footer="block back"),
    Action("block_on", "A block on", ("shift+right",), "View"),
    Action("slower", "Slower", ("comma",), "View", footer="slower"),
    Action("faster", "Faster", ("full_stop",), "View", footer="faster"),
    Action("to_start", "To the start", ("home",), "View"),
    Action("to_end", "To the end", ("end",), "View"),
)
"""What can be done in a replay, besides what can be done to look at any conversation."""


class ReplayApp(Stage):
    """Plays a trace.

    Args:
        archive: the trace.
        settings: how it looks.
        course: when every event is shown.
        start: the second of the course where it begins.
        end: where it ends; ``None`` is the end.
        speed: seconds of the course in a second.
        loop: begin again at the end.
        now: the clock.
        options: as for :class:`~dllm_tui.tui.app.ChatApp`.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        (",".join(action.keys), action.id, action.title) for action in CONTROLS
    ]

    def __init__(
        self,
        archive: Archive,
        settings: Settings,
        course: Course,
        *,
        start: float = 0.0,
        end: float | None = None,
        speed: float = 1.0,
        loop: bool = False,
        now: Callable[[], float] = time.monotonic,
        **options: Any,
    ) -> None:
        super().__init__(archive, settings, **options)
        self.course = course
        self.player = Player(
            course.duration if end is None else end,
            start=start,
            speed=speed,
            loop=loop,
            hold=LOOP_HOLD * speed,
            now=now,
        )
        self._timeline = archive.timeline

    def on_ready(self) -> None:
        """Begin to play."""
        super().on_ready()
        prompt = self._chat.composer.prompt
        prompt.placeholder = "a recorded session; start dllm-chat to ask something"
        prompt.disabled = True
        self.player.play()
        self.set_interval(1 / self.fps, self.tick)
        self.tick()

    def tick(self) -> None:
        """Show where the player stands."""
        count = self.course.count_at(self.player.position)
        if count != self.replayed.count:
            self.show(count)
        self._say_where()

    def _say_where(self) -> None:
        player, marks = self.player, self.pen().marks
        state = "playing" if player.playing else "at the end" if player.ended else "paused"
        where = f"{player.position:.1f} of {player.end:.1f} s"
        parts = ["replay", f"{marks.times}{player.speed:g}", where, state]
        self._chat.composer.prompt.border_title = Content(f" {marks.dot} ".join(parts))

    def _refresh_footer(self) -> None:
        own = [
            Item(control.id, key_text(control.keys), control.footer) for control in CONTROLS if control.footer
        ]
        others = [Item(id_, self.key_for(id_), id_) for id_ in ("view", "panel", "theme", "help", "quit")]
        self._chat.footer.items = (*own, *others)

    # -- actions

    def action_play(self) -> None:
        """Play, or pause."""
        self.player.toggle()
        self.tick()

    def action_slower(self) -> None:
        """Play slower."""
        self.player.slower()
        self.tick()

    def action_faster(self) -> None:
        """Play faster."""
        self.player.faster()
        self.tick()

    def action_step_back(self) -> None:
        """Go to the step before."""
        self._go(self._timeline.step(self._moment, -1))

    def action_step_on(self) -> None:
        """Go to the next step."""
        self._go(self._timeline.step(self._moment, 1))

    def action_block_back(self) -> None:
        """Go to where the block began, and then to the one before."""
        self._go(self._timeline.block(self._moment, -1))

    def action_block_on(self) -> None:
        """Go to where the next block begins."""
        self._go(self._timeline.block(self._moment, 1))

    def action_to_start(self) -> None:
        """Go to the start."""
        self.player.seek(self.player.start)
        self.tick()

    def action_to_end(self) -> None:
        """Go to the end."""
        self.player.seek(self.player.end)
        self.tick()

    @property
    def _moment(self) -> int:
        return self._timeline.moment_of(self.replayed.count)

    def _go(self, moment: int) -> None:
        """Stand at a moment."""
        self.player.pause()
        if moment >= 0:
            self.player.seek(self.course.second_of(self._timeline.moments[moment].event + 1))
        self.tick()
