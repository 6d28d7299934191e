"""Chats on disk: a list that nothing breaks, and the conversation as it was."""

import json
import os
import stat
from pathlib import Path

import pytest

from dllm_tui.errors import TraceError
from dllm_tui.events import AnyEvent, Header, Turn, encode
from dllm_tui.trace import chats
from tests.trace import sample


def keep(path: Path, events: list[AnyEvent], *, used: float = 1000.0) -> Path:
    path.write_bytes(b"".join(encode(event) + b"\n" for event in events))
    os.utime(path, (used, used))
    return path


def test_a_new_chat_has_its_own_private_file(tmp_path: Path):
    directory = tmp_path / "chats"
    first, second = chats.create(directory), chats.create(directory)
    assert first.path != second.path
    assert {first.path.parent, second.path.parent} == {directory}
    assert stat.S_IMODE(first.path.stat().st_mode) == 0o600


def test_the_list_tells_what_each_is(tmp_path: Path):
    keep(tmp_path / "old.jsonl", sample.session(), used=1000)
    keep(tmp_path / "new.jsonl", [Header(), Turn(role="user", text="Hi")], used=2000)
    new, old = chats.listing(tmp_path)
    assert (new.title, new.turns, new.model, new.problem) == ("Hi", 1, "", "")
    assert (old.title, old.turns, old.model) == ("Tell me something [bold]nice[/] [31m שלום 😀", 4, "other")
    assert (old.used, old.path) == (1000, tmp_path / "old.jsonl")


@pytest.mark.parametrize(
    "style", [{}, {"separators": (" , ", "\t:\t")}, {"sort_keys": True}, {"separators": (",", ":")}]
)
@pytest.mark.parametrize("newline", [b"\n", b"\r\n", b"\n  "])
def test_other_programs_may_write_json_in_their_own_way(tmp_path: Path, style, newline: bytes):
    kept = [json.dumps(json.loads(encode(event)), **style).encode() for event in sample.session()]
    path = tmp_path / "theirs.jsonl"
    path.write_bytes(newline.join(kept) + b"\n")
    keep(tmp_path / "ours.jsonl", sample.session())
    assert chats.load(path).turns == chats.load(tmp_path / "ours.jsonl").turns
    theirs, ours = chats.listing(tmp_path)
    assert (theirs.title, theirs.turns, theirs.model, theirs.problem) == (
        ours.title,
        ours.turns,
        ours.model,
        "",
    )


def test_broken_files_are_listed_as_such(tmp_path: Path):
    broken = {
        "empty": b"",
        "torn": b'{"type":"header"',
        "foreign": b"hello\nworld\n",
        "newer": b'{"type":"header","schema":9}\n{"type":"turn","role":"user","text":"x"}\n',
        "turn": encode(Header()) + b'\n{"type":"turn","role":7}\n',
        "long": encode(Header()) + b"\n" + b"x" * (9 << 20),
        "deep": encode(Header()) + b'\n{"type":"turn","x":' + b"[" * 100_000 + b"\n",
    }
    for name, data in broken.items():
        (tmp_path / f"{name}.jsonl").write_bytes(data)
    keep(tmp_path / "good.jsonl", sample.session())
    (tmp_path / "folder.jsonl").mkdir()
    (tmp_path / "notes.txt").write_text("not a chat")
    (tmp_path / "gone.jsonl").symlink_to(tmp_path / "nowhere")
    listed = {chat.title: chat.problem for chat in chats.listing(tmp_path)}
    assert listed.keys() == broken.keys() | {"Tell me something [bold]nice[/] [31m שלום 😀"}
    assert all(listed[name] for name in broken)


def test_no_directory_is_no_chats(tmp_path: Path):
    assert chats.listing(tmp_path / "nowhere") == []


def test_turns_are_found_wherever_reading_is_cut_into_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path = keep(tmp_path / "a.jsonl", sample.session())
    expected = chats.listing(tmp_path)
    for size in (1, 7, 100, 1000, path.stat().st_size):
        monkeypatch.setattr(chats, "_CHUNK", size)
        assert chats.listing(tmp_path) == expected


def test_a_chat_comes_back_as_it_was(tmp_path: Path):
    past = chats.load(keep(tmp_path / "a.jsonl", sample.session()))
    assert [turn.text for turn in past.turns] == sample.TEXTS
    assert past.next_run == 4
    assert past.known == {2, 5, 6, 7}
    assert past.header.model
    assert past.header.model.id == "other"


def test_deleted_is_gone(tmp_path: Path):
    path = keep(tmp_path / "a.jsonl", sample.session())
    chats.delete(path)
    assert chats.listing(tmp_path) == []
    with pytest.raises(TraceError, match="can't be removed"):
        chats.delete(path)


@pytest.mark.parametrize(
    ("text", "title"),
    [
        ("  a \n\n b\t\x00c ", "a b c"),
        ("x" * 100, "x" * 79 + "…"),
        ("x" * 80, "x" * 80),
        ("\n\x1b\x07", ""),
    ],
)
def test_titles_are_one_short_line(text: str, title: str):
    assert chats.title(text) == title
