"""Branches of an answer: both are kept, in the session and on disk, and can be changed between."""

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from dllm_tui.branching import BranchError
from dllm_tui.engine.host import EngineHost
from dllm_tui.events import Done, ModelInfo, RunStart, Step
from dllm_tui.ports import Run
from dllm_tui.replay import ReplaySession
from dllm_tui.session import Session, SessionError
from dllm_tui.settings import Settings
from dllm_tui.trace.archive import Archive
from dllm_tui.trace.cut import cut
from dllm_tui.trace.player import real_time
from tests.engine.test_host import engine
from tests.session.fake import FakeHost

KNOBS = {"max_new_tokens": 16, "block_size": 4, "steps": 4}


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Session]:
    """Over a real engine, whose network is tiny and random."""
    host = EngineHost(loader=lambda name, progress: engine(name=name), alternatives=3)
    host.load("tiny")
    session = Session(host, Settings(knobs=KNOBS), history=tmp_path)
    yield session
    session.close()
    host.close()


def finished(run: Run) -> Run:
    assert run.wait(20)
    return run


def answers(session: Session) -> list[int | None]:
    return [turn.run for turn in session.turns if turn.role == "assistant"]


def test_a_branch_takes_the_answers_place_and_both_are_kept(session: Session, tmp_path: Path):
    first = finished(session.send("5 6 7"))
    steps = [at for at, event in enumerate(first.events, start=1) if isinstance(event, Step)]
    second = finished(session.go_on(first.events, len(first.events), {5: 20, 6: None}))
    start, done = second.events[0], second.done
    assert isinstance(start, RunStart)
    assert (start.run, start.parent) == (1, 0)
    assert done is not None
    assert done.token_ids[5] == 20
    assert answers(session) == [1]
    assert [turn.run for turn in session.versions] == [0, 1]
    assert session.events.keys() == {0, 1}
    third = finished(session.go_on(second.events, len(second.events), {2: 21}))
    assert third.done is not None
    assert (third.done.token_ids[2], third.done.token_ids[5]) == (21, 20)
    session.choose(0)
    assert answers(session) == [0]
    assert session.turns[-1].text == first.text(first.done.token_ids)
    again = finished(session.go_on(first.events, steps[2]))
    assert again.done.token_ids == first.done.token_ids, "nothing was changed: the same answer"
    session.choose(2)
    kept = session.id
    session.new()
    session.resume(kept)
    assert answers(session) == [2]
    assert [turn.run for turn in session.versions] == [0, 1, 2, 3]
    assert [len(session.events[run]) > 3 for run in range(4)] == [True] * 4
    loaded = session.events[1]
    branch = finished(session.go_on(loaded, len(loaded), {0: 22}))
    assert branch.done.token_ids[0] == 22


def test_a_new_prompt_ends_the_versions(session: Session):
    finished(session.send("5 6 7"))
    finished(session.regenerate())
    assert len(session.versions) == 2
    run = session.run
    finished(session.send("8"))
    assert [turn.run for turn in session.versions] == [2]
    with pytest.raises(SessionError, match="last answer"):
        session.go_on(run.events, 5)
    with pytest.raises(SessionError, match="no such version"):
        session.choose(0)


def test_why_an_answer_can_not_be_gone_on_from(session: Session):
    run = finished(session.send("5 6 7"))
    with pytest.raises(BranchError, match="weren't kept"):
        session.go_on((), 0)
    assert session.unbranched(0) == ""
    session._chat.models[0] = msgspec.structs.replace(session._chat.models[0], id="other")
    with pytest.raises(SessionError, match="is by other"):
        session.go_on(run.events, 5)


def test_families_that_keep_no_cell_say_why():
    host = FakeHost(model=ModelInfo(id="gemma", family="gemma", unkept="every cell may change"))
    session = Session(host, Settings())
    run = finished(session.send("one two"))
    with pytest.raises(SessionError, match="Every cell may change"):
        session.go_on(run.events, 4)


def test_words_are_read_by_the_models_tokenizer(session: Session):
    finished(session.send("5 6 7"))
    assert [token for token, _ in session.host.pieces("8 9")] == [8, 9]


def test_a_replay_has_the_versions_and_a_part_no_parent_that_is_not_in_it(session: Session, tmp_path: Path):
    first = finished(session.send("5 6 7"))
    finished(session.go_on(first.events, len(first.events), {5: 20}))
    session.choose(0)
    session.close()
    [path] = tmp_path.glob("*.jsonl")
    with Archive(path) as archive:
        replay = ReplaySession(archive)
        replay.put(len(archive))
        assert [turn.run for turn in replay.versions] == [0, 1]
        assert replay.turns[-1].run == 0
        assert replay.unbranched(0)
        with pytest.raises(SessionError):
            replay.choose(1)
        starts = [event for event in archive if isinstance(event, RunStart)]
        assert [start.parent for start in starts] == [None, 0]
        second = next(at for at, event in enumerate(archive) if event is starts[1] or event == starts[1])
        part = list(cut(archive, real_time(archive.timeline), second))
        assert [event.parent for event in part if isinstance(event, RunStart)] == [None]
        assert sum(isinstance(event, Done) for event in part) == 1
