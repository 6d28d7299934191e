"""A trace opened to look things up: the same events as the reader's, in little memory, at any place."""

from pathlib import Path

import pytest

from dllm_tui.errors import TraceError
from dllm_tui.events import AnyEvent, Pieces, Turn, encode
from dllm_tui.trace.archive import Archive
from dllm_tui.trace.reader import read
from dllm_tui.trace.timeline import Timeline
from tests.bench import bench_trace
from tests.trace import sample


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "a.jsonl"
    path.write_bytes(b"".join(encode(event) + b"\n" for event in sample.session()))
    return path


def test_it_is_the_events_of_the_file(path: Path):
    with Archive(path) as archive:
        events = list(read(path))
        assert list(archive) == events
        assert [archive[at] for at in reversed(range(len(archive)))] == events[::-1]
        assert archive[3:9] == events[3:9]
        assert archive[-1] == events[-1]
        assert archive.timeline.moments == Timeline(events).moments
        with pytest.raises(IndexError):
            archive[len(events)]


def test_a_run_has_the_bytes_of_all_its_tokens(tmp_path: Path):
    """Also a later run, for which the file names only what is new."""
    path = tmp_path / "a.jsonl"
    events: list[AnyEvent] = [event for event in sample.session() if not isinstance(event, Pieces)]
    events.insert(4, Pieces(run=0, pieces={5: b"Hel", 6: b"lo", 7: b"!", 2: b"<end>"}, special=(2,)))
    path.write_bytes(b"".join(encode(event) + b"\n" for event in events[:20]))
    with Archive(path) as archive:
        run = archive.runs[1]
        assert run[0] == events[13]
        assert run[1] == Pieces(run=1, pieces={5: b"Hel", 6: b"lo", 7: b"!", 2: b"<end>"}, special=(2,))
        assert run[2:] == events[14:20]
        assert [run.count_at(count) for count in (0, 13, 14, 15, 99)] == [0, 0, 2, 3, len(run)]


def test_the_conversation_and_the_model_at_any_count(path: Path):
    with Archive(path) as archive:
        assert [turn.text for turn in archive.turns_at(len(archive))] == sample.TEXTS
        assert archive.turns_at(0) == []
        first = next(at for at, event in enumerate(archive) if isinstance(event, Turn))
        assert len(archive.turns_at(first + 1)) == 1
        models = [archive.header_at(count).model for count in (0, 1, len(archive))]
        assert [model and model.id for model in models] == ["smol", "smol", "other"]


def test_what_is_no_trace_is_refused(tmp_path: Path, path: Path):
    torn = tmp_path / "torn.jsonl"
    torn.write_bytes(path.read_bytes()[:-10])
    with Archive(torn) as archive:
        assert len(archive) == len(sample.session()) - 1
    for data in (b"", b"hello\n", path.read_bytes() + b"{}\n"):
        torn.write_bytes(data)
        with pytest.raises(TraceError, match=r"torn\.jsonl"):
            Archive(torn)
    for other in (tmp_path, tmp_path / "nowhere", Path("/dev/zero")):
        with pytest.raises(TraceError):
            Archive(other)


def test_a_file_that_changes_while_it_is_open_is_no_crash(path: Path):
    with Archive(path) as archive:
        path.write_bytes(b"x" * path.stat().st_size)
        with pytest.raises(TraceError, match="was changed while it was open"):
            archive[3]
        path.write_bytes(b"")
        with pytest.raises(TraceError, match="was changed while it was open"):
            archive[4]
    with pytest.raises(TraceError, match="can't be read"):
        archive[5]


def test_a_long_session_opens_in_little_memory():
    """A tenth of what ``python -m tests.bench.bench_trace`` measures: 10,000 steps, under a second."""
    took = bench_trace.measure(steps=1000)
    assert took["steps"] == 1000
    assert took["mebibytes"] < 8
