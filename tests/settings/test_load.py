"""Reading settings: defaults under the file under the environment, and nothing wrong goes unsaid."""

import os
from pathlib import Path

import pytest

from dllm_tui import settings
from dllm_tui.knobs import KNOBS, Knobs
from dllm_tui.settings import Settings, SettingsError


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "config.toml"


def test_without_a_file_the_defaults_hold(path: Path):
    assert settings.load(path, {}) == Settings()
    assert not path.exists()


def test_the_environment_lies_over_the_file_over_the_defaults(path: Path):
    path.write_text('theme = "paper"\nfps = 20\n[knobs]\nsteps = 4\nthreshold = 1\n[keys]\nnew_chat = "f9"\n')
    environment = {"DLLM_CHAT_FPS": "10", "DLLM_CHAT_STEPS": "6", "DLLM_CHAT_MOUSE": "false", "HOME": "/x"}
    loaded = settings.load(path, environment)
    assert (loaded.theme, loaded.fps, loaded.mouse, loaded.history) == ("paper", 10, False, True)
    assert loaded.knobs == {"steps": 6, "threshold": 1.0}
    assert loaded.keys == {"new_chat": "f9"}


def test_knobs_lie_over_the_models_own(path: Path):
    path.write_text('[knobs]\npreset = "draft"\nseed = 7\n')
    turned = settings.load(path, {}).turned(Knobs(threshold=0.6, policy="streaming", steps=16))
    assert turned == Knobs(threshold=0.6, policy="streaming", steps=4, seed=7)


def test_a_preset_lies_over_what_is_farther_and_under_what_is_as_near(path: Path):
    path.write_text("[knobs]\nsteps = 16\nthreshold = 0.6\n")
    assert settings.load(path, {"DLLM_CHAT_PRESET": "draft"}).knobs == {"steps": 4, "threshold": 0.6}
    path.write_text('[knobs]\nsteps = 16\npreset = "draft"\n')
    assert settings.load(path, {}).knobs == {"steps": 16}


def test_places_are_no_settings(path: Path):
    environment = {"DLLM_CHAT_CONFIG": "/somewhere", "DLLM_CHAT_DATA": "/else"}
    assert settings.load(path, environment) == Settings()


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("fps = ", "not valid TOML"),
        ("a = " + "[" * 3000, "not valid TOML"),
        ("fsp = 30", "there is no setting 'fsp'; did you mean fps?"),
        ("qqqq = 30", "there is no setting 'qqqq'; there are model, system, theme"),
        ("fps = 0", "fps is 0; it must be a whole number from 1 to 120"),
        ("fps = 1e3", "fps is 1000.0; it must be a whole number"),
        ('fps = "30"', "fps is '30'; it must be a whole number"),
        ("mouse = 1", "mouse is 1; it must be true or false"),
        ("model = 3", "model is 3; it must be text"),
        ('model = ""', "model is ''"),
        ('device = "tpu"', "device is 'tpu'; it must be one of auto, cpu, cuda"),
        ('dtype = "int7"', "dtype is 'int7'; it must be one of auto, bfloat16"),
        ("knobs = 3", "knobs is 3; it must be a table"),
        ("[knobs]\nstep = 3", "there is no knob 'step'; did you mean steps?"),
        ("[knobs]\nsteps = 0", "steps is 0; it must be a whole number from 1 to 4096"),
        ("[knobs]\nsteps = 2.5", "steps is 2.5"),
        ("[knobs]\nthreshold = nan", "threshold is nan; it must be a number from 0 to 1"),
        ("[knobs]\nthreshold = inf", "threshold is inf"),
        ("[knobs]\nthreshold = [1]", "threshold is [1]"),
        ("[knobs]\nsteps = true", "steps is True"),
        ('[knobs]\npolicy = "best"', "policy is 'best'; it must be one of confidence"),
        ('[knobs]\npreset = "fast"', "preset is 'fast'; it must be one of draft, balanced, polished"),
        ("[keys]\nnew_chat = 3", "'new_chat' is 3; it must be a key"),
        ('[keys]\nnew_chat = "a\\u001bb"', "'new_chat' is"),
        ('theme = "' + "x" * 10 + '"\n[[keys]]\na="b"', "keys is"),
    ],
)
def test_what_is_wrong_is_said_with_file_and_key(path: Path, text: str, says: str):
    path.write_text(text)
    with pytest.raises(SettingsError) as caught:
        settings.load(path, {})
    assert str(caught.value).startswith(str(path))
    assert says in str(caught.value)


@pytest.mark.parametrize(
    ("variable", "text", "says"),
    [
        ("DLLM_CHAT_FSP", "3", "there is no setting DLLM_CHAT_FSP; did you mean DLLM_CHAT_FPS?"),
        ("DLLM_CHAT_FPS", "many", "DLLM_CHAT_FPS: fps is 'many'; it must be a whole number from 1 to 120"),
        ("DLLM_CHAT_MOUSE", "perhaps", "it must be true or false"),
        ("DLLM_CHAT_THRESHOLD", "2", "threshold is 2; it must be a number from 0 to 1"),
        ("DLLM_CHAT_PRESET", "x", "preset is 'x'"),
    ],
)
def test_the_environment_is_checked_too(path: Path, variable: str, text: str, says: str):
    with pytest.raises(SettingsError) as caught:
        settings.load(path, {variable: text})
    assert str(caught.value).startswith("environment: ")
    assert says in str(caught.value)


def test_files_that_are_no_settings(tmp_path: Path, path: Path):
    (tmp_path / "folder.toml").mkdir()
    with pytest.raises(SettingsError, match="can't be read"):
        settings.load(tmp_path / "folder.toml", {})
    path.write_bytes(b'theme = "\xff"')
    with pytest.raises(SettingsError, match="not UTF-8"):
        settings.load(path, {})
    path.write_bytes(b"#" * (settings.MAX_BYTES + 1))
    with pytest.raises(SettingsError, match="longer than"):
        settings.load(path, {})


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_without_permission(path: Path):
    path.write_text("fps = 3")
    path.chmod(0)
    with pytest.raises(SettingsError, match=r"config\.toml: can't be read: Permission denied"):
        settings.load(path, {})


def test_the_template_explains_everything_and_sets_nothing(path: Path):
    text = settings.template()
    path.write_text(text)
    assert settings.load(path, {}) == Settings()
    for name in (*Settings.__struct_fields__, *KNOBS, "preset"):
        assert name in text
    # with every line taken into use, it is still valid and says the defaults
    used = "\n".join(line[2:] if " = " in line else line for line in text.splitlines())
    path.write_text(used)
    loaded = settings.load(path, {})
    assert loaded == Settings(knobs=Knobs().to_dict())
    assert loaded.turned(Knobs()) == Knobs()
