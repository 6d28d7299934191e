"""Films of a recorded session: the app itself, run without a terminal on the times of the trace."""

import asyncio
import contextlib
import contextvars
import math
import os
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

import msgspec
from textual.pilot import Pilot

from dllm_tui import theming
from dllm_tui.errors import ExportError
from dllm_tui.events import ScreenSize, Turn
from dllm_tui.settings import Settings
from dllm_tui.trace import chats
from dllm_tui.trace.archive import Archive
from dllm_tui.trace.frames import Film, Frame, Marker, Shot
from dllm_tui.trace.player import Course, real_time, step_by_step, without_idling
from dllm_tui.tui.capture import Camera
from dllm_tui.tui.stage import Stage

SMALLEST, LARGEST = (20, 5), (400, 120)
"""Columns and rows between which a film may be."""
HOLD = 2.0
"""Seconds that the last frame stands, so that it can be read before a loop begins again."""
LONGEST = 3600.0
"""Seconds above which nobody wants a film."""

MOST_ROUNDS = 200
"""Rounds of messages after which the app must have come to rest."""

Result = TypeVar("Result")

Progress: TypeAlias = Callable[[float], None]
"""Is told how much is done, 0 … 1."""


class Take(msgspec.Struct, frozen=True, kw_only=True):
    """How a session is filmed."""

    size: tuple[int, int] = (100, 30)
    """Columns and rows."""
    theme: str = theming.DEFAULT
    themes_dir: Path | None = None
    """The user's own themes."""
    fps: int = 25
    """Most frames a second: what happens between two is seen in the second."""
    speed: float = 1.0
    """Seconds of the session in a second of the film."""
    stepwise: bool = False
    """Every step stands equally long, instead of as long as it took."""
    longest_idle: float | None = None
    """Seconds to which idle gaps are shortened; ``None`` leaves them."""
    start: float = 0.0
    """Session seconds."""
    end: float | None = None
    """Session seconds; ``None`` is the end."""


def course_of(archive: Archive, take: Take) -> Course:
    """When every event is shown, before it is sped up or cut."""
    if take.stepwise:
        return step_by_step(archive.timeline)
    if take.longest_idle is not None:
        return without_idling(archive.timeline, take.longest_idle)
    return real_time(archive.timeline)


def film(archive: Archive, take: Take, progress: Progress = lambda done: None) -> Film:
    """A film of a session; its shots are rendered as they are asked for.

    Raises:
        ExportError: the size, the times or the theme make no sense.
    """
    course = course_of(archive, take)
    start, end = span_of(archive, course, take)
    seconds = (end - start) / take.speed + HOLD
    if seconds > LONGEST:
        raise ExportError(
            f"The film would be {seconds / 60:,.0f} minutes long.",
            "Cut it with --from and --to, shorten its idle gaps with --idle, or raise --speed.",
        )
    markers = tuple(_markers(archive, course, start, end, take.speed))
    schedule = _schedule(course, start, end, take)
    return _film(archive, take, schedule, seconds=seconds, markers=markers, progress=progress)


def recorded_size(archive: Archive) -> tuple[int, int]:
    """Columns and rows that the interface had when the session began.

    Raises:
        ExportError: the trace doesn't tell.
    """
    for at in archive.timeline.screens:
        screen = archive[at]
        if isinstance(screen, ScreenSize):
            return screen.columns, screen.rows
    raise ExportError("The trace doesn't tell the size of the interface.", "Give one, like 100x30.")


def still(archive: Archive, take: Take, step: int | None = None) -> Film:
    """A film of one frame: a step (counted from 1), or the session's end.

    Raises:
        ExportError: there is no such step, or the size or the theme make no sense.
    """
    timeline = archive.timeline
    if step is None:
        count = len(timeline)
    elif 1 <= step <= len(timeline.moments):
        count = timeline.moments[step - 1].event + 1
    else:
        raise ExportError(f"There is no step {step}.", f"The session has {len(timeline.moments)} steps.")
    return _film(archive, take, [(0.0, count)])


def _film(
    archive: Archive,
    take: Take,
    schedule: list[tuple[float, int]],
    *,
    seconds: float = HOLD,
    markers: tuple[Marker, ...] = (),
    progress: Progress = lambda done: None,
) -> Film:
    if not all(low <= cells <= high for low, cells, high in zip(SMALLEST, take.size, LARGEST, strict=True)):
        size, low, high = (f"{width}x{height}" for width, height in (take.size, SMALLEST, LARGEST))
        raise ExportError(f"A film can't be {size}.", f"Choose between {low} and {high}.")
    themes = theming.load(take.themes_dir).themes
    if take.theme not in themes:
        raise ExportError(f"There is no theme {take.theme!r}.", f"There are {', '.join(themes)}.")
    app = _stage(archive, take)
    camera = Camera(app, themes[take.theme])
    prompts = (turn.text for turn in archive.turns_at(len(archive)) if turn.role == "user")
    return Film(
        width=take.size[0],
        height=take.size[1],
        seconds=seconds,
        shots=_shots(app, camera, take.size, schedule, progress),
        title=chats.title(next(prompts, "")) or "dllm-chat",
        foreground=camera.foreground,
        background=camera.background,
        palette=camera.palette,
        markers=markers,
    )


def span_of(archive: Archive, course: Course, take: Take) -> tuple[float, float]:
    """Where on its course a show begins and ends.

    Raises:
        ExportError: the session has nothing there.
    """
    timeline = archive.timeline
    last = timeline.duration if take.end is None else min(take.end, timeline.duration)
    if not 0 <= take.start <= last:
        raise ExportError(
            f"There is nothing between {take.start:g} s and {last:g} s.",
            f"The session is {timeline.duration:.1f} s long.",
        )
    if take.stepwise or take.longest_idle is not None:
        start, last = (course.second_of(timeline.count_at(second)) for second in (take.start, last))
        return start, last
    return take.start, last


def _schedule(course: Course, start: float, end: float, take: Take) -> list[tuple[float, int]]:
    """At which second of the film how many events have happened, by frames."""
    schedule = [(0.0, course.count_at(start))]
    last = course.count_at(end)
    count = schedule[0][1]
    while count < last:
        frame = math.ceil((course.times[count] - start) / take.speed * take.fps - 1e-6)
        shown = min(last, course.count_at(start + (frame + 1e-6) * take.speed / take.fps))
        count = max(count + 1, shown)
        schedule.append((frame / take.fps, count))
    return schedule


def _markers(archive: Archive, course: Course, start: float, end: float, speed: float) -> Iterator[Marker]:
    """Prompts and blocks, where they begin."""
    places = {block.event: f"block {block.block + 1}" for block in archive.timeline.blocks}
    for said in archive.timeline.turns:
        turn = archive[said.event]
        if isinstance(turn, Turn) and turn.role == "user":
            places[said.event] = chats.title(turn.text)
    for event, label in sorted(places.items()):
        if start <= course.times[event] <= end:
            yield Marker((course.times[event] - start) / speed, label)


def _stage(archive: Archive, take: Take) -> Stage:
    """The app, as it is on a terminal that can do everything, whatever the person's own can do."""
    colourless = os.environ.pop("NO_COLOR", None)
    try:
        settings = Settings(theme=take.theme, animation=False)
        return Stage(archive, settings, themes_dir=take.themes_dir, environment={})
    finally:
        if colourless is not None:
            os.environ["NO_COLOR"] = colourless


def _shots(
    app: Stage, camera: Camera, size: tuple[int, int], schedule: list[tuple[float, int]], progress: Progress
) -> Iterator[Shot]:
    with contextlib.closing(asyncio.new_event_loop()) as loop:
        context = contextvars.copy_context()  # one for all that runs here: in it the app is the active one

        def run(work: Coroutine[Any, Any, Result]) -> Result:
            return loop.run_until_complete(loop.create_task(work, context=context))

        running = app.run_test(size=size)
        pilot = run(running.__aenter__())
        try:
            before: Frame | None = None
            for done, (second, count) in enumerate(schedule, start=1):
                run(_happen(app, count))
                frame = run(settle(pilot, camera))
                if frame != before:
                    yield Shot(second, frame)
                    before = frame
                progress(done / len(schedule))
        finally:
            run(running.__aexit__(None, None, None))
            run(loop.shutdown_default_executor())


async def _happen(app: Stage, count: int) -> None:
    app.show(count)


async def settle(pilot: Pilot[Any], camera: Camera) -> Frame:
    """What a running app shows when all that is under way has been drawn.

    Raises:
        ExportError: it does not come to rest.
    """
    before: Frame | None = None
    for _ in range(MOST_ROUNDS):
        await pilot.pause(0)
        frame = camera.take()
        if frame == before and not any(worker.is_running for worker in pilot.app.workers):
            return frame
        before = frame
    raise ExportError(
        "The interface does not come to rest, so it can't be filmed.", "This is a fault of ours."
    )
