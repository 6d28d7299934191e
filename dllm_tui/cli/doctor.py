"""``dllm-chat doctor``: what is installed, which device, which terminal, and what is wrong with them."""

import json
import os
import platform
import shutil
import sys
from importlib import metadata
from typing import Any

from dllm_tui import __version__, paths, settings, theming
from dllm_tui.cli.console import printable
from dllm_tui.cli.models import status
from dllm_tui.errors import DllmError
from dllm_tui.families import smol

LIBRARIES = (
    "torch",
    "transformers",
    "textual",
    "rich",
    "typer",
    "msgspec",
    "numpy",
    "tokenizers",
    "gguf",
    "triton",
)
NEEDED = set(LIBRARIES) - {"triton"}


def doctor(*, as_json: bool) -> int:
    """Print the findings; how many problems there are."""
    problems = list[str]()
    found: dict[str, dict[str, Any]] = {
        "program": {
            "dllm-chat": __version__,
            "python": platform.python_version(),
            "system": platform.platform(),
        },
        "libraries": _libraries(problems),
        "device": _device(problems),
        "terminal": terminal(),
        "model": {"smol": status(), "file": str(smol.BASE.path)},
        "files": _files(problems),
    }
    if as_json:
        print(json.dumps({**found, "problems": problems}, indent=2))
        return len(problems)
    for section, values in found.items():
        print(section)
        for name, value in values.items():
            print(f"  {name:14}{printable(_words(value))}")
    print(
        "\n".join(
            ["problems", *(f"  {printable(problem)}" for problem in problems)]
            if problems
            else ["all is well"]
        )
    )
    return len(problems)


def terminal() -> dict[str, Any]:
    """What the terminal can do, as far as it says."""
    from rich.console import Console

    columns, rows = shutil.get_terminal_size()
    environment = os.environ
    depth = Console(force_terminal=True).color_system
    return {
        "is_terminal": sys.stdin.isatty() and sys.stdout.isatty(),
        "columns": columns,
        "rows": rows,
        "type": environment.get("TERM", ""),
        "program": environment.get("TERM_PROGRAM", ""),
        "colours": {"truecolor": "16 million", "256": "256", "standard": "16"}.get(depth or "", "none"),
        "no_color": bool(environment.get("NO_COLOR")),
        "unicode": "utf" in (sys.stdout.encoding or "").lower(),
        "tmux": "TMUX" in environment,
        "ssh": "SSH_CONNECTION" in environment or "SSH_TTY" in environment,
    }


def _libraries(problems: list[str]) -> dict[str, Any]:
    versions = dict[str, Any]()
    for name in LIBRARIES:
        try:
            versions[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            versions[name] = "not installed"
            if name in NEEDED:
                problems.append(f"{name} is not installed: install dllm-chat again")
    return versions


def _device(problems: list[str]) -> dict[str, Any]:
    """Where the model would run with ``auto``, or why that can't be told."""
    try:
        import torch

        from dllm_tui.engine.device import pick_device, pick_dtype, settle_threads

        settle_threads()
        device = pick_device("auto")
        found: dict[str, Any] = {
            "device": str(device),
            "dtype": str(pick_dtype("auto", device)).removeprefix("torch."),
            "threads": torch.get_num_threads(),
            "processors": os.cpu_count(),
        }
        if device.type == "cuda":
            names = [torch.cuda.get_device_properties(index) for index in range(torch.cuda.device_count())]
            found["gpus"] = [f"{gpu.name}, {gpu.total_memory / 2**30:.0f} GiB" for gpu in names]
    except (ImportError, OSError, RuntimeError) as error:
        problems.append(f"torch can't be used: {error}")
        return {"device": "none"}
    return found


def _files(problems: list[str]) -> dict[str, Any]:
    try:
        chosen = settings.load()
        themes = theming.load(paths.themes_dir())
        problems.extend(themes.problems)
        if chosen.theme not in themes.themes:
            problems.append(f"theme is {chosen.theme!r}; it must be one of {', '.join(themes.themes)}")
    except DllmError as error:
        problems.append(error.message)
    data = paths.data_dir()
    existing = next(path for path in (data, *data.parents) if path.exists())
    if not os.access(existing, os.W_OK):
        problems.append(f"{existing} can't be written: chats and models can't be kept")
    return {
        "config": str(paths.config_file()),
        "themes": str(paths.themes_dir()),
        "data": str(data),
        "traces": str(paths.traces_dir()),
        "log": str(paths.log_file()),
        "free_gb": round(shutil.disk_usage(existing).free / 1e9, 1),
    }


def _words(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return "; ".join(str(item) for item in value)
    return str(value)
