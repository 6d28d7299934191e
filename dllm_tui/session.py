"""A conversation: its turns, its knobs, and the generation that is running. No torch, no terminal.

The engine is behind a port, :class:`~dllm_tui.ports.Host`.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from dllm_tui.branching import origin_of
from dllm_tui.conversation import Conversation, Recorder, header
from dllm_tui.errors import DllmError, TraceError
from dllm_tui.events import AnyEvent, Error, KnobsSet, ScreenSize, Turn
from dllm_tui.knobs import SUITED, Knobs, LiveKnobs
from dllm_tui.ports import Host, HostState, Message, Origin, Run, Sink
from dllm_tui.settings import Settings
from dllm_tui.trace import SUFFIX
from dllm_tui.trace import chats as chat_files
from dllm_tui.trace.archive import Archive
from dllm_tui.trace.recording import Recording
from dllm_tui.trace.writer import Writer

__all__ = ["Host", "HostState", "Message", "Run", "Session", "SessionError", "Sink"]

MAX_PROMPT = 1_000_000
"""Longest prompt that is taken, in characters: far above any context, and a trace line holds it."""


WIDEST = 250
"""Characters of a title, which the widest terminal has room for."""


class SessionError(DllmError):
    """What was asked for makes no sense now: an empty prompt, or nothing to answer again."""


class Session:
    """A conversation with a model: sends prompts, keeps turns, records what happens.

    Call from one thread. Answers are taken in on the engine's thread, before the interface can see that
    they are done: whatever becomes of the interface, they are kept.

    Args:
        host: owns the model, which may still be loading.
        settings: knobs and system prompt come from here.
        history: directory of chats; ``None`` keeps nothing.
        recorders: get every event too.
        defaults: the asked model's own knobs, where they are known before it is ready.
    """

    def __init__(
        self,
        host: Host,
        settings: Settings,
        *,
        history: Path | None = None,
        recorders: Sequence[Recorder] = (),
        defaults: Knobs | None = None,
    ) -> None:
        self.host = host
        self.notices: list[Error] = []
        """What people should know besides the runs' own events; only ever grows."""
        self.recording: Recording | None = None
        """What records the session now, whether or not chats are kept."""
        self._settings = settings
        self._history = history
        self._recorders = recorders
        self._defaults = defaults or host.state.defaults
        self._live = LiveKnobs(settings.turned(self._defaults))
        self._screen: ScreenSize | None = None
        self._chat = self._conversation()
        self._run: Run | None = None
        self._ending: Run | None = None
        """The last run of a chat that was left."""

    # What stands

    @property
    def turns(self) -> tuple[Turn, ...]:
        """The conversation. An answer that is being made again stays until the new one is there."""
        return tuple(self._chat.turns)

    @property
    def run(self) -> Run | None:
        """The present chat's last generation in this session."""
        return self._run

    @property
    def running(self) -> bool:
        """Whether an answer is being written."""
        return self._run is not None and not self._run.ended

    @property
    def events(self) -> Mapping[int, Sequence[AnyEvent]]:
        """Events of the runs that the turns name."""
        return self._chat.events

    @property
    def versions(self) -> tuple[Turn, ...]:
        """The answers that the last prompt has got, in the order in which they were begun."""
        return tuple(turn for _, turn in sorted(self._chat.versions.items()))

    @property
    def title(self) -> str:
        """The first prompt in one line; empty for a new chat."""
        return next((chat_files.title(turn.text, WIDEST) for turn in self.turns if turn.role == "user"), "")

    @property
    def id(self) -> str:
        """The present chat's name on disk; empty where it has no file."""
        return self._chat.file.path.stem if self._chat.file else ""

    @property
    def keeps(self) -> bool:
        """Whether chats are kept."""
        return self._history is not None

    @property
    def model_name(self) -> str:
        """Of the model that is ready, else of the one that answered last."""
        model = self.host.state.model or self._chat.model
        return model.id if model else ""

    @property
    def models(self) -> Mapping[int, str]:
        """Of runs that another model made, as far as that is known, its name."""
        return {}

    @property
    def knobs(self) -> Knobs:
        """The knobs in force.

        A model that has just become ready brings its own defaults; what a person set or turned stays, but
        for a cache that it can't decode with.
        """
        state = self.host.state
        if state.model and state.defaults is not self._defaults:
            before = self._settings.turned(self._defaults).to_dict()
            turned = {
                name: value for name, value in self._live.now.to_dict().items() if value != before[name]
            }
            if state.model.caches and turned.get("cache") not in state.model.caches:
                turned.pop("cache", None)
            self._defaults = state.defaults
            self._live.turn(**self._settings.turned(self._defaults).to_dict() | turned)
        return self._live.now

    @property
    def passed_over(self) -> list[str]:
        """What a person set and the model that is ready doesn't have, a sentence each."""
        model, asked = self.host.state.model, self._settings.knobs
        if model is None:
            return []
        said = [
            f"{model.id} doesn't have the knob {name}: {model.fixed_knobs[name]}"
            for name in asked
            if name in model.fixed_knobs
        ]
        policy = asked.get("policy")
        if policy is not None and model.policies and policy not in model.policies:
            said.append(f"{model.id} isn't made for the policy {policy}; it has {', '.join(model.policies)}.")
        return said

    def turn(self, **changes: object) -> Knobs:
        """Turn knobs; a run that goes on follows from its next step or block, and tells it in its events.

        A policy brings what suits it, unless that is turned too, and takes it along when it goes.

        Raises:
            KnobError: unknown, or out of range; nothing is changed then.
        """
        now = self.knobs.to_dict()
        if changes.get("policy", now["policy"]) != now["policy"]:
            usual = self._defaults.to_dict() | self._settings.knobs
            brought = SUITED.get(str(now["policy"]), {})
            back = {name: usual[name] for name, value in brought.items() if now[name] == value}
            changes = back | SUITED.get(str(changes["policy"]), {}) | changes
        knobs = self._live.turn(**changes)
        turned = {name: value for name, value in knobs.to_dict().items() if value != now[name]}
        if turned and not self.running:
            self._chat.note(KnobsSet(changes=turned))
        return knobs

    def resized(self, columns: int, rows: int) -> None:
        """Say what size the interface has, for the record."""
        screen = ScreenSize(columns=columns, rows=rows)
        if screen != self._screen:
            self._screen = screen
            self._chat.note(screen)

    # What can be done

    def send(self, text: str) -> Run:
        """Ask, and let the model answer. A prompt that got no answer (it failed) gives way to this one.

        Raises:
            SessionError: the prompt is empty or too long, or an answer is being written.
        """
        text = self._checked(text)
        chat = self._chat
        if not chat.turns and self._settings.system:
            chat.take(Turn(role="system", text=self._settings.system))
        unanswered = bool(chat.turns) and chat.turns[-1].role == "user"
        chat.take(Turn(role="user", text=text, replaces=len(chat.turns) - 1 if unanswered else None))
        return self._answer()

    def regenerate(self) -> Run:
        """Answer the last prompt again; the former answer gives way when the new one is there.

        Raises:
            SessionError: nothing was asked yet, or an answer is being written.
        """
        self._idle()
        return self._answer(self._last_prompt() + 1)

    def unbranched(self, run: int) -> str:
        """Why no run can go on from this one now; empty where one can."""
        model, made = self.host.state.model, self._chat.models.get(run)
        if self.running:
            return "an answer is being written; stop it first"
        if run not in self._chat.versions:
            return "only the last answer can be gone on from: what follows builds on the others"
        if model is None:
            return "the model isn't ready"
        if made and (made.id, made.tokenizer_sha256) != (model.id, model.tokenizer_sha256):
            return f"this answer is by {made.id}, and {model.id} is loaded"
        return model.unkept

    def go_on(
        self, events: Sequence[AnyEvent], count: int, edits: Mapping[int, int | None] | None = None
    ) -> Run:
        """Let the last answer go on from one of its steps: a branch, with the knobs as they are now.

        The former answer stays as a version (:attr:`versions`).

        Args:
            events: of the run that is gone on from.
            count: how many of them make up the step.
            edits: what a person changed on the canvas, by position: the token that is set there, or ``None``
                for a mask.

        Raises:
            SessionError: it can't be gone on from.
            BranchError: as :func:`dllm_tui.branching.origin_of`.
        """
        origin = origin_of(events, count, edits)
        if reason := self.unbranched(origin.run):
            raise SessionError(f"{reason[0].upper()}{reason[1:]}.")
        return self._answer(self._last_prompt() + 1, origin)

    def choose(self, run: int) -> None:
        """Put another version in the last answer's place.

        Raises:
            SessionError: an answer is being written, or there is no such version.
        """
        self._idle()
        version = self._chat.versions.get(run)
        if version is None:
            raise SessionError("There is no such version of the last answer.")
        if self.turns[-1].run != run:
            self._chat.take(msgspec.structs.replace(version, replaces=len(self.turns) - 1))
        self._run = None

    def edit_last(self, text: str) -> Run:
        """Replace the last prompt and what came after it, and let the model answer.

        Raises:
            SessionError: as :meth:`send`, or nothing was asked yet.
        """
        text = self._checked(text)
        self._chat.take(Turn(role="user", text=text, replaces=self._last_prompt()))
        return self._answer()

    def stop(self) -> None:
        """Ask the running generation to end; what it has written so far is kept as the answer."""
        if self._run:
            self._run.cancel()

    def new(self) -> None:
        """Begin a new chat; an answer that is being written ends, and is kept in its own chat."""
        self._leave()
        self._chat.record(self.recording)

    def resume(self, chat: str) -> None:
        """Go on with a chat that was kept.

        Args:
            chat: its ``id``, from :meth:`chats`.

        Raises:
            TraceError: it can't be read, or is open in another dllm-chat. The present chat stays.
        """
        path = self._path(chat)
        if self._chat.file and self._chat.file.path == path:
            return
        if self._ending:
            self._ending.wait(1.0)  # the chat that was left may be this one: it is closed then
        past = chat_files.load(path)
        file = Writer(path, append=True, known=past.known)
        self._leave()
        self._chat.go_on(past, file)
        self._chat.record(self.recording)

    def chats(self) -> list[chat_files.Chat]:
        """The chats that were kept, the one used last first.

        Raises:
            TraceError: their directory can't be read.
        """
        return chat_files.listing(self._history) if self._history else []

    def source(self) -> Path | bytes:
        """The present chat as a trace: its file, or what one would hold where chats aren't kept.

        Raises:
            TraceError: nothing was asked yet.
        """
        return self._chat.source()

    def trace(self) -> Archive:
        """The present chat, to look things up.

        Raises:
            TraceError: nothing was asked yet, or it can't be read.
        """
        source = self.source()
        return Archive(Path("this chat"), source) if isinstance(source, bytes) else Archive(source)

    def record(self, path: Path, *, replace: bool = False) -> Recording:
        """Record what happens from now on, also where chats are not kept.

        Raises:
            SessionError: a recording goes on.
            TraceError: the file can't be written, or is there already and is not to be replaced.
        """
        if self.recording:
            raise SessionError(f"{self.recording.path} is being recorded.", "Stop that first.")
        self.recording = Recording(
            path, header=header(self.host.state.model), opening=self._opening(), replace=replace
        )
        self._chat.record(self.recording)
        return self.recording

    def stop_recording(self) -> Path | None:
        """End the recording; its file, or ``None`` where nothing was said, or nothing recorded.

        Raises:
            TraceError: the file can't have its name.
        """
        recording, self.recording = self.recording, None
        self._chat.record(None)
        return recording.path if recording and recording.close() else None

    def delete(self, chat: str) -> None:
        """Remove a chat for good; if it is the present one, a new one begins.

        Raises:
            TraceError: it may not be removed.
        """
        path = self._path(chat)
        if self._chat.file and self._chat.file.path == path:
            self.new()
        chat_files.delete(path)

    def close(self, timeout: float = 1.0) -> None:
        """Stop, give the running answer ``timeout`` seconds to be kept, and close the files."""
        self.stop()
        last = self._run or self._ending
        if last:
            last.wait(timeout)
        try:
            self.stop_recording()
        except TraceError as error:
            self.notices.append(Error(message=error.message, hint=error.hint))
        self._leave()
        for recorder in self._recorders:
            recorder.close()

    # How

    def _answer(self, end: int | None = None, origin: Origin | None = None) -> Run:
        """Let the model answer the turns up to ``end``; the answer replaces what stands there."""
        chat = self._chat
        turns = chat.turns[:end]
        start = self._fit(turns)
        messages = [Message(turn.role, turn.text) for turn in (*turns[: _first(turns)], *turns[start:])]
        _ = self.knobs
        index, sink = chat.answer(turns, start, self._live)
        self._run = self.host.generate(messages, self._live, sinks=[sink], index=index, origin=origin)
        return self._run

    def _fit(self, turns: Sequence[Turn]) -> int:
        """Index of the first turn that is sent: the oldest are left out where the context is too short."""
        chat, model, first = self._chat, self.host.state.model, _first(turns)
        start = before = max(first, min(chat.start, len(turns) - 1))
        if model is None or not model.context_length:
            return start
        room = model.context_length - min(self.knobs.max_new_tokens, model.context_length // 4)
        prompts = [at for at in range(start + 1, len(turns)) if turns[at].role == "user"]
        while prompts and chat.tokens(turns, start) > room:
            start = prompts.pop(0)
        if start != before:
            chat.start = start
            self.notices.append(
                Error(
                    message=f"The conversation fills the model's context of {model.context_length} tokens: "
                    f"its oldest {start - first} messages are no longer sent.",
                    hint="A new chat has the whole context again.",
                )
            )
        return start

    def _conversation(self) -> Conversation:
        history = self._history
        return Conversation(
            model=lambda: self.host.state.model,
            opening=self._opening,
            create=(lambda: chat_files.create(history)) if history else None,
            recorders=self._recorders,
            report=lambda error: self.notices.append(Error(message=error.message, hint=error.hint)),
        )

    def _opening(self) -> list[ScreenSize | KnobsSet]:
        """How things stand, where there is an interface in which they can change."""
        return [self._screen, KnobsSet(changes=self.knobs.to_dict())] if self._screen else []

    def _leave(self) -> None:
        self.stop()
        self._chat.record(None)
        self._chat.leave()
        self._ending = self._run or self._ending
        self._chat, self._run = self._conversation(), None

    def _idle(self) -> None:
        if self.running:
            raise SessionError("An answer is being written.", "Stop it first, or wait.")

    def _checked(self, text: str) -> str:
        self._idle()
        if not text.strip():
            raise SessionError("The prompt is empty.", "Type a question or a task.")
        if len(text) > MAX_PROMPT:
            raise SessionError(f"The prompt has {len(text):,} characters; {MAX_PROMPT:,} are the most.")
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")

    def _last_prompt(self) -> int:
        for at in reversed(range(len(self._chat.turns))):
            if self._chat.turns[at].role == "user":
                return at
        raise SessionError("Nothing was asked yet.")

    def _path(self, chat: str) -> Path:
        if self._history is None:
            raise TraceError("Chats are not kept in this session.", "Start without --no-history.")
        return self._history / f"{Path(chat).name}{SUFFIX}"


def _first(turns: Sequence[Turn]) -> int:
    """Index of the first turn that is no system prompt."""
    return 1 if turns and turns[0].role == "system" else 0
