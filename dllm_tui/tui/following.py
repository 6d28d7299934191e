"""An app that follows a session: what its host and its run do is shown, whoever makes them do it.

One poll a frame takes in all that has happened since the last one. Nothing runs while nothing happens.
"""

import os
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from textual.screen import Screen
from textual.timer import Timer

from dllm_tui.errors import DllmError
from dllm_tui.events import AnyEvent, Done, Error, KnobChange
from dllm_tui.knobs import APPROXIMATE, POLICIES
from dllm_tui.ports import HostState, Run
from dllm_tui.session import Session
from dllm_tui.settings import Settings
from dllm_tui.tui.actions import ACTIONS, Situation, key_text, resolve_keymap
from dllm_tui.tui.base import BaseApp
from dllm_tui.tui.commands import Completion
from dllm_tui.tui.inspecting import Inspecting
from dllm_tui.tui.metrics import Effects, Meter
from dllm_tui.tui.pen import Drawn
from dllm_tui.tui.screens.chat import ChatScreen
from dllm_tui.tui.scrubbing import Scrubbing
from dllm_tui.tui.widgets.footer import Item

EVERYWHERE = {"interrupt", "quit", "everything"}
"""Actions that work over a dialog too."""

FIGURES_SECONDS = 0.5
"""How long figures stand while an answer is written: nobody reads digits faster, and each drawing holds the
engine up."""


class Following(BaseApp, inherit_bindings=False):
    """Shows a session.

    Args:
        session: the conversation; its host may still be loading.
        settings: how it looks and behaves.
        themes_dir: the user's own themes, read again when a file changes.
        environment: variables that say what terminal this is.
    """

    ESCAPE_TO_MINIMIZE = False
    figures_seconds = FIGURES_SECONDS

    def __init__(
        self,
        session: Session,
        settings: Settings,
        *,
        themes_dir: Path | None = None,
        environment: Mapping[str, str] = os.environ,
    ) -> None:
        super().__init__(settings, themes_dir=themes_dir, environment=environment)
        self.session = session
        self.keymap, self._keymap_problems = resolve_keymap(settings.keys)
        self._host_state: HostState | None = None
        self._taken = 0
        """Events of the session's run that were folded."""
        self._noticed = 0
        """Notices of the session that were shown."""
        self._meter = Meter()
        self._figured = 0.0
        """When figures were last drawn."""
        self._unread = False
        """The meter knows more than the meters show."""
        self._effects = Effects()
        self._writing = False
        self._shown: list[str] = []
        """Roles of what the conversation shows, in order."""
        self._chat = ChatScreen(self.palette(), self.pen(), keymap=self.keymap, complete=self.complete)
        self._scrubbing = Scrubbing(self._chat)
        self._inspecting = Inspecting(self._chat, self._scrubbing)
        self._poll_timer: Timer | None = None
        self._broken: set[str] = set()
        """What is wrong with theme files, as far as it was said."""

    def complete(self, text: str) -> Sequence[Completion]:
        """How what is typed may go on."""
        return ()

    def get_default_screen(self) -> Screen[None]:
        """The only screen that is not a dialog."""
        return self._chat

    def on_mount(self) -> None:
        """Put the keys in force."""
        self.set_keymap({id_: ",".join(keys) for id_, keys in self.keymap.items()})

    def on_ready(self) -> None:
        """The first frame stands: load the model, and say what was wrong before there was a screen."""
        if self.session.host.state.phase == "empty":  # importing torch beside the first frame would delay it
            self.session.host.load(self.settings.model)
        self._poll_timer = self.set_interval(1 / self.fps, self._poll)
        self._show_session()
        self._poll()
        for problem in self._keymap_problems:
            self._note(problem)
        unknown = self.settings.theme not in self.themes.themes
        missing = (self.no_theme(self.settings.theme),) if unknown else ()
        self.themes_broken(tuple(dict.fromkeys((*self.themes.problems, *missing))))

    # -- the poll

    def _poll(self) -> None:
        """Once a frame: what the host and the run have done since the last one."""
        state = self.session.host.state
        if state is not self._host_state:
            self._host_changed(state)
        now = time.monotonic()
        figures = now >= self._figured + self.figures_seconds
        if figures:
            self._figured = now
        self._take_events(figures)
        self._scrubbing.tick(redraw=figures or not self._writing)
        self._inspecting.tick()
        if not self.busy and self._poll_timer:
            self._poll_timer.pause()

    @property
    def busy(self) -> bool:
        """Whether anything may change on its own."""
        loading = self.session.host.state.phase in {"fetching", "loading"}
        return self.running or loading or self._scrubbing.playing

    @property
    def running(self) -> bool:
        """Whether an answer is being written, as far as is shown."""
        return self._writing

    def _wake(self) -> None:
        if self._poll_timer:
            self._poll_timer.resume()

    def _take_events(self, figures: bool = True) -> None:
        self._chat.conversation.fold(figures=figures)
        for notice in self.session.notices[self._noticed :]:
            self._chat.conversation.add_error(notice)
            self._noticed += 1
        run = self.session.run
        new = run.events[self._taken :] if run else ()
        if new:
            self._fold(new)
        if self._unread and (figures or not self._writing):
            self._unread = False
            self._scrubbing.show_reading(self._meter.reading)

    def _fold(self, new: Sequence[AnyEvent]) -> None:
        self._taken += len(new)
        self._effects.fold(new)
        self._unread |= self._meter.fold(new)
        for event in new:
            if isinstance(event, KnobChange):
                self._chat.panel.mark(event.changes, turned=False)
        if isinstance(new[-1], Done):
            self._run_ended()

    def _run_ended(self) -> None:
        self._set_running(False)
        self._chat.panel.settle()
        self._show_knobs()
        self.model_is_free()

    def _set_running(self, running: bool) -> None:
        self._writing = self._chat.status.running = running
        self._refresh_footer()

    def _host_changed(self, state: HostState) -> None:
        before, self._host_state = self._host_state or HostState(), state
        self._chat.status.state = state
        self._chat.welcome.state = state
        if state.phase == "ready" and state.model and state.model is not before.model:
            self._effects = Effects()
            self._chat.panel.use_model(state.model, state.defaults)
            self._show_knobs()
            if state.notice:
                self._note(state.notice)
            for sentence in self.session.passed_over:
                self._note(sentence)
            self.model_is_free()
        elif state.phase == "failed" and before.phase != "failed":
            self.model_failed()
            if state.error:
                self._chat.welcome.display = False
                self._chat.conversation.add_error(state.error)
        self._refresh_footer()

    def model_is_free(self) -> None:
        """The model has become ready, or an answer has ended."""

    def model_failed(self) -> None:
        """The model could not be loaded."""

    # -- what is shown

    def _begin(self, act: Callable[[], Run], text: str | None = None) -> None:
        """Start a run by ``act``, and show it."""
        conversation = self._chat.conversation
        self._chat.welcome.display = False
        if text is not None:
            conversation.add_user(text)
            self._shown.append("user")
        try:
            run = act()
        except DllmError as error:
            self._report(error)
            return
        self._taken, self._meter = 0, Meter()
        conversation.start_answer(run, self.session.model_name)
        self._shown.append("assistant")
        self._chat.about = self.session.title
        self._set_running(True)
        self._wake()

    def _report(self, error: DllmError) -> None:
        self._chat.welcome.display = False
        self._chat.conversation.add_error(Error(message=error.message, hint=error.hint))

    def _note(self, text: str) -> None:
        self._chat.welcome.display = False
        self._chat.conversation.add_notice(text)

    def _cut(self, turn: int) -> None:
        self._chat.conversation.cut(turn)
        del self._shown[turn:]

    def _show_session(self) -> None:
        """Show the session's conversation in place of what is shown."""
        turns = [turn for turn in self.session.turns if turn.role != "system"]
        self._chat.conversation.load(turns, self.session.events, self.session.model_name, self.session.models)
        self._chat.welcome.display = not turns
        self._chat.about = self.session.title
        self._shown = [turn.role for turn in turns]
        self._chat.composer.prompt.past = [turn.text for turn in turns if turn.role == "user"]
        self._taken, self._meter = 0, Meter()
        self._scrubbing.tick()
        self._scrubbing.show_reading(None)
        self._chat.panel.settle()
        self._show_knobs()
        self._set_running(self.session.running)

    def _show_knobs(self) -> None:
        self._chat.panel.show(self.session.knobs, self._effects)
        self._chat.status.approximate = self.session.knobs.cache in APPROXIMATE

    def theme_changed(self) -> None:
        """Draw the canvases anew."""
        self._chat.draw_with(self.palette(), self.pen())

    def themes_broken(self, problems: Sequence[str]) -> None:
        """Say it where it stays, once."""
        for problem in problems:
            if problem not in self._broken:
                self._note(problem)
        self._broken = set(problems)

    def no_theme(self, name: str) -> str:
        """What to say of a theme that isn't there, or is broken."""
        broken = [problem for problem in self.themes.problems if f"{name}.toml:" in problem]
        if broken:
            return broken[0]
        return f"there is no theme {name!r}; there are {', '.join(self.themes.themes)}"

    # -- what is possible

    @property
    def situation(self) -> Situation:
        """What decides which actions make sense now."""
        return Situation(
            running=self.running,
            ready=self.session.host.state.phase == "ready",
            prompts=self._shown.count("user"),
            answers=self._shown.count("assistant"),
            versions=len(self.session.versions),
            history=self.session.keeps,
        )

    @property
    def policies(self) -> tuple[str, ...]:
        """Policies that the model can use."""
        model = self.session.host.state.model
        return (model.policies if model else ()) or tuple(POLICIES)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Keys of what can't be done now do nothing."""
        known = ACTIONS.get(action)
        if known is None or known.scope != "app":
            return True
        if known.scope == "app" and self.screen is not self._chat and action not in EVERYWHERE:
            return False
        return not known.unavailable(self.situation)

    def key_for(self, action: str) -> str:
        """The key of an action as people read it; empty where it has none."""
        return key_text(self.keymap[action], ascii_only=self.plain)

    def _refresh_footer(self) -> None:
        focused = self._chat.focused
        words = dict(focused.footer) if isinstance(focused, Drawn) else {}
        if not words:
            now = self.situation
            ids = ("stop", *(id_ for id_ in ACTIONS if id_ not in {"stop", "everything"}))
            footed = [action for action in map(ACTIONS.__getitem__, ids) if action.footer]
            words = {action.id: action.footer for action in footed if not action.unavailable(now)}
        if "help" in words:
            words["help"] = words.pop("help")  # what leads on stands last, where it is kept the longest
        words["everything"] = ACTIONS["everything"].footer
        items = (Item(id_, self.key_for(id_), word) for id_, word in words.items() if self.keymap[id_])
        self._chat.footer.items = tuple(items)

    def on_descendant_focus(self) -> None:
        """The footer speaks of what has the focus."""
        self._refresh_footer()
