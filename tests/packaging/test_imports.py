"""What an import costs: light things load no torch."""

import json
import subprocess
import sys

import pytest

HEAVY = ("torch", "transformers", "textual", "numpy")


def loaded_by(code: str) -> set[str]:
    script = f"import sys, json\n{code}\nprint(json.dumps([m for m in {HEAVY!r} if m in sys.modules]))"
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return set(json.loads(result.stdout.splitlines()[-1]))


@pytest.mark.parametrize(
    "module",
    [
        "dllm_tui",
        "dllm_tui.events",
        "dllm_tui.knobs",
        "dllm_tui.session",
        "dllm_tui.settings",
        "dllm_tui.theming",
        "dllm_tui.trace",
        "dllm_tui.cli",
        "dllm_tui.engine",
        "dllm_tui.families.family",
    ],
)
def test_light_modules_load_nothing_heavy(module: str):
    assert loaded_by(f"import {module}") == set()


def test_the_interface_loads_no_torch():
    assert loaded_by("import dllm_tui.tui.app") & {"torch", "transformers"} == set()


def test_the_engine_is_reached_lazily():
    assert "torch" not in loaded_by("from dllm_tui.engine import host")
    assert "torch" in loaded_by("from dllm_tui.engine import Engine")
