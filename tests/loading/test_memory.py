"""Loading needs little more than the model: measured on a checkpoint of over a gigabyte."""

import json
import shutil
import subprocess
import sys
from collections.abc import Generator
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

CONFIG = {
    "architectures": ["LLaDAModelLM"],
    "block_type": "llama",
    "activation_type": "silu",
    "layer_norm_type": "rms",
    "rope": True,
    "d_model": 2048,
    "n_layers": 8,
    "n_heads": 16,
    "n_kv_heads": 16,
    "mlp_hidden_size": 5632,
    "max_sequence_length": 4096,
    "rms_norm_eps": 1e-5,
    "rope_theta": 5e5,
    "vocab_size": 32000,
    "weight_tying": False,
    "mask_token_id": 5,
}

MEASURE = """
import sys
from pathlib import Path
import torch
from dllm_tui.engine.load import load_checkpoint

def memory(field):
    return int(Path("/proc/self/status").read_text().partition(field + ":")[2].split()[0]) * 1024

path, dtype, backbone = sys.argv[1:]
before = memory("VmRSS")
model = load_checkpoint(path, torch.device("cpu"), getattr(torch, dtype), backbone=backbone)
peak = memory("VmHWM")
print((peak - before) / (model.info.parameters * getattr(torch, dtype).itemsize))
"""
"""Not by ``ru_maxrss``: that begins with the peak of the process that started this one, which has other tests
and the checkpoint's tensors behind it."""


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Generator[Path]:
    """1.1 GB in bfloat16, in two shards of unequal size."""
    folder = tmp_path_factory.mktemp("large")
    (folder / "config.json").write_text(json.dumps(CONFIG))
    hidden, inner, words = CONFIG["d_model"], CONFIG["mlp_hidden_size"], CONFIG["vocab_size"]
    shapes = {"wte": (words, hidden), "ln_f": (hidden,), "ff_out": (words, hidden)}
    for layer in range(CONFIG["n_layers"]):
        square = dict.fromkeys(("q_proj", "k_proj", "v_proj", "attn_out"), (hidden, hidden))
        wide = dict.fromkeys(("ff_proj", "up_proj"), (inner, hidden))
        norms = dict.fromkeys(("attn_norm", "ff_norm"), (hidden,))
        parts = {**square, **wide, **norms, "ff_out": (hidden, inner)}
        shapes |= {f"blocks.{layer}.{name}": shape for name, shape in parts.items()}
    names = sorted(shapes)
    files = {"model-00001-of-00002.safetensors": names[:20], "model-00002-of-00002.safetensors": names[20:]}
    where: dict[str, str] = {}
    for file, part in files.items():
        tensors = {
            f"model.transformer.{name}.weight": torch.ones(shapes[name], dtype=torch.bfloat16)
            for name in part
        }
        save_file(tensors, folder / file)
        where |= dict.fromkeys(tensors, file)
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": where}))
    assert sum(file.stat().st_size for file in folder.iterdir()) > 1e9
    yield folder
    shutil.rmtree(folder)  # pytest would keep the last three


@pytest.mark.slow
@pytest.mark.parametrize(("backbone", "dtype"), [("lean", "bfloat16"), ("stock", "float32")])
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="reads Linux's memory counters")
def test_peak_is_the_model_and_little_more(checkpoint: Path, backbone: str, dtype: str) -> None:
    result = subprocess.run(
        [sys.executable, "-c", MEASURE, str(checkpoint), dtype, backbone],
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    assert float(result.stdout) < 1.15
