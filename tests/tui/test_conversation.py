import pytest
from textual.widgets import Markdown

from dllm_tui import theming
from dllm_tui.events import Done, Error, Step, Turn
from dllm_tui.tui.cells import ASCII
from dllm_tui.tui.palette import Palette
from dllm_tui.tui.widgets.answer import AnswerView
from dllm_tui.tui.widgets.answer_text import AnswerText
from dllm_tui.tui.widgets.canvas import Canvas
from dllm_tui.tui.widgets.conversation import HELPING, MOST_SHOWN, Conversation, Earlier
from tests.tui.scripted import CODE, STORY, Script
from tests.tui.stage import PALETTE, Stage, run_of


class Room(Stage):
    """An app around a conversation, which hears what it says."""

    def __init__(self) -> None:
        super().__init__(Conversation(PALETTE))
        self.talk = self.widget

    def on_conversation_answer_finished(self, event: Conversation.AnswerFinished) -> None:
        self.heard.append(event)

    def on_conversation_link_clicked(self, event: Conversation.LinkClicked) -> None:
        self.heard.append(event)


async def until(pilot, holds):
    """Wait for what takes several rounds of messages."""
    for _ in range(500):
        await pilot.pause(0.02)
        if holds():
            break
    assert holds()
    await pilot.pause()


async def settle(pilot):
    """Let Markdown arrive, which is parsed in a thread."""
    await pilot.pause()
    views = pilot.app.talk.query(AnswerView)
    await until(pilot, lambda: all(view.shown == view.answer.view for view in views))


async def answer(pilot, text=STORY, **more):
    """Play a whole answer."""
    run = run_of(Script(text).events(**more))
    pilot.app.talk.start_answer(run, "smol")
    pilot.app.talk.fold()
    await settle(pilot)
    return run


async def test_what_a_person_writes_stands_as_written():
    async with Room().run_test(size=(70, 20)) as pilot:
        pilot.app.talk.add_user("say [bold]hi[/bold]\n  [link=x]\x1b[31mred\n\tend")
        await pilot.pause()
        text = pilot.app.text()
        assert "you" in text
        assert "say [bold]hi[/bold]" in text
        assert "[link=x]␛[31mred" in text
        assert "end" in text


async def test_what_is_said_before_it_is_shown_is_shown_then():
    async with Room().run_test(size=(70, 20)) as pilot:
        await pilot.app.talk.remove()
        pilot.app.talk = talk = Conversation(PALETTE)
        talk.add_user("early")
        talk.start_answer(run_of(Script(STORY).events()), "")
        talk.fold()
        pilot.app.mount(talk)
        talk.add_notice("still early")
        await settle(pilot)
        assert [line for line in pilot.app.lines() if line][1:3] == [
            "  early",
            "  answer · 65 tokens · 49 forwards · 1.3 tok/fwd · 35 tok/s",
        ]
        assert pilot.app.text().count("still early") == 1
        assert talk.query_one(AnswerText).source == STORY


async def test_a_short_conversation_stands_at_the_top():
    async with Room().run_test(size=(70, 20)) as pilot:
        pilot.app.talk.add_user("hello")
        await pilot.pause()
        assert pilot.app.lines()[:2] == ["  you", "  hello"]


async def test_an_answer_is_a_live_canvas_and_then_markdown():
    async with Room().run_test(size=(70, 20)) as pilot:
        talk, run = pilot.app.talk, run_of()
        talk.start_answer(run, "smol")
        await pilot.pause()
        assert "smol · reading the prompt" in pilot.app.text()
        assert not talk.fold()
        events = Script(STORY).events()
        for event in events[:6]:
            run.add(event)
        assert talk.fold()
        await pilot.pause()
        assert "░" in pilot.app.text()
        assert "tok/fwd" in pilot.app.text()
        assert talk.live
        for event in events[6:]:
            run.add(event)
        talk.fold()
        await settle(pilot)
        assert not talk.live
        assert not talk.query(Canvas)
        assert talk.query_one(AnswerText).source == STORY
        (finished,) = pilot.app.heard
        assert (finished.run, finished.text) == (run, STORY)
        assert isinstance(finished.done, Done)


async def test_the_headline_says_what_the_answer_took():
    async with Room().run_test(size=(90, 20)) as pilot:
        run = run_of([*Script(STORY).events()[:3], Done(reason="length", tokens=34, nfe=12, seconds=1.1)])
        pilot.app.talk.start_answer(run, "smol")
        pilot.app.talk.fold()
        await settle(pilot)
        headline = "smol · length limit · 34 tokens · 12 forwards · 2.8 tok/fwd · 31 tok/s"
        assert headline in pilot.app.text()


async def test_everything_that_came_since_is_folded_in_one_frame():
    async with Room().run_test(size=(70, 20)) as pilot:
        talk, run = pilot.app.talk, run_of()
        talk.start_answer(run, "smol")
        await pilot.pause()
        folds = []
        canvas = talk.query_one(Canvas)
        fold = canvas.fold
        canvas.fold = lambda events: folds.append(len(events)) or fold(events)
        for event in Script(STORY).events()[:20]:
            run.add(event)
        talk.fold()
        talk.fold()
        assert folds == [20]


async def test_markup_html_and_escapes_of_a_model_are_harmless():
    text = "[bold red]x[/] <script>alert(1)</script> \x1b[31m \u202eabc **b**\n\n<div>raw</div>\n"
    async with Room().run_test(size=(90, 20)) as pilot:
        await answer(pilot, text)
        shown = pilot.app.text()
        assert "[bold red]x[/] <script>alert(1)</script>" in shown
        assert "<div>raw</div>" in shown
        assert "\x1b" not in shown
        assert "\u202e" not in shown


async def test_links_are_passed_on_and_not_opened(monkeypatch):
    async with Room().run_test(size=(70, 20)) as pilot:
        opened = []
        monkeypatch.setattr(pilot.app, "open_url", lambda url, **_: opened.append(url))
        await answer(pilot, "See [this](https://example.org/a).")
        markdown = pilot.app.talk.query_one(AnswerText)
        markdown.post_message(Markdown.LinkClicked(markdown, "https://example.org/a"))
        await settle(pilot)
        assert [event.href for event in pilot.app.heard[1:]] == ["https://example.org/a"]
        assert opened == []


async def test_the_last_answer_flips_between_markdown_and_canvas():
    async with Room().run_test(size=(70, 40)) as pilot:
        talk = pilot.app.talk
        assert talk.toggle_view() is None
        await answer(pilot, CODE)
        await answer(pilot, STORY)
        assert talk.toggle_view() == "canvas"
        await settle(pilot)
        first, second = talk.query(AnswerView)
        assert not first.query(Canvas)
        assert second.query_one(Canvas).flow.text().split() == STORY.split()
        assert talk.toggle_view() == "markdown"
        await settle(pilot)
        assert not talk.query(Canvas)


async def test_all_answers_flip_and_coming_ones_follow():
    async with Room().run_test(size=(70, 40)) as pilot:
        talk = pilot.app.talk
        await answer(pilot, CODE)
        await answer(pilot, STORY)
        assert talk.toggle_view(every=True) == "canvas"
        await settle(pilot)
        assert len(talk.query(Canvas)) == 2
        await answer(pilot, STORY)
        assert len(talk.query(Canvas)) == 3
        talk.toggle_view(every=True)
        await settle(pilot)
        assert not talk.query(Canvas)


async def test_a_click_on_its_headline_flips_one_answer():
    async with Room().run_test(size=(70, 40)) as pilot:
        await answer(pilot, CODE)
        await answer(pilot, STORY)
        first, second = pilot.app.talk.query(AnswerView)
        await pilot.click(first.query_one(".who"))
        await settle(pilot)
        assert first.query(Canvas)
        assert not second.query(Canvas)
        await pilot.click(first.query_one(Canvas))
        await settle(pilot)
        assert first.query(Canvas), "only the headline flips"


async def test_flipping_fast_ends_where_it_was_left():
    async with Room().run_test(size=(70, 40)) as pilot:
        await answer(pilot)
        for _ in range(5):
            pilot.app.talk.toggle_view()
        await settle(pilot)
        view = pilot.app.talk.query_one(AnswerView)
        assert len(view.children) == 2
        assert view.query(Canvas)


async def test_errors_stand_in_the_conversation_with_what_to_do():
    async with Room().run_test(size=(70, 20)) as pilot:
        pilot.app.talk.add_error(Error(message="No [red]memory[/] left.", hint="Take a smaller model."))
        pilot.app.talk.add_error(Error(message="No hint here."))
        pilot.app.talk.add_notice("threshold [0.9] → 0.7")
        await pilot.pause()
        text = pilot.app.text()
        assert "No [red]memory[/] left." in text
        assert "Take a smaller model." in text
        assert "threshold [0.9] → 0.7" in text


async def test_a_run_that_fails_shows_its_error_below_what_there_is():
    async with Room().run_test(size=(70, 20)) as pilot:
        events = [
            *Script(STORY).events()[:8],
            Error(message="It broke.", hint="Try again."),
            Done(reason="error"),
        ]
        pilot.app.talk.start_answer(run_of(events), "smol")
        pilot.app.talk.fold()
        await settle(pilot)
        text = pilot.app.text()
        assert "failed" in text
        assert text.index("smol") < text.index("It broke.") < text.index("Try again.")
        assert not pilot.app.talk.live


async def test_an_answer_that_was_stopped_keeps_what_was_decided():
    events = Script(STORY).events()
    half = events[: len(events) // 2]
    tokens = [change.token_id for event in half if isinstance(event, Step) for change in event.changes]
    async with Room().run_test(size=(70, 20)) as pilot:
        done = Done(reason="cancelled", token_ids=tuple(tokens), tokens=len(tokens), nfe=9)
        pilot.app.talk.start_answer(run_of([*half, done]), "smol")
        pilot.app.talk.fold()
        await settle(pilot)
        assert "stopped" in pilot.app.text()
        assert pilot.app.talk.query_one(AnswerText).source


async def long_talk(pilot, count=12):
    for _ in range(count):
        pilot.app.talk.add_user(STORY)
    await pilot.pause()


async def test_it_follows_the_end():
    async with Room().run_test(size=(50, 12)) as pilot:
        talk = pilot.app.talk
        await long_talk(pilot)
        assert talk.scroll_offset.y == talk.max_scroll_y > 0
        talk.add_notice("the newest")
        await pilot.pause()
        assert "the newest" in pilot.app.text()


async def test_a_reader_who_scrolled_up_is_never_pulled_back():
    async with Room().run_test(size=(50, 12)) as pilot:
        talk, run = pilot.app.talk, run_of()
        await long_talk(pilot)
        talk.start_answer(run, "smol")
        await pilot.pause()
        talk.scroll_to(y=10, animate=False)
        await pilot.pause()
        for event in Script(STORY).events():
            run.add(event)
            talk.fold()
        await settle(pilot)
        talk.add_error(Error(message="no"))
        await pilot.pause()
        assert talk.scroll_offset.y == 10
        talk.add_user("I am back")
        await pilot.pause()
        await pilot.pause()
        assert "I am back" in pilot.app.text()


async def test_old_items_lose_their_widgets_and_come_back_at_the_top():
    async with Room().run_test(size=(60, 20)) as pilot:
        talk = pilot.app.talk
        for number in range(MOST_SHOWN + 10):
            talk.add_user(f"message number {number}.")
        await pilot.pause()
        column = talk.query(".said")
        assert len(column) <= MOST_SHOWN
        hidden = MOST_SHOWN + 10 - len(column)
        assert hidden > 0
        assert f"▴ {hidden} earlier" in talk.query_one(Earlier).visual.plain
        talk.scroll_home(animate=False)
        await until(pilot, lambda: talk.scroll_offset.y > 0)
        assert len(talk.query(".said")) == min(MOST_SHOWN + 10, len(column) + HELPING)
        assert f"message number {hidden}." in pilot.app.text(), "what the reader looked at stays in sight"
        talk.scroll_home(animate=False)
        await until(pilot, lambda: len(talk.query(".said")) == MOST_SHOWN + 10)
        await until(pilot, lambda: not talk.query_one(Earlier).display)


async def test_a_turn_and_what_follows_can_be_cut():
    async with Room().run_test(size=(70, 40)) as pilot:
        talk = pilot.app.talk
        talk.add_user("first")
        await answer(pilot)
        talk.add_notice("between")
        talk.add_user("second")
        await answer(pilot)
        talk.cut(2)
        await pilot.pause()
        assert "second" not in pilot.app.text()
        assert "between" in pilot.app.text()
        assert len(talk.query(AnswerView)) == 1
        talk.cut(0)
        await pilot.pause()
        assert "first" not in pilot.app.text()
        talk.cut(7)


async def test_clearing_also_forgets_a_run_that_goes_on():
    async with Room().run_test(size=(70, 20)) as pilot:
        talk, run = pilot.app.talk, run_of()
        talk.start_answer(run, "smol")
        talk.clear()
        await pilot.pause()
        run.add(Done(reason="stop"))
        assert not talk.fold()
        assert not talk.live
        assert pilot.app.text().strip() == ""


async def test_a_stored_conversation_is_shown_with_the_canvases_that_were_kept():
    events = Script(STORY).events()
    turns = [
        Turn(role="system", text="be kind"),
        Turn(role="user", text="tell me"),
        Turn(role="assistant", text=STORY, run=0),
        Turn(role="user", text="and now"),
        Turn(role="assistant", text="Only *text* was kept.", run=7),
    ]
    async with Room().run_test(size=(70, 40)) as pilot:
        talk = pilot.app.talk
        talk.add_user("gone")
        talk.load(turns, {0: events}, "smol")
        await settle(pilot)
        text = pilot.app.text()
        assert "gone" not in text
        assert "be kind" not in text
        assert "tell me" in text
        assert "Only text was kept." in text
        assert "65 tokens" in text
        assert talk.toggle_view() == "canvas"
        await settle(pilot)
        (canvas,) = talk.query(Canvas)
        assert canvas.flow.text().split() == STORY.split()


async def test_a_new_theme_reaches_every_canvas():
    palette = Palette.of(theming.shipped()["paper"], glyphs=ASCII)
    async with Room().run_test(size=(70, 30)) as pilot:
        talk = pilot.app.talk
        await answer(pilot)
        talk.toggle_view()
        await settle(pilot)
        talk.palette = palette
        talk.start_answer(run_of(), "smol")
        await settle(pilot)
        assert [canvas.palette for canvas in talk.query(Canvas)] == [palette, palette]


@pytest.mark.parametrize("size", [(80, 24), (40, 10), (20, 5), (250, 80)])
async def test_it_fits_any_terminal(size):
    async with Room().run_test(size=size) as pilot:
        talk = pilot.app.talk
        talk.add_user(STORY)
        await answer(pilot, CODE)
        talk.toggle_view()
        await answer(pilot, STORY)
        assert all(len(line) <= size[0] for line in pilot.app.lines())
