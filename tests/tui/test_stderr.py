"""Descriptor 2 while the app owns the screen."""

import subprocess
import sys
from pathlib import Path

SCRIPT = """
import os, sys
from pathlib import Path
from dllm_tui.tui.stderr import guarded

log = Path(sys.argv[1])
os.write(2, b"before\\n")
try:
    with guarded(log):
        os.write(2, b"native noise\\n")
        print("drawn", file=sys.__stderr__, flush=True)
        if "fail" in sys.argv:
            raise ValueError("inside")
except ValueError:
    pass
os.write(2, b"after\\n")
print("python after", file=sys.stderr, flush=True)
"""


def run(*arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, *arguments], capture_output=True, text=True, check=True, timeout=60
    )
    return done.stderr


def test_noise_goes_to_the_log_and_drawing_to_the_terminal(tmp_path: Path):
    log = tmp_path / "deep" / "app.log"
    assert run(str(log)) == "before\ndrawn\nafter\npython after\n"
    assert log.read_text() == "native noise\n"
    assert log.stat().st_mode & 0o077 == 0


def test_it_is_undone_after_a_fault(tmp_path: Path):
    assert run(str(tmp_path / "log"), "fail").endswith("after\npython after\n")


def test_without_a_place_for_the_log_noise_is_dropped(tmp_path: Path):
    (tmp_path / "file").write_text("")
    assert run(str(tmp_path / "file" / "log")) == "before\ndrawn\nafter\npython after\n"


def test_a_log_does_not_grow_for_ever(tmp_path: Path):
    log = tmp_path / "log"
    log.write_bytes(b"x" * (2 << 20))
    run(str(log))
    assert log.stat().st_size < 100
