"""The bench's figures hang together."""

import json
from pathlib import Path

import pytest

from dllm_tui.engine import bench
from dllm_tui.engine.api import Engine
from tests.engine.test_loop import Words
from tests.engine.tiny import tiny_model


class Letters(Words):
    def encode_chat(self, messages):
        return [4 + ord(letter) % 32 for letter in messages[-1].text]


def test_measures_every_setting_and_gives_json(monkeypatch: pytest.MonkeyPatch):
    def load(model: str | Path, device: str = "auto", dtype: str = "auto", progress=None) -> Engine:
        return Engine(tiny_model(two_streams=True, tokenizer=Letters()))

    monkeypatch.setattr(Engine, "load", load)
    told = []
    report = bench.measure(tokens=12, progress=lambda text, done: told.append(done))
    assert set(report.forward_ms) == set(bench.BLOCKS)
    assert all(value > 0 for value in report.forward_ms.values())
    assert report.step_ratio is not None
    assert report.step_ratio >= 1
    assert [speed.name for speed in report.speeds] == ["threshold 0.9", "threshold 0.7", "threshold 0.5"]
    assert all(speed.tokens == 36 for speed in report.speeds)
    assert all(0 < speed.tokens_per_forward <= 9 for speed in report.speeds)
    assert told == sorted(told)
    found = json.loads(json.dumps(report.to_dict()))
    assert found["speeds"][0]["tokens"] == 36
    assert found["verify_is_exact"] is None
