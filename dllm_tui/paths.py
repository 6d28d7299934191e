"""Where things of the user live. Nothing is created by asking; :func:`private` does that.

``DLLM_CHAT_CONFIG`` and ``DLLM_CHAT_DATA`` name other directories than the platform's own.
"""

import contextlib
import os
import tempfile
from pathlib import Path

import platformdirs

APP = "dllm-chat"


def config_dir() -> Path:
    """Settings and themes."""
    return _chosen("DLLM_CHAT_CONFIG") or platformdirs.user_config_path(APP, appauthor=False)


def config_file() -> Path:
    """The settings, one TOML file."""
    return config_dir() / "config.toml"


def themes_dir() -> Path:
    """The user's own themes."""
    return config_dir() / "themes"


def data_dir() -> Path:
    """Models and chats."""
    return _chosen("DLLM_CHAT_DATA") or platformdirs.user_data_path(APP, appauthor=False)


def models_dir() -> Path:
    """Weights that were fetched."""
    return data_dir() / "models"


def traces_dir() -> Path:
    """Chats: every one is a trace file."""
    return data_dir() / "chats"


def demos_dir() -> Path:
    """Recordings, and answers that were saved to be shown."""
    return data_dir() / "demos"


def log_file() -> Path:
    """What libraries write on stderr while the app owns the screen."""
    state = _chosen("DLLM_CHAT_DATA") or platformdirs.user_state_path(APP, appauthor=False)
    return state / "dllm-chat.log"


def private(directory: Path) -> Path:
    """The directory, made if need be, for the user alone (0700).

    Raises:
        OSError: it can't be made, or something else has its name.
    """
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    return directory


def write_private(path: Path, data: bytes) -> None:
    """Put a whole file (0600) in place of what is there, or leave that untouched.

    A link is followed: the file it points to is replaced.

    Raises:
        OSError: the directory can't be written, or the disk is full.
    """
    path = path.resolve()
    private(path.parent)
    descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        Path(temporary).replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            Path(temporary).unlink()
        raise


def _chosen(variable: str) -> Path | None:
    value = os.environ.get(variable)
    return Path(value).expanduser().absolute() if value else None
