"""The commands beside ``ask``: light help, places, models, doctor, and what the app refuses."""

import json
import os
import re
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from dllm_tui import settings, store
from dllm_tui.cli.commands import app
from dllm_tui.cli.console import need_terminal
from dllm_tui.errors import DllmError
from dllm_tui.families import smol
from dllm_tui.knobs import KNOBS
from dllm_tui.settings import Settings

COMMANDS = {"adapt", "ask", "bench", "doctor", "export", "locate", "models", "replay", "version"}


def run(*arguments: str) -> tuple[int, str, str]:
    """A command in this process: code, stdout, stderr."""
    result = CliRunner().invoke(app, list(arguments), prog_name="dllm-chat")
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.exit_code, result.stdout, result.stderr


def plain(text: str) -> str:
    """A text without boxes and line breaks."""
    return " ".join(re.sub(r"[│╭╮╰╯─]", " ", text).split())


def test_help_names_every_command_knob_and_an_example():
    code, out, _ = run("--help")
    assert code == 0
    for knob in KNOBS.values():
        assert knob.option in out
        assert knob.help in plain(out)
    for option in (
        "--model",
        "--device",
        "--dtype",
        "--plain",
        "--no-animation",
        "--fps",
        "--theme",
        "--preset",
    ):
        assert option in out
    listed = out.partition("─ Commands ─")[2].partition("╰")[0]
    assert {line.split()[1] for line in listed.splitlines() if re.match(r"│ \w", line)} >= COMMANDS
    assert 'dllm-chat ask "Why is the sky blue?"' in out


@pytest.mark.parametrize("command", sorted(COMMANDS - {"version"}))
def test_every_command_explains_itself(command: str):
    code, out, _ = run(command, "--help")
    assert code == 0
    assert f"dllm-chat {command}" in out


@pytest.mark.parametrize(
    "arguments",
    [
        ["--help"],
        ["ask", "--help"],
        ["version"],
        ["locate", "config"],
        ["models"],
        ["models", "list", "--json"],
        ["models", "show", "JetLM/SDAR-4B-Chat"],
        ["models", "show", "smol", "--json"],
    ],
)
def test_light_commands_load_nothing_heavy(arguments: list[str]):
    program = (
        "import sys\n"
        "from dllm_tui.cli import main\n"
        f"sys.argv = ['dllm-chat', *{arguments!r}]\n"
        "try:\n    main()\nexcept SystemExit as end:\n    assert not end.code, end.code\n"
        "heavy = {'torch', 'transformers', 'textual', 'numpy'} & sys.modules.keys()\n"
        "print(sorted(heavy), file=sys.stderr)"
    )
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert result.stderr == "[]\n"


def test_help_comes_at_once():
    """In processor time, which other programs on this machine disturb the least."""

    def seconds() -> float:
        before = os.times()
        subprocess.run([sys.executable, "-m", "dllm_tui", "--help"], stdout=subprocess.DEVNULL, check=True)
        after = os.times()
        return after.children_user - before.children_user + after.children_system - before.children_system

    assert min(seconds() for _ in range(3)) < 0.5


def test_help_into_a_pipe_that_closes():
    command = f"{sys.executable} -m dllm_tui ask --help | head -n 1"
    result = subprocess.run(command, shell=True, capture_output=True, check=True)
    assert result.stderr == b""


def test_versions():
    assert run("version") == run("--version") == (0, "dllm-chat 0.1.0\n", "")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--steps", "0"], "steps is 0; it must be a whole number from 1 to 4096"),
        (["--fps", "0"], "fps is '0'; it must be a whole number from 1 to 120"),
        (["--theme", "pink"], "'pink' is none; there are lagoon,"),
        (["--device", "tpu"], "device is 'tpu'"),
        (["--steps", "4", "ask", "hi"], "put it behind the command: dllm-chat ask --steps"),
        (["--model", "smol", "doctor"], "put it behind the command: dllm-chat doctor --model"),
        (["aks", "hi"], "No such command 'aks'"),
        (["--stpes", "4"], "No such option: --stpes"),
        (["locate", "home"], "'home' is not one of"),
        (["models", "show"], "Missing argument"),
    ],
)
def test_wrong_usage_is_said(arguments: list[str], says: str):
    code, out, err = run(*arguments)
    assert (code, out) == (2, "")
    assert says in plain(err)


def test_the_app_needs_a_terminal():
    code, out, err = run()
    assert (code, out) == (1, "")
    assert "The app needs a terminal." in err
    assert "dllm-chat ask" in err


def test_the_app_needs_a_terminal_that_can_be_drawn_on(monkeypatch: pytest.MonkeyPatch):
    for stream in (sys.stdin, sys.stdout):
        monkeypatch.setattr(stream, "isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm")
    need_terminal("The app", "Use another.")
    monkeypatch.setenv("TERM", "dumb")
    with pytest.raises(DllmError, match="TERM is dumb"):
        need_terminal("The app", "Use another.")


def test_broken_settings_stop_the_app_with_a_message(places: Path):
    (places / "config").mkdir(parents=True)
    (places / "config" / "config.toml").write_text("[knobs]\nsteps = 0")
    code, _, err = run()
    assert code == 1
    assert "config.toml: [knobs]: steps is 0; it must be a whole number from 1 to 4096" in err
    assert "Traceback" not in err


@pytest.mark.parametrize(
    ("what", "where"),
    [
        ("config", "config/config.toml"),
        ("themes", "config/themes"),
        ("data", "data"),
        ("traces", "data/chats"),
    ],
)
def test_places_are_made_and_named(places: Path, what: str, where: str):
    code, out, _ = run("locate")
    assert (code, f"{what:7} {places / where}" in out.splitlines()) == (0, True)
    assert not (places / where).exists()
    assert run("locate", what) == (0, f"{places / where}\n", "")
    assert (places / where).exists()
    assert not stat.S_IMODE((places / where).stat().st_mode) & 0o077


def test_the_settings_file_is_written_once_with_everything_explained(places: Path):
    run("locate", "config")
    path = places / "config" / "config.toml"
    assert path.read_text() == settings.template()
    assert settings.load() == Settings()
    path.write_text("fps = 20")
    run("locate", "config")
    assert path.read_text() == "fps = 20"


def test_a_place_that_cant_be_made_is_named_all_the_same(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("DLLM_CHAT_CONFIG", "/proc/nowhere")
    assert run("locate", "config") == (0, "/proc/nowhere/config.toml\n", "")


def test_what_was_fetched_can_be_removed(monkeypatch: pytest.MonkeyPatch):
    def fetch(artifact: store.Artifact, told: store.Progress) -> Path:
        told("fetching", 0.5)
        artifact.path.parent.mkdir(parents=True)
        artifact.path.write_bytes(b"weights")
        return artifact.path

    monkeypatch.setattr(store, "fetch", fetch)
    code, out, err = run("models", "pull", "smol")
    assert (code, out, err) == (0, f"{smol.BASE.path}\n", "dllm-chat: fetching\n")
    assert run("models", "remove", "smol")[0] == 0
    assert not smol.BASE.path.exists()
    assert run("models", "remove", "smol") == (1, "", "dllm-chat: smol is not on this machine.\n")


def test_models_that_are_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    code, _, err = run("models", "remove", "nobody/nothing")
    assert code == 1
    assert "nobody/nothing is not on this machine" in err
    code, _, err = run("models", "pull", str(tmp_path))
    assert code == 1
    assert "on this machine already" in err
    code, _, err = run("models", "show", str(tmp_path))
    assert code == 1
    assert "config.json" in err


def test_bench_prints_its_figures(monkeypatch: pytest.MonkeyPatch):
    from dllm_tui.engine import bench

    speeds = (bench.Speed("transformers, greedy", 64, 2.0, 64, 1.0), bench.Speed("verify", 64, 1.0, 32, 2.0))
    report = bench.Report(
        model="smol",
        device="cpu",
        dtype="float32",
        threads=2,
        load_seconds=3.0,
        forward_ms={8: 20.0},
        step_ratio=1.05,
        speeds=speeds,
        verify_is_exact=True,
    )
    monkeypatch.setattr(bench, "measure", lambda *_, **__: report)
    code, out, err = run("bench")
    assert (code, err) == (0, "")
    assert "smol on cpu, float32, 2 threads" in out
    assert re.search(r"verify +64\.0 +2\.00 +2\.00×", out)
    assert "verify gave the very tokens" in out
    code, out, err = run("bench", "--json")
    assert json.loads(out) == json.loads(json.dumps(report.to_dict()))


def test_doctor_finds_this_machine():
    code, out, _ = run("doctor", "--json")
    found = json.loads(out)
    assert code == (1 if found["problems"] else 0)
    assert found["libraries"]["torch"] != "not installed"
    assert found["device"]["threads"] >= 1
    assert found["device"]["dtype"] in {"float32", "bfloat16"}
    assert {"columns", "colours", "unicode", "tmux", "ssh"} <= found["terminal"].keys()
    assert found["model"]["smol"] == "93 MB to fetch"


def test_doctor_says_what_is_wrong(places: Path, monkeypatch: pytest.MonkeyPatch):
    (places / "config" / "themes").mkdir(parents=True)
    (places / "config" / "themes" / "mine.toml").write_text("accent = 3")
    (places / "config" / "config.toml").write_text('theme = "pink"')
    monkeypatch.setenv("TMUX", "/tmp/x")
    code, out, _ = run("doctor")
    assert code == 1
    assert "mine.toml: " in out
    assert "theme is 'pink'; it must be one of lagoon" in out
    assert re.search(r"tmux +yes", out)


def test_the_knobs_of_a_catalogue_model_are_known_without_loading_it():
    from dllm_tui.cli.chat import own_knobs
    from dllm_tui.families import smol

    assert own_knobs("smol") == smol.FAMILY.defaults
    assert own_knobs("nobody/nothing") is None
