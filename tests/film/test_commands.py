"""``dllm-chat export`` and ``dllm-chat replay``: what people get, and what they are told."""

import io
import json
import os
import re
import sys
from pathlib import Path

import pexpect
import pyte
import pytest
from typer.testing import CliRunner

from dllm_tui import paths
from dllm_tui.cli.commands import app
from dllm_tui.events import Header, encode
from dllm_tui.trace.export import FORMATS
from tests.film import traces


@pytest.fixture(autouse=True)
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("CONFIG", "DATA"):
        monkeypatch.setenv(f"DLLM_CHAT_{name}", str(tmp_path / "places" / name.lower()))
    monkeypatch.setenv("COLUMNS", "200")


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    return traces.write(tmp_path / "a.jsonl", traces.small())


def run(*arguments: object) -> tuple[int, str, str]:
    """A command in this process: code, stdout, stderr."""
    result = CliRunner().invoke(app, [str(argument) for argument in arguments], prog_name="dllm-chat")
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.exit_code, result.stdout, result.stderr


@pytest.mark.parametrize("name", [name for name in FORMATS if name != "mp4"])
def test_every_format(trace: Path, tmp_path: Path, name: str):
    out = tmp_path / f"out.{name}"
    code, stdout, stderr = run("export", trace, out, "--size", "60x16")
    assert (code, stdout) == (0, "")
    assert out.stat().st_size > 70
    assert f"{out}: " in stderr
    assert "KiB" in stderr


def test_help_teaches_and_names_every_format():
    code, out, _ = run("export", "--help")
    assert code == 0
    assert all(f".{name}" in out for name in FORMATS)
    assert "dllm-chat export last demo.gif" in out
    code, out, _ = run("replay", "--help")
    assert code == 0
    assert "--speed 0.25" in out


def test_what_is_there_is_replaced_only_by_force(trace: Path, tmp_path: Path):
    out = tmp_path / "out.md"
    out.write_text("mine")
    code, _, stderr = run("export", trace, out)
    assert code == 1
    assert "exists already" in stderr
    assert "--force" in stderr
    assert out.read_text() == "mine"
    assert run("export", trace, out, "--force")[0] == 0
    assert "Why is the sky blue?" in out.read_text()


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--size", "big"], "100x30"),
        (["--size", "10x10"], "between 20x5 and 400x120"),
        (["--speed", "fast"], "0.01 to 100, or step"),
        (["--speed", "0"], "0.01 to 100, or step"),
        (["--speed", "nan"], "0.01 to 100, or step"),
        (["--from", "soon"], "12.5 or 1:05"),
        (["--from", "99"], "nothing between"),
        (["--from", "2", "--to", "1"], "nothing between"),
        (["--fps", "0"], "greater than or equal to 1"),
        (["--fps", "60"], "50 frames a second at most"),
        (["--step", "3"], ".svg and .png do"),
        (["--theme", "mine"], "There is no theme 'mine'"),
        (["--idle", "-1"], "greater than or equal to 0"),
        (["--cast-version", "4"], "less than or equal to 3"),
    ],
)
def test_wrong_options_are_explained(trace: Path, tmp_path: Path, options: list[str], says: str):
    code, _, stderr = run("export", trace, tmp_path / "out.gif", *options)
    assert code in {1, 2}
    assert says in " ".join(re.sub(r"[│╭╮╰╯─]", " ", stderr).split())
    assert not (tmp_path / "out.gif").exists()


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"", "empty, or cut off in its first line"),
        (b"GIF89a\n", "not a trace of dllm-chat"),
        (b'{"version": 2, "width": 80, "height": 24}\n[0.1, "o", "hi"]\n', "not a trace of dllm-chat"),
        (b'{"type":"header","schema":9}\n', "written by a newer dllm-chat"),
        (encode(Header()) + b"\nnonsense\n", "line 2"),
        (encode(Header()) + b'\n{"type":"run"}\n{"type":"step","phase":"denoise","nfe":1,"length":1,'
         b'"changes":[{"position":1,"token_id":0}]}\n', "position 1 is outside the canvas of 1 cells"),
        (encode(Header()) + b'\n{"type":"run"}\n{"type":"pieces","pieces":{"1":"YQ=="}}\n{"type":"step",'
         b'"phase":"denoise","nfe":1,"length":1,"changes":[{"position":0,"token_id":7}]}\n', "has no text"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("out", ["out.gif", "out.txt"])
def test_what_is_no_trace_is_refused(tmp_path: Path, data: bytes, says: str, out: str):
    path = tmp_path / "a.jsonl"
    path.write_bytes(data)
    code, _, stderr = run("export", path, tmp_path / out)
    assert code == 1
    assert says in stderr
    assert "Traceback" not in stderr
    assert not (tmp_path / out).exists()


def test_a_trace_cut_off_at_any_byte_is_exported_or_refused(trace: Path, tmp_path: Path):
    data = trace.read_bytes()
    whole = data.index(b"\n") + 1
    turn = data.index(b"\n", whole) + 1
    for cut in (*range(0, len(data), 41), whole - 1, whole, turn - 1, turn):
        trace.write_bytes(data[:cut])
        code, _, stderr = run("export", trace, tmp_path / "out.txt", "--force")
        assert code == (0 if cut >= turn else 1), cut
        assert ("KiB" in stderr) == (cut >= turn)


@pytest.mark.parametrize("name", ["nowhere.jsonl", "."])
def test_files_that_are_none(tmp_path: Path, name: str):
    code, _, stderr = run("export", tmp_path / name, tmp_path / "out.gif")
    assert code == 1
    assert "there is no such file" in stderr or "is not a file" in stderr


def test_last_is_the_chat_used_last(tmp_path: Path):
    code, _, stderr = run("export", "last", tmp_path / "out.md")
    assert code == 1
    assert "There is no chat yet" in stderr
    folder = paths.traces_dir()
    folder.mkdir(parents=True)
    for age, text in enumerate(("new", "old")):
        path = traces.write(folder / f"{text}.jsonl", [Header(), traces.ask(text)])
        os.utime(path, (1000 - age, 1000 - age))
    assert run("export", "last", tmp_path / "out.md")[0] == 0
    assert "# new" in (tmp_path / "out.md").read_text()


def test_idle_time_is_never_left_out_in_silence(tmp_path: Path):
    path = traces.write(tmp_path / "a.jsonl", traces.session())
    some = ("--from", "1", "--size", "60x16", "--fps", "1", "--force")
    _, _, stderr = run("export", path, tmp_path / "out.cast", *some)
    assert re.search(r"in \d\d s of the session nothing happens; --idle 2 leaves them out", stderr)
    _, _, stderr = run("export", path, tmp_path / "out.cast", *some, "--idle", "1.5")
    assert re.search(r"left out \d\d s in which nothing happened, in 1 gaps", stderr)


def test_exporting_is_told_on_stderr_alone(trace: Path, tmp_path: Path):
    assert run("export", trace, tmp_path / "out.cast", "--size", "60x16", "--cast-version", "3")[1] == ""
    assert json.loads((tmp_path / "out.cast").read_text().splitlines()[0])["version"] == 3


DOCS = Path(__file__).parents[2] / "docs"


def test_our_own_pictures_come_from_the_documented_command(tmp_path: Path):
    """And one of 20 s at 100x30 has far less than 2 MB."""
    page = (DOCS / "films.md").read_text(encoding="utf-8")
    (command,) = re.findall(r"^    dllm-chat (export docs/.*)$", page, re.MULTILINE)
    _, trace, out, *options = command.split()
    picture = tmp_path / Path(out).name
    assert run("export", DOCS.parent / trace, picture, *options)[0] == 0
    assert 10_000 < picture.stat().st_size < 1_000_000


# In a terminal


def test_a_replay_needs_a_terminal(trace: Path):
    code, _, stderr = run("replay", trace)
    assert code == 1
    assert "needs a terminal" in stderr
    assert "export" in stderr


def test_a_replay_in_a_terminal(trace: Path):
    screen = pyte.Screen(100, 30)
    stream = pyte.ByteStream(screen)
    child = pexpect.spawn(
        sys.executable,
        ["-m", "dllm_tui", "replay", str(trace), "--speed", "10", "--from", "0.1"],
        dimensions=(30, 100),
        timeout=60,
        env={**os.environ, "TERM": "xterm-256color", "LANG": "C.UTF-8"},
    )
    child.logfile_read = io.BytesIO()
    child.expect_exact(b"at the end")
    child.expect(pexpect.TIMEOUT, timeout=2)  # and it is drawn
    child.send("\x11")
    child.expect(pexpect.EOF)
    child.close()
    assert child.exitstatus == 0
    seen = child.logfile_read.getvalue()
    end = seen.rindex(b"at the end")
    stream.feed(seen[: seen.index(b"\x1b[?1049l", end) if b"\x1b[?1049l" in seen[end:] else len(seen)])
    shown = "\n".join(screen.display)
    assert "Why is the sky blue?" in shown
    assert "Light from the sun is scattered" in shown
    assert b"Traceback" not in seen
