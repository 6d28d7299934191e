"""A config that doesn't fit its files is refused before memory is taken for what it claims."""

import json
import resource
import subprocess
import sys
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
import torch

from dllm_tui.engine import networks, quantise
from tests.loading.checkpoints import copied, edit_json, refused, split
from tests.loading.test_gguf import write

HUGE = 1 << 30
SPARE = 1 << 30


@pytest.fixture
def little_memory() -> Generator[None]:
    """A gigabyte may be taken, and no more: what the configs claim would end in another error."""
    before = resource.getrlimit(resource.RLIMIT_AS)
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + SPARE, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_AS, before)


needs_limits = pytest.mark.skipif(sys.platform != "linux", reason="limits memory as Linux does")


@needs_limits
@pytest.mark.parametrize("shards", [1, 2])
@pytest.mark.parametrize(
    ("family", "fields"),
    [
        ("llada", ("d_model", "mlp_hidden_size", "embedding_size", "n_heads")),
        ("dream", ("hidden_size", "intermediate_size", "vocab_size")),
        ("sdar", ("head_dim", "num_attention_heads", "hidden_size")),
        ("llada_moe", ("hidden_size", "num_experts", "expert_intermediate_size")),
        ("llada2", ("hidden_size", "num_experts", "moe_intermediate_size", "head_dim")),
        ("rnd1", ("hidden_size", "num_experts", "vocab_size", "head_dim")),
        ("mdlm", ("hidden_dim", "cond_dim", "vocab_size")),
    ],
)
@pytest.mark.parametrize("backbone", ["auto", "stock"])
@pytest.mark.usefixtures("little_memory")
def test_sizes_that_the_files_do_not_have(
    tmp_path: Path, family: str, fields: tuple[str, ...], shards: int, backbone: Any
) -> None:
    for field in fields:
        checkpoint = copied(family, tmp_path / field)
        edit_json(checkpoint / "config.json", **{field: HUGE})
        if shards > 1:
            split(checkpoint)
        assert refused(checkpoint, backbone=backbone)


@needs_limits
@pytest.mark.usefixtures("little_memory")
def test_a_nested_config(tmp_path: Path) -> None:
    checkpoint = copied("diffusion_gemma", tmp_path / "gemma")
    text = json.loads((checkpoint / "config.json").read_text())["text_config"]
    for field in ("hidden_size", "vocab_size", "intermediate_size", "num_experts"):
        edit_json(checkpoint / "config.json", text_config=text | {field: HUGE})
        assert refused(checkpoint)


@needs_limits
@pytest.mark.parametrize("family", ["llada", "dream", "llada_moe", "rnd1"])
@pytest.mark.parametrize(
    "changed",
    [
        {"hidden_size": 1 << 23},
        {"intermediate_size": 1 << 23, "moe_intermediate_size": 1 << 23},
        {"head_dim": 1 << 23},
        {"num_hidden_layers": 1 << 23},
    ],
    ids=lambda changed: next(iter(changed)),
)
@pytest.mark.usefixtures("little_memory")
def test_gguf(tmp_path: Path, family: str, changed: dict[str, int]) -> None:
    file = write(tmp_path / "claims.gguf", family, claimed=changed)
    assert "claims.gguf" in refused(file)


@needs_limits
@pytest.mark.usefixtures("little_memory")
def test_before_quantising(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    checkpoint = copied("sdar", tmp_path / "sdar")
    edit_json(checkpoint / "config.json", intermediate_size=HUGE)
    monkeypatch.setattr(quantise, "check", lambda *_: None)
    assert f"{HUGE}" in refused(checkpoint, bits="int8")


@needs_limits
@pytest.mark.usefixtures("little_memory")
def test_before_spreading(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    checkpoint = copied("rnd1", tmp_path / "rnd1")
    edit_json(checkpoint / "config.json", moe_intermediate_size=HUGE)
    home = torch.device("cpu")
    monkeypatch.setattr(networks, "spread", lambda *_: lambda _: home)
    assert f"{HUGE}" in refused(checkpoint)


def test_files_of_another_size_are_named(tmp_path: Path) -> None:
    checkpoint = copied("llada", tmp_path / "llada")
    edit_json(checkpoint / "config.json", mlp_hidden_size=128)
    for backbone in ("lean", "stock"):
        message = refused(checkpoint, backbone=backbone)
        assert "model.safetensors" in message
        assert "ff_out.weight" in message or "ff_proj.weight" in message
        assert "128" in message
        assert "96" in message


HEADER = """
import sys
from dllm_tui.cli import main
sys.argv = ["dllm-chat", "models", "show", sys.argv[1]]
try:
    main()
finally:
    assert "torch" not in sys.modules
"""


@pytest.mark.parametrize("sound", [True, False])
def test_a_file_is_shown_without_torch(tmp_path: Path, *, sound: bool) -> None:
    file = write(tmp_path / "dream.gguf", "dream")
    if not sound:
        file.write_bytes(file.read_bytes()[:200])
    shown = subprocess.run(
        [sys.executable, "-c", HEADER, str(file)], capture_output=True, text=True, check=False
    )
    assert shown.returncode == (0 if sound else 1), shown.stderr
    assert "Traceback" not in shown.stderr
    assert ("Dream" in shown.stdout) if sound else ("dream.gguf is not a readable GGUF file" in shown.stderr)
