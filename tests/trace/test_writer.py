"""Writing traces: whole lines or none, private, one writer at a time."""

import os
import resource
import signal
import stat
import subprocess
import sys
import threading
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dllm_tui.errors import TraceError
from dllm_tui.events import AnyEvent, Done, Header, Pieces, RunStart, Turn, encode
from dllm_tui.trace.reader import read
from dllm_tui.trace.writer import Writer
from tests.trace import sample


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "chats" / "a.jsonl"


def write(path: Path, events: list[AnyEvent]) -> None:
    writer = Writer(path)
    for event in events:
        writer.write(event)
    writer.close()


@contextmanager
def disk_of(size: int) -> Generator[None]:
    """Let no file of this process grow beyond ``size`` bytes (the write fails as on a full disk)."""
    old = resource.getrlimit(resource.RLIMIT_FSIZE)
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, old[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, old)
        signal.signal(signal.SIGXFSZ, before)


def without_repeats(events: list[AnyEvent]) -> list[AnyEvent]:
    """What is kept of a session: the bytes of a token once under a header."""
    kept, known = list[AnyEvent](), False
    for event in events:
        known = known and not isinstance(event, Header)
        if not (isinstance(event, Pieces) and known):
            kept.append(event)
        known = known or isinstance(event, Pieces)
    return kept


def test_what_is_written_is_read(path: Path):
    write(path, sample.session())
    assert list(read(path)) == without_repeats(sample.session())


def test_files_and_folders_are_the_users_alone(path: Path):
    write(path, sample.session())
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


def test_every_event_is_there_at_once(path: Path):
    writer = Writer(path)
    for count, event in enumerate(without_repeats(sample.session()), start=1):
        writer.write(event)
        assert len(list(read(path))) == count


def test_only_new_pieces_are_written(path: Path):
    writer = Writer(path)
    writer.write(Header())
    writer.write(RunStart(run=0))
    writer.write(Pieces(run=0, pieces={1: b"a", 2: b"b"}, special=(2,)))
    writer.write(Pieces(run=0, pieces={2: b"b", 3: b"c"}, special=(2,)))
    pieces = [event for event in read(path) if isinstance(event, Pieces)]
    assert pieces[1] == Pieces(run=0, pieces={3: b"c"})


def test_a_file_that_is_there_is_not_overwritten(path: Path):
    write(path, sample.session())
    before = path.read_bytes()
    with pytest.raises(TraceError, match="exists already"):
        Writer(path)
    assert path.read_bytes() == before


def test_an_empty_file_may_be_written_into(path: Path):
    path.parent.mkdir()
    path.touch()
    write(path, sample.session())
    assert list(read(path))


def test_going_on_takes_a_torn_line_away(path: Path):
    write(path, sample.session())
    whole = path.read_bytes()
    path.write_bytes(whole + b'{"type":"turn","role":"user","te')
    writer = Writer(path, append=True)
    writer.write(Turn(role="user", text="again"))
    writer.close()
    assert path.read_bytes() == whole + encode(Turn(role="user", text="again")) + b"\n"


def test_a_very_long_torn_line_is_taken_away(path: Path):
    path.parent.mkdir()
    path.write_bytes(encode(Header()) + b"\n" + b"x" * 300_000)
    Writer(path, append=True).close()
    assert path.read_bytes() == encode(Header()) + b"\n"


def test_going_on_with_nothing_is_an_error(path: Path):
    with pytest.raises(TraceError, match="No such file"):
        Writer(path, append=True)


def test_one_writer_at_a_time(path: Path):
    writer = Writer(path)
    writer.write(Header())
    with pytest.raises(TraceError, match="open in another dllm-chat"):
        Writer(path, append=True)
    writer.close()
    Writer(path, append=True).close()


@pytest.mark.parametrize("name", ["/dev/null", "/dev/full", "."])
def test_only_files(name: str):
    with pytest.raises(TraceError):
        Writer(Path(name))


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_without_permission(tmp_path: Path):
    tmp_path.chmod(0o500)
    with pytest.raises(TraceError, match="Permission denied"):
        Writer(tmp_path / "a.jsonl")


@given(size=st.integers(0, 6000))
def test_a_full_disk_is_said_once_and_costs_only_what_comes_after(
    tmp_path_factory: pytest.TempPathFactory, size: int
):
    path = tmp_path_factory.mktemp("full") / "a.jsonl"
    events = without_repeats(sample.session()) * 2
    writer = Writer(path)
    problems = list[TraceError]()
    with disk_of(size):
        for event in events:
            try:
                writer.write(event)
            except TraceError as error:
                problems.append(error)
    writer.close()
    lines = [encode(event) + b"\n" for event in events]
    data = path.read_bytes()
    count = data.count(b"\n")
    assert data == b"".join(lines[:count])
    assert len(problems) == (count < len(lines))
    if problems:
        assert "can't be written: File too large" in problems[0].message
        assert problems[0].hint
        assert len(data) + len(lines[count]) > size


def test_a_kill_loses_at_most_the_line_being_written(path: Path):
    program = (
        "import sys\n"
        "from pathlib import Path\n"
        "from dllm_tui.events import Header, Turn\n"
        "from dllm_tui.trace.writer import Writer\n"
        f"writer = Writer(Path({str(path)!r}))\n"
        "writer.write(Header())\n"
        "for n in range(10**9):\n"
        "    writer.write(Turn(role='user', text=str(n)))\n"
        "    print(n, flush=True)\n"
    )
    process = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    assert process.stdout
    threading.Timer(1.0, process.kill).start()
    said = [line for line in process.stdout if line.endswith("\n")]
    process.wait()
    turns = [event for event in read(path) if isinstance(event, Turn)]
    assert len(said) > 1
    assert len(said) <= len(turns) <= len(said) + 1
    assert [turn.text for turn in turns] == [str(n) for n in range(len(turns))]


def test_events_after_closing_are_dropped(path: Path):
    writer = Writer(path)
    writer.write(Header())
    writer.close()
    writer.close()
    writer.write(Done(reason="stop"))
    assert list(read(path)) == [Header()]
