"""The app, driven by keys and mouse, around a host whose runs are made of real events."""

import asyncio
import threading
from pathlib import Path

import pytest
from textual import events
from textual.widgets import Input, OptionList

from dllm_tui.events import Done, Error, KnobChange
from dllm_tui.families.catalogue import refuse_nowhere
from dllm_tui.knobs import Knobs
from dllm_tui.ports import Run
from dllm_tui.settings import Settings
from dllm_tui.tui.actions import ACTIONS
from dllm_tui.tui.app import ChatApp
from dllm_tui.tui.choice import Choice
from dllm_tui.tui.screens.confirm import Confirm
from dllm_tui.tui.screens.help import Help
from dllm_tui.tui.screens.pick import Pick
from dllm_tui.tui.widgets.answer import AnswerView
from dllm_tui.tui.widgets.inspector import Inspector
from dllm_tui.tui.widgets.knob import Turnable
from dllm_tui.tui.widgets.prompt import Prompt
from dllm_tui.tui.widgets.slider import Slider
from dllm_tui.tui.widgets.timeline import TimelineRow
from tests.fakes import ANSWER, FakeHost
from tests.tui.app_helpers import answered, ask, keys, make_app, said, until

SIZE = (110, 34)


def prompt(app: ChatApp) -> Prompt:
    return app.query_one(Prompt)


def hover(app: ChatApp) -> str:
    """What hovers above the prompt; empty where nothing does."""
    above = app.query_one("#above")
    return str(above.visual) if above.display else ""


def slider(app: ChatApp, name: str) -> Slider:
    return app.query_one(f"#knob-{name}", Slider)


def written(app: ChatApp) -> str:
    """Notices and failures in the conversation."""
    notes = app.query("#conversation .note, #conversation .message")
    return "\n".join(str(note.visual) for note in notes)


def events_of(text: str) -> list[events.Key]:
    """The keys of a text as a terminal sends them: all at once, where somebody types fast."""
    return [events.Key(key, character) for key, character in zip(keys(text), text, strict=True)]


def texts(app: ChatApp) -> list[tuple[str, str]]:
    return [(turn.role, turn.text) for turn in app.session.turns]


# -- asking


async def test_enter_sends_and_the_answer_arrives():
    app = make_app(FakeHost(["Hello there, friend."]))
    async with app.run_test(size=SIZE) as pilot:
        await ask(pilot, app, "hi")
        await answered(pilot, app)
        assert texts(app) == [("user", "hi"), ("assistant", "Hello there, friend.")]
        assert prompt(app).text == ""
        assert "ready" in said(app.query_one("#status"))


async def test_an_empty_prompt_is_not_sent():
    app = make_app()
    async with app.run_test(size=SIZE) as pilot:
        await pilot.press("space", "enter")
        await pilot.pause()
        assert not app.session.turns


async def test_the_conversation_goes_to_the_model_whole():
    host = FakeHost(["One.", "Two."])
    app = make_app(host)
    async with app.run_test(size=SIZE) as pilot:
        await ask(pilot, app, "a")
        await answered(pilot, app, 1)
        await ask(pilot, app, "b")
        await answered(pilot, app, 2)
    assert [(m.role, m.text) for m in host.asked[1]] == [("user", "a"), ("assistant", "One."), ("user", "b")]


@pytest.mark.parametrize("key", ["ctrl+j", "alt+enter", "shift+enter"])
async def test_line_breaks(key):
    app = make_app()
    async with app.run_test(size=SIZE) as pilot:
        before = prompt(app).region.height
        await pilot.press("a", key, "b")
        await pilot.pause()
        assert prompt(app).text == "a\nb"
        assert prompt(app).region.height == before + 1


async def test_a_key_with_alt_is_not_typed_where_it_comes_with_its_letter():
    """As terminals send it: Escape and the letter."""
    app = make_app()
    async with app.run_test() as pilot:
        before = app.lens
        app.post_message(events.Key("alt+v", "v"))
        await pilot.pause()
        assert app.query_one(Prompt).text == ""
        assert app.lens is not before


async def test_the_prompt_grows_to_eight_lines_and_no_further():
    app = make_app()
    async with app.run_test(size=SIZE) as pilot:
        prompt(app).replace_text("\n".join("abcdefghijklmnop"))
        await pilot.pause()
        assert prompt(app).size.height == 8


async def test_a_paste_keeps_its_lines():
    app = make_app()
    async with app.run_test(size=SIZE) as pilot:
        app.post_message(events.Paste("one\r\ntwo\rthree\n"))
        await pilot.pause()
        assert prompt(app).text == "one\ntwo\nthree\n"


async def test_what_could_steer_the_terminal_is_pictured_in_the_prompt_and_sent_as_it_is():
    text = "a\x01\x07\x7f\x9b31m\u202eb\x1b[31mשלום"
    app = make_app()
    async with app.run_test(size=SIZE) as pilot:
        app.post_message(events.Paste(text))
        await pilot.pause()
        assert prompt(app).text == text
        shown = said(prompt(app)).splitlines()[0]
        assert shown == "a␁␇␡◦31m◦b␛[31mשלום"


async def test_typing_and_pasting_reach_the_prompt_from_the_conversation():
    app = make_app()
    async with app.run_test(size=SIZE) as pilot:
        app.query_one("#conversation").focus()
        await pilot.press("h", "i")
        assert prompt(app).text == "hi"
        assert app.focused is prompt(app)
        app.query_one("#conversation").focus()
        await pilot.pause()
        app.post_message(events.Paste(" there\n"))
        await pilot.pause()
        assert prompt(app).text == "hi there\n"


async def test_arrows_go_through_earlier_prompts_and_come_back():
    app = make_app(FakeHost(["Ok."]))
    async with app.run_test(size=SIZE) as pilot:
        for number, text in enumerate(("first", "second"), start=1):
            await ask(pilot, app, text)
            await answered(pilot, app, number)
        await pilot.press(*keys("half"), "up")
        assert prompt(app).text == "second"
        await pilot.press("up")
        assert prompt(app).text == "first"
        await pilot.press("up")
        assert prompt(app).text == "first"
        await pilot.press("down", "down")
        assert prompt(app).text == "half"


async def test_arrows_move_inside_a_prompt_of_several_lines():
    app = make_app(FakeHost(["Ok."]))
    async with app.run_test(size=SIZE) as pilot:
        await ask(pilot, app, "old")
        await answered(pilot, app)
        await pilot.press("a", "ctrl+j", "b", "up")
        assert prompt(app).text == "a\nb"
        await pilot.press("up")
        assert prompt(app).text == "old"


async def test_markup_and_escapes_are_plain_text():
    nasty = "[bold]x[/bold] [/] \x1b[31mred [@click=app.quit]y[/]"
    app = make_app(FakeHost([nasty]))
    async with app.run_test(size=SIZE) as pilot:
        prompt(app).replace_text(nasty)
        await pilot.press("enter")
        await answered(pilot, app)
        assert texts(app)[0][1] == nasty
        assert "[bold]x[/bold] [/]" in app.query_one("#talk")._border_title.plain


# -- while it writes


def stepwise(**more) -> tuple[FakeHost, threading.Semaphore]:
    """A host that takes one step for every release."""
    gate = threading.Semaphore(0)
    return FakeHost(gate=gate, **more), gate


async def test_escape_stops_and_keeps_what_is_there():
    host, gate = stepwise()
    app = make_app(host)
    async with app.run_test(size=SIZE) as pilot:
        await ask(pilot, app)
        gate.release(6)
        await until(pilot, lambda: app.query_one("#meters").reading)
        assert "denoising" in said(app.query_one("#status"))
        await pilot.press("escape")
        await answered(pilot, app)
        assert host.runs[0].done.reason == "cancelled"
        assert app.session.turns[-1].role == "assistant"
        assert app.query_one("#meters").border_subtitle == "stopped"


async def test_a_knob_turned_meanwhile_is_marked_until_it_holds():
    host, gate = stepwise()
    app = make_app(host)
    async with app.run_test(size=SIZE) as pilot:
        await ask(pilot, app)
        gate.release(3)
        await until(pilot, lambda: len(host.runs[0].events) > 4)
        await pilot.press("tab", "down", "down", "left")
        await pilot.pause()
        assert app.focused is slider(app, "threshold")
        assert host.runs[0].knobs.now.threshold == pytest.approx(0.85)
        assert slider(app, "threshold").turned
        assert "from the next step" in said(slider(app, "threshold"))
        gate.release(3)
        await until(pilot, lambda: any(isinstance(e, KnobChange) for e in host.runs[0].events))
        await until(pilot, lambda: not slider(app, "threshold").turned)
        gate.release(1000)
        await answered(pilot, app)


async def test_a_prompt_sent_meanwhile_waits_and_can_be_taken_back():
    host, gate = stepwise(answers=["One.", "Two."])
    app = make_app(host)
    async with app.run_test(size=SIZE) as pilot:
        await ask(pilot, app, "a")
        await ask(pilot, app, "b")
        assert "after this answer: b" in str(prompt(app).border_subtitle)
        await ask(pilot, app, "c")
        assert "Esc takes it back" in hover(app)
        gate.release(1000)
        await answered(pilot, app, 2)
        assert [text for role, text in texts(app) if role == "user"] == ["a", "b"]
        assert not prompt(app).border_subtitle


async def test_what_is_said_of_a_waiting_prompt_is_plain_text():
    host, _ = stepwise()
    app = make_app(host)
    async with app.run_test(size=SIZE) as pilot:
        await ask(pilot, app, "a")
        prompt(app).replace_text("a\x1b[31m [bold]\u202eb[/] c\nd")
        await pilot.press("enter")
        await pilot.pause()
        assert prompt(app)._border_subtitle.plain.endswith(": a [31m [bold] b[/] c d")


async def test_escape_stops_and_takes_the_waiting_prompt_back():
    host, gate = stepwise()
    app = make_app(host)
    async with app.run_test(size=SIZE) as pilot:
        await ask(pilot, app, "a")
        await ask(pilot, app, "b")
        await pilot.press("escape")
        await answered(pilot, app)
        assert prompt(app).text == "b"
        assert len(host.asked) == 1
    gate.release(1000)


async def test_no_timer_runs_when_nothing_happens():
    app = make_app(FakeHost(["Ok."]))
    async with app.run_test(size=SIZE) as pilot:
        polls = 0
        look = app._poll

        def counted() -> None:
            nonlocal polls
            polls += 1
            look()

        await ask(pilot, app, "a")
        await answered(pilot, app)
        await pilot.pause(0.2)
        app._poll_timer._callback = counted
        await pilot.pause(0.3)
        assert polls == 0
        await ask(pilot, app, "b")
        await answered(pilot, app, 2)
        assert polls > 0


# -- a model that is not there yet


async def test_a_prompt_waits_for_the_model():
    host = FakeHost(["Ok."], ready=False)
    app = make_app(host)
    async with app.run_test(size=SIZE) as pilot:
        await ask(pilot, app, "early")
        assert "when the model is ready" in str(prompt(app).border_subtitle)
        host.report("fetching", progress=0.43)
        await until(pilot, lambda: "downloading 43%" in said(app.query_one("#status")))
        host.become_ready()
        await answered(pilot, app)
        assert texts(app)[0] == ("user", "early")


async def test_a_model_that_fails_is_reported_and_the_prompt_comes_back():
    host = FakeHost(ready=False)
    app = make_app(host)
    async with app.run_test(size=SIZE) as pilot:
        await ask(pilot, app, "early")
        host.report("failed", error=Error(message="The weights are broken.", hint="Fetch them again."))
        await until(pilot, lambda: prompt(app).text == "early")
        assert "failed" in said(app.query_one("#status"))
        await until(pilot, lambda: "weights are broken" in written(app))
        await pilot.press("enter")
        await until(pilot, lambda: "/model" in hover(app))
        await pilot.press("f2")
        await until(pilot, lambda: isinstance(app.screen, Pick) and app.screen.query_one(OptionList).options)
        await pilot.press("enter")
        await until(pilot, lambda: "ready" in said(app.query_one("#status")))
        assert host.loads == ["smol"]


@pytest.mark.parametrize("name", ["nope", "/there/is/none", "x.gguf"])
async def test_a_model_that_can_be_none_leaves_the_present_one(name):
    host = FakeHost()
    app = make_app(host, check_model=refuse_nowhere)
    async with app.run_test(size=SIZE) as pilot:
        prompt(app).replace_text(f"/model {name}")
        await pilot.press("enter")
        await until(pilot, lambda: "There is no" in hover(app))
        assert "ready" in said(app.query_one("#status"))
        assert host.loads == []


class RefusingHost(FakeHost):
    """Every prompt is too long for it."""

    def generate(self, messages, knobs, *, sinks=(), index=0, origin=None):
        run = Run(knobs)
        refusal = Error(run=index, message="The prompt has 9 tokens.", hint="Shorten it.")
        for event in (refusal, Done(run=index, reason="error")):
            for take in (*sinks, run.add):
                take(event)
        return run


async def test_a_run_that_fails_before_it_begins_is_reported_too():
    app = make_app(RefusingHost())
    async with app.run_test(size=SIZE) as pilot:
        for count in (1, 2):
            await ask(pilot, app, "a")
            await until(pilot, lambda count=count: written(app).count("The prompt has 9 tokens") == count)
            await until(pilot, lambda: not app.running)
        await pilot.press("ctrl+t", "left", "f3", "f4", "escape", "escape")
        await pilot.pause()
        assert "ready" in said(app.query_one("#status"))


async def test_a_run_that_fails_is_reported_and_chat_goes_on():
    host = FakeHost(["Ok."], failure=Error(message="Out of memory.", hint="A smaller block needs less."))
    app = make_app(host)
    async with app.run_test(size=SIZE) as pilot:
        await ask(pilot, app, "a")
        await until(pilot, lambda: "Out of memory" in written(app))
        await until(pilot, lambda: not app.running)
        host.failure = None
        await ask(pilot, app, "b")
        await until(pilot, lambda: not app.running and app.session.turns[-1].role == "assistant")


async def test_fixed_knobs_say_why():
    app = make_app()
    async with app.run_test(size=(110, 60)) as pilot:
        await pilot.press(*keys("/more"), "enter")
        await pilot.pause()
        assert "final once committed" in said(slider(app, "edit_threshold"))
        assert not slider(app, "edit_threshold").focusable


# -- answers and chats


async def test_again():
    host = FakeHost(["One.", "Two."])
    app = make_app(host)
    async with app.run_test(size=SIZE) as pilot:
        await ask(pilot, app, "a")
        await answered(pilot, app)
        await pilot.press("ctrl+r")
        await until(pilot, lambda: ("assistant", "Two.") in texts(app))
        await answered(pilot, app)
        assert texts(app) == [("user", "a"), ("assistant", "Two.")]
        assert [message.text for message in host.asked[1]] == ["a"]


async def test_again_says_where_the_answer_will_be_the_same():
    app = make_app(FakeHost(["One.", "Two.", "Three."]))
    async with app.run_test(size=SIZE) as pilot:
        await ask(pilot, app, "a")
        await answered(pilot, app)
        await pilot.press("ctrl+r")
        await until(pilot, lambda: "At temperature 0 the same answer" in hover(app))
        await until(pilot, lambda: ("assistant", "Two.") in texts(app))
        await answered(pilot, app)
        app.turn(temperature=0.7)
        app.query_one("#above").display = False
        await pilot.press("ctrl+r")
        await until(pilot, lambda: ("assistant", "Three.") in texts(app))
        assert "same" not in hover(app)


async def test_edit_the_last_prompt():
    app = make_app(FakeHost(["One.", "Two.", "Three."]))
    async with app.run_test(size=SIZE) as pilot:
        await ask(pilot, app, "a")
        await answered(pilot, app, 1)
        await ask(pilot, app, "b")
        await answered(pilot, app, 2)
        await pilot.press("alt+up")
        assert prompt(app).text == "b"
        assert "editing" in str(prompt(app).border_title)
        await pilot.press("c", "enter")
        await until(pilot, lambda: ("assistant", "Three.") in texts(app))
        assert texts(app) == [("user", "a"), ("assistant", "One."), ("user", "bc"), ("assistant", "Three.")]
        assert not prompt(app).border_title


async def test_editing_can_be_left():
    app = make_app(FakeHost(["One.", "Two."]))
    async with app.run_test(size=SIZE) as pilot:
        await ask(pilot, app, "a")
        await answered(pilot, app)
        await pilot.press("alt+up", "escape")
        assert prompt(app).text == ""
        await ask(pilot, app, "b")
        await answered(pilot, app, 2)
        assert len(app.session.turns) == 4


async def test_copy_reaches_the_terminal():
    app = make_app(FakeHost(["Copy me."]))
    async with app.run_test(size=SIZE) as pilot:
        await ask(pilot, app, "a")
        await answered(pilot, app)
        written: list[str] = []
        app._driver.write = written.append
        await pilot.press("y")
        assert prompt(app).text == "y"
        await pilot.press("backspace", "shift+tab", "y")
        await pilot.pause()
        assert app.clipboard == "Copy me."
        assert any(text.startswith("\x1b]52;c;") for text in written)


async def test_new_chat_and_back(tmp_path: Path):
    app = make_app(FakeHost(["One."]), history=tmp_path)
    async with app.run_test(size=SIZE) as pilot:
        await ask(pilot, app, "first chat")
        await answered(pilot, app)
        await pilot.press("ctrl+n")
        await pilot.pause()
        assert not app.session.turns
        assert "new chat" in str(app.query_one("#talk").border_title)
        await pilot.press("ctrl+l")
        await until(pilot, lambda: isinstance(app.screen, Pick))
        await pilot.press("enter")
        await until(pilot, lambda: bool(app.session.turns))
        assert texts(app)[0] == ("user", "first chat")
        await pilot.press("up")
        assert prompt(app).text == "first chat"


async def test_chats_are_deleted_only_after_asking(tmp_path: Path):
    app = make_app(FakeHost(["One."]), history=tmp_path)
    async with app.run_test(size=SIZE) as pilot:
        await ask(pilot, app, "gone soon")
        await answered(pilot, app)
        await pilot.press("ctrl+n", "ctrl+l")
        await until(pilot, lambda: isinstance(app.screen, Pick))
        await pilot.press("delete")
        await until(pilot, lambda: isinstance(app.screen, Confirm))
        await pilot.press("escape")
        await pilot.pause()
        assert len(app.session.chats()) == 1
        await pilot.press("delete", "enter")
        await until(pilot, lambda: not app.session.chats())
        assert "no chats yet" in str(app.screen.query_one(OptionList).get_option_at_index(0).prompt)


async def test_delete_this_chat(tmp_path: Path):
    app = make_app(FakeHost(["One."]), history=tmp_path)
    async with app.run_test(size=SIZE) as pilot:
        await ask(pilot, app, "gone soon")
        await answered(pilot, app)
        await pilot.press(*keys("/delete"), "enter")
        await until(pilot, lambda: isinstance(app.screen, Confirm))
        await pilot.press("y")
        await until(pilot, lambda: not app.session.chats())
        assert not app.session.turns


async def test_without_history_chats_say_so():
    app = make_app()
    async with app.run_test(size=SIZE) as pilot:
        await pilot.press(*keys("/chats"), "enter")
        await pilot.pause()
        assert "aren't kept" in hover(app)


# -- slash commands


async def test_slash_commands_turn_knobs():
    app = make_app()
    async with app.run_test(size=SIZE) as pilot:
        for command in ("/steps 4", "/block 16", "/threshold 0.7", "/policy margin", "/temperature 0.5"):
            prompt(app).replace_text(command)
            await pilot.press("enter")
            await pilot.pause()
        now = app.session.knobs
        assert (now.steps, now.block_size, now.threshold, now.policy) == (4, 16, 0.7, "margin")
        assert now.temperature == 0.5
        assert not app.session.turns
        prompt(app).replace_text("/preset polished")
        await pilot.press("enter")
        await pilot.pause()
        assert app.session.knobs.steps == 32


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("/steps 0", "from 1 to 4096"),
        ("/steps ", "from 1 to 4096"),
        ("/steps many", "from 1 to 4096"),
        ("/threshold 2", "from 0 to 1"),
        ("/top-p 0", "from 0.01 to 1"),
        ("/policy luck", "one of confidence"),
        ("/preset fast", "draft, balanced, polished"),
        ("/stpes 4", "did you mean /steps"),
        ("/theme mauve", "there is no theme"),
        ("/again", "nothing was asked"),
        ("/stop", "nothing is running"),
    ],
)
async def test_wrong_commands_say_what_is_right(command, message):
    app = make_app()
    async with app.run_test(size=SIZE) as pilot:
        before = app.session.knobs
        prompt(app).replace_text(command)
        await pilot.pause()
        await pilot.press("enter")
        await pilot.pause()
        assert message in hover(app)
        assert app.session.knobs == before
        await pilot.press("escape")
        assert not hover(app)


async def test_two_slashes_send_one():
    host = FakeHost(["Ok."])
    app = make_app(host)
    async with app.run_test(size=SIZE) as pilot:
        await ask(pilot, app, "//etc is what?")
        await answered(pilot, app)
        assert host.asked[0][-1].text == "/etc is what?"


async def test_completion_by_tab_and_arrows():
    app = make_app()
    async with app.run_test(size=SIZE) as pilot:
        await pilot.press(*keys("/thr"))
        await pilot.pause()
        assert "/threshold" in hover(app)
        await pilot.press("tab")
        assert prompt(app).text == "/threshold "
        await pilot.press(*keys("0.7"), "enter")
        await pilot.pause()
        assert app.session.knobs.threshold == 0.7
        await pilot.press(*keys("/policy "), "down", "down", "enter")
        await pilot.pause()
        assert app.session.knobs.policy == "verify"


async def test_a_typed_value_is_not_completed_away():
    app = make_app()
    async with app.run_test(size=SIZE) as pilot:
        await pilot.press(*keys("/steps 4"))
        await pilot.pause()
        assert "48" in hover(app)
        await pilot.press("enter")
        await pilot.pause()
        assert app.session.knobs.steps == 4


# -- knobs


async def test_presets_and_policy_by_keys():
    app = make_app()
    async with app.run_test(size=SIZE) as pilot:
        await pilot.press("tab", "down", "down", "down", "right")
        await pilot.pause()
        assert app.session.knobs.policy == "streaming"
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(app.screen, Pick))
        await pilot.press(*keys("margin"), "enter")
        await until(pilot, lambda: app.session.knobs.policy == "margin")
        await pilot.press("down", "left")
        await pilot.pause()
        assert app.session.knobs.steps == 4
        await pilot.press("escape")
        assert app.focused is prompt(app)


async def test_a_long_question_is_shown_whole():
    app = make_app()
    async with app.run_test(size=(50, 24)) as pilot:
        question = "Delete 'Tell me a short story about a lighthouse keeper'? It can't be brought back."
        app.push_screen(Confirm(question, yes="delete"))
        await until(pilot, lambda: isinstance(app.screen, Confirm))
        await pilot.pause()
        assert " ".join(said(app.screen.query_one("#question")).split()) == question


async def test_a_title_that_is_cut_shows_that_it_is():
    app = make_app()
    async with app.run_test(size=SIZE) as pilot:
        app.push_screen(Pick("chats", [Choice("a", "word " * 20, "2 messages")]))
        await until(pilot, lambda: isinstance(app.screen, Pick))
        await pilot.pause()
        line = str(app.screen.query_one(OptionList).get_option_at_index(0).prompt)
        assert "…   2 messages" in line


async def test_what_is_said_of_a_choice_breaks_where_it_does_not_fit():
    app = make_app()
    async with app.run_test(size=(60, 30)) as pilot:
        app.push_screen(Pick("policy", [Choice("a", "title " * 20, about="some words " * 12)]))
        await until(pilot, lambda: isinstance(app.screen, Pick))
        await pilot.pause()
        options = app.screen.query_one(OptionList)
        title, *about = str(options.get_option_at_index(0).prompt).split("\n")
        assert title.endswith("…")
        assert len(about) > 1
        assert all(line.startswith("  some") or line.startswith("  words") for line in about)
        assert max(len(line) for line in (title, *about)) <= options.scrollable_content_region.width


async def test_the_frame_says_as_much_of_its_title_as_fits():
    app = make_app(settings=Settings(plain=True))
    async with app.run_test(size=(80, 24)) as pilot:
        await ask(pilot, app, "word " * 30)
        frame = app.query_one("#talk")
        await until(pilot, lambda: "word" in str(frame.border_title))
        room = frame.outer_size.width - 4
        assert str(frame.border_title).endswith("...")
        assert room - 6 <= len(str(frame.border_title)) <= room
        await pilot.resize_terminal(99, 30)
        await until(pilot, lambda: len(str(frame.border_title)) > room)
        assert str(frame.border_title).isascii()


async def test_presets_by_mouse():
    app = make_app()
    async with app.run_test(size=SIZE) as pilot:
        await pilot.click("Presets", offset=(22, 0))
        await pilot.pause()
        assert app.session.knobs.steps == 32


async def test_more_knobs_are_reached_by_keys():
    app = make_app()
    async with app.run_test(size=SIZE) as pilot:
        await pilot.press(*keys("/knobs"), "enter")
        await until(pilot, lambda: isinstance(app.focused, Turnable))
        await pilot.press(*["down"] * 5, "enter")
        await pilot.pause()
        assert app.query_one("#further").display
        await pilot.press("down", "down", "right")
        await pilot.pause()
        assert app.session.knobs.temperature == pytest.approx(0.1)


# -- view


async def test_view_switches_between_text_and_canvas():
    app = make_app(FakeHost(["One two."]))
    async with app.run_test(size=SIZE) as pilot:
        await ask(pilot, app, "a")
        await answered(pilot, app)
        answer = app.query_one(AnswerView).answer
        assert answer.view == "markdown"
        await pilot.press("f3")
        assert answer.view == "canvas"
        await pilot.press(*keys("/view"), "enter")
        await until(pilot, lambda: answer.view == "markdown")


async def test_a_theme_is_shown_while_it_is_chosen_and_kept_when_it_is():
    saved: list[tuple[str, object]] = []
    app = make_app(save=lambda key, value: saved.append((key, value)))
    async with app.run_test(size=SIZE) as pilot:
        await pilot.press("f7")
        await until(pilot, lambda: isinstance(app.screen, Pick))
        await pilot.press("down")
        await pilot.pause()
        assert app.theme != "lagoon"
        await pilot.press("escape")
        await pilot.pause()
        assert app.theme == "lagoon"
        assert not saved
        await pilot.press("f7")
        await until(pilot, lambda: isinstance(app.screen, Pick))
        await pilot.press(*keys("paper"), "enter")
        await until(pilot, lambda: app.theme == "paper" and not isinstance(app.screen, Pick))
        assert saved == [("theme", "paper")]
        assert app.query_one("#conversation").palette.theme.name == "paper"


async def test_themes_of_the_users_own_are_read_again(tmp_path: Path, monkeypatch):
    monkeypatch.setattr("dllm_tui.tui.base.WATCH_SECONDS", 0.05)
    path = tmp_path / "mine.toml"
    path.write_text('base = "lagoon"\naccent = "#ff0000"\n')
    app = make_app(settings=Settings(theme="mine"), themes_dir=tmp_path)
    async with app.run_test(size=SIZE) as pilot:
        assert app.theme == "mine"
        path.write_text('base = "lagoon"\naccent = "#00ff00"\n# longer\n')
        await until(pilot, lambda: app.current_theme.accent == "#00ff00")


async def test_a_theme_that_is_saved_broken_is_said_and_a_new_one_can_be_named(tmp_path: Path, monkeypatch):
    monkeypatch.setattr("dllm_tui.tui.base.WATCH_SECONDS", 0.05)
    app = make_app(themes_dir=tmp_path / "themes")
    async with app.run_test(size=SIZE) as pilot:
        (tmp_path / "themes").mkdir()
        path = tmp_path / "themes" / "mine.toml"
        path.write_text('base = "lagoon"\naccent = "blu"\ndark = 1')
        await until(pilot, lambda: "accent is 'blu'" in written(app))
        assert "dark is 1" in written(app)
        path.write_text('base = "lagoon"')
        assert app.take_theme("mine") == ""
        assert app.theme == "mine"


async def test_copying_says_what_tmux_may_need(monkeypatch):
    monkeypatch.setattr("dllm_tui.tui.clipboard.TOOLS", ())
    app = make_app(FakeHost(["One."]), environment={"TERM": "tmux-256color", "TMUX": "/tmp/x,1,0"})
    async with app.run_test(size=SIZE) as pilot:
        await ask(pilot, app, "a")
        await answered(pilot, app)
        app.action_copy()
        assert "set-clipboard on" in hover(app)
        app._environment = {}
        app.action_copy()
        assert hover(app) == "Copied the last answer."


async def test_a_click_on_an_example_puts_it_into_the_prompt():
    app = make_app()
    async with app.run_test(size=SIZE) as pilot:
        await pilot.pause()
        welcome = app.query_one("#welcome")
        row = next(y for y, line in enumerate(said(welcome).splitlines()) if "sky blue" in line)
        await pilot.click(welcome, offset=(8, row))
        await pilot.pause()
        assert prompt(app).text == "Why is the sky blue?"
        assert not app.session.turns


async def test_an_unknown_theme_is_said():
    app = make_app(settings=Settings(theme="mauve"))
    async with app.run_test(size=SIZE) as pilot:
        await pilot.pause()
        assert app.theme == "lagoon"
        assert "mauve" in written(app)


async def test_the_side_panel_follows_the_width_and_the_key():
    app = make_app()
    async with app.run_test(size=(120, 34)) as pilot:
        side = app.query_one("#side")
        assert side.display
        await pilot.press("f9")
        assert not side.display
        await pilot.press("f9")
        await pilot.resize_terminal(80, 24)
        await pilot.pause()
        assert side.display
    app = make_app()
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.pause()
        assert not app.query_one("#side").display
        await pilot.press("tab")
        await pilot.pause()
        assert app.query_one("#side").display
        assert isinstance(app.focused, Turnable)


async def test_what_is_typed_after_a_click_on_a_knob_reaches_the_prompt():
    app = make_app()
    async with app.run_test(size=SIZE) as pilot:
        await pilot.click("#knob-threshold", offset=(15, 0))
        await pilot.press(*"yes ")
        assert prompt(app).text == "yes "
        assert app.focused is prompt(app)
        slider(app, "threshold").focus()
        await pilot.press("5")
        assert slider(app, "threshold").typed == "5"
        await pilot.press("minus")
        assert prompt(app).text == "yes "


async def test_a_panel_that_a_resize_hides_gives_the_focus_back():
    app = make_app()
    async with app.run_test(size=(120, 34)) as pilot:
        await pilot.click("#knob-threshold", offset=(15, 0))
        await pilot.resize_terminal(80, 24)
        await until(pilot, lambda: app.focused is prompt(app))
        await until(pilot, lambda: "Tab knobs" in said(app.query_one("#footer")))


@pytest.mark.parametrize("size", [(40, 10), (60, 14), (80, 24), (100, 30), (160, 45), (250, 80)])
async def test_every_size_shows_prompt_and_conversation(size):
    app = make_app(FakeHost(["One two three."]))
    async with app.run_test(size=size) as pilot:
        await ask(pilot, app, "a")
        await answered(pilot, app)
        screen = app.screen.region
        for selector in ("#status", "#conversation", "#prompt", "#footer"):
            region = app.query_one(selector).region
            assert region.area > 0
            assert screen.contains_region(region), selector


async def test_a_terminal_too_small_says_so_and_recovers():
    app = make_app()
    async with app.run_test(size=(30, 8)) as pilot:
        await pilot.pause()
        assert "30×8 is too small" in str(app.query_one("#too-small").visual)
        assert not app.query_one("#prompt").display or not app.query_one("#composer").display
        await pilot.resize_terminal(80, 24)
        await pilot.pause()
        assert not app.query_one("#too-small").display
        await pilot.press("a")
        assert prompt(app).text == "a"


# -- program


async def test_model_by_list_and_by_name():
    host = FakeHost()
    app = make_app(host)
    async with app.run_test(size=SIZE) as pilot:
        await pilot.press("f2")
        await until(pilot, lambda: isinstance(app.screen, Pick))
        await pilot.press("down", "enter")
        await until(pilot, lambda: host.loads == ["org/other"])
        await pilot.press(*keys("/model smol"), "enter")
        await until(pilot, lambda: host.loads == ["org/other", "smol"])
        await pilot.press("f2")
        await until(pilot, lambda: isinstance(app.screen, Pick))
        await pilot.press(*keys("my/own-model"), "enter")
        await until(pilot, lambda: host.loads[-1] == "my/own-model")


async def test_help_lists_keys_as_they_are_in_force():
    app = make_app(settings=Settings(keys={"view": "f12", "help": "f11"}))
    async with app.run_test(size=SIZE) as pilot:
        await pilot.press("f1")
        await pilot.pause()
        assert not isinstance(app.screen, Help)
        await pilot.press("f11")
        await until(pilot, lambda: isinstance(app.screen, Help))
        rows = dict(row[:2] for _, rows in app.screen._sections() for row in rows)
        assert rows["F12"].startswith("Switch the last answer between")
        await pilot.press("escape")
        await pilot.pause()
        assert not isinstance(app.screen, Help)


async def test_what_is_typed_fast_away_from_the_prompt_arrives_whole():
    app = make_app()
    async with app.run_test(size=SIZE) as pilot:
        await until(pilot, lambda: app.query("#knob-threshold"))
        app.query_one("#knob-threshold").focus()
        await pilot.pause()
        for key in events_of("Why not so"):
            app.post_message(key)
        await until(pilot, lambda: prompt(app).text == "Why not so")


async def test_digits_typed_fast_behind_a_slash_are_not_the_knobs():
    app = make_app()
    async with app.run_test(size=SIZE) as pilot:
        await until(pilot, lambda: app.query("#knob-block_size"))
        app.query_one("#knob-block_size").focus()
        await pilot.pause()
        for key in events_of("/4.5-"):
            app.post_message(key)
        await until(pilot, lambda: prompt(app).text == "/4.5-")
        assert app.session.knobs.block_size == Knobs().block_size
        app.query_one("#knob-block_size").focus()
        await pilot.pause()
        prompt(app).replace_text("")
        for key in events_of("/steps 5"):
            app.post_message(key)
        app.post_message(events.Key("enter", "\r"))
        await until(pilot, lambda: app.session.knobs.steps == 5)
        assert app.session.knobs.block_size == Knobs().block_size


async def test_help_names_every_action_for_ones_own_keys():
    app = make_app(settings=Settings(keys={"stop": "ctrl+x"}))
    async with app.run_test(size=(100, 300)) as pilot:
        await pilot.press("f1")
        await until(pilot, lambda: isinstance(app.screen, Help))
        await pilot.pause()
        named = said(app.screen.query("#box Static").first()).split("[keys]")[1]
        assert set(ACTIONS) <= set(named.split())
        assert "Stop the answer: ctrl+x" in named


async def test_help_explains_the_knob_that_has_the_focus():
    app = make_app()
    async with app.run_test(size=SIZE) as pilot:
        await pilot.press("tab", "f1")
        await until(pilot, lambda: isinstance(app.screen, Help))
        assert next(iter(app.screen._sections()))[0] == "This knob"


async def test_keys_that_clash_are_said_and_left_alone():
    app = make_app(settings=Settings(keys={"view": "f1"}))
    async with app.run_test(size=SIZE) as pilot:
        await pilot.pause()
        assert "f1 is asked for by 'view'" in written(app)
        await pilot.press("f1")
        await until(pilot, lambda: isinstance(app.screen, Help))


async def test_everything_finds_by_name():
    app = make_app()
    async with app.run_test(size=SIZE) as pilot:
        await pilot.press("ctrl+p")
        await until(pilot, lambda: isinstance(app.screen, Pick))
        await pilot.press(*keys("policy verify"), "enter")
        await until(pilot, lambda: app.session.knobs.policy == "verify")
        await pilot.press("ctrl+p")
        await until(pilot, lambda: isinstance(app.screen, Pick))
        assert app.screen.query_one(Input).has_focus
        await pilot.press(*keys("keys commands"), "enter")
        await until(pilot, lambda: isinstance(app.screen, Help))


async def test_control_c_clears_then_stops_then_quits():
    host, gate = stepwise()
    app = make_app(host)
    async with app.run_test(size=SIZE) as pilot:
        await pilot.press("a", "ctrl+c")
        assert prompt(app).text == ""
        await ask(pilot, app)  # soon, but who types goes on
        await pilot.press("ctrl+c")
        await until(pilot, lambda: host.runs[0].cancelled)
        app._interrupted = 0.0
        await pilot.press("ctrl+c")
        await pilot.pause()
        assert app.is_running
        await pilot.press("ctrl+c")
        await until(pilot, lambda: app._exit)
    gate.release(1000)


@pytest.mark.parametrize("agrees", ["enter", "ctrl+q"])
async def test_quit_asks_while_an_answer_is_written(agrees):
    host, gate = stepwise()
    app = make_app(host)
    async with app.run_test(size=SIZE) as pilot:
        await ask(pilot, app)
        await pilot.press("ctrl+q")
        await until(pilot, lambda: isinstance(app.screen, Confirm))
        await pilot.press("n")
        await pilot.pause()
        assert not app._exit
        await pilot.press("ctrl+q")
        await until(pilot, lambda: isinstance(app.screen, Confirm))
        await pilot.press(agrees)
        await until(pilot, lambda: app._exit)
        assert host.runs[0].cancelled
    gate.release(1000)


async def test_quit_at_once_when_nothing_runs():
    app = make_app()
    async with app.run_test(size=SIZE) as pilot:
        await pilot.press("ctrl+q")
        await until(pilot, lambda: app._exit)
    assert app.return_code == 0


async def test_scrolling_works_from_the_prompt():
    app = make_app(FakeHost([ANSWER * 20]))
    async with app.run_test(size=(80, 20)) as pilot:
        await ask(pilot, app)
        await answered(pilot, app)
        conversation = app.query_one("#conversation")
        await until(pilot, lambda: conversation.scroll_y > 0)
        bottom = conversation.scroll_y
        await pilot.press("pageup")
        await pilot.pause()
        assert conversation.scroll_y < bottom
        await pilot.press("pagedown")
        await pilot.pause()
        assert conversation.scroll_y == bottom


async def test_the_footer_does_what_it_says():
    app = make_app()
    async with app.run_test(size=SIZE) as pilot:
        line = said(app.query_one("#footer"))
        await pilot.click("#footer", offset=(line.index("F1") + 2, 0))
        await until(pilot, lambda: isinstance(app.screen, Help))


async def test_a_fault_ends_the_app_without_what_was_typed(capsys):
    app = make_app()

    def broken() -> None:
        secret = "my secret prompt"  # noqa: F841 - a traceback with local variables would show it
        raise RuntimeError("a fault")

    with pytest.raises(RuntimeError):
        async with app.run_test(size=SIZE) as pilot:
            app.call_later(broken)
            await asyncio.sleep(0.1)
            await pilot.pause()
    assert app.return_code == 1
    assert "RuntimeError: a fault" in app.crash
    assert "secret" not in capsys.readouterr().err


def test_every_action_has_its_method():
    owners = {"app": ChatApp, "prompt": Prompt, "knob": Turnable}
    owners |= {"timeline": TimelineRow, "inspector": Inspector}
    for action in ACTIONS.values():
        assert hasattr(owners[action.scope], f"action_{action.id}"), action.id
        if action.slash:
            assert hasattr(ChatApp, f"action_{action.id}"), action.id
        if action.argument:
            assert hasattr(ChatApp, f"take_{action.id}"), action.id
