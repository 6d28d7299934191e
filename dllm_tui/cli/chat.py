"""``dllm-chat`` without a command: the app."""

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from dllm_tui import paths, settings, theming
from dllm_tui.cli.console import need_terminal, note
from dllm_tui.cli.host import new_host
from dllm_tui.knobs import Knobs
from dllm_tui.session import Session
from dllm_tui.settings import Settings

if TYPE_CHECKING:
    from dllm_tui.tui.choice import Choice


def check_theme(name: str) -> None:
    """Refuse a theme that was never there; one that is broken is for the app to tell about.

    Raises:
        typer.BadParameter: there is no such theme.
    """
    import typer

    themes = theming.load(paths.themes_dir()).themes
    if name not in themes and not (paths.themes_dir() / f"{name}.toml").exists():
        raise typer.BadParameter(f"{name!r} is none; there are {', '.join(themes)}", param_hint="--theme")


def _models(chosen: Settings) -> "Sequence[Choice]":
    from dllm_tui.cli.models import choices  # reads every family: not before somebody wants to choose

    return choices(chosen)


def _check_model(chosen: Settings, name: str) -> str:
    """What this machine lacks for a model; refuses what can be none."""
    if name == Settings().model:
        return ""
    from dllm_tui.cli.models import shortage
    from dllm_tui.families.catalogue import refuse_nowhere

    refuse_nowhere(name)
    return shortage(name, chosen)


def own_knobs(model: str) -> Knobs | None:
    """The knobs that a model of the catalogue brings; ``None`` for any other."""
    from dllm_tui.families import catalogue

    entry = catalogue.find(model)
    return entry.family.defaults if entry else None


def chat(chosen: Settings) -> int:
    """Run the app until the person leaves; the exit code.

    Raises:
        DllmError: this is no terminal.
    """
    need_terminal("The app", "In scripts and pipes, use `dllm-chat ask`.")
    from dllm_tui.tui.app import ChatApp
    from dllm_tui.tui.base import run

    host = new_host(chosen, recorded=True)
    session = Session(
        host,
        chosen,
        history=paths.traces_dir() if chosen.history else None,
        defaults=own_knobs(chosen.model),
    )
    app = ChatApp(
        session,
        chosen,
        models=partial(_models, chosen),
        check_model=partial(_check_model, chosen),
        themes_dir=paths.themes_dir(),
        save=settings.save,
    )
    try:
        return run(app, paths.log_file())
    finally:
        recording = session.recording
        session.close()
        if recording and recording.turns:
            note(f"The recording is {recording.file}")
        host.close()
