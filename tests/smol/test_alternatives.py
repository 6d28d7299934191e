"""What a recorded chat with the default model tells of its alternatives."""

from pathlib import Path

import pytest

from dllm_tui.engine import Engine
from dllm_tui.engine.model import Model
from tests.engine.test_alternatives import check, recorded


@pytest.mark.model
def test_alternatives_are_the_logits_best(model: Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    steps = recorded(Engine(model), tmp_path, monkeypatch, threshold=0.6)
    assert sum(check(*step) for step in steps) > 20
