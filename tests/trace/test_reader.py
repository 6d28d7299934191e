"""Reading traces: whatever a file holds, there are checked events or a message with the line."""

import json
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dllm_tui.errors import TraceError
from dllm_tui.events import Header, RunStart, Step, Turn, encode
from dllm_tui.trace import MAX_LINE
from dllm_tui.trace.reader import read
from tests.trace import sample

LINES = [encode(event) + b"\n" for event in sample.session()]
STEP = next(index for index, line in enumerate(LINES) if b'"type":"step"' in line)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "a.jsonl"


def refused(path: Path, data: bytes) -> str:
    path.write_bytes(data)
    with pytest.raises(TraceError) as caught:
        list(read(path))
    return str(caught.value)


def changed(index: int, change: Callable[[dict[str, Any]], object]) -> bytes:
    """The sample with one line changed."""
    line = json.loads(LINES[index])
    change(line)
    return b"".join([*LINES[:index], json.dumps(line).encode() + b"\n", *LINES[index + 1 :]])


def test_cut_off_anywhere_it_reads_up_to_there(path: Path):
    data = b"".join(LINES[:8])
    for cut in range(len(data)):
        path.write_bytes(data[:cut])
        whole = data[:cut].count(b"\n")
        if whole:
            assert [encode(event) + b"\n" for event in read(path)] == LINES[:whole]
        else:
            with pytest.raises(TraceError, match="empty, or cut off"):
                list(read(path))


def test_it_streams(path: Path):
    path.write_bytes(b"".join(LINES[:5]) + b"nonsense\n")
    events = read(path)
    assert [encode(next(events)) + b"\n" for _ in range(5)] == LINES[:5]
    with pytest.raises(TraceError, match=r"a\.jsonl, line 6: "):
        next(events)


@pytest.mark.parametrize(
    "data",
    [
        b"\n",
        b"\x7fELF\x02\x01\x01\n",
        b'{"version": 2, "width": 80, "height": 24}\n[0.1, "o", "hi"]\n',
        b"[]\n",
        b"[" * 100_000 + b"\n",
        b'{"type":"header","schema":"1"}\n',
        b'{"type":"header","schema":0}\n',
        b'{"type":"header","schema":1,"model":7}\n',
        encode(Turn(role="user", text="no header")) + b"\n",
        b"\xff\xfe\n",
    ],
)
def test_files_of_others_are_refused(path: Path, data: bytes):
    assert "not a trace of dllm-chat" in refused(path, data)


def test_a_newer_schema_is_refused_whatever_else_it_holds(path: Path):
    data = b'{"type":"header","schema":3,"model":["changed"]}\n' + b'{"type":"unheard"}\n'
    assert "newer dllm-chat (schema 3, known here: 2)" in refused(path, data)
    inner = LINES[0] + b'{"type":"header","schema":3}\n'
    assert "line 2: a header of schema 3" in refused(path, inner)


@pytest.mark.parametrize(
    ("line", "says"),
    [
        (b"", "malformed|truncated"),
        (b"{", "truncated"),
        (b"{}", "missing required field `type`"),
        (b'{"type":"unheard"}', "Invalid value 'unheard'"),
        (b'{"type":"turn","role":"user"}', "missing required field `text`"),
        (b'{"type":"turn","role":"robot","text":""}', "Invalid enum value 'robot'"),
        (b'{"type":"turn","role":"user","text":"\xff"}', "UTF-8"),
        (b'{"type":"turn","role":"user","text":"","replaces":0}', "replaces turn 0 of 0"),
        (b'{"type":"turn","role":"user","text":"","replaces":-1}', "`int` >= 0"),
        (b'{"type":"turn","role":"assistant","text":"","run":3}', "run 3, which has not begun"),
        (b'{"type":"turn","role":"user","text":"","x":' + b"[" * 100_000, "nested too deeply"),
        (b'{"type":"run","knobs":{"x":' + b"[" * 100_000, "nested too deeply"),
        (b'{"type":"run","run":' + b"9" * 10_000 + b"}", "out of range"),
        (b'{"type":"run","run":99999999999999999999}', "`int` <|out of range"),
        (b'{"type":"commit","run":0,"block":0,"start":0,"end":3}', "run 0, which has not begun"),
        (b'{"type":"done","run":0,"reason":"stop"}', "run 0, which has not begun"),
        (b'{"type":"step","phase":"denoise","nfe":1,"length":1e400}', "out of range"),
        (b'{"type":"step","phase":"denoise","nfe":1,"length":99999999}', "<= 65536"),
        (b'{"type":"step","phase":"denoise","nfe":1,"length":3,"t":1e300}', "<= 31622400"),
        (b'{"type":"turn","role":"user","text":"","at":1e300}', "< 253402300800"),
        (b'{"type":"pieces","pieces":{"1":"?"}}', "base64"),
    ],
)
def test_broken_lines_are_named(path: Path, line: bytes, says: str):
    message = refused(path, encode(Header()) + b"\n" + line + b"\n")
    assert f"{path}, line 2: " in message
    assert any(part in message for part in says.split("|"))
    assert len(message) < 300


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda step: step["changes"][0].update(position=3), "position 3 is outside the canvas of 3"),
        (lambda step: step["guesses"][0].update(position=8), "position 8 is outside the canvas of 3"),
        (lambda step: step["changes"][0].update(position=-1), "`int` >= 0"),
        (lambda step: step["changes"][0].update(token_id=99), "token 99 has no text"),
        (lambda step: step["guesses"][0].update(token_id=99), "token 99 has no text"),
        (lambda step: step["guesses"][0].update(top=[[99, 0.5]]), "token 99 has no text"),
        (
            lambda step: step.update(decided=[{"position": 8, "token_id": 6, "confidence": 1}]),
            "position 8 is",
        ),
        (
            lambda step: step.update(decided=[{"position": 0, "token_id": 99, "confidence": 1}]),
            "token 99 has",
        ),
        (lambda step: step["changes"][0].update(confidence=7.0), "`float` <= 1"),
        (lambda step: step["changes"][0].update(confidence=None), "Expected `float`"),
        (lambda step: step.update(t=-1.0), "`float` >= 0"),
        (lambda step: step.update(t=60.0), "comes after step 2 at 60 s"),
        (lambda step: step.update(nfe=60), "comes after step 60"),
        (lambda step: step.update(run=1), "step of run 1, which has not begun"),
        (lambda step: step.update(phase="dream"), "Invalid enum value 'dream'"),
    ],
)
def test_broken_steps_are_named(path: Path, change: Callable[[dict[str, Any]], object], says: str):
    message = refused(path, changed(STEP, change))
    assert "line " in message
    assert says in message


def test_runs_begin_once_and_end_once(path: Path):
    run = [encode(event) + b"\n" for event in sample.run(0)]
    header = encode(Header()) + b"\n"
    assert "run 0 begins a second time" in refused(path, b"".join([header, *run, *run]))
    assert "step of run 0, which has ended" in refused(path, b"".join([header, *run, run[3]]))


def test_runs_may_overlap(path: Path):
    """Lanes of a race run beside each other."""
    pairs = zip(sample.run(0), sample.run(1), strict=True)
    lines = [encode(Header()), *(encode(event) for pair in pairs for event in pair)]
    path.write_bytes(b"".join(line + b"\n" for line in lines))
    assert len(list(read(path))) == len(lines)


def test_without_pieces_any_token_goes(path: Path):
    """A checkpoint without a tokenizer generates ids all the same."""
    lines = [line for line in LINES if b'"type":"pieces"' not in line]
    path.write_bytes(b"".join(lines))
    assert len(list(read(path))) == len(lines)


def test_unknown_fields_are_passed_over(path: Path):
    """What a later version adds to an event without a new schema."""
    path.write_bytes(changed(STEP, lambda step: step.update(mood="fine")))
    assert len(list(read(path))) == len(LINES)


def test_a_gigabyte_without_an_end_takes_little_memory(path: Path):
    with path.open("wb") as file:
        file.write(LINES[0])
        file.truncate(1 << 30)  # a sparse file: no disk is used
    tracemalloc.start()
    try:
        with pytest.raises(TraceError, match="line 2: longer than 8 MiB"):
            list(read(path))
        assert tracemalloc.get_traced_memory()[1] < 4 * MAX_LINE
    finally:
        tracemalloc.stop()


def test_not_files(tmp_path: Path):
    for path in (tmp_path, Path("/dev/zero"), tmp_path / "nowhere.jsonl"):
        with pytest.raises(TraceError):
            next(read(path))


@given(data=st.binary(max_size=400), at=st.integers(0, len(b"".join(LINES))), cut=st.integers(0, 400))
def test_no_file_breaks_the_reader(tmp_path_factory: pytest.TempPathFactory, data: bytes, at: int, cut: int):
    whole = b"".join(LINES)
    path = tmp_path_factory.mktemp("fuzz") / "a.jsonl"
    path.write_bytes(whole[:at] + data + whole[at + cut :])
    try:
        for event in read(path):
            if isinstance(event, Step):
                assert all(change.position < event.length for change in event.changes)
    except TraceError as error:
        assert str(path) in error.message


def test_a_long_session_opens_quickly_in_little_memory(path: Path):
    """10,000 steps, read as a stream."""
    steps = 10_000
    pieces, step = (encode(event) + b"\n" for event in sample.run(0)[2:4])
    with path.open("wb") as file:
        file.write(LINES[0] + encode(RunStart(run=0)) + b"\n" + pieces)
        file.writelines([step] * steps)
    tracemalloc.start()
    try:
        assert sum(isinstance(event, Step) for event in read(path)) == steps
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()
