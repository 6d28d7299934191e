"""``dllm-chat replay`` and ``dllm-chat export``: what a trace can become."""

import re
import sys
from pathlib import Path

import msgspec
import typer

from dllm_tui import paths
from dllm_tui.cli.chat import check_theme
from dllm_tui.cli.console import note, progress
from dllm_tui.errors import DllmError
from dllm_tui.settings import Settings
from dllm_tui.trace.player import Course, without_idling
from dllm_tui.trace.timeline import Timeline

IDLE = 2.0
"""Seconds that a pause may well take."""
IDLE_WORTH_A_WORD = 5.0
"""Seconds in which nothing happens, from which people are told how to leave them out."""


class Showing(msgspec.Struct, frozen=True, kw_only=True):
    """How a session is to be shown, as it stands on the command line; checked."""

    speed: float = 1.0
    stepwise: bool = False
    start: float = 0.0
    end: float | None = None


def showing(speed: str | None, start: str | None, end: str | None) -> Showing:
    """Check what was given.

    Raises:
        typer.BadParameter: it is not valid.
    """
    stepwise = speed == "step"
    return Showing(
        speed=1.0 if stepwise else _speed(speed),
        stepwise=stepwise,
        start=_seconds(start, "--from") or 0.0,
        end=_seconds(end, "--to"),
    )


def size_of(text: str) -> tuple[int, int]:
    """Columns and rows.

    Raises:
        typer.BadParameter: it is not valid.
    """
    numbers = re.fullmatch(r"(\d{1,4})[x×](\d{1,4})", text)
    if not numbers:
        raise typer.BadParameter(f"{text!r} is none; write columns and rows like 100x30", param_hint="--size")
    return int(numbers[1]), int(numbers[2])


def trace_of(text: str) -> Path:
    """The file of a trace: a path, or ``last`` for the chat that was used last.

    Raises:
        DllmError: there is no chat.
    """
    if text != "last" or Path(text).exists():
        return Path(text)
    from dllm_tui.trace import chats

    known = [chat for chat in chats.listing(paths.traces_dir()) if not chat.problem]
    if not known:
        raise DllmError("There is no chat yet.", f"Chats are kept in {paths.traces_dir()}.")
    return known[0].path


def replay(trace: Path, chosen: Settings, shown: Showing, *, loop: bool) -> None:
    """Run the app over a trace until the person leaves.

    Raises:
        DllmError: this is no terminal, or the trace can't be read.
        typer.Exit: the app failed.
    """
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise DllmError("A replay needs a terminal.", "To make a film of it, use `dllm-chat export`.")
    check_theme(chosen.theme)
    from dllm_tui.trace.archive import Archive
    from dllm_tui.tui.base import run
    from dllm_tui.tui.film import Take, course_of, span_of
    from dllm_tui.tui.replay import ReplayApp

    with Archive(trace) as archive:
        take = Take(stepwise=shown.stepwise, start=shown.start, end=shown.end)
        course = course_of(archive, take)
        start, end = span_of(archive, course, take)
        app = ReplayApp(
            archive,
            chosen,
            course,
            start=start,
            end=end,
            speed=shown.speed,
            loop=loop,
            themes_dir=paths.themes_dir(),
        )
        code = run(app, paths.log_file())
    if code:
        raise typer.Exit(code)


def export(
    trace: Path,
    out: Path,
    shown: Showing,
    *,
    size: tuple[int, int],
    theme: str,
    fps: int,
    idle: float | None,
    step: int | None,
    cast_version: int,
    force: bool,
) -> None:
    """Write a trace as a film, a still or a text, and say what was written.

    Raises:
        DllmError: the trace can't be read, or the file can't be made or written.
        typer.BadParameter: options don't go together.
    """
    from dllm_tui.trace import export as writers
    from dllm_tui.trace.archive import Archive
    from dllm_tui.trace.cut import cut
    from dllm_tui.trace.export import gif

    name = writers.format_of(out)
    kind = writers.FORMATS[name]
    if step is not None and not kind.still:
        raise typer.BadParameter(f"a .{name} shows no single step; .svg and .png do", param_hint="--step")
    if name == "gif" and fps > gif.MOST_FPS:
        raise typer.BadParameter(f"a GIF shows {gif.MOST_FPS} frames a second at most", param_hint="--fps")
    with Archive(trace) as archive:
        if name in {"md", "txt"}:
            writers.write_text(archive, out, force=force)
            _say(out)
            return
        from dllm_tui.tui.film import Take, course_of, film, span_of, still

        take = Take(
            size=size,
            theme=theme,
            themes_dir=paths.themes_dir(),
            fps=fps,
            speed=shown.speed,
            stepwise=shown.stepwise,
            longest_idle=idle,
            start=shown.start,
            end=shown.end,
        )
        if name == "jsonl":
            course = course_of(archive, take)
            first, last = map(course.count_at, span_of(archive, course, take))
            writers.write_trace(
                cut(archive, course, 0 if shown.start == 0 else first, last), out, force=force
            )
            _say(out)
            return
        if step is not None or not kind.film:
            writers.write_still(still(archive, take, step), out, force=force)
            _say(out)
            return
        with progress() as told:
            made = film(archive, take, lambda done: told(f"filming {out.name}", done))
            writers.write_film(made, out, force=force, fps=fps, cast_version=cast_version)
        _say(out, f"{made.seconds:.1f} s")
        _say_idling(course_of(archive, take), archive.timeline, shortened=idle is not None)


def _say(out: Path, *more: str) -> None:
    note(", ".join([f"{out}: {out.stat().st_size / 1024:.0f} KiB", *more]))


def _say_idling(course: Course, timeline: Timeline, *, shortened: bool) -> None:
    """Say what was left out, or what could be."""
    if course.gaps:
        note(f"left out {course.left_out:.0f} s in which nothing happened, in {course.gaps} gaps (--idle)")
    elif not shortened and (waiting := without_idling(timeline, IDLE).left_out) > IDLE_WORTH_A_WORD:
        note(f"in {waiting:.0f} s of the session nothing happens; --idle {IDLE:g} leaves them out")


def _speed(text: str | None) -> float:
    if text is None:
        return 1.0
    try:
        speed = float(text.removeprefix("x").removeprefix("×"))
    except ValueError:
        speed = 0.0
    if not 0.01 <= speed <= 100:
        raise typer.BadParameter(f"{text!r} is none; give 0.01 to 100, or step", param_hint="--speed")
    return speed


def _seconds(text: str | None, option: str) -> float | None:
    """Seconds, or minutes and seconds."""
    if text is None:
        return None
    parts = re.fullmatch(r"(?:(\d{1,3}):)?(\d{1,6}(?:\.\d{1,6})?)", text)
    if not parts:
        raise typer.BadParameter(f"{text!r} is no time; write 12.5 or 1:05", param_hint=option)
    return 60 * int(parts[1] or 0) + float(parts[2])
