"""How the whole screen looks. A change here is to be looked at, then taken with ``--snapshot-update``."""

import threading

import pytest

from dllm_tui.settings import Settings
from dllm_tui.tui.screens.help import Help
from tests.fakes import FakeHost
from tests.tui.app_helpers import answered, ask, make_app, until


@pytest.fixture(autouse=True)
def _pinned(monkeypatch):
    monkeypatch.setenv("TZ", "UTC")
    monkeypatch.delenv("NO_COLOR", raising=False)


def stepwise(steps: int):
    """An app whose run stands still after some steps, and what brings it there."""
    gate = threading.Semaphore(steps)
    host = FakeHost(gate=gate)

    async def begin(pilot, app) -> None:
        await ask(pilot, app, "Tell me a story.")
        reading = lambda: app.query_one("#meters").reading  # noqa: E731
        await until(pilot, lambda: reading() and reading().nfe == steps)

    return host, begin


def test_a_new_chat(snap_compare):
    app = make_app()

    async def before(pilot):
        await until(pilot, lambda: app.query("#footer") and app.query_one("#footer").items)

    assert snap_compare(app, terminal_size=(110, 33), run_before=before)


def test_a_knob_is_turned_while_it_writes(snap_compare):
    host, begin = stepwise(17)
    app = make_app(host)

    async def before(pilot):
        await begin(pilot, app)
        await pilot.press("tab", "down", "down", "left", "left", "left", "left")
        await until(pilot, lambda: app.query_one("#knob-threshold").turned)

    assert snap_compare(app, terminal_size=(110, 33), run_before=before)


def test_a_small_light_terminal(snap_compare):
    app = make_app(settings=Settings(theme="paper"))

    async def before(pilot):
        await ask(pilot, app, "Tell me a story.")
        await answered(pilot, app)
        await pilot.press("f9")
        await until(pilot, lambda: app.query_one("#meters").region.height)

    assert snap_compare(app, terminal_size=(80, 24), run_before=before)


def test_plain(snap_compare):
    host, begin = stepwise(17)
    app = make_app(host, settings=Settings(plain=True))

    async def before(pilot):
        await begin(pilot, app)
        await pilot.press("slash")
        await until(pilot, lambda: app.query_one("#above").region.height == 11)

    assert snap_compare(app, terminal_size=(100, 30), run_before=before)


def test_help(snap_compare):
    app = make_app()

    async def before(pilot):
        await until(pilot, lambda: app.query("#footer") and app.query_one("#footer").items)
        await pilot.press("f1")
        await until(pilot, lambda: isinstance(app.screen, Help))
        await pilot.pause()

    assert snap_compare(app, terminal_size=(100, 30), run_before=before)
