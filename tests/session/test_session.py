"""A conversation: what is sent, what is kept, and what happens when things go wrong."""

import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec
import pytest

from dllm_tui.errors import TraceError
from dllm_tui.events import AnyEvent, Error, Header, ModelInfo, Turn
from dllm_tui.knobs import KnobError, Knobs
from dllm_tui.ports import Message, Run
from dllm_tui.session import MAX_PROMPT, Session, SessionError
from dllm_tui.settings import Settings
from dllm_tui.trace import chats
from dllm_tui.trace.reader import read
from dllm_tui.trace.writer import Writer
from tests.session.fake import MODEL, FakeHost


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "chats"


@pytest.fixture
def host() -> FakeHost:
    return FakeHost()


@pytest.fixture
def session(host: FakeHost, folder: Path) -> Iterator[Session]:
    session = Session(host, Settings(), history=folder)
    yield session
    session.close()


def finished(run: Run) -> Run:
    assert run.wait(60)
    return run


def texts(turns: Sequence[Turn]) -> list[str]:
    return [turn.text.strip() for turn in turns]


def on_disk(folder: Path) -> list[list[str]]:
    """The conversations that are kept, each as its texts."""
    return sorted(texts(chats.load(path).turns) for path in folder.glob("*.jsonl"))


def test_prompts_and_answers_become_turns(session: Session, host: FakeHost, folder: Path):
    finished(session.send("one"))
    run = finished(session.send("two"))
    assert texts(session.turns) == ["one", "1 one", "two", "3 two"]
    assert [turn.role for turn in session.turns] == ["user", "assistant"] * 2
    assert [message.text.strip() for message in host.asked[1]] == ["one", "1 one", "two"]
    assert on_disk(folder) == [texts(session.turns)]
    assert session.run is run
    assert session.title == "one"
    assert session.model_name == "fake"
    assert not session.running


def test_the_answer_is_kept_before_anybody_sees_that_it_is_done(host: FakeHost, folder: Path):
    """Of an interface that dies the moment the last event comes, nothing is lost."""
    session = Session(host, Settings(), history=folder)
    run = session.send("one")
    while not run.ended:
        pass
    assert on_disk(folder) == [["one", "1 one"]]


def test_the_settings_system_prompt_comes_first_once(host: FakeHost):
    session = Session(host, Settings(system="Be brief."))
    finished(session.send("one"))
    finished(session.send("two"))
    assert [message.role for message in host.asked[1]] == ["system", "user", "assistant", "user"]
    finished(session.edit_last("three"))
    assert texts(session.turns) == ["Be brief.", "one", "2 one", "three", "4 three"]


def test_without_one_it_is_left_to_the_models_template(session: Session, host: FakeHost):
    finished(session.send("one"))
    assert host.asked[0] == [Message("user", "one")]


def test_answering_again_replaces_the_answer_when_the_new_one_is_there(
    session: Session, host: FakeHost, folder: Path
):
    finished(session.send("one"))
    host.answer = lambda _: "better"
    host.may_step = threading.Semaphore(0)
    run = session.regenerate()
    assert texts(session.turns) == ["one", "1 one"]
    host.may_step.release(9)
    finished(run)
    assert texts(session.turns) == ["one", "better"]
    assert on_disk(folder) == [["one", "better"]]
    assert host.asked[1] == host.asked[0]


def test_answering_again_in_vain_keeps_the_former_answer(session: Session, host: FakeHost):
    finished(session.send("one"))
    host.may_step = threading.Semaphore(0)
    run = session.regenerate()
    session.stop()
    host.may_step.release()
    finished(run)
    assert texts(session.turns) == ["one", "1 one"]


def test_the_last_prompt_can_be_edited(session: Session, host: FakeHost, folder: Path):
    finished(session.send("one"))
    finished(session.send("two"))
    finished(session.edit_last("three"))
    assert texts(session.turns) == ["one", "1 one", "three", "3 three"]
    assert on_disk(folder) == [texts(session.turns)]


def test_stopped_answers_are_kept_as_far_as_they_came(session: Session, host: FakeHost, folder: Path):
    host.answer = lambda _: "a b c d"
    host.may_step = threading.Semaphore(2)
    run = session.send("go")
    while len(run.events) < 6:
        pass
    assert session.running
    session.stop()
    host.may_step.release()
    finished(run)
    assert texts(session.turns) == ["go", "a b"]
    assert on_disk(folder) == [["go", "a b"]]


def test_a_prompt_without_an_answer_gives_way_to_the_next(session: Session, host: FakeHost, folder: Path):
    def fail(_: Sequence[Message]) -> str:
        raise MemoryError("no room")

    host.answer, answer = fail, host.answer
    run = finished(session.send("too long"))
    assert isinstance(run.events[0], Error)
    assert texts(session.turns) == ["too long"]
    host.answer = answer
    finished(session.send("short"))
    assert texts(session.turns) == ["short", "1 short"]
    assert on_disk(folder) == [["short", "1 short"]]


@pytest.mark.parametrize("text", ["", "  \n\t ", "\u200b".strip("\u200b")])
def test_empty_prompts_are_refused(session: Session, folder: Path, text: str):
    with pytest.raises(SessionError, match="empty"):
        session.send(text)
    finished(session.send("one"))
    with pytest.raises(SessionError, match="empty"):
        session.edit_last(text)
    assert on_disk(folder) == [["one", "1 one"]]


def test_other_things_that_make_no_sense_now(session: Session, host: FakeHost):
    with pytest.raises(SessionError, match="Nothing was asked"):
        session.regenerate()
    with pytest.raises(SessionError, match="Nothing was asked"):
        session.edit_last("one")
    with pytest.raises(SessionError, match="1,000,001 characters"):
        session.send("x" * (MAX_PROMPT + 1))
    host.may_step = threading.Semaphore(0)
    run = session.send("one")
    for act in (session.regenerate, lambda: session.send("two"), lambda: session.edit_last("two")):
        with pytest.raises(SessionError, match="being written"):
            act()
    host.may_step.release(9)
    finished(run)
    assert texts(session.turns) == ["one", "1 one"]


@pytest.mark.parametrize(
    "text",
    ["\x1b[31mred\x07\x00", "[bold]not markup[/]", "שלום مرحبا", "👩‍👩‍👧 😀 漢字", "a\r\nb\tc", "\ud800"],
)
def test_any_text_is_sent_and_kept_as_it_is(session: Session, host: FakeHost, folder: Path, text: str):
    host.answer = lambda _: "fine"
    finished(session.send(text))
    expected = text.replace("\ud800", "\ufffd")
    assert host.asked[0][0].text == expected
    (path,) = folder.glob("*.jsonl")
    assert chats.load(path).turns[0].text == expected


def test_new_chats_have_their_own_file(session: Session, folder: Path):
    finished(session.send("one"))
    first = session.id
    session.new()
    assert (session.turns, session.id, session.title, session.run) == ((), "", "", None)
    finished(session.send("two"))
    assert first != session.id
    assert {chat.title for chat in session.chats()} == {"one", "two"}


def test_an_answer_of_a_chat_that_was_left_is_kept_there(session: Session, host: FakeHost, folder: Path):
    host.answer = lambda _: "a b c"
    host.may_step = threading.Semaphore(2)
    run = session.send("one")
    while len(run.events) < 6:
        pass
    session.new()
    second = session.send("two")
    host.may_step.release(99)
    finished(second)
    assert run.ended
    assert on_disk(folder) == [["one", "a b"], ["two", "a b c"]]


def test_nothing_is_written_before_something_is_said(session: Session, folder: Path):
    session.new()
    session.close()
    assert not folder.exists()


def test_without_history_nothing_is_written(host: FakeHost, tmp_path: Path):
    session = Session(host, Settings())
    finished(session.send("one"))
    assert not session.keeps
    assert session.chats() == []
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(TraceError, match="not kept"):
        session.resume("x")


def test_a_kept_chat_goes_on(session: Session, host: FakeHost, folder: Path):
    finished(session.send("one"))
    finished(session.send("two"))
    name = session.id
    session.new()
    session.resume(name)
    assert texts(session.turns) == ["one", "1 one", "two", "3 two"]
    assert session.title == "one"
    assert session.events.keys() == {0, 1}
    finished(session.send("three"))
    assert texts(session.turns)[-2:] == ["three", "5 three"]
    assert on_disk(folder) == [texts(session.turns)]


def test_runs_that_were_read_back_know_the_bytes_of_all_their_tokens(session: Session):
    """Though the file has them once, each run can be shown alone."""
    finished(session.send("one"))
    session.new()
    finished(session.send("again"))
    run = finished(session.regenerate())
    name, done = session.id, run.done
    session.new()
    session.resume(name)
    shown = Run(run.knobs)
    for event in session.events[1]:
        shown.add(event)
    assert done
    assert shown.text(done.token_ids) == run.text(done.token_ids) == "1 again "


def test_only_one_dllm_chat_goes_on_with_a_chat(session: Session, host: FakeHost, folder: Path):
    finished(session.send("one"))
    other = Session(host, Settings(), history=folder)
    with pytest.raises(TraceError, match="open in another"):
        other.resume(session.id)
    finished(other.send("two"))
    assert texts(other.turns) == ["two", "1 two"]
    other.close()


def test_the_present_chat_can_be_resumed_and_deleted(session: Session, folder: Path):
    finished(session.send("one"))
    session.resume(session.id)
    assert texts(session.turns) == ["one", "1 one"]
    session.delete(session.id)
    assert session.turns == ()
    assert on_disk(folder) == []
    with pytest.raises(TraceError):
        session.delete("nowhere")
    with pytest.raises(TraceError):
        session.resume("../chats/nowhere")


def test_a_chat_is_free_again_soon_after_it_was_left(session: Session, host: FakeHost):
    host.may_step = threading.Semaphore(0)
    session.send("one")
    name = session.id
    session.new()
    threading.Timer(0.1, lambda: host.may_step.release(9)).start()
    session.resume(name)
    assert texts(session.turns) == ["one"]


def test_an_answer_that_a_crash_cut_off_is_found_again(
    session: Session, host: FakeHost, folder: Path, tmp_path: Path
):
    host.answer = lambda _: "a b c d"
    host.may_step = threading.Semaphore(2)
    run = session.send("go")
    while len(run.events) < 6:
        pass
    (path,) = folder.glob("*.jsonl")
    torn = path.read_bytes() + b'{"type":"st'
    host.may_step.release(99)
    finished(run)
    session.new()
    (folder / "crashed.jsonl").write_bytes(torn)
    session.resume("crashed")
    assert texts(session.turns) == ["go", "a b"]
    finished(session.send("more"))
    session.new()
    session.resume("crashed")
    assert texts(session.turns) == ["go", "a b", "more", "a b c d"]


def test_the_oldest_turns_are_left_out_when_the_context_is_full(folder: Path):
    model = ModelInfo(id="small", family="fake", context_length=150)
    host = FakeHost(lambda messages: "w " * 19 + str(len(messages)), model=model)
    session = Session(host, Settings(system="s"), history=folder)
    for number in range(8):
        finished(session.send(f"{number} " + "p " * 10))
    sent = [[message.text.split()[0] for message in messages] for messages in host.asked]
    assert sent[0] == ["s", "0"]
    assert sent[2] == ["s", "0", "w", "1", "w", "2"]
    assert all(messages[0] == "s" for messages in sent)
    assert (sent[3][1], sent[4][1]) == ("0", "2")
    assert all(sum(len(message.text.split()) for message in messages) <= 113 for messages in host.asked)
    assert len(session.turns) == 17
    assert 1 <= len(session.notices) <= 5
    assert "context of 150 tokens: its oldest 4 messages are no longer sent" in session.notices[0].message


@pytest.mark.parametrize("system", ["", "s"])
def test_a_chat_that_is_resumed_is_as_long_as_its_runs_counted(folder: Path, system: str):
    host = FakeHost(
        lambda messages: "word " * 40, model=ModelInfo(id="small", family="fake", context_length=200)
    )
    session = Session(host, Settings(system=system), history=folder)
    finished(session.send("first " + "word " * 40))
    chat = session.id
    session.new()
    session.resume(chat)
    finished(session.send("second"))
    assert [message.text.split()[0] for message in host.asked[1]][-3:] == ["first", "word", "second"]
    assert session.notices == []


def test_of_a_chat_that_has_outgrown_the_context_nothing_is_taken_for_counted(folder: Path):
    model = ModelInfo(id="small", family="fake", context_length=150)
    host = FakeHost(lambda messages: "word " * 20, model=model)
    session = Session(host, Settings(), history=folder)
    for number in range(8):
        finished(session.send(f"{number} " + "word " * 10))
    chat = session.id
    session.new()
    session.resume(chat)
    finished(session.send("more"))
    assert sum(len(message.text.split()) for message in host.asked[-1]) <= 113


def test_one_long_prompt_is_the_models_to_refuse():
    host = FakeHost(model=ModelInfo(id="small", family="fake", context_length=100))
    session = Session(host, Settings())
    finished(session.send("word " * 500))
    assert len(host.asked[0]) == 1
    assert session.notices == []


def test_knobs_come_from_settings_over_the_models_own():
    host = FakeHost(model=None)
    session = Session(host, Settings().with_knobs({"preset": "draft", "seed": 3}))
    assert session.knobs == Knobs(steps=4, seed=3)
    session.turn(threshold=0.9 - 0.4)
    host.ready(MODEL, Knobs(policy="streaming", steps=16, threshold=0.8))
    assert session.knobs == Knobs(policy="streaming", steps=4, seed=3, threshold=0.5)
    host.ready(None, Knobs())
    assert session.knobs.policy == "streaming"
    host.ready(MODEL, Knobs(block_size=32))
    assert session.knobs == Knobs(block_size=32, steps=4, seed=3, threshold=0.5)
    with pytest.raises(KnobError):
        session.turn(threshold=2)
    assert session.knobs.threshold == 0.5


def test_knobs_reach_a_run_that_goes_on(session: Session, host: FakeHost):
    host.may_step = threading.Semaphore(0)
    run = session.send("one")
    session.turn(steps=3)
    assert run.knobs.now.steps == 3
    host.may_step.release(9)
    finished(run)


def test_the_trace_says_which_model_answers(folder: Path):
    """Also when the first prompt was sent before it was ready, and when another is chosen."""
    host = FakeHost(model=None)
    session = Session(host, Settings(), history=folder)
    host.may_step = threading.Semaphore(0)
    host.answer = lambda _: (host.ready(MODEL, Knobs()), "hello")[1]
    run = session.send("one")
    host.may_step.release(99)
    finished(run)
    host.answer = lambda _: "there"
    host.ready(ModelInfo(id="second", family="fake"), Knobs())
    finished(session.send("two"))
    (path,) = folder.glob("*.jsonl")
    headers = [event.model and event.model.id for event in read(path) if isinstance(event, Header)]
    assert headers == [None, "fake", "second"]
    assert chats.listing(folder)[0].model == "second"


class FullDisk:
    """A recorder that fails once, like a full disk."""

    def __init__(self) -> None:
        self.left = 4
        self.closed = False

    def write(self, event: AnyEvent) -> None:
        self.left -= 1
        if self.left == 0:
            raise TraceError("disk full", "Make room.")

    def close(self) -> None:
        self.closed = True


def test_a_full_disk_is_told_and_the_chat_goes_on(host: FakeHost, folder: Path):
    disk = FullDisk()
    session = Session(host, Settings(), history=folder, recorders=[disk])
    finished(session.send("one"))
    finished(session.send("two"))
    assert session.notices == [Error(message="disk full", hint="Make room.")]
    assert len(session.turns) == 4
    assert on_disk(folder) == [texts(session.turns)]
    session.close()
    assert disk.closed


def test_a_history_that_cant_be_written_is_told_and_the_chat_goes_on(host: FakeHost, tmp_path: Path):
    (tmp_path / "file").touch()
    session = Session(host, Settings(), history=tmp_path / "file" / "chats")
    finished(session.send("one"))
    finished(session.send("two"))
    assert len(session.notices) == 1
    assert "can't be written" in session.notices[0].message
    assert len(session.turns) == 4
    assert session.id == ""


def test_recorders_get_everything(host: FakeHost, tmp_path: Path):
    writer = Writer(tmp_path / "a.jsonl")
    session = Session(host, Settings(), recorders=[writer])
    finished(session.send("one"))
    session.close()
    events = list(read(tmp_path / "a.jsonl"))
    assert isinstance(events[0], Header)
    assert [turn.text.strip() for turn in events if isinstance(turn, Turn)] == ["one", "1 one"]


def test_a_policy_brings_the_steps_that_suit_it_and_takes_them_along(session: Session):
    usual = session.knobs.steps
    assert session.turn(policy="verify").steps == 1
    assert session.turn(policy="streaming").steps == usual
    assert session.turn(policy="verify", steps=4).steps == 4
    assert session.turn(policy="streaming").steps == 4


def test_a_policy_from_the_settings_is_suited_too():
    assert Settings(knobs={"policy": "verify"}).turned(Knobs()).steps == 1
    assert Settings(knobs={"policy": "verify", "steps": 3}).turned(Knobs()).steps == 3


def test_a_known_models_own_knobs_hold_before_it_is_ready():
    own = Knobs(policy="streaming", steps=8)
    host = FakeHost(model=None)
    session = Session(host, Settings(knobs={"threshold": 0.5}), defaults=own)
    assert session.knobs == own.replace(threshold=0.5)
    session.turn(steps=4)
    host.ready(MODEL, own)
    assert session.knobs == own.replace(threshold=0.5, steps=4)


def test_knobs_and_policies_that_the_model_lacks_are_named():
    model = msgspec.structs.replace(
        MODEL, policies=("confidence", "verify"), fixed_knobs={"cfg_scale": "It has no guidance."}
    )
    session = Session(
        FakeHost(model=model), Settings(knobs={"cfg_scale": 3.0, "policy": "origin", "steps": 4})
    )
    assert session.passed_over == [
        "fake doesn't have the knob cfg_scale: It has no guidance.",
        "fake isn't made for the policy origin; it has confidence, verify.",
    ]
    assert Session(FakeHost(), Settings(knobs={"cfg_scale": 3.0, "policy": "origin"})).passed_over == []
    assert Session(FakeHost(model=None), Settings(knobs={"cfg_scale": 3.0})).passed_over == []
