"""Models from a hub: fetched, resumed, refused, and read again without a network.

The hub is on this machine; the client is the real one, in a process of its own, because it reads its
settings when it is imported.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from dllm_tui.engine.hub import Repository
from dllm_tui.errors import StoreError
from tests.loading.checkpoints import copied, edit_json, split
from tests.loading.hub import COMMIT, Hub, serving

pytestmark = pytest.mark.slow  # nearly every test starts a process that imports torch and transformers

LOAD = """
import json, sys, torch
from dllm_tui.engine.load import load_checkpoint
from dllm_tui.errors import DllmError

told = []
try:
    model = load_checkpoint(
        sys.argv[1], torch.device("cpu"), torch.float32, lambda what, done: told.append((what, done)),
        **json.loads(sys.argv[2])
    )
except DllmError as error:
    print(json.dumps({"error": error.message, "hint": error.hint}))
else:
    info = model.info
    print(json.dumps({"id": info.id, "family": info.family, "revision": info.revision, "told": told}))
"""

FETCH = """
import json, sys
from dllm_tui.engine.hub import Repository
from dllm_tui.errors import DllmError

repository = Repository.named(sys.argv[1], **json.loads(sys.argv[2]))
try:
    repository.config()
    print(json.dumps({"path": str(repository.fetch(newest=len(sys.argv) > 3))}))
except DllmError as error:
    print(json.dumps({"error": error.message, "hint": error.hint}))
assert "torch" not in sys.modules
"""


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    folder = copied("llada", tmp_path / "repository")
    (folder / "modeling_llada.py").write_text("raise SystemExit('code of the repository was run')")
    (folder / "pytorch_model.bin").write_bytes(b"pickle")
    (folder / "original").mkdir()
    (folder / "original" / "model.safetensors").write_bytes(b"another form of the same")
    return folder


def run(
    script: str, home: Path, hub: Hub | None, name: str = "org/model", *more: str, **options: Any
) -> dict[str, Any]:
    environment = {
        **os.environ,
        "HF_HOME": str(home),
        "HF_HUB_DISABLE_XET": "1",
        "HF_ENDPOINT": hub.url if hub else "http://127.0.0.1:9",
    }
    result = subprocess.run(
        [sys.executable, "-c", script, name, json.dumps(options), *more],
        capture_output=True,
        text=True,
        check=False,
        env=environment,
    )
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout.splitlines()[-1])


def test_fetch_then_offline(repository: Path, tmp_path: Path) -> None:
    home = tmp_path / "home"
    with serving(repository) as hub:
        first = run(LOAD, home, hub)
        asked = {
            path.rpartition("/")[2] for command, path in hub.asked if command == "GET" and "resolve" in path
        }
    assert (first["id"], first["family"], first["revision"]) == ("org/model", "llada", COMMIT)
    assert {"config.json", "model.safetensors"} <= asked
    assert not asked & {"modeling_llada.py", "pytorch_model.bin"}
    assert not list(home.rglob("original"))
    shares = [done for what, done in first["told"] if what.startswith("fetching org/model")]
    assert shares == sorted(shares)
    assert shares[-1] == 1.0
    assert any(what == "loading org/model" for what, _ in first["told"])

    assert run(LOAD, home, None)["family"] == "llada"
    assert COMMIT in run(FETCH, home, None, offline=True)["path"]


def test_a_token_is_shown(repository: Path, tmp_path: Path) -> None:
    with serving(repository) as hub:
        assert "path" in run(FETCH, tmp_path / "home", hub, token="hf_secret")
        assert "Bearer hf_secret" in hub.tokens


def test_resume(repository: Path, tmp_path: Path) -> None:
    """Shards that came through before a transfer broke off are not fetched again."""
    home = tmp_path / "home"
    first, second = sorted({*split(repository).values()})
    with serving(repository) as hub:
        hub.broken = second
        broken = run(FETCH, home, hub)
        assert "org/model can't be fetched" in broken["error"]
        assert "what was fetched is kept" in broken["hint"]
        hub.broken = ""
        hub.asked.clear()
        assert "path" in run(FETCH, home, hub)
        again = {path.rpartition("/")[2] for command, path in hub.asked if command == "GET"}
    assert second in again
    assert first not in again


def test_newer_states_are_looked_for_when_asked(repository: Path, tmp_path: Path) -> None:
    home = tmp_path / "home"
    with serving(repository) as hub:
        first = run(FETCH, home, hub)
        hub.asked.clear()
        assert run(FETCH, home, hub) == first
        assert not [path for _, path in hub.asked if "org/model" in path]
        assert run(FETCH, home, hub, "org/model", "newest") == first
        assert [path for _, path in hub.asked if "org/model" in path]
    assert run(FETCH, home, None, "org/model", "newest") == first  # no network: what is there will do


def test_unknown_family_is_refused_before_its_weights_are_fetched(repository: Path, tmp_path: Path) -> None:
    edit_json(repository / "config.json", architectures=["LlamaForCausalLM"])
    with serving(repository) as hub:
        answer = run(LOAD, tmp_path / "home", hub)
        assert not [path for _, path in hub.asked if path.endswith(".safetensors")]
    assert "LlamaForCausalLM is not a diffusion model" in answer["error"]


def test_what_the_hub_says_no_to(repository: Path, tmp_path: Path) -> None:
    home = tmp_path / "home"
    with serving(repository) as hub:
        assert "no model 'org/other'" in run(FETCH, home, hub, "org/other")["error"]
        assert "no revision 'nope'" in run(FETCH, home, hub, "org/model@nope")["error"]
        hub.gated = True
        gated = run(FETCH, home, hub)
        assert "accepted its licence" in gated["error"]
        assert "hf auth login" in gated["hint"]


@pytest.mark.parametrize("options", [{}, {"offline": True}])
def test_no_network_and_nothing_on_disk(tmp_path: Path, options: dict[str, Any]) -> None:
    answer = run(FETCH, tmp_path / "home", None, **options)
    assert "org/model is not complete on this machine" in answer["error"]


@pytest.mark.parametrize("name", ["no/such/path", "not a/name!"])
def test_neither_directory_nor_hub_id(tmp_path: Path, name: str) -> None:
    answer = run(FETCH, tmp_path / "home", None, name)
    assert "neither a directory nor a hub id" in answer["error"]


@pytest.mark.parametrize(("name", "says"), [("nope", "no model 'nope'"), ("../up", "no ../up")])
def test_words_and_paths_are_no_hub_ids(name: str, says: str) -> None:
    with pytest.raises(StoreError, match=f"There is {says}"):
        Repository.named(name)
