"""Writing files: never half, never over another unasked, and said clearly where it can't be done."""

import os
import stat
import sys
from pathlib import Path

import pytest
from PIL import Image

from dllm_tui.errors import ExportError
from dllm_tui.events import Header, encode
from dllm_tui.trace import export
from dllm_tui.trace.archive import Archive
from tests.export import reel
from tests.trace import sample
from tests.trace.test_writer import disk_of


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


FILMS = [name for name, kind in export.FORMATS.items() if kind.film and name != "mp4"]


@pytest.mark.parametrize("name", FILMS)
def test_the_same_film_is_the_same_bytes(tmp_path: Path, name: str):
    for file in ("a", "b"):
        export.write_film(reel.sample(), tmp_path / f"{file}.{name}")
    data = (tmp_path / f"a.{name}").read_bytes()
    assert data == (tmp_path / f"b.{name}").read_bytes()
    assert len(data) > 900


@pytest.mark.parametrize("name", ["png", "svg"])
def test_stills(tmp_path: Path, name: str):
    path = tmp_path / f"a.{name}"
    export.write_still(reel.sample(), path)
    if name == "png":
        assert Image.open(path).size == (204, 81)
    else:
        assert "goodbye" not in path.read_text().split("</title>")[1]
        assert "@keyframes" not in path.read_text()


def test_versions_of_casts(tmp_path: Path):
    export.write_film(reel.sample(), tmp_path / "a.cast", cast_version=3)
    assert (tmp_path / "a.cast").read_text().startswith('{"version": 3')


@pytest.mark.parametrize("name", ["a", "a.jpg", "a.json", ".gif"])
def test_names_must_say_what_to_make(tmp_path: Path, name: str):
    with pytest.raises(ExportError, match="doesn't say what to make") as caught:
        export.write_film(reel.sample(), tmp_path / name)
    assert ".cast, .gif, .svg, .html" in caught.value.hint


def test_a_file_that_is_there_stays_unless_it_is_forced(tmp_path: Path):
    path = tmp_path / "a.cast"
    path.write_text("mine")
    with pytest.raises(ExportError, match="exists already") as caught:
        export.write_film(reel.sample(), path)
    assert "--force" in caught.value.hint
    assert path.read_text() == "mine"
    export.write_film(reel.sample(), path, force=True)
    assert path.read_text().startswith("{")
    assert names(tmp_path) == ["a.cast"]


@pytest.mark.parametrize("name", FILMS)
def test_a_full_disk_leaves_nothing(tmp_path: Path, name: str):
    path = tmp_path / f"a.{name}"
    path.write_text("mine")
    with disk_of(500), pytest.raises(ExportError, match="can't be written: File too large"):
        export.write_film(reel.sample(), path, force=True)
    assert path.read_text() == "mine"
    assert names(tmp_path) == [path.name]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_without_permission(tmp_path: Path):
    tmp_path.chmod(0o500)
    with pytest.raises(ExportError, match="Permission denied"):
        export.write_film(reel.sample(), tmp_path / "a.gif")


@pytest.mark.parametrize("place", ["nowhere/a.gif", "file/a.gif"])
def test_places_that_are_none(tmp_path: Path, place: str):
    (tmp_path / "file").write_text("")
    with pytest.raises(ExportError, match=r"a\.gif: can't be written"):
        export.write_film(reel.sample(), tmp_path / place)


def test_a_folder_is_not_replaced(tmp_path: Path):
    (tmp_path / "a.gif").mkdir()
    with pytest.raises(ExportError):
        export.write_film(reel.sample(), tmp_path / "a.gif", force=True)
    assert names(tmp_path) == ["a.gif"]


def test_what_is_shown_may_be_read_as_the_umask_says(tmp_path: Path):
    before = os.umask(0o027)
    try:
        export.write_film(reel.sample(), tmp_path / "a.cast")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "a.cast").stat().st_mode) == 0o640


# MP4


def test_without_ffmpeg_it_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ExportError, match="needs ffmpeg") as caught:
        export.write_film(reel.sample(), tmp_path / "a.mp4")
    assert ".gif" in caught.value.hint
    assert names(tmp_path) == []


def ffmpeg(folder: Path, body: str) -> None:
    program = folder / "bin" / "ffmpeg"
    program.parent.mkdir()
    program.write_text(f"#!{sys.executable}\nimport sys\n{body}\n")
    program.chmod(0o755)


def test_ffmpeg_gets_every_frame_for_its_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    ffmpeg(tmp_path, "open(sys.argv[-1], 'wb').write(sys.stdin.buffer.read())")
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    export.write_film(reel.sample(), tmp_path / "a.mp4", fps=4)
    size, data = (204, 81), (tmp_path / "a.mp4").read_bytes()
    length = size[0] * size[1] * 3
    frames = [data[at : at + length] for at in range(0, len(data), length)]
    assert len(frames) == 16
    changes = [index for index in range(1, 16) if frames[index] != frames[index - 1]]
    assert changes == [2, 5, 8]


def test_what_ffmpeg_says_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    ffmpeg(tmp_path, "sys.exit('no such codec')")
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    with pytest.raises(ExportError, match="ffmpeg could not write the film: no such codec"):
        export.write_film(reel.sample(), tmp_path / "a.mp4", fps=25)
    assert names(tmp_path) == ["bin"]


def test_a_disk_that_is_full_in_the_end_is_heard_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """ffmpeg returns 0 where only the end of its file could not be written."""
    ffmpeg(
        tmp_path,
        "sys.stdin.buffer.read(); open(sys.argv[-1], 'w').write('half')\n"
        "print('Error writing trailer of it: No space left on device', file=sys.stderr)",
    )
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    with pytest.raises(ExportError, match="can't be written: No space left on device") as caught:
        export.write_film(reel.sample(), tmp_path / "a.mp4", fps=25)
    assert caught.value.hint.startswith("Make room")
    assert names(tmp_path) == ["bin"]


# Text


def test_conversations(tmp_path: Path):
    trace = tmp_path / "a.jsonl"
    trace.write_bytes(b"".join(encode(event) + b"\n" for event in sample.session()))
    with Archive(trace) as archive:
        export.write_text(archive, tmp_path / "a.md")
        export.write_text(archive, tmp_path / "a.txt")
    assert (tmp_path / "a.txt").read_text().startswith("System:\nBe brief.\n\nYou:\nTell me\nsomething")
    assert "*4 tokens · 3 forwards · 1.3 tokens per forward · 0.5 s*" in (tmp_path / "a.md").read_text()
    begun = [event for event in sample.session() if event.type not in {"done", "commit"}]
    *_, answer = (at for at, event in enumerate(begun) if event.type == "step")
    trace.write_bytes(b"".join(encode(event) + b"\n" for event in begun[: answer + 1]))
    with Archive(trace) as archive:  # the program was killed while it answered
        export.write_text(archive, tmp_path / "killed.txt")
    assert " (stopped):\n" in (tmp_path / "killed.txt").read_text()
    trace.write_bytes(encode(Header()) + b"\n")
    with Archive(trace) as archive, pytest.raises(ExportError, match="no conversation"):
        export.write_text(archive, tmp_path / "b.txt")
