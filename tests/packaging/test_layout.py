"""The repository's shape: what may not be there, and what an install must bring."""

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_top_level_kernels_is_no_package():
    # It would shadow the hub package `kernels`, which transformers imports where it is installed.
    assert not (ROOT / "kernels" / "__init__.py").exists()


def test_constraints_pin_every_direct_dependency():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = [*project["dependencies"], *project["optional-dependencies"]["dev"]]
    names = {re.split(r"[<>=!;\[ ]", text)[0].lower().replace("_", "-") for text in wanted}
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    pinned = {line.split("==")[0].lower().replace("_", "-") for line in lines if "==" in line}
    assert names - pinned - {"pip"} == set()
    assert "torch==2.13.0" in lines


def test_versions_agree():
    import dllm_tui

    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["version"] == dllm_tui.__version__


def test_no_code_from_checkpoints_and_no_pickles():
    sources = [*(ROOT / "dllm_tui").rglob("*.py"), *(ROOT / "kernels").rglob("*.py")]
    for source in sources:
        text = source.read_text()
        assert not re.search(r"trust_remote_code\s*=\s*True", text), source
        assert not re.search(r"torch\.load\(|pickle\.load", text), source
