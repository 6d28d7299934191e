"""The inspector: everything about one position, at any step."""

import re
import threading

import msgspec
import pytest

from dllm_tui.events import Guess, Step
from dllm_tui.settings import Settings
from dllm_tui.tui.app import ChatApp
from dllm_tui.tui.sightings import sightings
from dllm_tui.tui.widgets.canvas import GUTTER, Canvas
from dllm_tui.tui.widgets.conversation import Conversation
from dllm_tui.tui.widgets.inspector import BAR, Inspector
from dllm_tui.tui.widgets.prompt import Prompt
from dllm_tui.tui.widgets.timeline import TimelineRow
from tests.tui.app_helpers import answered, ask, make_app, said, until
from tests.tui.recorded import RecordedHost, events_of

STORY = events_of("smol-story")
VERIFY = events_of("smol-verify")


TOP = ((504, 0.6), (19212, 0.37), (2, 0.01))
"""The alternatives at every commit."""


def with_alternatives(events):
    """As an engine sends them that is asked for alternatives."""
    return [
        msgspec.structs.replace(
            event,
            guesses=tuple(
                msgspec.structs.replace(guess, top=((guess.token_id, guess.confidence), (504, 0.01)))
                for guess in event.guesses
            ),
            decided=tuple(
                Guess(
                    position=change.position, token_id=change.token_id, confidence=0.6, entropy=1.5, top=TOP
                )
                for change in event.changes
                if change.token_id is not None
            ),
        )
        if isinstance(event, Step)
        else event
        for event in events
    ]


def panel(app: ChatApp) -> Inspector:
    return app.query_one(Inspector)


async def opened(pilot, app: ChatApp) -> str:
    """Ask, and inspect the answer; what the inspector says."""
    await ask(pilot, app)
    await answered(pilot, app)
    await pilot.press("f4")
    await until(pilot, lambda: app.query(Canvas) and app.query(Canvas).last().is_attached)
    await pilot.pause()
    return said(panel(app))


# -- what is known of a position


def test_sightings_tell_every_guess_and_the_commit():
    steps = [event for event in STORY if isinstance(event, Step)]
    for position in (0, 1, 7, 20, 95):
        seen = sightings(STORY, position)
        guesses = [guess for step in steps for guess in step.guesses if guess.position == position]
        changes = [change for step in steps for change in step.changes if change.position == position]
        assert [one.token_id for one in seen if not one.kind] == [guess.token_id for guess in guesses]
        assert [one.token_id for one in seen if one.kind] == [change.token_id for change in changes]
        assert [one.nfe for one in seen] == sorted(one.nfe for one in seen)


def test_sightings_tell_what_verify_took_back():
    [step] = [
        event for event in VERIFY if isinstance(event, Step) and event.phase == "commit" and event.changes
    ]
    kinds = {change.position: change.kind for change in step.changes}
    for position, kind in kinds.items():
        assert kind in [one.kind for one in sightings(VERIFY, position)]


def test_a_position_that_was_cut_off_begins_anew():
    long = [event for event in STORY if isinstance(event, Step)][:6]
    cut = msgspec.structs.replace(long[-1], length=3, changes=(), guesses=())
    assert sightings(long, 5)
    assert sightings([*long, cut], 5) == []


# -- in the app


async def test_it_tells_token_step_and_confidence():
    app = make_app(RecordedHost(STORY))
    async with app.run_test(size=(110, 34)) as pilot:
        text = await opened(pilot, app)
        assert panel(app).border_title == "position 1 of 96"
        assert '"The"' in text
        assert "id 504" in text
        assert "54 68 65" in text
        assert "block 1, prefill" in text
        assert "0.23" in text
        assert "no guesses before" in text
        await pilot.press("right")
        await pilot.pause()
        text = said(panel(app))
        assert panel(app).border_title == "position 2 of 96"
        assert '" lighthouse"' in text
        assert "nats" in text
        assert "alternatives weren't recorded" in text
        assert text.count("B1") >= 3


async def test_alternatives_and_margin():
    app = make_app(RecordedHost(with_alternatives(STORY)))
    async with app.run_test(size=(110, 34)) as pilot:
        await opened(pilot, app)
        await pilot.press("right")
        await pilot.pause()
        text = said(panel(app))
        assert "margin" in text
        assert '"The"' in text
        assert "━" in text
        assert "weren't recorded" not in text


async def test_numbers_and_bars_are_those_of_the_trace():
    app = make_app(RecordedHost(with_alternatives(STORY)))
    async with app.run_test(size=(110, 34)) as pilot:
        text = await opened(pilot, app)
        shown = [re.fullmatch(r"(\d) .* (\d\.\d\d) ?(━*)", line) for line in text.splitlines()]
        told = [(int(line[1]), float(line[2]), len(line[3])) for line in shown if line]
        assert told == [(at, chance, round(chance * BAR)) for at, (_, chance) in enumerate(TOP, start=1)]
        assert "entropy 1.50 nats  margin 0.23" in text
        committed = next(line for line in text.splitlines() if line.startswith("confidence"))
        first = next(change for step in STORY if isinstance(step, Step) for change in step.changes)
        assert f"{first.confidence:.2f} {'━' * round(first.confidence * BAR)}" in committed


async def test_an_earlier_step_tells_what_it_came_to():
    app = make_app(RecordedHost(VERIFY))
    async with app.run_test(size=(110, 34)) as pilot:
        await opened(pilot, app)
        scrub = app.query_one(TimelineRow).scrub
        last = scrub.canvas
        await pilot.press("right", "right", *["left_square_bracket"] * scrub.last)
        await pilot.pause()
        for _ in range(scrub.last):
            if scrub.canvas.tokens[2:3] != [last.tokens[2]] and len(scrub.canvas) > 2:
                break
            await pilot.press("right_square_bracket")
            await pilot.pause()
        assert f"at the end {panel(app)._text(last.tokens[2])} {last.confidences[2]:.2f}" in said(panel(app))
        await pilot.press("end", *["right_square_bracket"] * scrub.last)
        await pilot.pause()
        assert "at the end" not in said(panel(app))


async def test_keys_move_on_the_canvas():
    app = make_app(RecordedHost(STORY))
    async with app.run_test(size=(110, 34)) as pilot:
        await opened(pilot, app)
        canvas = app.query(Canvas).last()
        assert canvas.cursor == 0
        await pilot.press("left")
        assert canvas.cursor == 0
        await pilot.press("down")
        await pilot.pause()
        assert canvas.flow.lines_of(canvas.cursor).start == 1
        await pilot.press("up")
        await pilot.pause()
        assert canvas.cursor == 0
        await pilot.press("end")
        await pilot.pause()
        assert canvas.cursor == 95
        await pilot.press("right", "home")
        await pilot.pause()
        assert canvas.cursor == 0
        await pilot.press("escape")
        await until(pilot, lambda: not app.query(Canvas))
        assert not panel(app).display
        assert isinstance(app.focused, Prompt)


async def test_a_click_on_the_canvas_inspects():
    app = make_app(RecordedHost(STORY))
    async with app.run_test(size=(110, 34)) as pilot:
        await ask(pilot, app)
        await answered(pilot, app)
        await pilot.press("f3")
        await until(pilot, lambda: app.query(Canvas))
        await pilot.pause()
        canvas = app.query(Canvas).last()
        await pilot.click(canvas, offset=(GUTTER + 5, 0))
        await pilot.pause()
        assert panel(app).display
        assert panel(app).border_title == "position 2 of 96"
        assert canvas.cursor == 1
        await pilot.press("f4")
        await pilot.pause()
        assert not panel(app).display
        assert canvas.cursor is None
        assert app.query(Canvas)


async def test_an_earlier_step_of_the_same_position():
    app = make_app(RecordedHost(STORY))
    async with app.run_test(size=(110, 34)) as pilot:
        await opened(pilot, app)
        await pilot.press("end", *["left_square_bracket"] * 2)
        await pilot.pause()
        assert panel(app).border_subtitle == "step 39"
        assert "not live" in said(app.query_one(TimelineRow))
        position = panel(app).position
        assert position is not None
        await pilot.press("right_square_bracket")
        await pilot.pause()
        assert panel(app).border_subtitle == "step 40"
        await pilot.press("escape")
        await pilot.pause()
        assert "not live" not in said(app.query_one(TimelineRow))


async def test_what_is_inspected_is_in_sight():
    app = make_app(RecordedHost(STORY))
    async with app.run_test(size=(80, 12)) as pilot:
        await opened(pilot, app)
        canvas = app.query(Canvas).last()

        def row(position: int) -> int:
            return canvas.region.y + canvas.flow.lines_of(position).start

        seen = app.query_one(Conversation).scrollable_content_region
        for key, position in (("home", 0), ("end", 95), ("home", 0)):
            await pilot.press(key)
            await until(pilot, lambda: panel(app).position == position)  # noqa: B023 – awaited in this turn
            await until(pilot, lambda: seen.y <= row(position) < seen.bottom)  # noqa: B023
        await pilot.press("end", "left_square_bracket", "home", "right_square_bracket")
        await pilot.pause()
        await until(pilot, lambda: seen.y <= row(0) < seen.bottom)


async def test_a_run_that_goes_on_is_inspected_while_it_does():
    gate = threading.Semaphore(3)
    app = make_app(RecordedHost(with_alternatives(STORY), gate=gate))
    async with app.run_test(size=(110, 34)) as pilot:
        await ask(pilot, app)
        await until(pilot, lambda: app.query_one(TimelineRow).scrub.last == 2)
        await pilot.press("f4", "end")
        await pilot.pause()
        before = said(panel(app))
        assert "masked" in before
        assert "best guess" in before
        gate.release(100)
        await answered(pilot, app)
        assert app.query(Canvas)
        assert said(panel(app)) != before


@pytest.mark.parametrize("size", [(80, 24), (60, 20), (40, 10), (160, 50)])
async def test_it_fits_and_shows_what_matters_first(size):
    app = make_app(RecordedHost(with_alternatives(STORY)))
    async with app.run_test(size=size) as pilot:
        await opened(pilot, app)
        assert panel(app).region.area
        assert app.screen.region.contains_region(panel(app).region)
        assert '"The"' in said(panel(app))
        if size[0] >= 76:
            assert app.query_one("#conversation").region.width > 20


async def test_plain_is_ascii_and_markup_is_text():
    strange = [
        msgspec.structs.replace(event, pieces=dict.fromkeys(event.pieces, b"[b]\x1b[31m"))
        if hasattr(event, "pieces")
        else event
        for event in STORY
    ]
    app = make_app(RecordedHost(strange), settings=Settings(plain=True))
    async with app.run_test(size=(110, 34)) as pilot:
        text = await opened(pilot, app)
        assert text.isascii()
        assert "\x1b" not in text
        assert "[b]^[[31m" in text


async def test_nothing_to_inspect():
    app = make_app()
    async with app.run_test(size=(110, 34)) as pilot:
        await pilot.press("f4")
        await pilot.pause()
        assert not panel(app).display
