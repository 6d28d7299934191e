"""Ties the inspector to what it looks at: a position of the canvas that the timeline stands on."""

from dllm_tui.tui.screens.chat import ChatScreen
from dllm_tui.tui.scrubbing import Scrubbing
from dllm_tui.tui.sightings import Sighting, sightings
from dllm_tui.tui.widgets.answer import AnswerView


class Inspecting:
    """Which position is inspected, if any.

    Args:
        chat: the screen with the inspector.
        scrubbing: says which answer, and which of its steps.
    """

    def __init__(self, chat: ChatScreen, scrubbing: Scrubbing) -> None:
        self._chat = chat
        self._scrubbing = scrubbing
        self._view: AnswerView | None = None
        self._position = 0
        self._shown: tuple[object, ...] = ()
        """Answer, events and position that the inspector shows."""

    @property
    def open(self) -> bool:
        """Whether the inspector is there."""
        return self._chat.inspector_shown

    @property
    def position(self) -> int:
        """What is inspected, or was last."""
        return self._position

    def start(self, position: int | None = None) -> None:
        """Open the inspector, at the newest change if no position is given."""
        state = self._chat.timeline.scrub.canvas
        changed = [at for at in state.fresh if at < len(state)]
        self._position = position if position is not None else max(changed, default=0)
        self._chat.show_inspector(True)
        self._chat.set_focus(self._chat.inspector)
        self._scrubbing.keep_in_sight(self._position)
        self.tick()

    def stop(self) -> None:
        """Close it."""
        self._scrubbing.keep_in_sight(None)
        self._chat.show_inspector(False)
        if self._view:
            self._view.inspect(None)
        self._view, self._shown = None, ()

    def move(self, *, by: int = 0, lines: int = 0) -> None:
        """Inspect another position: so many on, or so many lines below."""
        canvas = self._view.canvas if self._view else None
        at = canvas.neighbour(self._position, lines) if lines and canvas else self._position + by
        self._position = min(max(at, 0), max(len(self._chat.timeline.scrub.canvas) - 1, 0))
        self._scrubbing.keep_in_sight(self._position)
        self.tick()

    def tick(self) -> None:
        """Show what is known by now, where that has changed."""
        if not self.open:
            return
        view, scrub = self._scrubbing.view, self._chat.timeline.scrub
        wanted = (view, scrub.count, self._position)
        if wanted == self._shown:
            return
        self._shown = wanted
        if view is not self._view and self._view:
            self._view.inspect(None)
        self._view = view
        state = scrub.canvas
        position = min(self._position, len(state) - 1) if len(state) else None
        if view:
            view.inspect(position)
        seen = sightings(scrub.events[: scrub.count], position) if position is not None else []
        where = "" if scrub.moment is None else f"step {scrub.moment + 1}"
        self._chat.inspector.show(state, position, seen, where, self._later(position, seen))

    def _later(self, position: int | None, seen: list[Sighting]) -> Sighting | None:
        """The last change of a position after the step that is looked at."""
        scrub = self._chat.timeline.scrub
        if scrub.moment is None or position is None:
            return None
        changes = [sight for sight in sightings(scrub.events, position) if sight.kind]
        later = changes[-1] if changes else None
        return None if later in seen else later
