"""Whatever a person does in whatever order, the session and the disk say what a plain model of it says."""

import tempfile
import threading
from pathlib import Path

import hypothesis.strategies as st
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from dllm_tui.ports import Run
from dllm_tui.session import Session
from dllm_tui.settings import Settings
from dllm_tui.trace import chats
from tests.session.fake import FakeHost

PROMPTS = st.text(min_size=1, max_size=20).filter(str.strip)


class Chatting(RuleBasedStateMachine):
    """Sends, answers again, edits, stops, changes chats; beside it plain lists of texts."""

    @initialize()
    def start(self) -> None:
        self.folder = tempfile.TemporaryDirectory()
        self.path = Path(self.folder.name)
        self.host = FakeHost()
        self.answers = 0
        self.host.answer = self.answer
        self.session = Session(self.host, Settings(system="s"), history=self.path)
        self.expected: list[str] = []
        self.kept: dict[str, list[str]] = {}

    def answer(self, _: object) -> str:
        self.answers += 1
        return f"answer {self.answers}"

    def teardown(self) -> None:
        if hasattr(self, "session"):
            self.session.close()
            self.folder.cleanup()

    def keep(self, run: Run, *before: str) -> None:
        assert run.wait(60)
        self.expected = [*before, f"answer {self.answers} "]
        self.kept[self.session.id] = self.expected

    @rule(text=PROMPTS)
    def send(self, text: str) -> None:
        before = self.expected[:-1] if len(self.expected) % 2 == 0 and self.expected else self.expected
        self.keep(self.session.send(text), *(before or ["s"]), text)

    @precondition(lambda self: self.expected)
    @rule()
    def regenerate(self) -> None:
        before = self.expected if len(self.expected) % 2 == 0 else self.expected[:-1]
        self.keep(self.session.regenerate(), *before)

    @precondition(lambda self: self.expected)
    @rule(text=PROMPTS)
    def edit_last(self, text: str) -> None:
        before = self.expected[:-1] if len(self.expected) % 2 == 0 else self.expected[:-2]
        self.keep(self.session.edit_last(text), *before, text)

    @rule(text=PROMPTS)
    def send_and_stop_at_once(self, text: str) -> None:
        before = self.expected[:-1] if len(self.expected) % 2 == 0 and self.expected else self.expected
        self.host.may_step = threading.Semaphore(0)
        run = self.session.send(text)
        self.session.stop()
        self.host.may_step.release(9)
        self.host.may_step = threading.Semaphore(10**9)
        assert run.wait(60)
        self.expected = [*(before or ["s"]), text]
        self.kept[self.session.id] = self.expected

    @rule()
    def new(self) -> None:
        self.session.new()
        self.expected = []

    @precondition(lambda self: self.kept)
    @rule(data=st.data())
    def resume(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(self.kept)))
        self.session.resume(name)
        self.expected = self.kept[name]

    @precondition(lambda self: self.kept)
    @rule(data=st.data())
    def delete(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(self.kept)))
        if name == self.session.id:
            self.expected = []
        self.session.delete(name)
        del self.kept[name]

    @invariant()
    def the_session_says_the_same(self) -> None:
        if hasattr(self, "session"):
            assert [turn.text for turn in self.session.turns] == self.expected
            answers = [turn.run for turn in self.session.turns if turn.role == "assistant"]
            versions = {turn.run for turn in self.session.versions}
            assert set(answers) | versions <= self.session.events.keys()
            assert self.session.notices == []

    @invariant()
    def the_disk_says_the_same(self) -> None:
        if hasattr(self, "session"):
            loaded = {path.stem: chats.load(path) for path in self.path.glob("*.jsonl")}
            assert {name: [turn.text for turn in past.turns] for name, past in loaded.items()} == self.kept
            listed = {chat.id: chat.turns for chat in self.session.chats()}
            assert listed == {name: len(turns) - 1 for name, turns in self.kept.items()}


TestChatting = Chatting.TestCase
TestChatting.settings = settings(max_examples=25, stateful_step_count=20, deadline=None)
