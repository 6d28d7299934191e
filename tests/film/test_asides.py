"""What happens beside the conversation: sizes and idle knob turns, in films, replays and parts of a trace."""

import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from dllm_tui import paths
from dllm_tui.errors import ExportError
from dllm_tui.events import AnyEvent, Header, KnobsSet, ScreenSize, Turn, encode
from dllm_tui.knobs import Knobs
from dllm_tui.trace import export
from dllm_tui.trace.archive import Archive
from dllm_tui.trace.cut import cut, last_answer
from dllm_tui.trace.player import real_time
from dllm_tui.tui.film import recorded_size
from tests.film import traces
from tests.film.test_commands import run
from tests.film.test_stage import theatre

KNOBS = Knobs(block_size=8, threshold=0.7).to_dict()
START = 1e9


def session() -> list[AnyEvent]:
    """As the app writes it: how things stand, a prompt; a knob turned and a resize; another prompt."""
    return [
        Header(model=traces.MODEL),
        ScreenSize(columns=120, rows=40, at=START),
        KnobsSet(changes=KNOBS, at=START),
        traces.ask("Why is the sky blue?", at=START + 2),
        *traces.answer(0, "Light from the sun is scattered.", at=START + 2),
        traces.said(0, "Light from the sun is scattered.", at=START + 4),
        KnobsSet(changes={"threshold": 0.35}, at=START + 10),
        ScreenSize(columns=80, rows=24, at=START + 12),
        traces.ask("And red?", at=START + 20),
        *traces.answer(1, "In the evening.", at=START + 20),
        traces.said(1, "In the evening.", at=START + 22),
    ]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return traces.write(tmp_path / "a.jsonl", session())


@pytest.fixture
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("CONFIG", "DATA"):
        monkeypatch.setenv(f"DLLM_CHAT_{name}", str(tmp_path / "places" / name.lower()))
    monkeypatch.setenv("COLUMNS", "200")


def at(events: list[AnyEvent], kind: type) -> list[int]:
    return [place for place, event in enumerate(events) if isinstance(event, kind)]


def test_time_passes_to_them(path: Path):
    with Archive(path) as archive:
        times = archive.timeline.times
        _, turned = at(session(), KnobsSet)
        first, later = at(session(), ScreenSize)
        prompts = [place for place in at(session(), Turn) if session()[place].role == "user"]  # type: ignore[union-attr]
        assert [times[place] for place in (first, prompts[0], turned, later, prompts[1])] == [
            0,
            2,
            10,
            12,
            20,
        ]
        assert archive.timeline.idle[later]


def test_a_later_sitting_begins_as_long_after_as_ever():
    """The pause that stands for the days between two sittings comes before what is told first."""
    events = [*session(), Header(model=traces.MODEL), ScreenSize(columns=80, rows=24, at=2 * START)]
    events += [KnobsSet(changes=KNOBS, at=2 * START), traces.ask("Still there?", at=2 * START)]
    from dllm_tui.trace.timeline import Timeline

    timeline = Timeline(events)
    assert timeline.times[-1] - timeline.times[len(session()) - 1] == pytest.approx(1.0)


async def test_a_replay_shows_a_knob_that_was_turned_in_between(path: Path):
    _, turned = at(session(), KnobsSet)

    def threshold(text: str) -> str:
        return re.findall(r"threshold .*?(\d\.\d\d)", text)[0]

    async with theatre(path, size=(120, 40)) as there:
        for count, value in ((3, "0.70"), (turned, "0.70"), (turned + 1, "0.35"), (turned, "0.70")):
            assert threshold((await there.frame(count)).text()) == value


def test_a_part_begins_as_things_stood(path: Path, tmp_path: Path):
    with Archive(path) as archive:
        part = list(cut(archive, real_time(archive.timeline), *last_answer(archive)))
    size, knobs, prompt = part[1:4]
    assert isinstance(size, ScreenSize)
    assert (size.columns, size.rows, size.at) == (80, 24, 0.0)
    assert isinstance(knobs, KnobsSet)
    assert (knobs.changes, knobs.at) == ({**KNOBS, "threshold": 0.35}, 0.0)
    assert isinstance(prompt, Turn)
    export.write_trace(part, tmp_path / "b.jsonl")
    with Archive(tmp_path / "b.jsonl") as again:
        assert recorded_size(again) == (80, 24)


def test_traces_of_before_tell_no_size():
    demo = Path(__file__).parents[2] / "docs" / "demo.jsonl"
    assert b'"schema":1' in demo.read_bytes()[:100]
    with Archive(demo) as archive, pytest.raises(ExportError, match="doesn't tell the size"):
        recorded_size(archive)


# On the command line


def test_the_size_that_was_recorded(places: None, path: Path, tmp_path: Path):
    out = tmp_path / "a.svg"
    assert run("export", path, out, "--size", "recorded", "--step", "1")[0] == 0
    assert out.read_text().count('id="row') in {0, 40}
    cast = tmp_path / "a.cast"
    assert run("export", path, cast, "--size", "recorded", "--last-answer", "--fps", "2")[0] == 0
    head = json.loads(cast.read_text().splitlines()[0])
    assert (head["width"], head["height"], head["title"]) == (80, 24, "And red?")


def test_it_is_told_in_json(places: None, path: Path, tmp_path: Path):
    out = tmp_path / "a.cast"
    code, stdout, stderr = run("export", path, out, "--size", "60x16", "--fps", "5", "--json")
    told = [json.loads(line) for line in stdout.splitlines()]
    assert (code, stderr) == (0, "")
    done = [line["done"] for line in told[:-1]]
    assert done == sorted(done)
    assert done[-1] == 1.0
    assert told[-1] == {"path": str(out), "bytes": out.stat().st_size, "seconds": pytest.approx(24, abs=2)}
    code, stdout, stderr = run("export", path, out, "--json")
    assert code == 1
    assert json.loads(stdout)["error"] == f"{out} exists already."
    assert stderr == ""


def test_a_trace_from_standard_input(places: None, path: Path, tmp_path: Path):
    out = tmp_path / "a.md"
    command = [sys.executable, "-m", "dllm_tui", "export", "-", str(out), "--last-answer"]
    done = subprocess.run(command, input=path.read_bytes(), capture_output=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert "And red?" in out.read_text()
    assert "Why is the sky blue?" not in out.read_text()
    done = subprocess.run(
        [*command, "--force"], input=b"GIF89a", capture_output=True, timeout=120, check=False
    )
    assert done.returncode == 1
    assert b"standard input: " in done.stderr
    assert b"Traceback" not in done.stderr


def test_a_demo_is_found_by_its_name(places: None, tmp_path: Path):
    paths.demos_dir().mkdir(parents=True)
    traces.write(paths.demos_dir() / "blue.jsonl", session())
    assert run("export", "blue", tmp_path / "a.txt")[0] == 0
    assert run("export", "red", tmp_path / "b.txt")[0] == 1


def test_details_stay_only_when_asked(places: None, tmp_path: Path):
    events = [Header(created="2026-11-30T15:00:00Z", model=traces.MODEL), *session()[1:]]
    path = traces.write(tmp_path / "a.jsonl", events)
    for name, options in (("less", []), ("all", ["--details"])):
        assert run("export", path, tmp_path / f"{name}.jsonl", *options)[0] == 0
        assert (b"2026-11-30" in (tmp_path / f"{name}.jsonl").read_bytes()) == bool(options)
    code, _, stderr = run("export", path, tmp_path / "a.gif", "--details")
    assert code == 2
    assert "--details" in stderr


def test_a_trace_cut_off_at_any_byte_is_an_archive_or_refused(path: Path):
    data = path.read_bytes()
    ends = [0, *(place + 1 for place, byte in enumerate(data) if byte == 10)]
    for end in range(0, len(data), 7):
        lines = sum(place <= end for place in ends) - 1
        try:
            count = len(Archive(Path("cut"), data[:end]))
        except Exception as error:
            assert lines == 0, error
            assert "cut off in its first line" in str(error)
        else:
            assert count == lines


@pytest.mark.parametrize(
    "line",
    [
        b'{"type":"screen","columns":0,"rows":24}',
        b'{"type":"screen","columns":80,"rows":99999}',
        b'{"type":"screen","columns":80}',
        b'{"type":"screen","columns":"wide","rows":24}',
        b'{"type":"set"}',
        b'{"type":"set","changes":[]}',
        b'{"type":"set","changes":{},"at":-1}',
    ],
)
def test_broken_ones_are_refused_by_line(line: bytes):
    with pytest.raises(Exception, match="line 2"):
        Archive(Path("x"), encode(Header()) + b"\n" + line + b"\n")


async def test_knobs_from_elsewhere_are_passed_over(tmp_path: Path):
    wild = [KnobsSet(changes={"warp": 9, "steps": "many", "threshold": 0.5}), traces.ask("Hi?")]
    path = traces.write(tmp_path / "a.jsonl", [Header(), *wild])
    async with theatre(path, size=(120, 40)) as there:
        assert "0.50" in (await there.frame(3)).text()


# A folder that may not be written


@pytest.fixture
def sealed() -> Iterator[Path]:
    """A folder that this process may look into and not write."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o555)
    former = os.geteuid()
    if former == 0:  # root may write everywhere
        os.seteuid(65534)
    yield folder
    os.seteuid(former)
    folder.rmdir()


@pytest.mark.parametrize("name", ["a.md", "a.jsonl"])
def test_a_folder_without_permission(sealed: Path, name: str):
    archive = Archive(Path("a"), b"".join(encode(event) + b"\n" for event in session()))
    with pytest.raises(ExportError, match="Permission denied"):
        if name == "a.md":
            export.write_text(archive, sealed / name)
        else:
            export.write_trace(list(archive), sealed / name)
    assert not list(sealed.iterdir())
