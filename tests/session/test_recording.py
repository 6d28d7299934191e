"""Recordings and demos: what goes on while one runs, and an answer after the fact, to give away."""

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from dllm_tui import demos
from dllm_tui.errors import DllmError, TraceError
from dllm_tui.events import AnyEvent, Error, Header, KnobsSet, ModelInfo, RunStart, ScreenSize, Turn
from dllm_tui.session import Session, SessionError
from dllm_tui.settings import Settings
from dllm_tui.trace.archive import Archive
from dllm_tui.trace.cut import Clip, without_folders
from dllm_tui.trace.player import real_time
from dllm_tui.trace.reader import read
from dllm_tui.trace.recording import Recording
from tests.session.fake import FakeHost
from tests.session.test_session import finished
from tests.trace.test_writer import disk_of


@pytest.fixture(params=[True, False], ids=["kept", "no history"])
def session(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Session]:
    session = Session(FakeHost(), Settings(), history=tmp_path / "chats" if request.param else None)
    session.resized(100, 30)
    yield session
    session.close()


def conversation(events: list[AnyEvent]) -> list[str]:
    turns: list[str] = []
    for event in events:
        if isinstance(event, Turn):
            turns = [*turns[: event.replaces], event.text.strip()]
    return turns


def test_a_recording_has_prompts_knob_turns_sizes_and_times(session: Session, tmp_path: Path):
    finished(session.send("before"))
    out = tmp_path / "demo.jsonl"
    session.record(out)
    session.turn(threshold=0.5)
    session.resized(80, 24)
    finished(session.send("one"))
    session.turn(steps=4)
    finished(session.send("two"))
    assert not out.exists()
    assert session.stop_recording() == out
    finished(session.send("after"))
    events = list(read(out))
    assert conversation(events) == ["one", "3 one", "two", "5 two"]
    assert [event.type for event in events[:6]] == ["header", "screen", "set", "set", "screen", "turn"]
    sizes = [(event.columns, event.rows) for event in events if isinstance(event, ScreenSize)]
    assert sizes == [(100, 30), (80, 24)]
    whole, *turned = [event.changes for event in events if isinstance(event, KnobsSet)]
    assert whole["threshold"] == 0.9
    assert turned == [{"threshold": 0.5}, {"steps": 4}]
    assert [event.run for event in events if isinstance(event, RunStart)] == [0, 1]
    times = [event.at for event in events if isinstance(event, Turn | ScreenSize | KnobsSet | RunStart)]
    assert times == sorted(times)  # type: ignore[type-var]
    assert times[0] == 0.0
    assert times[-1] < 60  # type: ignore[operator]


def test_a_recording_is_private_and_tells_nothing_of_the_machine(tmp_path: Path):
    host = FakeHost()
    model = ModelInfo(id="smol", family="smol", versions={"torch": "2.13.0"})
    recording = Recording(tmp_path / "a.jsonl", header=Header(created="2026-11-30T15:00:00Z", model=model))
    assert host
    recording.write(Turn(role="user", text="Hi", at=1.8e9))
    recording.write(RunStart(run=7, at=1.8e9))
    recording.write(Error(run=7, message="/home/ann/models/x/w.bin: can't be read", hint="See ~/a/b."))
    assert recording.close()
    text = (tmp_path / "a.jsonl").read_text()
    for left_out in ("2026", "torch", "1800000000", "ann", "models"):
        assert left_out not in text
    assert "w.bin: can't be read" in text
    assert stat.S_IMODE((tmp_path / "a.jsonl").stat().st_mode) == 0o600
    assert os.listdir(tmp_path) == ["a.jsonl"]  # noqa: PTH208


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("/home/ann/x.bin: gone", "x.bin: gone"),
        ("see https://example.org/a/b and 3/4 or and/or", "see https://example.org/a/b and 3/4 or and/or"),
        ("'/a/b c", "'b c"),
        ("~/models/m.gguf is broken", "m.gguf is broken"),
        ("/quit", "/quit"),
    ],
)
def test_files_are_named_without_their_folders(text: str, left: str):
    assert without_folders(text) == left


def test_a_recording_goes_on_in_a_new_chat(session: Session, tmp_path: Path):
    session.record(tmp_path / "a.jsonl")
    finished(session.send("one"))
    session.new()
    finished(session.send("two"))
    session.stop_recording()
    with Archive(tmp_path / "a.jsonl") as archive:
        assert [turn.text.strip() for turn in archive.turns_at(len(archive))] == ["two", "1 two"]
        assert sorted(archive.runs) == [0, 1]


def test_a_recording_goes_on_in_a_chat_that_is_taken_up(tmp_path: Path):
    session = Session(FakeHost(), Settings(), history=tmp_path / "chats")
    finished(session.send("one"))
    chat = session.id
    session.new()
    session.record(tmp_path / "a.jsonl")
    finished(session.send("two"))
    session.resume(chat)
    finished(session.send("three"))
    session.close()
    assert conversation(list(read(tmp_path / "a.jsonl"))) == ["three", "3 three"]


def test_regenerating_and_editing_reach_into_a_recording_as_far_as_it_goes(session: Session, tmp_path: Path):
    finished(session.send("one"))
    session.record(tmp_path / "a.jsonl")
    finished(session.regenerate())
    finished(session.edit_last("two"))
    session.stop_recording()
    assert conversation(list(read(tmp_path / "a.jsonl"))) == ["two", "1 two"]


def test_a_recording_of_nothing_leaves_nothing(session: Session, tmp_path: Path):
    session.record(tmp_path / "a.jsonl")
    session.turn(threshold=0.5)
    assert session.stop_recording() is None
    assert not list(tmp_path.glob("a.jsonl*"))
    assert session.stop_recording() is None


def test_only_one_at_a_time_and_nothing_is_replaced_unasked(session: Session, tmp_path: Path):
    out = tmp_path / "a.jsonl"
    out.write_text("mine")
    with pytest.raises(TraceError, match="exists already"):
        session.record(out)
    session.record(tmp_path / "b.jsonl")
    with pytest.raises(SessionError, match=r"b\.jsonl is being recorded"):
        session.record(tmp_path / "c.jsonl")
    session.stop_recording()
    session.record(out, replace=True)
    finished(session.send("one"))
    assert out.read_text() == "mine"
    session.stop_recording()
    assert conversation(list(read(out))) == ["one", "1 one"]


def test_what_has_come_to_be_meanwhile_is_not_replaced(session: Session, tmp_path: Path):
    out = tmp_path / "a.jsonl"
    session.record(out)
    finished(session.send("one"))
    out.write_text("mine")
    with pytest.raises(TraceError, match="exists already") as caught:
        session.stop_recording()
    assert out.read_text() == "mine"
    assert caught.value.hint == f"The recording is {out}.part."
    assert conversation(list(read(tmp_path / "a.jsonl.part"))) == ["one", "1 one"]


def test_leaving_ends_a_recording_well(tmp_path: Path):
    session = Session(FakeHost(), Settings())
    session.record(tmp_path / "a.jsonl")
    finished(session.send("one"))
    session.close()
    assert conversation(list(read(tmp_path / "a.jsonl"))) == ["one", "1 one"]


def test_a_full_disk_is_told_once_and_what_was_written_stays(tmp_path: Path):
    session = Session(FakeHost(), Settings())
    with disk_of(2000):
        recording = session.record(tmp_path / "a.jsonl")
        for _ in range(4):
            finished(session.send("one " * 30))
        assert "File too large" in recording.problem
        assert len(session.notices) == 1
        assert session.stop_recording() == tmp_path / "a.jsonl"
    assert conversation(list(read(tmp_path / "a.jsonl")))[0].startswith("one one")
    session.close()


def test_without_an_interface_nothing_is_noted(tmp_path: Path):
    """``ask`` writes what it always has."""
    session = Session(FakeHost(), Settings(), history=tmp_path)
    session.turn(threshold=0.4)
    finished(session.send("one"))
    session.close()
    (path,) = tmp_path.glob("*.jsonl")
    assert not [event for event in read(path) if isinstance(event, ScreenSize | KnobsSet)]


def test_a_kept_chat_tells_how_the_interface_stood(tmp_path: Path):
    session = Session(FakeHost(), Settings(), history=tmp_path)
    session.turn(threshold=0.4)
    session.resized(100, 30)
    session.resized(90, 30)
    finished(session.send("one"))
    session.turn(steps=4)
    session.turn(steps=4)
    session.resized(90, 30)
    session.resized(200, 50)
    session.close()
    (path,) = tmp_path.glob("*.jsonl")
    told = [event for event in read(path) if isinstance(event, ScreenSize | KnobsSet)]
    first, knobs, turned, last = told
    assert (first.columns, last.columns) == (90, 200)  # type: ignore[union-attr]
    assert knobs.changes["threshold"] == 0.4  # type: ignore[union-attr]
    assert turned.changes == {"steps": 4}  # type: ignore[union-attr]
    assert all(event.at for event in told)


# The last answer as a demo


def test_the_last_answer_is_saved_after_the_fact(session: Session, tmp_path: Path):
    finished(session.send("one"))
    session.turn(threshold=0.5)
    finished(session.send("two"))
    out = tmp_path / "demo.jsonl"
    with session.trace() as archive:
        demos.save_last_answer(archive, out)
    events = list(read(out))
    assert conversation(events) == ["two", "3 two"]
    assert [event.type for event in events[:5]] == ["header", "screen", "set", "turn", "run"]
    assert events[2].changes["threshold"] == 0.5  # type: ignore[union-attr]
    assert stat.S_IMODE(out.stat().st_mode) == 0o600
    assert not isinstance(events[0], Header) or events[0].created == ""


def test_the_present_chat_as_a_trace(session: Session):
    finished(session.send("one"))
    finished(session.send("two"))
    with session.trace() as archive:
        turns = archive.turns_at(len(archive))
        assert [turn.text.strip() for turn in turns] == ["one", "1 one", "two", "3 two"]
        assert real_time(archive.timeline).duration < 60
        assert [len(archive.runs[turn.run]) > 3 for turn in turns if turn.run is not None] == [True, True]


def test_nothing_was_asked(session: Session, tmp_path: Path):
    with pytest.raises(DllmError, match="Nothing was asked"), session.trace() as archive:
        demos.save_last_answer(archive, tmp_path / "a.jsonl")


def test_places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("DLLM_CHAT_DATA", str(tmp_path / "data"))
    folder = tmp_path / "data" / "demos"
    assert demos.place("", title="Why is the sky blue?") == folder / "why-is-the-sky-blue.jsonl"
    folder.mkdir(parents=True)
    (folder / "why-is-the-sky-blue.jsonl").touch()
    assert demos.place("", title="Why is the sky blue?") == folder / "why-is-the-sky-blue-2.jsonl"
    assert demos.place("", title="../../etc/passwd").name == "etc-passwd.jsonl"
    assert demos.place("", title="Привет, мир! 你好").name == "привет-мир-你好.jsonl"
    assert demos.place("", title="?!").name.startswith("recording-2")
    assert len(demos.place("", title="word " * 50).name) < 50
    assert demos.place(str(tmp_path), title="A") == tmp_path / "a.jsonl"
    assert demos.place(str(tmp_path / "my demo")) == tmp_path / "my demo.jsonl"
    assert demos.place(str(tmp_path / "x.trace")) == tmp_path / "x.trace"
    for asked, says in (("~nobody-here/x", "no such home"), (f"/{'x' * 300}/a", "can't be looked up")):
        with pytest.raises(TraceError, match=says):
            demos.place(asked)
    with pytest.raises(TraceError, match="there is no folder"):
        demos.place(str(tmp_path / "nowhere" / "a.jsonl"))


def test_runs_that_had_begun_before_are_left_out():
    clip = Clip(2)
    assert clip.take(Error(run=0, message="late"), 1.0) is None
    answer = clip.take(Turn(role="assistant", text="late", run=0), 1.0)
    assert isinstance(answer, Turn)
    assert (answer.run, answer.replaces, answer.at) == (None, None, 1.0)
