"""The app that people chat in: one method an action. What it shows of a session, its base follows."""

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, ClassVar

from textual import events, on
from textual.binding import BindingType
from textual.content import Content

from dllm_tui import theming
from dllm_tui.errors import DllmError
from dllm_tui.events import RunStart
from dllm_tui.knobs import KNOBS, PRESETS, KnobError
from dllm_tui.ports import Run
from dllm_tui.session import Session
from dllm_tui.settings import Settings
from dllm_tui.trace import chats
from dllm_tui.tui import clipboard
from dllm_tui.tui.actions import ACTIONS, bindings
from dllm_tui.tui.cells import cut
from dllm_tui.tui.choice import Choice, described
from dllm_tui.tui.commands import CommandError, Completion, completions, is_command, parse, unescaped
from dllm_tui.tui.following import Following
from dllm_tui.tui.intervening import Intervening
from dllm_tui.tui.lens import Lens
from dllm_tui.tui.shape import Shape
from dllm_tui.tui.sharing import Sharing
from dllm_tui.tui.widgets.canvas import Canvas
from dllm_tui.tui.widgets.conversation import Conversation
from dllm_tui.tui.widgets.inspector import Inspector
from dllm_tui.tui.widgets.knob import KnobWidget, Turnable, Turned
from dllm_tui.tui.widgets.knobs import Presets, Selector
from dllm_tui.tui.widgets.prompt import Prompt
from dllm_tui.tui.widgets.slider import TYPED, Slider
from dllm_tui.tui.widgets.timeline import TimelineRow
from dllm_tui.tui.widgets.welcome import Welcome

FIRST_WORDS = 40
"""Cells of a prompt that waits, where that is said."""
SAME_SECONDS = 6.0
"""How long it is said that another answer will be the same."""
TWICE = 1.5
"""Seconds within which a second Ctrl+C quits."""


class ChatApp(Following, inherit_bindings=False):
    """Chat with a diffusion model and watch it: one method an action.

    Args:
        session: the conversation; its host may still be loading.
        settings: how it looks and behaves.
        models: what the model picker offers; called when it opens.
        check_model: raises a :class:`~dllm_tui.errors.DllmError` for a name that can be no model's; gives
            what the machine lacks for the model, for people.
        save: keeps a setting for the next start (``theme``); ``None`` keeps nothing.
        options: as for :class:`~dllm_tui.tui.following.Following`.
    """

    BINDINGS: ClassVar[list[BindingType]] = bindings("app")

    def __init__(
        self,
        session: Session,
        settings: Settings,
        *,
        models: Callable[[], Sequence[Choice]] = tuple,
        check_model: Callable[[str], str] = lambda name: "",
        save: Callable[[str, object], None] | None = None,
        **options: Any,
    ) -> None:
        super().__init__(session, settings, **options)
        self._models = models
        self._check_model = check_model
        self._save = save
        self._queued = ""
        """A prompt that waits for the model."""
        self._editing = False
        """Whether what is being typed replaces the last prompt."""
        self._interrupted = 0.0
        self._intervening = Intervening(self, self._chat, self._scrubbing, self._inspecting)
        self._sharing = Sharing(
            self, self._chat.status, tell=self._tell, note=self._note, report=self._report
        )

    def on_ready(self) -> None:
        """Textual calls the base's too: this is for when that has shown the session."""
        self.call_later(self._say_lack)

    def _say_lack(self) -> None:
        """What this machine lacks for the model that is being loaded, if anything."""
        with suppress(DllmError):  # the host says it, too
            lack = self._check_model(self.settings.model)
            if lack:
                self._note(lack)

    # -- prompts

    def model_is_free(self) -> None:
        """Send what has waited."""
        self._intervening.ended()
        self._say_version()
        text = self._queued
        if text:
            self._queue("")
            self._start(text)

    def model_failed(self) -> None:
        """What has waited goes back to who wrote it."""
        self._take_back()

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
            when = "after this answer" if self.running else "when the model is ready"
            marks = self._chat.panel.pen.marks
            first = cut(chats.title(text), FIRST_WORDS, marks.dots)
            prompt.border_subtitle = Content(f"will be sent {when}: {first}")
        else:
            prompt.border_subtitle = ""

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
            self._cut(last_of(self._shown, "user"))
            self._begin(partial(self.session.edit_last, text), text)
        else:
            self._begin(partial(self.session.send, text), text)

    def _edit(self, editing: bool) -> None:
        self._editing = editing
        self._chat.composer.prompt.border_title = "editing the last prompt" if editing else ""

    # -- slash commands

    def complete(self, text: str) -> list[Completion]:
        """How a slash command may go on."""
        return completions(
            text,
            {
                "theme": lambda: list(self.themes.themes),
                "colours": lambda: [lens.value for lens in Lens],
                "shape": lambda: [shape.value for shape in Shape],
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

    def on_key(self, event: events.Key) -> None:
        """What is typed while the conversation or a knob has the focus is meant for the prompt.

        A knob was often only clicked, so that no letter does anything else there; digits are its value.
        """
        focused = self._chat.focused
        scope = "knob" if isinstance(focused, Turnable) else "app"
        late = isinstance(focused, Prompt)  # somebody types fast: a key before this one led to the prompt
        takes_keys = isinstance(focused, TimelineRow | Inspector)
        elsewhere = self.screen is not self._chat or takes_keys
        bound = any(event.key in self.keymap[a.id] for a in ACTIONS.values() if a.scope == scope)
        bound = bound or (isinstance(focused, Slider) and event.key in TYPED)
        typed = event.is_printable and not event.key.startswith("alt+")
        typing = typed and not self._chat.composer.prompt.disabled
        if typing and (late or not bound) and not elsewhere:
            event.prevent_default()
            self._chat.set_focus(self._chat.composer.prompt)
            self._chat.composer.prompt.insert(event.character or "")

    # -- actions: chat

    def action_new_chat(self) -> None:
        """Begin a new conversation."""
        self.session.stop()
        self._take_back()
        self.session.new()
        self._edit(False)
        self._show_session()
        self._chat.set_focus(self._chat.composer.prompt)

    def action_chats(self) -> None:
        """List chats: take one up, or delete it."""
        from dllm_tui.tui.screens.pick import Pick

        try:
            choices = [
                Choice(
                    chat.path.stem,
                    chat.title or "untitled",
                    described(chat, dot=self._chat.panel.pen.marks.dot),
                )
                for chat in self.session.chats()
            ]
        except DllmError as error:
            self._report(error)
            return
        pick = Pick("chats", choices, empty="no chats yet", remove=self._ask_to_delete)
        self.push_screen(pick, self._resume)

    def _resume(self, chat: str | None) -> None:
        if chat is None:
            return
        self.session.stop()
        try:
            self.session.resume(chat)
        except DllmError as error:
            self._report(error)
            return
        self._edit(False)
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
        same = self._same_again()
        self._cut(last_of(self._shown, "user") + 1)
        self._begin(self.session.regenerate)
        if same:
            self._tell(same, SAME_SECONDS)

    def _same_again(self) -> str:
        """Why another answer will be like the last one, if it will."""
        last, knobs = self.session.turns[-1], self.session.knobs
        events = () if last.run is None else self.session.events.get(last.run, ())
        if not events or not isinstance(start := events[0], RunStart) or start.knobs != knobs.to_dict():
            return ""
        if knobs.seed is not None:
            return f"The seed {knobs.seed} draws the same answer again; /seed auto draws others."
        if knobs.temperature or knobs.pick_temperature or knobs.policy == "random":
            return ""
        return "At temperature 0 the same answer is to be expected; /temperature 0.7 draws others."

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
            self._copy(answers[-1], "Copied the last answer.")

    def _copy(self, text: str, said: str) -> None:
        self.copy_to_clipboard(text)
        if self._environment.get("TMUX") and not clipboard.tools(self._environment):
            said = "Sent to the terminal's clipboard (in tmux: set -g set-clipboard on)."
        self._tell(said)

    def _tell(self, text: str, seconds: float = 3.0) -> None:
        """Say something in passing."""
        if self.screen is self._chat:
            self._chat.composer.above.tell(text, seconds)
        else:
            self.notify(text, timeout=seconds)

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
            self._show_knobs()
            return
        changed = [name for name in KNOBS if getattr(before, name) != getattr(knobs, name)]
        if self.running:
            self._chat.panel.mark(changed, turned=True)
        self._show_knobs()

    @on(Selector.Opened)
    def _choose(self, event: Selector.Opened) -> None:
        from dllm_tui.tui.screens.pick import Pick

        selector = event.selector
        about = selector.knob.choices
        choices = [Choice(value, value, about=about.get(value, "")) for value in selector.choices]

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
        self._intervening.follow()
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
        if event.nfe is not None:
            self._scrubbing.go_to(event.nfe)
        self._inspecting.start(event.position)
        if event.marking:
            self._intervening.take("mark")

    @on(Inspector.Asked)
    def _inspect_other(self, event: Inspector.Asked) -> None:
        if event.steps:
            self._chat.timeline.scrub.step(event.steps)
            self._scrubbed()
        else:
            self._inspecting.move(by=event.by, lines=event.lines)

    @on(Inspector.Changing)
    def _changing(self, event: Inspector.Changing) -> None:
        self._intervening.take(event.what, event.number)

    @on(TimelineRow.BranchWanted)
    def action_branch(self) -> None:
        """Go on from the step that is looked at."""
        self._intervening.go_on()

    def show_branch(self, run: Run) -> None:
        """Show a branch that was begun, in the place of the answer that it goes on from."""
        self._inspecting.stop()
        self._scrubbing.leave()
        self._cut(last_of(self._shown, "assistant"))
        self._begin(lambda: run)
        number = len(self.session.versions) + 1
        self._chat.conversation.note_last(f"version {number} of {number}")
        self._chat.set_focus(self._chat.composer.prompt)

    def show_session(self) -> None:
        """Show the session as it stands."""
        self._show_session()

    def _show_session(self) -> None:
        super()._show_session()
        self._say_version()

    def _say_version(self) -> None:
        """Which of its versions the last answer is, where it has more than one."""
        versions = [turn.run for turn in self.session.versions]
        if len(versions) > 1 and self.session.turns and self.session.turns[-1].run in versions:
            number = versions.index(self.session.turns[-1].run) + 1
            self._chat.conversation.note_last(f"version {number} of {len(versions)}")

    def action_versions(self) -> None:
        """Compare the versions of the last answer; one of them may be put in its place."""
        from dllm_tui.tui.screens.compare import Compare
        from dllm_tui.tui.versions import version_of

        session, pen = self.session, self._chat.inspector.pen
        runs = [turn.run for turn in session.versions if turn.run is not None]
        numbers = {run: number for number, run in enumerate(runs, start=1)}
        shown = [
            version_of(run, number, session.events.get(run, ()), numbers, pen.glyphs)
            for run, number in numbers.items()
        ]
        current = session.turns[-1].run
        if current in numbers:
            self.push_screen(Compare(shown, current, pen.marks.dot), self._version_chosen)

    def _version_chosen(self, run: int | None) -> None:
        if run is None:
            return
        try:
            self.session.choose(run)
        except DllmError as error:
            self._chat.composer.above.say(f"{error.message} {error.hint}".strip())
            return
        self.show_session()

    @on(Inspector.Left)
    def _inspection_left(self) -> None:
        self._intervening.clear()
        self._inspecting.stop()
        self._scrubbing.leave()
        self._chat.set_focus(self._chat.composer.prompt)

    # -- actions: view

    def action_view(self) -> None:
        """Switch the last answer between canvas and text."""
        self._chat.conversation.toggle_view()

    def action_shape(self) -> None:
        """Draw canvases as something else."""
        self._draw_as(self.shape.next)

    def take_shape(self, name: str) -> str:
        """Draw canvases as what is named; what is wrong with it, if anything."""
        names = [shape.value for shape in Shape]
        if name not in names:
            return f"canvases can't be drawn as {name!r}; they can as {', '.join(names)}"
        self._draw_as(Shape(name))
        return ""

    def _draw_as(self, shape: Shape) -> None:
        self.shape = shape
        self.theme_changed()
        self._chat.conversation.show_canvas()

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
        if name not in self.themes.themes:  # its file may be new
            self.load_themes()
        if name not in self.themes.themes:
            return self.no_theme(name)
        self._theme_chosen(name)
        return ""

    # -- actions: demo

    def on_resize(self, event: events.Resize) -> None:
        """Tell the session, for the record."""
        self.session.resized(event.size.width, event.size.height)

    def action_record(self) -> None:
        """Start or stop recording."""
        self._sharing.toggle_recording()

    def take_record(self, path: str) -> str:
        """Start recording to a file; what is wrong with that, if anything."""
        return self._sharing.record(path)

    def action_save_demo(self) -> None:
        """Save the last answer as a demo."""
        self._sharing.save_demo("")

    def take_save_demo(self, path: str) -> str:
        """Save the last answer as a demo in a file; what is wrong with that, if anything."""
        return self._sharing.save_demo(path)

    def action_export(self) -> None:
        """Ask what is to be exported."""
        self._sharing.ask_what()

    def take_export(self, path: str) -> str:
        """Export the chat to a file; what is wrong with that, if anything."""
        return self._sharing.export_to(path)

    # -- actions: program

    def action_model(self) -> None:
        """Choose a model."""
        from dllm_tui.tui.screens.pick import Pick

        def chosen(name: str | None) -> None:
            problem = self.take_model(name) if name is not None else ""
            if problem:
                self._chat.composer.above.say(problem)

        current = self.session.host.state.requested
        self.push_screen(Pick("model", self._models(), current=current, free=True), chosen)

    def take_model(self, name: str) -> str:
        """Load a model in place of this one; what is wrong with its name, if that can be told at once."""
        try:
            lack = self._check_model(name)
        except DllmError as error:
            return f"{error.message} {error.hint}"
        self.session.stop()
        self.session.host.load(name)
        if lack:
            self._note(lack)
        self._wake()
        return ""

    def action_everything(self) -> None:
        """List all that can be done now, to be found by name."""
        from dllm_tui.tui.everything import entries
        from dllm_tui.tui.screens.pick import Pick

        doing = entries(self)

        def chosen(value: str | None) -> None:
            if value is not None:
                self.call_later(doing[value].run)

        self.push_screen(Pick("everything", [entry.choice for entry in doing.values()]), chosen)

    @on(Welcome.Chosen)
    def _example(self, event: Welcome.Chosen) -> None:
        if not self._chat.composer.prompt.disabled:
            self.ask_for(event.text)

    def ask_for(self, text: str) -> None:
        """Put a text into the prompt: the beginning of a command, or an example."""
        self._chat.set_focus(self._chat.composer.prompt)
        self._chat.composer.prompt.replace_text(text)

    def action_help(self) -> None:
        """Show what can be done here."""
        from dllm_tui.tui.screens.help import Help

        focused = self._chat.focused
        model = self.session.host.state.model
        knob = focused.knob if isinstance(focused, KnobWidget) else None
        self.push_screen(
            Help(
                self.keymap,
                self.situation,
                knob=knob,
                fixed=model.fixed_knobs if model else None,
                plain=self.plain,
            )
        )

    @on(Prompt.Edited)
    def _typing(self) -> None:
        """Who goes on typing after Ctrl+C stays: the next one is a first one again."""
        if self._chat.composer.prompt.text:
            self._interrupted = 0.0

    def action_interrupt(self) -> None:
        """Copy a selection; stop; clear the prompt; the second time, quit."""
        prompt = self._chat.composer.prompt
        selected = self.screen.get_selected_text() or (prompt.selected_text if prompt.has_focus else "")
        now = time.monotonic()
        if selected:
            self._copy(selected, "Copied.")
        elif now - self._interrupted < TWICE:
            self._leave()
        else:
            self._interrupted = now
            if self.running:
                self.action_stop()
            elif prompt.text:
                prompt.replace_text("")
            else:
                self._tell("Ctrl+C again quits.", TWICE)

    async def action_quit(self) -> None:
        """Quit; asks first where an answer is being written. Over a question it is meant."""
        from dllm_tui.tui.screens.confirm import Confirm

        doing = "An answer is being written." if self.running else self._sharing.doing
        if not doing or isinstance(self.screen, Confirm):
            self._leave()
            return
        self.push_screen(
            Confirm(f"{doing} Quit all the same?", yes="quit", no="stay"),
            lambda yes: self._leave() if yes else None,
        )

    def _leave(self) -> None:
        self._sharing.leave()
        self.session.stop()
        self.exit()

    # -- from the conversation

    @on(Conversation.LinkClicked)
    def _link(self, event: Conversation.LinkClicked) -> None:
        self._copy(event.href, "Copied the link; nothing was opened.")


def last_of(roles: Sequence[str], role: str) -> int:
    """Index of the last one; it must be there."""
    return len(roles) - 1 - roles[::-1].index(role)
