"""``dllm-chat replay`` and ``dllm-chat export``: what a trace can become."""

import json
import re
import sys
from collections.abc import Generator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import typer

from dllm_tui import paths
from dllm_tui.cli.chat import check_theme
from dllm_tui.cli.console import Told, need_terminal, note, progress
from dllm_tui.errors import DllmError
from dllm_tui.settings import Settings
from dllm_tui.trace.player import Course, without_idling
from dllm_tui.trace.timeline import Timeline

if TYPE_CHECKING:
    from dllm_tui.trace.archive import Archive

MOST_READ = 1 << 30
"""Bytes of a trace that is read from standard input, and so has to be held in memory."""
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


def size_of(text: str) -> tuple[int, int] | None:
    """Columns and rows; ``None`` for those that were recorded.

    Raises:
        typer.BadParameter: it is not valid.
    """
    if text == "recorded":
        return None
    numbers = re.fullmatch(r"(\d{1,4})[x×](\d{1,4})", text)
    if not numbers:
        raise typer.BadParameter(
            f"{text!r} is none; write columns and rows like 100x30, or recorded", param_hint="--size"
        )
    return int(numbers[1]), int(numbers[2])


def trace_of(text: str) -> Path:
    """The file of a trace: a path, the name of a demo, or ``last`` for the chat that was used last.

    Raises:
        DllmError: there is no chat.
    """
    if text != "last" or Path(text).exists():
        demo = paths.demos_dir() / f"{Path(text).name}.jsonl"
        return demo if not Path(text).exists() and demo.exists() else Path(text)
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
    need_terminal("A replay", "To make a film of it, use `dllm-chat export`.")
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


@contextmanager
def _opened(trace: str, *, last_answer: bool) -> "Generator[Archive]":
    """The trace, or only what was asked last in it."""
    from dllm_tui.trace.archive import Archive

    if trace == "-":
        data = sys.stdin.buffer.read(MOST_READ + 1)
        if len(data) > MOST_READ:
            raise DllmError(
                "What comes in is too long for a trace.", "Write it to a file, and give its name."
            )
        whole = Archive(Path("standard input"), data)
    else:
        whole = Archive(trace_of(trace))
    with whole:
        if not last_answer:
            yield whole
            return
        from dllm_tui.trace.cut import only_last_answer

        with only_last_answer(whole) as part:
            yield part


def export(
    trace: str,
    out: Path,
    shown: Showing,
    *,
    last_answer: bool,
    size: tuple[int, int] | None,
    theme: str,
    fps: int,
    idle: float | None,
    step: int | None,
    cast_version: int,
    details: bool,
    force: bool,
    as_json: bool,
) -> None:
    """Write a trace as a film, a still or a text, and say what was written.

    Raises:
        DllmError: the trace can't be read, or the file can't be made or written.
        typer.BadParameter: options don't go together.
        typer.Exit: as DllmError, where that was said in JSON.
    """
    from dllm_tui.trace import export as writers
    from dllm_tui.trace.export import gif

    name = writers.format_of(out)
    kind = writers.FORMATS[name]
    if step is not None and not kind.still:
        raise typer.BadParameter(f"a .{name} shows no single step; .svg and .png do", param_hint="--step")
    if name == "gif" and fps > gif.MOST_FPS:
        raise typer.BadParameter(f"a GIF shows {gif.MOST_FPS} frames a second at most", param_hint="--fps")
    if details and name != "jsonl":
        raise typer.BadParameter(f"a .{name} tells none; a .jsonl can", param_hint="--details")
    tell = _InJson() if as_json else _ToPeople()
    with tell.what_is_wrong(), _opened(trace, last_answer=last_answer) as archive:
        if name in {"md", "txt"}:
            writers.write_text(archive, out, force=force)
            tell.made(out)
            return
        from dllm_tui.tui.film import Take, course_of, film, recorded_size, span_of, still

        take = Take(
            size=size or recorded_size(archive),
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
            from dllm_tui.trace.cut import cut

            course = course_of(archive, take)
            first, last = map(course.count_at, span_of(archive, course, take))
            part = cut(archive, course, 0 if shown.start == 0 else first, last, details=details)
            writers.write_trace(part, out, force=force)
            tell.made(out)
            return
        if step is not None or not kind.film:
            writers.write_still(still(archive, take, step), out, force=force)
            tell.made(out)
            return
        with tell.progress() as told:
            made = film(archive, take, lambda done: told(f"filming {out.name}", done))
            writers.write_film(made, out, force=force, fps=fps, cast_version=cast_version)
        tell.made(out, made.seconds)
        if not as_json:
            _say_idling(course_of(archive, take), archive.timeline, shortened=idle is not None)


class _ToPeople:
    """Tells how an export comes along, on stderr."""

    progress = staticmethod(progress)
    what_is_wrong = staticmethod(nullcontext)
    """Errors are told where all commands' are."""

    def made(self, out: Path, seconds: float | None = None) -> None:
        parts = [f"{out}: {out.stat().st_size / 1024:.0f} KiB", *([f"{seconds:.1f} s"] if seconds else [])]
        note(", ".join(parts))


class _InJson:
    """On stdout, an object a line: how much is done, and in the end what was made or what is wrong."""

    def __init__(self) -> None:
        self._out = sys.stdout  # while it is filmed, the app has taken that for itself

    @contextmanager
    def what_is_wrong(self) -> Generator[None]:
        try:
            yield
        except DllmError as error:
            self._say(error=error.message, hint=error.hint)
            raise typer.Exit(1) from None

    @contextmanager
    def progress(self) -> Generator[Told]:
        percent = -1

        def told(_: str, done: float | None) -> None:
            nonlocal percent
            if done is not None and int(100 * done) > percent:
                percent = int(100 * done)
                self._say(done=percent / 100)

        yield told

    def made(self, out: Path, seconds: float | None = None) -> None:
        self._say(path=str(out), bytes=out.stat().st_size, seconds=seconds)

    def _say(self, **what: object) -> None:
        print(json.dumps(what), file=self._out, flush=True)


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
