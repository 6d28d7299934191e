"""Settings: ``config.toml`` under the environment (``DLLM_CHAT_…``) under the command line. Strict.

Each setting's type, range and explanation stand once, in :class:`Settings`; messages and the explained
file of :func:`template` come from there.
"""

import difflib
import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from reprlib import repr as short
from typing import Annotated, Any, Literal, TypeAlias

import msgspec
from msgspec import Meta

from dllm_tui import paths, theming
from dllm_tui.errors import DllmError
from dllm_tui.knobs import KNOBS, PRESETS, SUITED, KnobError, Knobs, Value

PREFIX = "DLLM_CHAT_"
MAX_BYTES = 1 << 20
"""Longest settings file that is read."""

_PLACES = {"DLLM_CHAT_CONFIG", "DLLM_CHAT_DATA"}
"""Variables of :mod:`dllm_tui.paths`, which are no settings."""

Dtype: TypeAlias = Literal["auto", "float32", "bfloat16", "float16", "int8", "int4"]


class SettingsError(DllmError):
    """A setting is not valid; the message names the file or variable and the key, and says what is valid."""


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """Every setting. Construct it through :func:`load`, which checks."""

    model: Annotated[
        str,
        Meta(
            min_length=1, description="Model to start with: a catalogue name, hub id, directory or GGUF file."
        ),
    ] = "smol"
    system: Annotated[
        str, Meta(description="System prompt of every new chat; empty leaves it to the model's own template.")
    ] = ""
    theme: Annotated[
        str, Meta(min_length=1, description="Colours: a theme that is shipped, or one of yours.")
    ] = theming.DEFAULT
    device: Annotated[
        str,
        Meta(
            pattern=r"^(auto|cpu|cuda(:\d{1,2})?)$",
            description="Where the model computes: auto, cpu, cuda, or one GPU of several, like cuda:1.",
        ),
    ] = "auto"
    dtype: Annotated[
        Dtype, Meta(description="Number format of the weights; auto takes what the device is fast with.")
    ] = "auto"
    fps: Annotated[
        int,
        Meta(ge=1, le=120, description="Most frames a second that are drawn; lower it for slow terminals."),
    ] = 20
    """A CPU makes 10 to 15 steps a second, and to look oftener holds it up."""
    animation: Annotated[
        bool, Meta(description="Let things move that needn't; the denoising always does.")
    ] = True
    plain: Annotated[
        bool,
        Meta(description="ASCII only, no colour washes, no animation: for screen readers and old terminals."),
    ] = False
    mouse: Annotated[bool, Meta(description="Take the mouse; false leaves selecting to the terminal.")] = True
    history: Annotated[bool, Meta(description="Keep chats in the data directory.")] = True
    knobs: dict[str, Value] = {}
    """Knobs that were set, in place of the model's own defaults."""
    keys: dict[str, str] = {}
    """Keys by action, in place of the action's own."""

    def with_knobs(self, knobs: Mapping[str, Value]) -> "Settings":
        """These settings with some knobs over them; a ``preset`` among those lies over what was set here."""
        named = PRESETS.get(str(knobs.get("preset")), {})
        single = {name: value for name, value in knobs.items() if name != "preset"}
        return msgspec.structs.replace(self, knobs={**self.knobs, **named, **single})

    def turned(self, defaults: Knobs) -> Knobs:
        """A model's default knobs, with what the user set instead, and what suits the policy chosen."""
        return defaults.replace(**(SUITED.get(str(self.knobs.get("policy")), {}) | self.knobs))


_FIELDS = {
    field.name: field
    for field in msgspec.inspect.type_info(Settings).fields  # pyright: ignore[reportAttributeAccessIssue] (a struct's)
    if field.name not in {"knobs", "keys"}
}


def load(path: Path | None = None, environment: Mapping[str, str] = os.environ) -> Settings:
    """The settings in force: the environment over the file over the defaults.

    Args:
        path: the settings file, which may not exist; the user's own by default.
        environment: variables; ``DLLM_CHAT_FPS`` is the setting ``fps``, ``DLLM_CHAT_STEPS`` the knob.

    Raises:
        SettingsError: the file can't be read, or something in it or in the environment is not valid.
    """
    path = path or paths.config_file()
    values, keys = dict[str, Any](), dict[str, str]()
    knobs, nearer = dict[str, Value](), dict[str, Value]()
    for key, value in _read(path).items():
        if key == "knobs":
            for name, setting in _table(value, key, path).items():
                knobs[name] = _knob(name, setting, where=f"{path}: [knobs]")
        elif key == "keys":
            for name, setting in _table(value, key, path).items():
                keys[name] = _key(name, setting, where=f"{path}: [keys]")
        else:
            values[key] = check(key, value, where=str(path))

    for variable, text in environment.items():
        if not variable.startswith(PREFIX) or variable in _PLACES:
            continue
        name = variable.removeprefix(PREFIX).lower()
        if name in KNOBS or name == "preset":
            nearer[name] = _knob(name, text, where=f"environment: {variable}")
        elif name in _FIELDS:
            values[name] = check(name, text, where=f"environment: {variable}", strict=False)
        else:
            names = [PREFIX + name.upper() for name in (*_FIELDS, *KNOBS, "preset")] + sorted(_PLACES)
            raise SettingsError(f"environment: there is no setting {variable}; {_nearest(variable, names)}")
    return Settings(**values, keys=keys).with_knobs(knobs).with_knobs(nearer)


def save(key: str, value: object, path: Path | None = None) -> None:
    """Write one setting into the file, whose comments and order stay. ``None`` takes it out.

    Args:
        key: a field of :class:`Settings`, or ``knobs.NAME``, or ``keys.ACTION``.
        value: as in the file.
        path: the settings file; the user's own by default.

    Raises:
        SettingsError: the value is not valid, or the file can't be read or written.
    """
    import tomlkit

    path = path or paths.config_file()
    table_name, _, name = key.rpartition(".")
    if value is not None:
        _check_dotted(table_name, name, value, where=str(path))
    _read(path)  # what tomllib reads, tomlkit does; errors are said there

    text = path.read_bytes().decode() if path.exists() else template()
    document = tomlkit.parse(text)
    table: Any = document.setdefault(table_name, tomlkit.table()) if table_name else document
    if value is None:
        table.pop(name, None)
    else:
        table[name] = value
    try:
        paths.write_private(path, document.as_string().encode())
    except OSError as error:
        raise SettingsError(f"{path}: can't be written: {error.strerror}") from None


def check(key: str, value: object, *, where: str, strict: bool = True) -> Any:
    """The value of a field of :class:`Settings` in its own type.

    Args:
        key: the field's name.
        value: what was found.
        where: names the file, variable or option in messages.
        strict: false also reads numbers and switches from text.

    Raises:
        SettingsError: unknown key, wrong type or out of range.
    """
    field = _FIELDS.get(key)
    if field is None:
        raise SettingsError(
            f"{where}: there is no setting {short(key)}; {_nearest(key, [*_FIELDS, 'knobs', 'keys'])}"
        )
    try:
        return msgspec.convert(value, Settings.__annotations__[key], strict=strict)
    except msgspec.ValidationError:
        raise SettingsError(f"{where}: {key} is {short(value)}; it must be {_words(field.type)}") from None


def template() -> str:
    """A settings file in which every setting is explained and none is set."""
    lines = [
        "# Settings of dllm-chat. Take the # off a line to set it; the values shown are the defaults.",
        "",
    ]
    for name, field in _FIELDS.items():
        default = msgspec.json.encode(field.default).decode()
        lines += [f"# {field.type.extra_json_schema['description']}", f"# {name} = {default}", ""]
    lines += ["[knobs]", "# Decoding knobs of every model, in place of the model's own defaults, which may"]
    lines += ["# differ from the values shown: `dllm-chat models show smol` names them.", ""]
    lines += [f"# A named setting of several: {', '.join(PRESETS)}.", '# preset = "balanced"', ""]
    for knob in KNOBS.values():
        default = msgspec.json.encode("auto" if knob.default is None else knob.default).decode()
        lines += [f"# {knob.help}", f"# {knob.name} = {default}", ""]
    lines += [
        "[keys]",
        "# Keys by action, as in the last section of the app's help (F1), which names them all.",
        "",
    ]
    return "\n".join(lines)


def _read(path: Path) -> dict[str, Any]:
    try:
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise SettingsError(f"{path}: can't be read: {error.strerror}") from None
    if len(data) > MAX_BYTES:
        raise SettingsError(f"{path}: longer than 1 MiB, which no settings file is")
    try:
        return tomllib.loads(data.decode("utf-8"))
    except UnicodeDecodeError:
        raise SettingsError(f"{path}: not UTF-8 text") from None
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise SettingsError(f"{path}: not valid TOML: {error}") from None


def _check_dotted(table: str, name: str, value: object, *, where: str) -> None:
    match table:
        case "":
            check(name, value, where=where)
        case "knobs":
            _knob(name, value, where=f"{where}: [knobs]")
        case "keys":
            _key(name, value, where=f"{where}: [keys]")
        case _:
            raise SettingsError(f"{where}: there is no table {short(table)}; the tables are knobs, keys")


def _table(value: object, key: str, path: Path) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise SettingsError(
            f"{path}: {key} is {short(value)}; it must be a table: a line [{key}], and values below"
        )
    return value


def _knob(name: str, value: object, *, where: str) -> Value:
    if name == "preset":
        if value not in PRESETS:
            raise SettingsError(f"{where}: preset is {short(value)}; it must be one of {', '.join(PRESETS)}")
        return str(value)
    if name not in KNOBS:
        raise SettingsError(f"{where}: there is no knob {short(name)}; {_nearest(name, [*KNOBS, 'preset'])}")
    try:
        return KNOBS[name].check(value)
    except KnobError as error:
        raise SettingsError(f"{where}: {error}") from None


def _key(name: str, value: object, *, where: str) -> str:
    if not isinstance(value, str) or not value or not value.isprintable():
        raise SettingsError(
            f'{where}: {short(name)} is {short(value)}; it must be a key like "ctrl+n" or "f2,ctrl+t"'
        )
    return value


def _nearest(name: str, names: list[str]) -> str:
    near = difflib.get_close_matches(name, names, n=1)
    return f"did you mean {near[0]}?" if near else f"there are {', '.join(names)}"


def _words(kind: Any) -> str:
    """What values a type takes, for people."""
    match kind:
        case msgspec.inspect.Metadata():
            return _words(kind.type)
        case msgspec.inspect.LiteralType():
            return "one of " + ", ".join(str(value) for value in kind.values)
        case msgspec.inspect.BoolType():
            return "true or false"
        case msgspec.inspect.IntType():
            return f"a whole number from {kind.ge} to {kind.le}"
        case msgspec.inspect.StrType() if kind.pattern:
            return "one of auto, cpu, cuda, cuda:0, cuda:1, …"
        case _:
            return "text"
