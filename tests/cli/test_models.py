"""``dllm-chat models``: the catalogue as people read it, and models fetched from a hub on this machine."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from dllm_tui.cli import machine
from dllm_tui.cli.commands import app
from dllm_tui.cli.models import choices, shortage
from dllm_tui.engine import hub_cache
from dllm_tui.families import smol
from dllm_tui.families.catalogue import GIGABYTE, entries
from dllm_tui.settings import Settings
from tests.loading.checkpoints import copied, split
from tests.loading.hub import Hub, serving


@pytest.fixture(autouse=True)
def small_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """16 GB, no GPU, float32, and an empty hub's cache."""
    monkeypatch.setattr(machine, "_ram", lambda: 16 * GIGABYTE)
    monkeypatch.setattr(machine, "_gpus", list)
    monkeypatch.setattr(machine, "_has_bf16", lambda: False)
    monkeypatch.setattr(hub_cache.constants, "HF_HUB_CACHE", str(tmp_path / "cache"))


def run(*arguments: str) -> tuple[int, str, str]:
    result = CliRunner().invoke(app, ["models", *arguments], prog_name="dllm-chat")
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.exit_code, result.stdout, result.stderr


def flat(text: str) -> str:
    return " ".join(text.split())


def test_a_wide_list_has_one_line_a_checkpoint():
    code, out, err = run()
    assert (code, err) == (0, "")
    assert run("list")[1] == out
    assert out.startswith("This machine has 14.4 GB for a model, on the processor in float32.")
    lines = {words[0]: " ".join(words) for line in out.splitlines() if (words := line.split())}
    assert lines["smol"] == "smol 135M 1.1 GB 8 fits"
    assert lines["Efficient-Large-Model/Fast_dLLM_v2_1.5B"].endswith("1.54B 7.3 GB 32 fits, recommended")
    assert lines["JetLM/SDAR-8B-Chat-b32"].endswith("8.2B 36.6 GB 32 22.2 GB short")
    assert lines["Dream-org/Dream-v0-Base-7B"].split()[3:5] == ["GB", "all"]
    assert "LLaDA full attention, MIT" in flat(out)
    assert "LLaDA full attention, Apache-2.0" in flat(out)
    assert out.count("recommended") == 1


def test_a_narrow_list_cuts_nothing(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("COLUMNS", "80")
    _, out, _ = run("list")
    assert max(map(len, out.splitlines())) <= 80
    for entry in entries():
        assert f"  {entry.id}\n" in out
        assert entry.size in out


def test_into_a_pipe_every_line_is_whole(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("COLUMNS")
    _, out, _ = run("list")
    for entry in entries():
        assert any(entry.id in line and entry.size in line for line in out.splitlines())


def test_the_list_as_json():
    _, out, _ = run("list", "--json")
    found = json.loads(out)
    assert found["machine"] == {"device": "the processor", "memory": 14_400_000_000}
    assert found["recommended"] == "Efficient-Large-Model/Fast_dLLM_v2_1.5B"
    assert [model["id"] for model in found["models"]] == [entry.id for entry in entries()]
    for model in found["models"]:
        assert model["fits"] == (model["memory"] <= found["machine"]["memory"]) == (model["missing"] == 0)
        assert model["licence"]
        assert not model["on_disk"]


def test_show_explains():
    code, out, err = run("show", "smol")
    assert (code, err) == (0, "")
    assert flat(smol.FAMILY.explanation) in flat(out)
    for policy in smol.FAMILY.policies:
        assert policy in out
    for knob, reason in smol.FAMILY.fixed_knobs.items():
        assert f"{knob} {reason}" in flat(out)


def test_show_says_what_is_missing_and_what_would_fit():
    _, out, _ = run("show", "tencent/wedlm-8b-instruct")
    assert "tencent/WeDLM-8B-Instruct needs 36.6 GB, 22.2 GB more than this machine has" in flat(out)
    assert "Fast_dLLM_v2_1.5B (1.54B) would fit" in flat(out)
    assert "not intended for use within the European Union" in flat(out)
    assert json.loads(run("show", "tencent/WeDLM-8B-Instruct", "--json")[1])["missing"] > 22 * GIGABYTE


def test_a_shortage_is_told_before_a_model_is_fetched(tmp_path: Path):
    assert shortage("smol", Settings()) == ""
    assert shortage("JetLM/SDAR-1.7B-Chat", Settings()) == ""
    assert shortage(str(tmp_path), Settings()) == ""
    lack = shortage("tencent/WeDLM-8B-Instruct", Settings())
    assert "GB more than this machine has" in lack
    assert "Fast_dLLM_v2_1.5B (1.54B) would fit" in lack


def test_show_a_family_and_a_directory(tmp_path: Path):
    assert "LLaDA 2.1" in run("show", "llada2.1")[1]
    assert "LLaDA" in run("show", str(copied("llada", tmp_path / "mine")))[1]
    # The directory's own name tells the family, as when it is loaded; one above it doesn't.
    mdlm = copied("a2d_mdlm", tmp_path / "bd3lm" / "mine")
    assert "full attention" in run("show", str(mdlm))[1]
    (tmp_path / "mine" / "config.json").write_text("[]")
    code, _, err = run("show", str(tmp_path / "mine"))
    assert code == 1
    assert "is not a table of fields" in err


def test_the_picker_has_the_same_facts():
    offered = {choice.value: choice for choice in choices(Settings())}
    assert list(offered) == [entry.id for entry in entries()]
    about = offered["Efficient-Large-Model/Fast_dLLM_v2_1.5B"].about
    for fact in ("fits, recommended", "1.54B", "7.3 GB", "block 32", "block-causal", "Apache-2.0"):
        assert fact in about
    assert "for code" in offered["apple/DiffuCoder-7B-Instruct"].about
    assert "GB short" in offered["apple/DiffuCoder-7B-Instruct"].about


# -- with a hub

MODELS = """
import sys
from dllm_tui.cli import main
sys.argv = ["dllm-chat", "models", *sys.argv[1:]]
try:
    main()
finally:
    assert "torch" not in sys.modules
"""


def with_hub(home: Path, hub: Hub | None, *arguments: str, **environment: str) -> tuple[int, str, str]:
    """The command in a process of its own, whose hub is on this machine."""
    environment = {
        **os.environ,
        "HF_HOME": str(home),
        "HF_HUB_DISABLE_XET": "1",
        "HF_ENDPOINT": hub.url if hub else "http://127.0.0.1:9",
        **environment,
    }
    command = [sys.executable, "-c", MODELS, *arguments]
    result = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert "Traceback" not in result.stderr, result.stderr
    return result.returncode, result.stdout, result.stderr


@pytest.mark.slow
def test_pull_resume_list_and_remove(tmp_path: Path):
    home, folder = tmp_path / "home", copied("llada", tmp_path / "repository")
    first, second = sorted(set(split(folder).values()))
    with serving(folder) as hub:
        hub.broken = second
        code, out, err = with_hub(home, hub, "pull", "org/model")
        assert (code, out) == (1, "")
        assert "org/model can't be fetched" in err
        assert "what was fetched is kept" in err

        hub.broken = ""
        hub.asked.clear()
        code, out, err = with_hub(home, hub, "pull", "org/model")
        assert code == 0
        assert "fetching org/model" in err
        assert (Path(out.strip()) / first).exists()
        assert not [path for command, path in hub.asked if command == "GET" and path.endswith(first)]

    assert with_hub(home, None, "pull", "org/model")[:2] == (0, out)
    listed = json.loads(with_hub(home, None, "list", "--json")[1])
    assert listed["others_on_disk"] == [{"id": "org/model", "family": "llada"}]
    assert "LLaDA" in with_hub(home, None, "show", "org/model")[1]

    code, _, err = with_hub(home, None, "remove", "org/model")
    assert code == 0
    assert err.startswith("dllm-chat: removed org/model, ")
    assert not list((home / "hub").glob("models--*"))
    code, _, err = with_hub(home, None, "pull", "org/model", HF_HUB_OFFLINE="1")
    assert code == 1
    assert "this is offline mode" in err
    assert "Unset HF_HUB_OFFLINE" in err


def test_ctrl_c_ends_a_pull_at_once(tmp_path: Path):
    folder = copied("llada", tmp_path / "repository")
    with serving(folder) as hub:
        hub.silent = "model.safetensors"
        environment = {**os.environ, "HF_HOME": str(tmp_path), "HF_ENDPOINT": hub.url}
        environment["HF_HUB_DISABLE_XET"] = "1"
        command = [sys.executable, "-m", "dllm_tui", "models", "pull", "org/model"]
        with subprocess.Popen(command, env=environment, stderr=subprocess.PIPE) as process:
            try:
                assert hub.half_sent.wait(60)
                process.send_signal(signal.SIGINT)
                assert process.wait(10) == 130
            finally:
                process.kill()
                hub.released.set()


def test_what_was_fetched_in_part_is_not_on_disk_but_can_be_removed(tmp_path: Path):
    folder = tmp_path / "cache" / "models--JetLM--SDAR-4B-Chat"
    snapshot = folder / "snapshots" / "abc"
    snapshot.mkdir(parents=True)
    (folder / "refs").mkdir()
    (folder / "refs" / "main").write_text("abc")
    (snapshot / "config.json").write_text("{}")
    assert hub_cache.kept() == {}
    (snapshot / "model.safetensors").write_bytes(b"")
    assert hub_cache.kept() == {"JetLM/SDAR-4B-Chat": snapshot}
    assert "19.9 GB      4  on disk, 5.5 GB short" in run("list")[1]
    (snapshot / "model.safetensors.index.json").write_text('{"weight_map": {"a": "model-2.safetensors"}}')
    assert hub_cache.kept() == {}
    assert run("remove", "jetlm/sdar-4b-chat")[0] == 0
    assert not folder.exists()
    assert run("remove", "jetlm/sdar-4b-chat")[0] == 1


def test_a_model_on_disk_that_the_catalogue_does_not_have_is_offered(tmp_path: Path):
    for name, architecture in (("org/mine", "LLaDAModelLM"), ("org/other", "GPT2LMHeadModel")):
        folder = tmp_path / "cache" / f"models--{name.replace('/', '--')}"
        (folder / "refs").mkdir(parents=True)
        (folder / "refs" / "main").write_text("abc")
        (folder / "snapshots" / "abc").mkdir(parents=True)
        (folder / "snapshots" / "abc" / "config.json").write_text(f'{{"architectures": ["{architecture}"]}}')
        (folder / "snapshots" / "abc" / "model.safetensors").write_bytes(b"")
    assert [choice.value for choice in choices(Settings())][len(entries()) :] == ["org/mine"]
    assert "org/mine (LLaDA)" in flat(run("list")[1])


def test_remove_deletes_nothing_outside_the_cache(tmp_path: Path):
    (tmp_path / "mine").mkdir()
    for name in (str(tmp_path / "mine"), "../mine", "..", "", "x" * 5000):
        assert run("remove", name)[0] == 1
    assert (tmp_path / "mine").exists()
