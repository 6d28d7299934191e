"""The command line of adapt."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from dllm_tui.adapt.training import recipe_of
from dllm_tui.cli.commands import app


@pytest.fixture(autouse=True)
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("CONFIG", "DATA"):
        monkeypatch.setenv(f"DLLM_CHAT_{name}", str(tmp_path / name.lower()))


def run(*arguments: str | Path) -> tuple[int, str, str]:
    result = CliRunner().invoke(app, ["adapt", *map(str, arguments)], prog_name="dllm-chat")
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.exit_code, result.stdout, result.stderr


SMALL = ("--rank", "2", "--rows", "64", "--device", "cpu", "--dtype", "float32")


@pytest.mark.slow
def test_train_go_on_and_measure(base: Path, tmp_path: Path):
    chats, out = tmp_path / "chats.jsonl", tmp_path / "made"
    turns = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "abc " * 20}]
    chats.write_text(json.dumps({"messages": turns}) + "\n")
    code, said, told = run(
        base, "-o", out, "--data", chats, "--tokens", "200", "--block-sizes", "3,4", *SMALL
    )
    assert (code, "training" in told) == (0, True)
    assert f"dllm-chat --model {out}" in said
    recipe = recipe_of(out / "training" / "state.safetensors")
    assert (recipe.rank, recipe.noise.sizes, recipe.noise.shares) == (2, (3, 4), (1.0, 1.0))
    # What isn't said again is as it was.
    more = ("--tokens", "400", "--measure", "1", "--device", "cpu", "--dtype", "float32")
    code, said, _ = run(base, "-o", out, "--data", chats, *more)
    assert code == 0
    rows = {
        line.split("|")[1].strip(): line.split("|")[2:-1] for line in said.splitlines() if line[:1] == "|"
    }
    assert float(rows["verify, block 16"][2]) == 1.0
    assert {f"streaming, block 8, threshold {threshold}" for threshold in (0.95, 0.5)} <= rows.keys()


@pytest.mark.parametrize(
    ("said", "problem", "code"),
    [
        (["--block-sizes", "4,x"], "whole numbers", 2),
        (["--block-sizes", "1"], "block sizes", 2),
        (["--leading", "2"], "shares", 2),
        (["--targets", "x_proj"], "no such module: x_proj", 2),
        (["--learning-rate", "0"], "above zero", 2),
        ([], "nothing to learn from", 1),
        (["--data", "nowhere.jsonl"], "nowhere.jsonl", 1),
        (["--start", "nowhere.safetensors", "--selfmade", "50"], "nowhere.safetensors", 1),
    ],
)
def test_what_makes_no_sense_is_told(base: Path, tmp_path: Path, said: list[str], problem: str, code: int):
    given, _, told = run(base, "-o", tmp_path / "made", *said, "--tokens", "10")
    assert (given, problem in " ".join(told.replace("│", " ").split())) == (code, True), told


def test_an_adapter_is_shown_as_what_it_is(tmp_path: Path):
    (tmp_path / "adapter.safetensors").touch()
    result = CliRunner().invoke(app, ["models", "show", str(tmp_path)], prog_name="dllm-chat")
    assert result.exit_code == 0
    assert f"{tmp_path.name}, block diffusion" in " ".join(result.stdout.split())


def test_a_base_that_is_none(tmp_path: Path):
    (tmp_path / "empty").mkdir()
    code, _, told = run(tmp_path / "empty", "-o", tmp_path / "made")
    assert (code, "config.json is missing" in told) == (1, True)


def test_help_loads_no_torch():
    script = "import sys; sys.argv[1:] = ['adapt', '--help']\n"
    script += "try:\n    from dllm_tui.cli import main; main()\n"
    script += "finally:\n    assert not {'torch', 'textual', 'transformers'} & sys.modules.keys()"
    made = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert "--selfmade" in made.stdout
