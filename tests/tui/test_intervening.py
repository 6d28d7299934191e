"""Changing a canvas by hand and going on from there, in the app, over a real engine with a tiny network."""

from pathlib import Path

import pytest

from dllm_tui.engine.host import EngineHost
from dllm_tui.events import RunStart, Step
from dllm_tui.session import Session
from dllm_tui.settings import Settings
from dllm_tui.trace.archive import Archive
from dllm_tui.tui.app import ChatApp
from dllm_tui.tui.screens.compare import Compare
from dllm_tui.tui.shape import Shape
from dllm_tui.tui.stage import Stage
from dllm_tui.tui.versions import Version
from dllm_tui.tui.widgets.answer import AnswerView
from dllm_tui.tui.widgets.canvas import GUTTER, Canvas
from dllm_tui.tui.widgets.inspector import Inspector
from tests.engine.test_host import engine
from tests.tui.app_helpers import ENVIRONMENT, answered, ask, keys, make_app, said, until
from tests.tui.recorded import RecordedHost, events_of

KNOBS = {"max_new_tokens": 24, "block_size": 8, "steps": 8, "seed": 1, "policy": "confidence"}


def real_app(history: Path | None = None) -> ChatApp:
    host = EngineHost(loader=lambda name, progress: engine(name=name), alternatives=4)
    host.load("tiny")
    settings = Settings(knobs=KNOBS, model="tiny")
    return ChatApp(Session(host, settings, history=history), settings, environment=ENVIRONMENT)


async def opened(pilot, app) -> Canvas:
    """Ask, and inspect the answer's first position."""
    await until(pilot, lambda: app.session.host.state.phase == "ready")
    await ask(pilot, app, "5 6 7")
    await answered(pilot, app)
    await pilot.press("f4", "home")
    await until(pilot, lambda: app.query(Canvas) and app.query(Canvas).last().is_attached)
    await pilot.pause()
    return app.query(Canvas).last()


def panel(app) -> Inspector:
    return app.query_one(Inspector)


def message(app) -> str:
    return str(app.screen.query_one("#above").render())


async def branched(pilot, app, count: int) -> None:
    await until(pilot, lambda: len(app.session.versions) == count and not app.running)
    await pilot.pause()


async def test_remask_and_go_on_is_a_branch_and_both_are_kept(tmp_path):
    app = real_app(tmp_path)
    async with app.run_test(size=(110, 36)) as pilot:
        canvas = await opened(pilot, app)
        first = app.session.run
        await pilot.press(*["right"] * 3, "space", "right", "space")
        await pilot.pause()
        assert canvas.marked == {3, 4}
        assert "2 marked" in said(panel(app))
        await pilot.press("r")
        await pilot.pause()
        assert canvas.marked == frozenset()
        assert [at for at, token in enumerate(canvas.state.tokens) if token is None] == [3, 4]
        assert "remasked" in said(panel(app))
        await pilot.press("u")
        await pilot.pause()
        assert canvas.marked == {3, 4}
        assert None not in canvas.state.tokens
        await pilot.press("r", "enter")
        await branched(pilot, app, 2)
        second = app.session.run
        start = second.events[0]
        assert isinstance(start, RunStart)
        assert start.parent == 0
        assert second.done.token_ids[:3] == first.done.token_ids[:3]
        assert not panel(app).display
        assert len(app.query(AnswerView)) == 1
        assert "version 2 of 2" in str(app.query(AnswerView).last()._head.render())
        app.session.choose(0)
        app.session.close()
    [path] = tmp_path.glob("*.jsonl")
    with Archive(path) as archive:
        assert archive.runs.keys() == {0, 1}
        replay = Stage(archive, Settings(), environment=ENVIRONMENT)
        async with replay.run_test(size=(110, 36)) as pilot:
            replay.show(len(archive) - 1)
            await pilot.pause()
            assert "version 2 of 2" in str(replay.query(AnswerView).last()._head.render())
            replay.show(len(archive))
            await pilot.pause()
            assert "version 1 of 2" in str(replay.query(AnswerView).last()._head.render())
            assert len(replay.query(AnswerView)) == 1
            await pilot.press("f4", "r")
            await pilot.pause()
            assert "no model" in message(replay)


async def test_words_are_set_and_the_model_fills_around_them():
    app = real_app()
    async with app.run_test(size=(110, 36)) as pilot:
        canvas = await opened(pilot, app)
        await pilot.press(*["right"] * 5, "shift+right", "w")
        await until(pilot, lambda: app.screen.query("#tokens"))
        await pilot.press("ctrl+u", "ctrl+k", *keys("20 21 22"))
        await pilot.pause()
        assert "3 tokens" in str(app.screen.query_one("#tokens").render())
        await pilot.press("enter")
        await until(pilot, lambda: canvas.state.tokens[5:8] == [20, 21, 22])
        assert canvas.state.kinds[5] == "fix"
        assert 'set to "' in said(panel(app))
        await pilot.press("left", "left", "r", "enter")
        await branched(pilot, app, 2)
        done = app.session.run.done
        assert done.token_ids[5:8] == (20, 21, 22)
        kinds = {
            change.position: change.kind
            for event in app.session.run.events
            if isinstance(event, Step)
            for change in event.changes
        }
        assert {at for at, kind in kinds.items() if kind == "fix"} == {5, 6, 7}


async def test_another_of_the_best_tokens_is_taken_by_its_number_or_from_a_list():
    app = real_app()
    async with app.run_test(size=(110, 36)) as pilot:
        canvas = await opened(pilot, app)
        await pilot.press(*["right"] * 9)
        await pilot.pause()
        while len(panel(app).choices) < 2:
            await pilot.press("right")
            await pilot.pause()
        at, choices = panel(app).position, panel(app).choices
        assert "1 " in said(panel(app))
        await pilot.press("2")
        await pilot.pause()
        assert canvas.state.tokens[at] == choices[1][0]
        await pilot.press("c")
        await until(pilot, lambda: app.screen.query("OptionList"))
        await pilot.press("down", "down", "enter")
        await until(pilot, lambda: canvas.state.tokens[at] == choices[2][0])
        await pilot.press("enter")
        await branched(pilot, app, 2)
        assert app.session.run.done.token_ids[at] == choices[2][0]


async def test_going_on_from_an_earlier_step_without_a_change_gives_the_same_answer():
    app = real_app()
    async with app.run_test(size=(110, 36)) as pilot:
        await opened(pilot, app)
        first = app.session.run
        await pilot.press("escape", "ctrl+t", "home", *["right"] * 4, "enter")
        await branched(pilot, app, 2)
        assert app.session.run is not first
        assert app.session.run.done.token_ids == first.done.token_ids
        assert app.session.run.done.given > 0


async def test_changes_belong_to_a_step_and_marks_to_an_answer():
    app = real_app()
    async with app.run_test(size=(110, 36)) as pilot:
        canvas = await opened(pilot, app)
        await pilot.press("space", "right", "r", "space")
        await pilot.pause()
        assert "1 marked" in said(panel(app))
        assert "changed" in said(panel(app))
        await pilot.press("space")
        await pilot.pause()
        assert "1 changed · Enter goes on" in said(panel(app))
        await pilot.press("space")
        await pilot.press("left_square_bracket")
        await pilot.pause()
        assert "1 marked" in said(panel(app))
        assert "changed" not in said(panel(app))
        await pilot.press("escape")
        await pilot.pause()
        assert canvas.marked == frozenset()


async def test_versions_are_compared_and_changed_between():
    app = real_app()
    async with app.run_test(size=(120, 36)) as pilot:
        await opened(pilot, app)
        await pilot.press("right", "w")
        await until(pilot, lambda: app.screen.query("#tokens"))
        await pilot.press("ctrl+u", "ctrl+k", *keys("20"), "enter")
        await pilot.pause()
        await pilot.press("enter")
        await branched(pilot, app, 2)
        await pilot.press("alt+c")
        await until(pilot, lambda: app.screen.query("#other"))
        standing, other = (str(app.screen.query_one(id_).render()) for id_ in ("#standing", "#other"))
        assert "version 2" in standing
        assert "from forward" in standing
        assert "of them new" in standing
        assert "version 1" in other
        assert "mean confidence" in other
        assert "tok/fwd" in other
        await pilot.press("enter")
        await until(pilot, lambda: app.session.turns[-1].run == 0)
        await pilot.pause()
        assert "version 1 of 2" in str(app.query(AnswerView).last()._head.render())


@pytest.mark.parametrize("size", [(80, 24), (60, 20), (200, 60)])
async def test_the_comparison_fits(size):
    app = real_app()
    async with app.run_test(size=size) as pilot:
        await opened(pilot, app)
        await pilot.press("r", "enter")
        await branched(pilot, app, 2)
        await ask(pilot, app, "/versions")
        await until(pilot, lambda: app.screen.query("#other"))
        for id_ in ("#standing", "#other"):
            assert app.screen.region.contains_region(app.screen.query_one(id_).parent.region)
            assert app.screen.query_one(id_).parent.region.height > 3
        await pilot.press("escape")


@pytest.mark.parametrize(
    ("other", "said"),
    [((1, 2), "1 token differs"), ((1, 2, 3), "the same words"), ((4, 5), "3 tokens differ")],
)
async def test_it_says_how_many_words_differ_also_where_the_other_only_lacks_some(other, said):
    versions = [Version(run=run, number=run + 1, tokens=ids) for run, ids in enumerate((other, (1, 2, 3)))]
    app = make_app()
    async with app.run_test(size=(120, 24)) as pilot:
        app.push_screen(Compare(versions, 1, "·"))
        await until(pilot, lambda: app.screen.query("#other"))
        await until(pilot, lambda: said in str(app.screen.query_one("#other").render()))


@pytest.mark.parametrize(("width", "together"), [(120, True), (80, False)])
async def test_versions_beside_each_other_scroll_together(width, together):
    versions = [Version(run=run, number=run + 1, tokens=(1,) * 900, texts=("word ",) * 900) for run in (0, 1)]
    app = make_app()
    async with app.run_test(size=(width, 24)) as pilot:
        app.push_screen(Compare(versions, 1, "·"))
        await until(pilot, lambda: app.screen.query("#other"))
        await pilot.press("end")
        await until(pilot, lambda: app.screen.query_one("#standing").region.y < 0)
        assert (app.screen.query_one("#other").region.y < 0) is together


@pytest.mark.parametrize("shape", [Shape.GRID, Shape.HEAT])
async def test_the_other_shapes_are_changed_in_the_same_way_and_by_the_mouse(shape):
    app = real_app()
    async with app.run_test(size=(110, 36)) as pilot:
        await opened(pilot, app)
        app._draw_as(shape)
        await pilot.pause()
        canvas = app.query(Canvas).last()
        row, x = canvas.flow.lines_of(3).start, 5 + 3 * canvas.flow.cell if shape is Shape.GRID else 6
        await pilot.click(canvas, offset=(GUTTER + x, row), control=True)
        await pilot.pause()
        assert canvas.marked == {3}
        await pilot.press("r", "enter")
        await branched(pilot, app, 2)


async def test_where_nothing_can_be_changed_it_says_why():
    app = make_app(RecordedHost(events_of("smol-story")))
    async with app.run_test(size=(110, 34)) as pilot:
        await ask(pilot, app)
        await answered(pilot, app)
        ready = app.session.host.state
        app.session.host.state = ready.__class__(phase="loading")
        await pilot.press("f4", "r")
        await pilot.pause()
        assert "isn't ready" in message(app)
        app.session.host.state = ready
        await pilot.press("space")
        await pilot.pause()
        assert not app._chat.composer.above.display
