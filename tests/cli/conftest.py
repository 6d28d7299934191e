"""Every test of the command line has its own empty places."""

from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Config and data directories that nobody else uses; its value holds both."""
    for name in ("CONFIG", "DATA"):
        monkeypatch.setenv(f"DLLM_CHAT_{name}", str(tmp_path / "places" / name.lower()))
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "200")
    return tmp_path / "places"
