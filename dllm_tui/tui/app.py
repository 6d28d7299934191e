"""The app: one method an action, and one poll a frame that takes in whatever the engine has done since."""

import os
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

from textual import events, on
from textual.binding import BindingType
from textual.content import Content
from textual.screen import Screen
from textual.timer import Timer

from dllm_tui import theming
from dllm_tui.errors import DllmError
from dllm_tui.events import Done, Error, KnobChange
from dllm_tui.knobs import KNOBS, POLICIES, PRESETS, KnobError
from dllm_tui.ports import HostState, Run
from dllm_tui.session import Session
from dllm_tui.settings import Settings
from dllm_tui.trace.chats import Chat
from dllm_tui.tui.actions import ACTIONS, Situation, bindings, key_text, resolve_keymap
from dllm_tui.tui.base import BaseApp
from dllm_tui.tui.choice import Choice
from dllm_tui.tui.commands import CommandError, Completion, completions, is_command, parse, unescaped
from dllm_tui.tui.inspecting import Inspecting
from dllm_tui.tui.lens import Lens
from dllm_tui.tui.metrics import Effects, Meter
from dllm_tui.tui.screens.chat import ChatScreen
from dllm_tui.tui.scrubbing import Scrubbing
from dllm_tui.tui.widgets.canvas import Canvas
from dllm_tui.tui.widgets.conversation import Conversation
from dllm_tui.tui.widgets.footer import Item
from dllm_tui.tui.widgets.inspector import Inspector
from dllm_tui.tui.widgets.knob import KnobWidget, Turnable, Turned
from dllm_tui.tui.widgets.knobs import Presets, Selector
from dllm_tui.tui.widgets.prompt import Prompt
from dllm_tui.tui.widgets.timeline import TimelineRow

TWICE = 1.5
"""Seconds within which a second Ctrl+C quits."""


class ChatApp(BaseApp, inherit_bindings=False):
    """Chat with a diffusion model and watch it.

    Args:
        session: the conversation; its host may still be loading.
        settings: how it looks and behaves.
        models: what the model picker offers; called when it opens.
        themes_dir: the user's own themes, read again when a file changes.
        save: keeps a setting for the next start (``theme``); ``None`` keeps nothing.
        environment: variables that say what terminal this is.
    """

    BINDINGS: ClassVar[list[BindingType]] = bindings("app")
    ESCAPE_TO_MINIMIZE = False

    def __init__(
        self,
        session: Session,
        settings: Settings,
        *,
        models: Callable[[], Sequence[Choice]] = tuple,
        themes_dir: Path | None = None,
        save: Callable[[str, object], None] | None = None,
        environment: Mapping[str, str] = os.environ,
    ) -> None:
        super().__init__(settings, themes_dir=themes_dir, environment=environment)
        self.session = session
        self._models = models
        self._save = save
        self.keymap, self._keymap_problems = resolve_keymap(settings.keys)
        self._host_state: HostState | None = None
        self._taken = 0
        """Events of the session's run that were folded."""
        self._noticed = 0
        """Notices of the session that were shown."""
        self._meter = Meter()
        self._effects = Effects()
        self._queued = ""
        """A prompt that waits for the model."""
        self._editing = False
        """Whether what is being typed replaces the last prompt."""
        self._writing = False
        self._shown: list[str] = []
        """Roles of what the conversation shows, in order."""
        self._interrupted = 0.0
        self._chat = ChatScreen(self.palette(), self.pen(), keymap=self.keymap, complete=self._complete)
        self._scrubbing = Scrubbing(self._chat)
        self._inspecting = Inspecting(self._chat, self._scrubbing)
        self._poll_timer: Timer | None = None

    # -- start

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
        for problem in (*self._keymap_problems, *self.themes.problems):
            self._note(problem)
        if self.settings.theme not in self.themes.themes:
            self._note(self._no_theme(self.settings.theme))

    # -- the poll

    def _poll(self) -> None:
        """Once a frame: what the host and the run have done since the last one."""
        state = self.session.host.state
        if state is not self._host_state:
            self._host_changed(state)
        self._take_events()
        self._scrubbing.tick()
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

    def _take_events(self) -> None:
        self._chat.conversation.fold()
        for notice in self.session.notices[self._noticed :]:
            self._chat.conversation.add_error(notice)
            self._noticed += 1
        run = self.session.run
        new = run.events[self._taken :] if run else ()
        if not new:
            return
        self._taken += len(new)
        self._effects.fold(new)
        if self._meter.fold(new):
            self._scrubbing.show_reading(self._meter.reading)
        for event in new:
            if isinstance(event, KnobChange):
                self._chat.panel.mark(event.changes, turned=False)
        if isinstance(new[-1], Done):
            self._run_ended()

    def _run_ended(self) -> None:
        self._set_running(False)
        self._chat.panel.settle()
        self._show_knobs()
        self._send_queued()

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
            self._send_queued()
        elif state.phase == "failed" and before.phase != "failed":
            self._take_back()
            if state.error:
                self._chat.welcome.display = False
                self._chat.conversation.add_error(state.error)
        self._refresh_footer()

    # -- prompts

    @on(Prompt.Sent)
    def _sent(self, event: Prompt.Sent) -> None:
        prompt = self._chat.composer.prompt
        phase = self.session.host.state.phase
        if is_command(event.text):
            self._command(event.text)
        elif self._queued:
            self._chat.composer.above.say("one prompt is waiting already; Esc takes it back")
        elif phase in {"failed", "empty"}:
            self._chat.composer.above.say(
                f"no model is ready; choose one with {self.key_for('model')} or /model"
            )
        else:
            prompt.remember(event.text)
            prompt.replace_text("")
            if self.running or phase != "ready":
                self._queue(unescaped(event.text))
            else:
                self._start(unescaped(event.text))

    def _queue(self, text: str) -> None:
        """Keep a prompt until the model is free for it."""
        self._queued = text
        prompt = self._chat.composer.prompt
        if text:
            first = text.splitlines()[0][:40]
            when = "after this answer" if self.running else "when the model is ready"
            prompt.border_subtitle = Content(
                f"will be sent {when}: {first}{self._chat.panel.pen.marks.dots * (first != text)}"
            )
        else:
            prompt.border_subtitle = ""

    def _send_queued(self) -> None:
        text = self._queued
        if text:
            self._queue("")
            self._start(text)

    def _take_back(self) -> bool:
        """Put a waiting prompt back into the editor; whether there was one."""
        text, prompt = self._queued, self._chat.composer.prompt
        self._queue("")
        if text and not prompt.text:
            prompt.replace_text(text)
        return bool(text)

    def _start(self, text: str) -> None:
        if self._editing:
            self._edit(False)
            self._cut(_last(self._shown, "user"))
            self._begin(partial(self.session.edit_last, text), text)
        else:
            self._begin(partial(self.session.send, text), text)

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

    def _edit(self, editing: bool) -> None:
        self._editing = editing
        self._chat.composer.prompt.border_title = "editing the last prompt" if editing else ""

    # -- slash commands

    def _complete(self, text: str) -> list[Completion]:
        return completions(
            text,
            {
                "theme": lambda: list(self.themes.themes),
                "colours": lambda: [lens.value for lens in Lens],
                "model": lambda: [choice.value for choice in self._models()],
            },
        )

    def _command(self, text: str) -> None:
        composer = self._chat.composer
        try:
            invocation = parse(text)
        except CommandError as error:
            composer.above.say(str(error))
            return
        action = invocation.command.action
        reason = ACTIONS[action].unavailable(self.situation) if action else ""
        if reason:
            composer.above.say(f"/{invocation.command.name}: {reason}")
            return
        if action and ACTIONS[action].argument and invocation.argument:
            problem: str = getattr(self, f"take_{action}")(invocation.argument)
            if problem:
                composer.above.say(problem)
                return
        elif action:
            self.call_later(self.run_action, action)
        else:
            self.turn(**dict(invocation.changes))
        composer.prompt.remember(text)
        composer.prompt.replace_text("")

    # -- what is possible

    @property
    def situation(self) -> Situation:
        """What decides which actions make sense now."""
        return Situation(
            running=self.running,
            ready=self.session.host.state.phase == "ready",
            prompts=self._shown.count("user"),
            answers=self._shown.count("assistant"),
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
        if known.scope == "app" and self.screen is not self._chat and action not in _EVERYWHERE:
            return False
        return not known.unavailable(self.situation)

    def key_for(self, action: str) -> str:
        """The key of an action as people read it; empty where it has none."""
        return key_text(self.keymap[action])

    def _refresh_footer(self) -> None:
        if isinstance(self._chat.focused, Turnable):
            words = {
                "less": "less",
                "more": "more",
                "accept": "take",
                "reset": "default",
                "to_prompt": "prompt",
            }
        elif isinstance(self._chat.focused, TimelineRow):
            words = {
                "step_back": "back",
                "step_on": "on",
                "block_on": "next block",
                "play": "play",
                "slower": "slower",
                "faster": "faster",
                "to_live": "newest",
            }
        elif isinstance(self._chat.focused, Inspector):
            words = {
                "position_back": "back",
                "position_on": "on",
                "step_before": "step before",
                "step_after": "after",
                "leave": "close",
            }
        else:
            now = self.situation
            ids = ("stop", *(id_ for id_ in ACTIONS if id_ not in {"stop", "everything"}))
            footed = [action for action in map(ACTIONS.__getitem__, ids) if action.footer]
            words = {action.id: action.footer for action in footed if not action.unavailable(now)}
        words["everything"] = ACTIONS["everything"].footer
        items = (Item(id_, self.key_for(id_), word) for id_, word in words.items() if self.keymap[id_])
        self._chat.footer.items = tuple(items)

    def on_key(self, event: events.Key) -> None:
        """What is typed while the conversation has the focus is meant for the prompt."""
        elsewhere = self.screen is not self._chat or isinstance(
            self._chat.focused, Prompt | Turnable | TimelineRow | Inspector
        )
        bound = any(event.key in self.keymap[a.id] for a in ACTIONS.values() if a.scope == "app")
        typing = not self._chat.composer.prompt.disabled
        if event.is_printable and typing and not bound and not elsewhere:
            event.prevent_default()
            self._chat.set_focus(self._chat.composer.prompt)
            self._chat.composer.prompt.insert(event.character or "")

    def on_descendant_focus(self) -> None:
        """The footer speaks of what has the focus."""
        self._refresh_footer()

    # -- actions: chat

    def action_new_chat(self) -> None:
        """Begin a new conversation."""
        self.session.stop()
        self._take_back()
        self.session.new()
        self._show_session()
        self._chat.set_focus(self._chat.composer.prompt)

    def action_chats(self) -> None:
        """List chats: take one up, or delete it."""
        from dllm_tui.tui.screens.pick import Pick

        try:
            choices = [
                Choice(chat.path.stem, chat.title or "untitled", self._about(chat))
                for chat in self.session.chats()
            ]
        except DllmError as error:
            self._report(error)
            return
        pick = Pick("chats", choices, empty="no chats yet", remove=self._ask_to_delete)
        self.push_screen(pick, self._resume)

    def _about(self, chat: Chat) -> str:
        if chat.problem:
            return chat.problem
        minutes = (time.time() - chat.used) / 60
        for size, unit in ((60 * 24, "day"), (60, "hour"), (1, "minute")):
            if minutes >= size:
                number = int(minutes / size)
                ago = f"{number} {unit}{'s' * (number > 1)} ago"
                break
        else:
            ago = "just now"
        messages = f"{chat.turns} message{'s' * (chat.turns != 1)}"
        return f" {self._chat.panel.pen.marks.dot} ".join(
            part for part in (messages, ago, chat.model) if part
        )

    def _resume(self, chat: str | None) -> None:
        if chat is None:
            return
        self.session.stop()
        try:
            self.session.resume(chat)
        except DllmError as error:
            self._report(error)
            return
        self._show_session()

    def _ask_to_delete(self, chat: str, then: Callable[[bool], None]) -> None:
        from dllm_tui.tui.screens.confirm import Confirm

        def answered(yes: bool | None) -> None:
            try:
                if yes:
                    self.session.delete(chat)
            except DllmError as error:
                self._report(error)
                yes = False
            then(bool(yes))

        title = next((known.title for known in self.session.chats() if known.path.stem == chat), chat)
        self.push_screen(Confirm(f"Delete {title!r}? It can't be brought back.", yes="delete"), answered)

    def action_delete_chat(self) -> None:
        """Delete the present chat, after asking."""

        def then(gone: bool) -> None:
            if gone:
                self.action_new_chat()

        if self.session.id:
            self._ask_to_delete(self.session.id, then)

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
        self._edit(False)
        self._show_knobs()
        self._set_running(self.session.running)

    # -- actions: answer

    def action_stop(self) -> None:
        """Stop the answer, and take a waiting prompt back."""
        self.session.stop()
        self._take_back()

    def action_to_prompt(self) -> None:
        """Close what is open, or go back to the prompt."""
        composer = self._chat.composer
        if composer.dismiss() or self._take_back():
            return
        if self._editing:
            self._edit(False)
            composer.prompt.replace_text("")
        self._chat.set_focus(composer.prompt)

    def action_regenerate(self) -> None:
        """Answer the last prompt again."""
        self._cut(_last(self._shown, "user") + 1)
        self._begin(self.session.regenerate)

    def action_edit_last(self) -> None:
        """Put the last prompt into the editor; sending it replaces it and what came after."""
        last = next(turn.text for turn in reversed(self.session.turns) if turn.role == "user")
        self._edit(True)
        prompt = self._chat.composer.prompt
        prompt.replace_text("/" + last if last.startswith("/") else last)
        self._chat.set_focus(prompt)

    def action_copy(self) -> None:
        """Copy the last answer."""
        answers = [turn.text for turn in self.session.turns if turn.role == "assistant"]
        if answers:
            self.copy_to_clipboard(answers[-1])
            self.notify("Copied the last answer.", timeout=2)

    # -- actions: knobs

    @on(Turned)
    def _turned(self, event: Turned) -> None:
        self.turn(**{event.knob.name: event.value})

    @on(Presets.Chosen)
    def _preset(self, event: Presets.Chosen) -> None:
        self.turn(**PRESETS[event.name])

    def turn(self, **changes: Any) -> None:
        """Turn knobs; during a run they hold from the next step or block."""
        before = self.session.knobs
        try:
            knobs = self.session.turn(**changes)
        except KnobError as error:
            self._chat.composer.above.say(str(error))
            return
        changed = [name for name in KNOBS if getattr(before, name) != getattr(knobs, name)]
        if self.running:
            self._chat.panel.mark(changed, turned=True)
        self._show_knobs()

    def _show_knobs(self) -> None:
        self._chat.panel.show(self.session.knobs, self._effects)

    @on(Selector.Opened)
    def _choose(self, event: Selector.Opened) -> None:
        from dllm_tui.tui.screens.pick import Pick

        selector = event.selector
        details = POLICIES if selector.knob.name == "policy" else {}
        choices = [Choice(value, value, details.get(value, "")) for value in selector.choices]

        def chosen(value: str | None) -> None:
            if value is not None:
                self.turn(**{selector.knob.name: value})

        self.push_screen(Pick(selector.knob.label, choices, current=selector.value), chosen)

    def action_knobs(self) -> None:
        """Go to the knobs."""
        self._chat.show_side(wanted=True)
        self._chat.panel.focus_first()

    async def action_more_knobs(self) -> None:
        """Show or hide the further knobs."""
        self._chat.show_side(wanted=True)
        await self._chat.panel.toggle_further()

    # -- actions: timeline

    def action_timeline(self) -> None:
        """Go to the timeline; from there, hide it."""
        shown = not self._chat.timeline.has_focus
        if not shown:
            self._scrubbing.leave()
        self._chat.show_timeline(wanted=shown)
        self._chat.set_focus(self._chat.timeline if shown else self._chat.composer.prompt)

    @on(TimelineRow.Moved)
    def _scrubbed(self) -> None:
        self._scrubbing.show()
        self._inspecting.tick()
        self._wake()

    @on(TimelineRow.AnswerWanted)
    def _answer_wanted(self, event: TimelineRow.AnswerWanted) -> None:
        self._scrubbing.choose(event.by)
        self._inspecting.tick()

    @on(TimelineRow.Left)
    def _timeline_left(self) -> None:
        self._scrubbing.leave()
        self._chat.set_focus(self._chat.composer.prompt)

    # -- actions: inspector

    def action_inspect(self) -> None:
        """Inspect a position, or close the inspector."""
        if self._inspecting.open:
            self._inspection_left()
        else:
            self._inspecting.start()

    @on(Canvas.Picked)
    def _picked(self, event: Canvas.Picked) -> None:
        self._scrubbing.choose_canvas(event.canvas)
        self._inspecting.start(event.position)

    @on(Inspector.Asked)
    def _inspect_other(self, event: Inspector.Asked) -> None:
        if event.steps:
            self._chat.timeline.scrub.step(event.steps)
            self._scrubbed()
        else:
            self._inspecting.move(by=event.by, lines=event.lines)

    @on(Inspector.Left)
    def _inspection_left(self) -> None:
        self._inspecting.stop()
        self._scrubbing.leave()
        self._chat.set_focus(self._chat.composer.prompt)

    # -- actions: view

    def action_view(self) -> None:
        """Switch the last answer between canvas and text."""
        self._chat.conversation.toggle_view()

    def action_colours(self) -> None:
        """Let the colours on canvases tell something else."""
        self.lens = self.lens.next
        self.theme_changed()

    def take_colours(self, name: str) -> str:
        """Let the colours tell what is named; what is wrong with it, if anything."""
        names = [lens.value for lens in Lens]
        if name not in names:
            return f"the colours can't tell {name!r}; they can {', '.join(names)}"
        self.lens = Lens(name)
        self.theme_changed()
        return ""

    def action_panel(self) -> None:
        """Show or hide the side panel."""
        if not self._chat.toggle_side():
            self._chat.set_focus(self._chat.composer.prompt)

    def action_scroll_up(self) -> None:
        """Scroll the conversation up."""
        self._chat.conversation.scroll_page_up(animate=False)

    def action_scroll_down(self) -> None:
        """Scroll the conversation down."""
        self._chat.conversation.scroll_page_down(animate=False)

    def action_theme(self) -> None:
        """Choose a theme; the one under the cursor is shown at once."""
        from dllm_tui.tui.screens.pick import Pick

        self.load_themes()
        choices = [
            Choice(name, theme.title, self._swatch(theme)) for name, theme in self.themes.themes.items()
        ]
        self.push_screen(
            Pick("theme", choices, current=self.theme, preview=self.use_theme), self._theme_chosen
        )

    def _swatch(self, theme: theming.Theme) -> Content:
        """The ramp of a theme, and its name."""
        colours = [(self._chat.panel.pen.marks.bars[-1] * 2, colour) for colour in theme.ramp]
        return Content.assemble(*colours, (f"   {theme.name}", "$muted"))

    def _theme_chosen(self, name: str | None) -> None:
        if name is not None:
            self.use_theme(name)
            if self._save:
                try:
                    self._save("theme", name)
                except (DllmError, ValueError, OSError) as error:
                    self.notify(str(error), severity="warning", markup=False)

    def take_theme(self, name: str) -> str:
        """Use a theme by name; what is wrong, if anything."""
        if name not in self.themes.themes:
            return self._no_theme(name)
        self._theme_chosen(name)
        return ""

    def _no_theme(self, name: str) -> str:
        return f"there is no theme {name!r}; there are {', '.join(self.themes.themes)}"

    def theme_changed(self) -> None:
        """Draw the canvases anew."""
        self._chat.draw_with(self.palette(), self.pen())

    # -- actions: program

    def action_model(self) -> None:
        """Choose a model."""
        from dllm_tui.tui.screens.pick import Pick

        def chosen(name: str | None) -> None:
            if name is not None:
                self.take_model(name)

        current = self.session.host.state.requested
        self.push_screen(Pick("model", self._models(), current=current, free=True), chosen)

    def take_model(self, name: str) -> str:
        """Load a model in place of this one; what is wrong with it is told when the host knows."""
        self.session.stop()
        self.session.host.load(name)
        self._wake()
        return ""

    def action_everything(self) -> None:
        """List all that can be done now, to be found by name."""
        from dllm_tui.tui.screens.pick import Pick

        doing: dict[str, tuple[Choice, Callable[[], object]]] = {}
        for action in ACTIONS.values():
            if action.listed and not action.unavailable(self.situation):
                detail = "   ".join(part for part in (self.key_for(action.id), f"/{action.slash[0]}") if part)
                choice = Choice(action.id, action.title, detail)
                doing[choice.value] = choice, partial(self.run_action, action.id)
        for name, knobs in PRESETS.items():
            detail = ", ".join(f"{knob} {value}" for knob, value in knobs.items())
            doing[f"preset {name}"] = (
                Choice(f"preset {name}", f"Preset {name}", detail),
                partial(self.turn, **knobs),
            )
        for name in self.policies:
            choice = Choice(f"policy {name}", f"Policy {name}", POLICIES[name])
            doing[choice.value] = choice, partial(self.turn, policy=name)

        def chosen(value: str | None) -> None:
            if value is not None:
                self.call_later(doing[value][1])

        self.push_screen(Pick("everything", [choice for choice, _ in doing.values()]), chosen)

    def action_help(self) -> None:
        """Show what can be done here."""
        from dllm_tui.tui.screens.help import Help

        focused = self._chat.focused
        model = self.session.host.state.model
        knob = focused.knob if isinstance(focused, KnobWidget) else None
        self.push_screen(
            Help(self.keymap, self.situation, knob=knob, fixed=model.fixed_knobs if model else None)
        )

    def action_interrupt(self) -> None:
        """Copy a selection; stop; clear the prompt; the second time, quit."""
        prompt = self._chat.composer.prompt
        selected = self.screen.get_selected_text() or (prompt.selected_text if prompt.has_focus else "")
        now = time.monotonic()
        if selected:
            self.copy_to_clipboard(selected)
            self.notify("Copied.", timeout=2)
        elif now - self._interrupted < TWICE:
            self._leave()
        else:
            self._interrupted = now
            if self.running:
                self.action_stop()
            elif prompt.text:
                prompt.replace_text("")
            else:
                self.notify("Ctrl+C again quits.", timeout=TWICE)

    async def action_quit(self) -> None:
        """Quit; asks first where an answer is being written."""
        if not self.running:
            self._leave()
            return
        from dllm_tui.tui.screens.confirm import Confirm

        self.push_screen(
            Confirm("An answer is being written. Quit all the same?", yes="quit", no="stay"),
            lambda yes: self._leave() if yes else None,
        )

    def _leave(self) -> None:
        self.session.stop()
        self.exit()

    # -- from the conversation

    @on(Conversation.LinkClicked)
    def _link(self, event: Conversation.LinkClicked) -> None:
        self.copy_to_clipboard(event.href)
        self.notify("Copied the link; nothing was opened.", timeout=3)


_EVERYWHERE = {"interrupt", "quit", "everything"}
"""Actions that work over a dialog too."""


def _last(roles: list[str], role: str) -> int:
    """Index of the last one; it must be there."""
    return len(roles) - 1 - roles[::-1].index(role)
