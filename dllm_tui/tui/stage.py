"""The app with a recorded session in it: it shows the session after as many of its events as it is told."""

import copy
from typing import Any

from dllm_tui.events import Header, KnobChange, KnobsSet, RunStart, Turn
from dllm_tui.ports import Run
from dllm_tui.replay import ReplaySession
from dllm_tui.settings import Settings
from dllm_tui.trace.archive import Archive
from dllm_tui.tui.app import ChatApp
from dllm_tui.tui.metrics import Effects


class Stage(ChatApp):
    """Shows a session as it was, through the widgets that showed it live.

    Args:
        archive: the session's trace.
        settings: how it looks.
        options: as for :class:`~dllm_tui.tui.app.ChatApp`.
    """

    figures_seconds = 0.0  # the same moment looks the same, whenever it is shown

    def __init__(self, archive: Archive, settings: Settings, **options: Any) -> None:
        self.replayed = ReplaySession(archive)
        self.replayed.put(0)
        self._effects_at: dict[int, Effects] = {}
        """What was measured before each run that was shown, by the count of events before it."""
        super().__init__(self.replayed, settings, **options)

    def show(self, count: int) -> None:
        """Show the session after its first ``count`` events, however far that is from where it stands."""
        if count < self.replayed.count:
            self._go_back(count)
        while self.replayed.count < count:
            self._happen()
        self._poll()
        self._refresh_footer()

    def _go_back(self, count: int) -> None:
        """Stand where the last run before that count began; at the start, if there is none."""
        began = max((at for at in self._effects_at if at < count), default=0)
        self.replayed.put(began)
        self._effects = copy.deepcopy(self._effects_at.get(began, Effects()))
        self._show_session()

    def _happen(self) -> None:
        """What happens next happens on the screen, too."""
        session = self.replayed
        match event := session.next:
            case Turn(role="user"):
                answered = bool(session.turns) and session.turns[-1].role != "user"
                if event.replaces is not None and answered and "user" in self._shown:
                    self._cut(len(self._shown) - 1 - self._shown[::-1].index("user"))
                session.take()
                self._chat.welcome.display = False
                self._chat.conversation.add_user(event.text)
                self._shown.append("user")
                self._chat.about = session.title
            case Turn(role="assistant") if event.run is None or not session.running:
                session.take()  # one that wasn't recorded, or another version of the last
                self._show_session()
            case RunStart():
                self._take_events()
                self._effects_at[session.count] = copy.deepcopy(self._effects)
                if self._shown[-1:] == ["assistant"] and not self.running:
                    self._cut(len(self._shown) - 1)
                session.take()
                self._begin(self._run)
                self._show_knobs()
            case KnobChange() | KnobsSet():
                session.take()
                self._show_knobs()
            case Header():
                session.take()
                self._poll()
            case _:
                session.take()

    def _run(self) -> Run:
        run = self.replayed.run
        assert run is not None
        return run
