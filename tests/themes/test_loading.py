"""A user's themes: strict about what is wrong, and never in the way of the rest."""

import os
from pathlib import Path

import pytest

from dllm_tui import theming
from dllm_tui.theming import ThemeError

SHIPPED = theming.shipped()


def parse(text: str, name: str = "mine") -> theming.Theme:
    return theming.parse(text, name=name, where="mine.toml", bases=SHIPPED)


def full(**overrides: str) -> str:
    """A whole theme as TOML, with some lines replaced (an empty value leaves the line out)."""
    lines = {"dark": "true", "ramp": str(list(SHIPPED["lagoon"].ramp))}
    plain = {"name", "title", "dark", "ansi", "ramp"}
    colours = (field for field in theming.Theme.__struct_fields__ if field not in plain)
    lines |= {key: f'"{getattr(SHIPPED["lagoon"], key)}"' for key in colours}
    return "\n".join(f"{key} = {value}" for key, value in (lines | overrides).items() if value)


def test_a_whole_theme_is_read():
    theme = parse(full(title='"My own"', accent='"#ff8800"'))
    assert (theme.name, theme.title, theme.accent, theme.ansi) == ("mine", "My own", "#ff8800", False)
    assert len(theme.ramp) == theming.RAMP_STEPS


def test_a_theme_may_say_only_what_differs():
    theme = parse('base = "paper"\naccent = "#aa0055"')
    assert theme.accent == "#aa0055"
    assert theme.background == SHIPPED["paper"].background
    assert (theme.name, theme.title, theme.dark) == ("mine", "Mine", False)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("= = =", "not valid TOML"),
        ("a=" + "[" * 5000, "not valid TOML"),
        (full(accent="#5fb4f5"), "not valid TOML"),
        (full(accent=""), "accent is missing"),
        (full(accent='"blue"'), "accent is 'blue'; it must be a colour like #5fb4f5"),
        (full(accent='"#12345"'), "accent"),
        (full(accent="12"), "accent is 12"),
        (full(accent='"ansi_blue"'), "with ansi = true"),
        (full(ansi="true"), "it must be one of ansi_default"),
        (full(ansi='"yes"'), "ansi is 'yes'; it must be true or false"),
        (full(dark="1"), "dark is 1; it must be true or false"),
        (full(acent='"#ffffff"'), "no key 'acent'; did you mean accent?"),
        (full(zzz="1"), "no key 'zzz'; the keys are base, title"),
        (full(ramp='["#ffffff"]'), "ramp must be a list of 8 colours"),
        (full(ramp='"#ffffff"'), "ramp must be a list of 8 colours"),
        (full(ramp=str(["#ffffff"] * 7 + ["white"])), "ramp[7] is 'white'"),
        (full(title="3"), "title is 3"),
        (full(title='"two\\nlines"'), "title"),
        (full(base='"nowhere"'), "base is 'nowhere'; it must be one of lagoon"),
        (full(base="[1]"), "base is [1]"),
        (full(accent='"' + "x" * 20000 + '"'), "accent is 'x"),
    ],
)
def test_what_is_wrong_is_said_with_file_and_key(text: str, says: str):
    with pytest.raises(ThemeError) as caught:
        parse(text)
    message = str(caught.value)
    assert message.startswith("mine.toml: ")
    assert says in message
    assert len(message) < 600


@pytest.mark.parametrize("name", ["", "Über", "-x", "a b", "x" * 33, "../x"])
def test_names_are_plain(name: str):
    with pytest.raises(ThemeError, match="theme's name"):
        parse(full(), name=name)


def test_the_users_themes_add_and_replace(tmp_path: Path):
    (tmp_path / "mine.toml").write_text(full())
    (tmp_path / "paper.toml").write_text('base = "paper"\naccent = "#aa0055"')
    (tmp_path / "notes.txt").write_text("not a theme")
    loaded = theming.load(tmp_path)
    assert loaded.problems == ()
    assert loaded.themes.keys() == SHIPPED.keys() | {"mine"}
    assert loaded.themes["paper"].accent == "#aa0055"


def test_broken_files_are_reported_and_the_rest_still_loads(tmp_path: Path):
    (tmp_path / "good.toml").write_text(full())
    (tmp_path / "lagoon.toml").write_text("accent = 3")
    (tmp_path / "binary.toml").write_bytes(b"\xff\xfe\x00")
    (tmp_path / "huge.toml").write_text("#" * (theming.MAX_BYTES + 1))
    (tmp_path / "folder.toml").mkdir()
    (tmp_path / "gone.toml").symlink_to(tmp_path / "nowhere.toml")
    loaded = theming.load(tmp_path)
    assert loaded.themes.keys() == SHIPPED.keys() | {"good"}
    assert loaded.themes["lagoon"] == SHIPPED["lagoon"]
    for name in ("lagoon", "binary", "huge", "folder"):
        assert any(f"{name}.toml" in problem for problem in loaded.problems), name


def test_no_directory_is_no_problem(tmp_path: Path):
    for directory in (None, tmp_path / "nowhere"):
        loaded = theming.load(directory)
        assert loaded.themes == SHIPPED
        assert loaded.problems == ()


def test_snapshots_tell_which_files_changed(tmp_path: Path):
    kept, edited, added, removed = (
        tmp_path / f"{name}.toml" for name in ("kept", "edited", "added", "removed")
    )
    for path in (kept, edited, removed):
        path.write_text(full())
    before = theming.snapshot(tmp_path)
    edited.write_text(full(accent='"#000000"'))
    os.utime(edited, ns=(1, 1))
    added.write_text(full())
    removed.unlink()
    after = theming.snapshot(tmp_path)
    assert theming.changed(before, after) == tuple(sorted((edited, added, removed)))
    assert theming.changed(after, theming.snapshot(tmp_path)) == ()


def test_all_that_is_wrong_is_said_at_once():
    with pytest.raises(ThemeError) as caught:
        parse('base = "lagoon"\naccent = "blu"\nmask = 3\ndark = 1\nglow = 2')
    for part in ("accent is 'blu'", "mask is 3", "dark is 1; it must be true or false", "no key 'glow'"):
        assert part in str(caught.value)
