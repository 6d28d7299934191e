"""Watching a trace in the app: to and fro, at any speed, by the keys that the footer names."""

import contextlib
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot

from dllm_tui.settings import Settings
from dllm_tui.trace.archive import Archive
from dllm_tui.trace.player import real_time
from dllm_tui.tui.actions import ACTIONS
from dllm_tui.tui.replay import CONTROLS, ReplayApp
from dllm_tui.tui.widgets.prompt import Prompt
from tests.film import traces
from tests.tui.app_helpers import said


class Clock:
    time = 100.0

    def __call__(self) -> float:
        return self.time


class Show:
    """A replay with a clock that stands until it is moved."""

    def __init__(self, app: ReplayApp, clock: Clock, pilot: Pilot[Any]) -> None:
        self.app, self.clock, self.pilot = app, clock, pilot

    async def wait(self, seconds: float) -> None:
        self.clock.time += seconds
        self.app.tick()
        await self.pilot.pause()

    async def press(self, *keys: str) -> int:
        """Press keys; the moment that is shown then."""
        await self.pilot.press(*keys)
        self.app.tick()
        return self.moment

    @property
    def moment(self) -> int:
        return self.app.replayed.archive.timeline.moment_of(self.app.replayed.count)

    @property
    def says(self) -> str:
        return str(self.app.query_one(Prompt).border_title)


@contextlib.asynccontextmanager
async def show(tmp_path: Path, **options: Any) -> AsyncGenerator[Show]:
    path = traces.write(tmp_path / "a.jsonl", traces.session())
    clock = Clock()
    with Archive(path) as archive:
        course = real_time(archive.timeline)
        app = ReplayApp(archive, Settings(animation=False), course, now=clock, environment={}, **options)
        async with app.run_test(size=(110, 34)) as pilot:
            for _ in range(100):
                if app.player.playing:
                    break
                await pilot.pause()
            yield Show(app, clock, pilot)


async def test_it_plays_in_real_time(tmp_path: Path):
    async with show(tmp_path) as it:
        timeline = it.app.replayed.archive.timeline
        assert it.app.replayed.count == timeline.count_at(0)
        assert "playing" in it.says
        await it.wait(0.5)
        assert it.app.replayed.count == timeline.count_at(0.5)
        assert "replay · ×1 · 0.5 of" in it.says
        await it.wait(1000)
        assert it.app.replayed.count == len(timeline)
        assert "at the end" in it.says


async def test_space_pauses_and_plays(tmp_path: Path):
    async with show(tmp_path) as it:
        await it.wait(0.5)
        await it.press("space")
        count = it.app.replayed.count
        await it.wait(10)
        assert it.app.replayed.count == count
        assert "paused" in it.says
        await it.press("space")
        await it.wait(0.5)
        assert it.app.replayed.count > count


async def test_arrows_go_by_steps_and_blocks(tmp_path: Path):
    async with show(tmp_path) as it:
        assert [await it.press(key) for key in ("right", "right", "right", "left")] == [0, 1, 2, 1]
        moments = it.app.replayed.archive.timeline.moments
        next_block = await it.press("shift+right")
        assert moments[next_block].opens
        assert next_block > 1
        assert await it.press("shift+left") == 0
        assert await it.press("left") == 0
        assert await it.press("end") == len(moments) - 1
        assert it.app.replayed.count == len(it.app.replayed.archive)
        assert await it.press("home") < 0
        await it.wait(50)
        assert it.moment < 0  # stepping has paused it


async def test_comma_and_full_stop_change_the_speed(tmp_path: Path):
    async with show(tmp_path) as it:
        await it.press("comma")
        assert "×0.5" in it.says
        await it.wait(1)
        assert it.app.replayed.count == it.app.replayed.archive.timeline.count_at(0.5)
        await it.press("full_stop", "full_stop")
        assert "×2" in it.says


async def test_before_the_first_moment_nothing_is_said_of_a_chat(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(ReplayApp, "_start_show", lambda app: None)
    async with show(tmp_path) as it:
        screen = "\n".join(said(widget) for widget in it.app.screen.query("*") if widget.is_on_screen)
        assert "opening" in screen
        assert "loading" not in screen
        assert "Ask something" not in screen
        monkeypatch.undo()
        it.app._start_show()
        await it.wait(0.1)
        assert "opening" not in said(it.app._chat.status)


async def test_a_part_in_a_loop(tmp_path: Path):
    async with show(tmp_path, start=0.5, end=1.5, speed=2.0, loop=True) as it:
        timeline = it.app.replayed.archive.timeline
        assert it.app.replayed.count == timeline.count_at(0.5)
        await it.wait(0.25)
        assert it.app.replayed.count == timeline.count_at(1.0)
        await it.wait(1.25)
        assert it.app.replayed.count == timeline.count_at(1.5)
        await it.wait(1.25)
        assert it.app.replayed.count == timeline.count_at(1.0)


async def test_nothing_can_be_asked(tmp_path: Path):
    async with show(tmp_path) as it:
        assert it.app.query_one(Prompt).disabled
        for key in ("h", "i", "enter", "ctrl+r", "ctrl+n", "e", "escape"):
            await it.pilot.press(key)
        assert it.app.is_running
        await it.press("end")
        shown = len(it.app.query(".who"))
        for key in ("ctrl+r", "ctrl+n", "e", "alt+up", "ctrl+l", "ctrl+p", "f2"):
            await it.pilot.press(key)
        await it.pilot.pause()
        assert len(it.app.query(".who")) == shown > 2
        assert len(it.app.screen_stack) == 1


async def test_what_helps_to_look_works(tmp_path: Path):
    async with show(tmp_path) as it:
        await it.press("end", "f9", "f9", "f3")
        await it.press("f1")
        assert len(it.app.screen_stack) == 2
        count = it.app.replayed.count
        await it.press("left")  # the help has the keys
        assert it.app.replayed.count == count
        await it.press("escape", "left")
        assert it.app.replayed.count < count


async def test_keys_that_the_footer_names_work(tmp_path: Path):
    async with show(tmp_path) as it:
        await it.wait(1)
        for control in CONTROLS:
            for key in ACTIONS[control].keys:
                await it.press(key)
        assert it.app.is_running
        await it.press("ctrl+q")
        assert not it.app.is_running


@pytest.mark.parametrize("name", traces.edges())
async def test_odd_sessions_play(tmp_path: Path, name: str):
    path = traces.write(tmp_path / "a.jsonl", traces.edges()[name])
    clock = Clock()
    with Archive(path) as archive:
        app = ReplayApp(archive, Settings(), real_time(archive.timeline), now=clock, environment={})
        async with app.run_test(size=(80, 24)) as pilot:
            for key in ("right", "left", "shift+right", "end", "space", "home", "shift+left", "space"):
                await pilot.press(key)
                clock.time += 1e6
                app.tick()
            await pilot.pause()


async def test_paused_in_the_middle_of_an_answer_nothing_is_being_written_and_quitting_asks_nothing(
    tmp_path: Path,
):
    async with show(tmp_path) as it:
        await it.press("right", "right", "right")
        assert it.app.running
        status = said(it.app.query_one("#status"))
        assert "paused" in status and "denoising" not in status
        await it.pilot.press("ctrl+q")
        await it.pilot.pause()
        assert it.app._exit
