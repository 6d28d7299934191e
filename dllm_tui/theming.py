"""Themes: one TOML file each, shipped in ``dllm_themes`` or written by the user. Knows no terminal library.

A theme's name is its file's name. A user's file may start from a shipped theme with ``base = "lagoon"`` and
say only what differs; under a shipped name it takes that theme's place.
"""

import difflib
import re
import tomllib
from collections.abc import Iterator, Mapping
from importlib import resources
from pathlib import Path
from reprlib import repr as short
from typing import Any

import msgspec

from dllm_tui.errors import DllmError

DEFAULT = "lagoon"
RAMP_STEPS = 8
NAMED = 5
"""Wrong colours of one file that are named."""
MAX_BYTES = 64 * 1024
"""Longest theme file that is read: the shipped ones have about 1 KiB."""

_COLOUR_NAMES = ("black", "red", "green", "yellow", "blue", "magenta", "cyan", "white")
ANSI_NAMES = (
    "ansi_default",
    *(f"ansi_{name}" for name in _COLOUR_NAMES),
    *(f"ansi_bright_{name}" for name in _COLOUR_NAMES),
)
"""The terminal's own colours, as a theme with ``ansi = true`` names them."""

_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,31}")
_HEX = re.compile(r"#[0-9a-fA-F]{6}")

Snapshot = dict[Path, tuple[int, int]]
"""Modification time (ns) and size of every theme file of a directory."""


class ThemeError(DllmError):
    """A theme file is not valid; the message names the file and the key, and says what is valid."""


class Theme(msgspec.Struct, frozen=True, kw_only=True):
    """Colours by meaning: ``#rrggbb``, or names of :data:`ANSI_NAMES` where ``ansi`` is true."""

    name: str
    title: str
    """For people, e.g. ``Lagoon``."""
    dark: bool
    """Light text on a dark background."""
    ansi: bool = False
    """Uses the terminal's own 16 colours; nothing may be blended then."""
    background: str
    surface: str
    """Behind inputs and bars."""
    panel: str
    """Behind what lies above the rest: dialogs, menus, help."""
    foreground: str
    muted: str
    """Text that is there but not in the way: labels, hints."""
    border: str
    accent: str
    success: str
    warning: str
    error: str
    mask: str
    """The glyph of a masked position without an opinion."""
    guess: str
    """A masked position's best guess, before it is faded by its confidence."""
    fresh: str
    """Background behind what was committed in the last step."""
    changed: str
    """Edits, remasks, turned knobs, the threshold line."""
    block_a: str
    """Background of every other block."""
    block_b: str
    """Background of the blocks between."""
    ramp: tuple[str, ...]
    """Text of settled tokens by confidence, :data:`RAMP_STEPS` colours, the least confident first."""


class Themes(msgspec.Struct, frozen=True):
    """Every theme by name, and what was wrong with those that could not be read."""

    themes: dict[str, Theme]
    problems: tuple[str, ...] = ()
    """One message a broken file, for people."""


_COLOURS = tuple(
    name for name in Theme.__struct_fields__ if name not in {"name", "title", "dark", "ansi", "ramp"}
)
_KEYS = ("title", "dark", "ansi", *_COLOURS, "ramp")


def shipped() -> dict[str, Theme]:
    """The themes of this package by name, the default first.

    Raises:
        ThemeError: a shipped file is broken (a fault of the installation).
    """
    files = {
        entry.name.removesuffix(".toml"): entry.read_text(encoding="utf-8")
        for entry in resources.files("dllm_themes").iterdir()
        if entry.name.endswith(".toml")
    }
    order = sorted(files, key=lambda name: (name != DEFAULT, name))
    return {name: parse(files[name], name=name, where=f"{name}.toml") for name in order}


def load(directory: Path | None = None) -> Themes:
    """The shipped themes and the user's from ``directory``, which may not exist.

    A broken file never stops the rest: it becomes a problem, and a shipped theme of its name stays.
    """
    base = shipped()
    themes, problems = dict(base), list[str]()
    for path in sorted(snapshot(directory)) if directory else ():
        try:
            themes[path.stem] = parse(_read(path), name=path.stem, where=str(path), bases=base)
        except ThemeError as error:
            problems.append(str(error))
    return Themes(themes, tuple(problems))


def snapshot(directory: Path) -> Snapshot:
    """What the theme files of a directory look like now; two snapshots tell what :func:`changed`."""
    seen: Snapshot = {}
    try:
        for path in directory.glob("*.toml"):
            stat = path.stat()
            seen[path] = (stat.st_mtime_ns, stat.st_size)
    except OSError:
        pass  # gone or unreadable between two calls: there is nothing to load then
    return seen


def changed(before: Snapshot, after: Snapshot) -> tuple[Path, ...]:
    """Files that were written, added or removed between two snapshots."""
    return tuple(sorted(path for path in before.keys() | after.keys() if before.get(path) != after.get(path)))


def parse(text: str, *, name: str, where: str, bases: Mapping[str, Theme] | None = None) -> Theme:
    """The theme of a TOML text.

    Args:
        text: the file's content.
        name: the theme's name.
        where: names the file in messages.
        bases: themes that ``base`` may name.

    Raises:
        ThemeError: not TOML, unknown or missing keys, or values that are not valid; it names them all.
    """
    if not _NAME.fullmatch(name):
        raise ThemeError(
            f"{where}: {name!r} can't be a theme's name; use a–z, 0–9 and -, 32 characters at most"
        )
    try:
        table = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise ThemeError(f"{where}: not valid TOML: {error}") from None

    start = _base(table.pop("base", None), where, bases or {})
    values = {**start, **table}
    values.setdefault("title", name.replace("-", " ").capitalize())
    values.setdefault("ansi", False)
    problems = list(_problems(values))
    if problems:
        raise ThemeError(f"{where}: " + "\n  ".join(problems))
    return msgspec.convert({**values, "name": name}, Theme)


def luminance(colour: str) -> float:
    """Relative luminance of ``#rrggbb``, 0 … 1 (WCAG 2.2)."""
    channels = (int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5))
    red, green, blue = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    """Contrast ratio of two ``#rrggbb``, 1 … 21 (WCAG 2.2)."""
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def _read(path: Path) -> str:
    try:
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise ThemeError(f"{path}: can't be read: {error.strerror}") from None
    if len(data) > MAX_BYTES:
        raise ThemeError(f"{path}: longer than {MAX_BYTES // 1024} KiB, which no theme is")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        raise ThemeError(f"{path}: not UTF-8 text") from None


def _base(name: object, where: str, bases: Mapping[str, Theme]) -> dict[str, Any]:
    if name is None:
        return {}
    if not isinstance(name, str) or name not in bases:
        raise ThemeError(
            f"{where}: base is {short(name)}; it must be one of {', '.join(bases) or 'none here'}"
        )
    values = msgspec.structs.asdict(bases[name])
    return {key: value for key, value in values.items() if key not in {"name", "title"}}


def _problems(values: Mapping[str, Any]) -> Iterator[str]:
    """All that is wrong with a theme's values, and what would be right."""
    for key in values:
        if key not in _KEYS:
            near = difflib.get_close_matches(key, [*_KEYS, "base"], n=1)
            hint = f"did you mean {near[0]}?" if near else f"the keys are base, {', '.join(_KEYS)}"
            yield f"there is no key {short(key)}; {hint}"
    missing = [key for key in _KEYS if key not in values]
    if missing:
        verb = "is" if len(missing) == 1 else "are"
        yield f"{', '.join(missing)} {verb} missing; give it, or start from a theme with base = …"
    for key in ("dark", "ansi"):
        if key in values and not isinstance(values[key], bool):
            yield f"{key} is {short(values[key])}; it must be true or false"
    title, ramp = values["title"], values.get("ramp", ())
    if not isinstance(title, str) or not 1 <= len(title) <= 40 or not title.isprintable():
        yield f"title is {short(title)}; it must be one line of 1 to 40 characters"
    colours = {key: values[key] for key in _COLOURS if key in values}
    if "ramp" in values and (not isinstance(ramp, list | tuple) or len(ramp) != RAMP_STEPS):
        yield f"ramp must be a list of {RAMP_STEPS} colours, the least confident first"
    else:
        colours |= {f"ramp[{index}]": colour for index, colour in enumerate(ramp)}
    ansi = values["ansi"] is True
    wrong = [
        f"{key} is {short(colour)}" for key, colour in colours.items() if not _is_colour(colour, ansi=ansi)
    ]
    if wrong:
        valid = (
            f"with ansi = true it must be one of {', '.join(ANSI_NAMES)}"
            if ansi
            else "it must be a colour like #5fb4f5 (or an ansi_… name, with ansi = true)"
        )
        more = f" and {len(wrong) - NAMED} more" if len(wrong) > NAMED else ""
        yield f"{', '.join(wrong[:NAMED])}{more}; {valid}"


def _is_colour(value: object, *, ansi: bool) -> bool:
    return value in ANSI_NAMES if ansi else isinstance(value, str) and _HEX.fullmatch(value) is not None
