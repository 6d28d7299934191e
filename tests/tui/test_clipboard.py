"""Copying through the terminal."""

import base64

from dllm_tui.tui import clipboard


def test_osc_52():
    assert clipboard.osc52("hé", {}) == f"\x1b]52;c;{base64.b64encode('hé'.encode()).decode()}\x07"


def test_inside_tmux_it_reaches_the_terminal_outside_too():
    plain, inside = clipboard.osc52("x", {}), clipboard.osc52("x", {"TMUX": "/tmp/tmux"})
    assert inside.startswith(plain)
    wrapped = inside.removeprefix(plain)
    assert wrapped.startswith("\x1bPtmux;")
    assert wrapped.endswith("\x1b\\")
    assert plain.replace("\x1b", "\x1b\x1b") in wrapped


def test_what_terminals_would_cut_is_not_sent():
    assert clipboard.osc52("x" * 200_000, {}) == ""


def test_lone_surrogates_do_no_harm():
    assert clipboard.osc52("\ud800", {})


def test_over_ssh_the_far_desktop_is_left_alone(monkeypatch):
    monkeypatch.setattr(clipboard.shutil, "which", lambda _: "/bin/cat")
    assert not clipboard.desktop("x", {"SSH_TTY": "/dev/pts/1", "DISPLAY": ":0"})


def test_a_tool_that_fails_is_passed_over(monkeypatch, tmp_path):
    good = tmp_path / "xclip"
    good.write_text(f"#!/bin/sh\ncat > {tmp_path}/copied\n")
    bad = tmp_path / "pbcopy"
    bad.write_text("#!/bin/sh\nexit 3\n")
    for tool in (good, bad):
        tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin:/usr/bin")
    assert clipboard.desktop("over here", {"DISPLAY": ":0"})
    assert (tmp_path / "copied").read_text() == "over here"
