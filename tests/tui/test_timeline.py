"""The timeline below the conversation: what it shows, and scrubbing with it in the app."""

import threading

import msgspec
import pytest

from dllm_tui.events import Header, KnobChange, Step, encode
from dllm_tui.settings import Settings
from dllm_tui.trace.archive import Archive
from dllm_tui.trace.player import real_time
from dllm_tui.trace.timeline import Timeline
from dllm_tui.tui.app import ChatApp
from dllm_tui.tui.marks import ASCII, UNICODE
from dllm_tui.tui.replay import ReplayApp
from dllm_tui.tui.widgets.answer import AnswerView
from dllm_tui.tui.widgets.canvas import Canvas
from dllm_tui.tui.widgets.inspector import Inspector
from dllm_tui.tui.widgets.prompt import Prompt
from dllm_tui.tui.widgets.timeline import Kind, TimelineRow, chart
from tests.tui.app_helpers import answered, ask, make_app, said, until
from tests.tui.recorded import RecordedHost, events_of

SIZE = (110, 34)
STORY = events_of("smol-story")
VERIFY = events_of("smol-verify")


def row(app: ChatApp) -> TimelineRow:
    return app.query_one(TimelineRow)


def shown(app: ChatApp) -> str:
    return said(row(app)).strip()


def tokens(app: ChatApp) -> list[int | None]:
    return app.query(Canvas).last().state.tokens


def told() -> list:
    """The story, with a knob turned after nine steps."""
    events = list(STORY)
    steps = [at for at, event in enumerate(events) if isinstance(event, Step)]
    events.insert(steps[9], KnobChange(run=0, t=3.0, changes={"threshold": 0.7}))
    return events


class Live:
    """An app whose run goes on for so many steps, and no further until it is let."""

    def __init__(self, steps: int) -> None:
        self.gate = threading.Semaphore(steps)
        self.steps = steps
        self.app = make_app(RecordedHost(told(), gate=self.gate))
        self.app.figures_seconds = 0.0  # a test reads them as soon as a step is in

    async def begin(self, pilot) -> None:
        await ask(pilot, self.app)
        await self.until(pilot, self.steps)

    async def more(self, pilot, steps: int) -> None:
        self.steps += steps
        self.gate.release(steps)
        await self.until(pilot, self.steps)

    async def until(self, pilot, steps: int) -> None:
        def there() -> bool:
            run = self.app.session.run
            count = sum(isinstance(event, Step) for event in run.events) if run else 0
            return count == steps and len(row(self.app).scrub.timeline) == len(run.events)

        await until(pilot, there)
        await pilot.pause()

    async def end(self, pilot) -> None:
        self.gate.release(1000)
        await answered(pilot, self.app)


# -- the chart


def test_a_bar_a_step_and_a_line_between_blocks():
    timeline = Timeline(STORY)
    signs = chart(timeline, 200, UNICODE)
    bars = [sign for sign in signs if sign.kind is Kind.BAR]
    assert [(bar.first, bar.stop) for bar in bars] == [(at, at + 1) for at in range(len(timeline.moments))]
    text = "".join(sign.text for sign in signs)
    assert text.startswith("B1 ")
    assert text.count("│") == sum(moment.opens for moment in timeline.moments) - 1
    heights = [UNICODE.bars.index(bar.text) for bar in bars]
    committed = [moment.committed for moment in timeline.moments]
    assert all(
        (heights[one] < heights[other]) <= (committed[one] < committed[other])
        for one in range(len(bars))
        for other in range(len(bars))
    )
    assert max(heights) == len(UNICODE.bars) - 1


@pytest.mark.parametrize("marks", [UNICODE, ASCII])
@pytest.mark.parametrize("width", [0, 1, 2, 7, 20, 41, 50, 55, 300])
def test_it_fits_any_width_and_leaves_nothing_out(width, marks):
    timeline = Timeline(told())
    signs = chart(timeline, width, marks)
    assert len(signs) <= width
    if width:
        covered = {at for sign in signs if sign.kind is not Kind.FRAME for at in range(sign.first, sign.stop)}
        assert covered == set(range(len(timeline.moments)))
        assert any(sign.kind is Kind.MARK for sign in signs)


def test_a_mark_stands_for_a_rejection():
    signs = chart(Timeline(VERIFY), 100, UNICODE)
    at = next(index for index, sign in enumerate(signs) if sign.kind is Kind.MARK)
    assert signs[at].text == "▽"
    assert signs[at - 1].first == signs[at].first


def test_a_mark_stands_for_a_knob():
    signs = chart(Timeline(told()), 100, UNICODE)
    assert [sign.text for sign in signs if sign.kind is Kind.MARK] == ["◆"]


# -- the row


async def test_it_is_live_and_says_what_was_turned():
    live = Live(12)
    async with live.app.run_test(size=SIZE) as pilot:
        await live.begin(pilot)
        assert "● live" in shown(live.app)
        assert "◆ threshold 0.50 → 0.70" in shown(live.app)
        await live.end(pilot)
        assert "○ 41 steps" in shown(live.app)


async def test_nothing_yet():
    app = make_app()
    async with app.run_test(size=SIZE) as pilot:
        await pilot.press("ctrl+t", "left", "space", "end", "up")
        assert "nothing to scrub yet" in shown(app)


async def test_scrubbing_leaves_the_run_alone_and_returns_to_live():
    live = Live(12)
    async with live.app.run_test(size=SIZE) as pilot:
        await live.begin(pilot)
        newest = list(tokens(live.app))
        await pilot.press("ctrl+t", "left", "left", "left")
        await pilot.pause()
        assert "step 9/12 · not live" in shown(live.app)
        assert tokens(live.app) != newest
        before = list(tokens(live.app))
        meters = live.app.query_one("#meters")
        assert meters.border_title == "step 9"
        assert meters.reading.nfe == 9
        await live.more(pilot, 5)
        assert "step 9/17 · not live" in shown(live.app)
        assert tokens(live.app) == before
        assert meters.reading.nfe == 9
        await pilot.press("escape")
        await pilot.pause()
        assert "● live" in shown(live.app)
        assert meters.reading.nfe == 17
        assert live.app.running
        await live.more(pilot, 2)
        assert meters.reading.nfe == 19
        await pilot.press("escape")
        await pilot.pause()
        assert isinstance(live.app.focused, Prompt)
        assert live.app.running
        await live.end(pilot)
        assert not live.app.session.run.cancelled


async def test_an_answer_that_ends_meanwhile_stays_where_it_is_looked_at():
    live = Live(12)
    async with live.app.run_test(size=SIZE) as pilot:
        await live.begin(pilot)
        await pilot.press("ctrl+t", "home")
        await live.end(pilot)
        assert "step 1/41 · not live" in shown(live.app)
        assert sum(token is not None for token in tokens(live.app)) == 1
        await pilot.press("l")
        await until(pilot, lambda: not live.app.query(Canvas))
        assert "○ 41 steps" in shown(live.app)
        assert live.app.query_one("#meters").border_title == "last answer"


async def test_keys():
    app = make_app(RecordedHost(told()))
    async with app.run_test(size=SIZE) as pilot:
        await ask(pilot, app)
        await answered(pilot, app)
        await pilot.press("ctrl+t", "home")
        scrub = row(app).scrub
        assert scrub.moment == 0
        await pilot.press("right", "right")
        assert scrub.moment == 2
        await pilot.press("shift+right")
        assert scrub.timeline.moments[scrub.moment].opens
        await pilot.press("shift+left", "left")
        assert scrub.moment == 0
        await pilot.press("end")
        assert scrub.moment == scrub.last
        await pilot.press(*["full_stop"] * 9, "space")
        assert "▶ step" in shown(app)
        assert row(app).border_subtitle == "×10"
        await until(pilot, lambda: not scrub.playing)
        assert scrub.moment == scrub.last
        await pilot.press(*["comma"] * 9)
        assert row(app).border_subtitle == "step by step"


async def test_the_mouse_goes_where_it_is_and_drags():
    app = make_app(RecordedHost(told()))
    async with app.run_test(size=SIZE) as pilot:
        await ask(pilot, app)
        await answered(pilot, app)
        timeline = row(app)
        left = timeline.gutter.left
        bars = [x for x, sign in enumerate(timeline._signs) if sign.kind is Kind.BAR]
        await pilot.mouse_down(timeline, offset=(left + bars[4], 1))
        await pilot.pause()
        assert timeline.scrub.moment == 4
        await pilot.hover(timeline, offset=(left + bars[7], 1))
        await pilot.pause()
        assert timeline.scrub.moment == 7
        assert sum(token is not None for token in tokens(app)) > 4
        await pilot.mouse_up(timeline, offset=(left + bars[7], 1))
        await pilot.hover(timeline, offset=(left + bars[2], 1))
        await pilot.pause()
        assert timeline.scrub.moment == 7
        await pilot.click(timeline, offset=(timeline.size.width - 2, 1))
        await pilot.pause()
        assert timeline.scrub.moment is None


async def test_an_answer_above_is_scrubbed_too():
    app = make_app(RecordedHost(VERIFY, told()))
    async with app.run_test(size=SIZE) as pilot:
        for count in (1, 2):
            await ask(pilot, app)
            await answered(pilot, app, count)
        assert "41 steps" in shown(app)
        await pilot.press("ctrl+t", "up")
        await pilot.pause()
        assert "10 steps" in shown(app)
        assert row(app).border_title == "timeline of answer 1 of 2"
        await pilot.press("home")
        await until(pilot, lambda: app.query(Canvas))
        first, second = app.query(AnswerView)
        assert first.canvas
        assert not second.canvas
        await pilot.press("down")
        await until(pilot, lambda: not app.query(Canvas))
        assert row(app).border_title == "timeline"


async def test_a_new_prompt_is_live_again():
    app = make_app(RecordedHost(VERIFY, told()))
    async with app.run_test(size=SIZE) as pilot:
        await ask(pilot, app)
        await answered(pilot, app)
        await pilot.press("ctrl+t", "home")
        await ask(pilot, app)
        await answered(pilot, app, 2)
        assert "○ 41 steps" in shown(app)
        await pilot.press("ctrl+n")
        await pilot.pause()
        assert "nothing to scrub yet" in shown(app)


async def test_a_low_terminal_hides_it_until_it_is_asked_for():
    app = make_app(RecordedHost(told()))
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.pause()
        assert not row(app).display
        await ask(pilot, app)
        await answered(pilot, app)
        await pilot.press("ctrl+t", "left")
        await pilot.pause()
        assert row(app).has_focus
        assert "step 40/41 · not live" in shown(app)
        await pilot.press("ctrl+t")
        await pilot.pause()
        assert not row(app).display
        assert isinstance(app.focused, Prompt)
        assert not app.query(Canvas)


async def test_plain_is_ascii():
    app = make_app(RecordedHost(told()), settings=Settings(plain=True))
    async with app.run_test(size=SIZE) as pilot:
        await ask(pilot, app)
        await answered(pilot, app)
        await pilot.press("ctrl+t", "left")
        await pilot.pause()
        assert shown(app).isascii()
        assert "not live" in shown(app)


async def test_names_out_of_a_trace_are_harmless():
    events = [
        msgspec.structs.replace(event, changes={"\x1b[31m": "[b]\n"})
        if isinstance(event, KnobChange)
        else event
        for event in told()
    ]
    app = make_app(RecordedHost(events))
    async with app.run_test(size=SIZE) as pilot:
        await ask(pilot, app)
        await until(pilot, lambda: row(app).scrub.ended)
        await pilot.pause()
        assert "\x1b" not in shown(app)
        assert "[b]" in shown(app)


async def test_in_a_replay_nothing_is_called_live(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_bytes(b"\n".join(encode(event) for event in (Header(), *told())) + b"\n")
    with Archive(path) as archive:
        clock = iter(range(10_000))
        app = ReplayApp(
            archive,
            Settings(),
            real_time(archive.timeline),
            environment={},
            now=lambda: next(clock) / 20,
        )
        async with app.run_test(size=SIZE) as pilot:
            await until(pilot, lambda: row(app).scrub.last > 3)
            assert "● replay" in shown(app)
            await pilot.press("space", "f4")
            await until(pilot, lambda: app.query_one(Inspector).display)
            await pilot.press("escape")
            await until(pilot, lambda: not app.query_one(Inspector).display)
            await pilot.press("ctrl+t", "left")
            await pilot.pause()
            assert "not live" in shown(app)
            await pilot.press("escape")
            await pilot.pause()
            assert "● replay" in shown(app)
