"""Wheel and sdist: what they hold, and that the wheel runs where no checkout is near."""

import subprocess
import sys
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("dist")
    # No isolation: hatchling is a dev dependency, so nothing is downloaded here.
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(out), str(ROOT)]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout + result.stderr
    return out


def test_the_wheel_holds_code_themes_and_adapter(dist: Path):
    (wheel,) = dist.glob("*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    assert "dllm_tui/cli.py" in names or "dllm_tui/cli/__init__.py" in names
    assert "dllm_kernels/__init__.py" in names
    assert sum(name.startswith("dllm_themes/") and name.endswith(".toml") for name in names) >= 6
    assert sum(name.endswith("adapter.safetensors") for name in names) == 1
    assert not any(name.startswith(("tests/", "kernels/", "themes/")) for name in names)


def test_the_sdist_holds_what_a_build_and_a_test_need(dist: Path):
    (sdist,) = dist.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        names = {name.split("/", 1)[-1] for name in archive.getnames()}
    assert {"pyproject.toml", "README.md", "LICENSE", "constraints.txt"} <= names
    assert any(name.startswith("tests/") for name in names)
    assert any(name.startswith("kernels/dllm_kernels/") for name in names)


def test_an_installed_wheel_answers_help(dist: Path, tmp_path: Path):
    (wheel,) = dist.glob("*.whl")
    # The dependencies are this environment's own (by path), the package itself is the wheel's.
    venv.create(tmp_path / "env", with_pip=False)
    python = tmp_path / "env" / "bin" / "python"
    site = next((tmp_path / "env" / "lib").glob("python*/site-packages"))
    zipfile.ZipFile(wheel).extractall(site)
    for path in map(Path, sys.path):
        if path.name == "site-packages":
            (site / "dependencies.pth").write_text(f"import sys; sys.path.append({str(path)!r})\n")
    code = (
        "import dllm_tui, dllm_kernels, dllm_themes, sys; from dllm_tui.cli import main;"
        "print(dllm_tui.__file__); sys.argv = ['dllm-chat', '--help']; main()"
    )
    result = subprocess.run([python, "-c", code], capture_output=True, text=True, cwd=tmp_path, check=False)
    assert result.returncode == 0, result.stderr
    assert str(site) in result.stdout.splitlines()[0]
    assert "Usage" in result.stdout
