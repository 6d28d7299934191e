"""Watching a recorded session in the app: at any speed, to and fro, around and around."""

import time
from collections.abc import Callable
from typing import Any, ClassVar

from textual.binding import Binding, BindingType
from textual.content import Content

from dllm_tui.settings import Settings
from dllm_tui.trace.archive import Archive
from dllm_tui.trace.player import Course, Player
from dllm_tui.tui.actions import ACTIONS, bindings
from dllm_tui.tui.stage import Stage
from dllm_tui.tui.widgets.footer import Item

LOOP_HOLD = 2.0
"""Seconds at the end before a loop begins again."""

CONTROLS = (
    "play",
    "step_back",
    "step_on",
    "block_back",
    "block_on",
    "slower",
    "faster",
    "first_step",
    "last_step",
)
"""Actions of the timeline that move the whole session in a replay."""
LOOKING = (
    *("copy", "view", "shape", "colours", "versions", "timeline", "inspect", "panel", "theme"),
    *("scroll_up", "scroll_down", "help", "interrupt", "quit"),
)
"""And what else: all that only looks at a conversation."""


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

    CSS = "#prompt { opacity: 100%; border-title-color: $accent; }"
    BINDINGS: ClassVar[list[BindingType]] = [
        key for key in bindings("timeline") if isinstance(key, Binding) and key.action in CONTROLS
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
        self._chat.timeline.newest = "replay"
        self._chat.welcome.display = False  # nothing is said of a chat before the first moment is shown
        self._chat.status.instead = "opening"
        prompt = self._chat.composer.prompt
        prompt.placeholder = "a recorded session; start dllm-chat to ask something"
        prompt.disabled = True

    def on_ready(self) -> None:
        """Begin to play, when the app stands."""
        self.call_later(self._start_show)

    def _start_show(self) -> None:
        self._chat.welcome.display = not self.replayed.turns
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
        self._chat.status.instead = "" if player.playing else state

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Nothing can be asked or turned."""
        if action in CONTROLS:
            return self.screen is self._chat
        if action in ACTIONS and ACTIONS[action].scope == "app" and action not in LOOKING:
            return False
        return super().check_action(action, parameters)

    def _refresh_footer(self) -> None:
        words = {"play": "play/pause", "step_back": "step back", "step_on": "on", "block_on": "next block"}
        words |= {
            id_: id_ for id_ in ("slower", "faster", "inspect", "view", "panel", "theme", "help", "quit")
        }
        self._chat.footer.items = tuple(Item(id_, self.key_for(id_), word) for id_, word in words.items())

    # -- actions

    async def action_quit(self) -> None:
        """Quit; nothing is lost."""
        self._leave()

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

    def action_first_step(self) -> None:
        """Go to the start."""
        self.player.seek(self.player.start)
        self.tick()

    def action_last_step(self) -> None:
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
