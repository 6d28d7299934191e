"""Writing one setting back: comments stay, files stay whole, nothing invalid is written."""

import os
import stat
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dllm_tui import paths, settings
from dllm_tui.knobs import KNOBS
from dllm_tui.settings import Settings, SettingsError


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "config.toml"


def test_comments_and_order_stay(path: Path):
    path.write_text("# mine\nfps = 20 # slow line\n\n[knobs]\n# few\nsteps = 4\n")
    settings.save("theme", "paper", path)
    settings.save("knobs.steps", 6, path)
    settings.save("keys.new_chat", "f9", path)
    assert path.read_text() == (
        '# mine\nfps = 20 # slow line\ntheme = "paper"\n\n'
        '[knobs]\n# few\nsteps = 6\n\n[keys]\nnew_chat = "f9"\n'
    )


def test_none_takes_a_setting_out(path: Path):
    path.write_text("# mine\nfps = 20\n[knobs]\nsteps = 4\n")
    settings.save("fps", None, path)
    settings.save("knobs.steps", None, path)
    settings.save("theme", None, path)
    assert path.read_text() == "# mine\n[knobs]\n"


def test_the_first_one_leaves_an_explained_private_file(tmp_path: Path):
    path = tmp_path / "new" / "config.toml"
    settings.save("theme", "paper", path)
    assert settings.load(path, {}) == Settings(theme="paper")
    assert "# fps = 20" in path.read_text()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


def test_a_linked_file_stays_linked(tmp_path: Path, path: Path):
    real = tmp_path / "dotfiles.toml"
    real.write_text("fps = 20\n")
    path.symlink_to(real)
    settings.save("fps", 25, path)
    assert path.is_symlink()
    assert real.read_text() == "fps = 25\n"


@pytest.mark.parametrize(
    ("key", "value"),
    [("fps", 0), ("fsp", 3), ("knobs.steps", 0), ("knobs.step", 3), ("keys.quit", 3), ("tables.x", 3)],
)
def test_nothing_invalid_is_written(path: Path, key: str, value: object):
    path.write_text("fps = 20\n")
    with pytest.raises(SettingsError):
        settings.save(key, value, path)
    assert path.read_text() == "fps = 20\n"


def test_a_broken_file_is_not_overwritten(path: Path):
    path.write_text("fps = = 3")
    with pytest.raises(SettingsError, match="not valid TOML"):
        settings.save("fps", 20, path)
    assert path.read_text() == "fps = = 3"


def test_a_failed_write_leaves_the_old_file(path: Path, monkeypatch: pytest.MonkeyPatch):
    path.write_text("fps = 20\n")

    def full_disk(descriptor: int) -> None:
        raise OSError(28, os.strerror(28))

    monkeypatch.setattr(os, "fsync", full_disk)
    with pytest.raises(SettingsError, match="No space left"):
        settings.save("fps", 25, path)
    assert path.read_text() == "fps = 20\n"
    assert [entry.name for entry in path.parent.iterdir()] == ["config.toml"]


def values() -> st.SearchStrategy[tuple[str, object]]:
    numbers = [
        st.tuples(
            st.just(f"knobs.{knob.name}"),
            st.integers(int(knob.low or 0), int(knob.high or 0))
            if knob.type is int
            else st.floats(knob.low, knob.high),
        )
        for knob in KNOBS.values()
        if not knob.choices
    ]
    return st.one_of(
        st.tuples(st.just("fps"), st.integers(1, 120)),
        st.tuples(st.just("mouse"), st.booleans()),
        st.tuples(st.sampled_from(["model", "theme", "system"]), st.text(min_size=1)),
        st.tuples(st.just("knobs.policy"), st.sampled_from(sorted(KNOBS["policy"].choices))),
        *numbers,
    )


@given(changes=st.lists(values(), max_size=8))
def test_what_is_saved_is_what_is_loaded(
    tmp_path_factory: pytest.TempPathFactory, changes: list[tuple[str, object]]
):
    path = tmp_path_factory.mktemp("settings") / "config.toml"
    for key, value in changes:
        settings.save(key, value, path)
    expected = dict(changes)
    loaded = settings.load(path, {})
    for key, value in expected.items():
        name = key.removeprefix("knobs.")
        assert (loaded.knobs[name] if key != name else getattr(loaded, name)) == value


def test_places_follow_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("DLLM_CHAT_CONFIG", str(tmp_path / "config"))
    monkeypatch.setenv("DLLM_CHAT_DATA", str(tmp_path / "data"))
    assert paths.config_file() == tmp_path / "config" / "config.toml"
    assert paths.themes_dir() == tmp_path / "config" / "themes"
    assert paths.models_dir() == tmp_path / "data" / "models"
    assert paths.traces_dir() == tmp_path / "data" / "chats"
    assert paths.log_file().parent == tmp_path / "data"
    monkeypatch.delenv("DLLM_CHAT_CONFIG")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert paths.config_dir().is_absolute()
    assert not list(tmp_path.iterdir())
