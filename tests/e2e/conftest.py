from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from dllm_tui import paths, store
from dllm_tui.families import smol
from tests.e2e.terminal import Terminal


@pytest.fixture(scope="session")
def base() -> Path:
    """The default model's weights, fetched once and kept where the program keeps them."""
    return store.fetch(smol.BASE)


@pytest.fixture
def home(tmp_path: Path, base: Path) -> dict[str, str]:
    """An environment with no config and no chats, but with the weights."""
    data = tmp_path / "data"
    place = data / base.relative_to(paths.data_dir())
    place.parent.mkdir(parents=True)
    place.symlink_to(base)
    return {"DLLM_CHAT_DATA": str(data), "DLLM_CHAT_CONFIG": str(tmp_path / "config"), "OMP_NUM_THREADS": "2"}


@pytest.fixture
def start(home: dict[str, str]) -> Iterator[Callable[..., Terminal]]:
    opened: list[Terminal] = []

    def open_terminal(*arguments: str, **options: int) -> Terminal:
        opened.append(Terminal(*arguments, env=home, **options))
        return opened[-1]

    yield open_terminal
    for terminal in opened:
        terminal.close()
