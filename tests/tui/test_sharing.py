"""Recording, saving and exporting from the app: what is written, what is said, what is asked."""

import os
import stat
from pathlib import Path

import pytest

from dllm_tui.events import KnobsSet, ScreenSize, Turn
from dllm_tui.settings import Settings
from dllm_tui.trace.reader import read
from dllm_tui.tui.screens.confirm import Confirm
from dllm_tui.tui.screens.export import ExportDialog, Exporting
from dllm_tui.tui.widgets.conversation import Note
from tests.fakes import ANSWER, FakeHost
from tests.tui.app_helpers import answered, ask, make_app, said, until


@pytest.fixture(autouse=True)
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("CONFIG", "DATA"):
        monkeypatch.setenv(f"DLLM_CHAT_{name}", str(tmp_path / name.lower()))
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")


@pytest.fixture
def demos(tmp_path: Path) -> Path:
    return tmp_path / "data" / "demos"


def told(app) -> str:
    """What the conversation notes and reports."""
    items = app._chat.conversation._items
    return "\n".join(
        item.text if isinstance(item, Note) else f"{item.message} {item.hint}"
        for item in items
        if isinstance(item, Note) or hasattr(item, "message")
    )


async def type_in(pilot, app, text: str) -> None:
    app._chat.composer.prompt.focus()
    app._chat.composer.prompt.replace_text(text)
    await pilot.press("enter")
    await pilot.pause()


async def hears(pilot, app, text: str) -> None:
    """Wait until it is said above the prompt."""
    await until(pilot, lambda: text in said(app._chat.composer.above).replace("\n", " "))


@pytest.mark.parametrize("kept", [True, False])
async def test_one_key_records_and_stops(demos: Path, tmp_path: Path, kept: bool):
    app = make_app(FakeHost(["Yes."]), history=tmp_path / "chats" if kept else None)
    async with app.run_test(size=(110, 33)) as pilot:
        await until(pilot, lambda: app.screen.query("#prompt"))
        await pilot.press("f8")
        await until(pilot, lambda: "● REC 0:0" in said(app._chat.status))
        await pilot.resize_terminal(20, 5)
        await until(pilot, lambda: app.query_one("#too-small").display)
        assert "● REC 0:0" in said(app._chat.status)
        assert app._chat.status.is_on_screen
        await pilot.resize_terminal(110, 33)
        await hears(pilot, app, "F8 stops it")
        app.turn(threshold=0.5)
        await pilot.resize_terminal(120, 40)
        await ask(pilot, app, "Hi?")
        await answered(pilot, app)
        await pilot.press("f8")
        await until(pilot, lambda: "REC" not in said(app._chat.status))
        (path,) = demos.iterdir()
        assert str(path.name) in told(app).replace("\n", "")
        assert not list((tmp_path / "chats").glob("*")) or kept
    events = list(read(path))
    assert [turn.text for turn in events if isinstance(turn, Turn)] == ["Hi?", "Yes."]
    assert [(size.columns, size.rows) for size in events if isinstance(size, ScreenSize)][-1] == (120, 40)
    assert {"threshold": 0.5} in [event.changes for event in events if isinstance(event, KnobsSet)]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


async def test_the_mark_is_read_without_colour_and_unicode():
    app = make_app(settings=Settings(plain=True))
    async with app.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: app.screen.query("#prompt"))
        await pilot.press("f8")
        await until(pilot, lambda: "* REC 0:0" in said(app._chat.status))
        assert said(app._chat.status).isascii()


async def test_the_mark_is_there_however_narrow():
    app = make_app()
    async with app.run_test(size=(40, 10)) as pilot:
        await until(pilot, lambda: app.screen.query("#prompt"))
        await pilot.press("f8")
        await until(pilot, lambda: "REC 0:0" in said(app._chat.status))


async def test_a_recording_of_nothing_says_so(demos: Path):
    app = make_app()
    async with app.run_test(size=(110, 33)) as pilot:
        await until(pilot, lambda: app.screen.query("#prompt"))
        await pilot.press("f8")
        await pilot.press("f8")
        await until(pilot, lambda: "Nothing was said" in told(app))
        assert not list(demos.iterdir())


async def test_a_recording_where_it_was_asked_for_is_not_replaced_unasked(tmp_path: Path):
    out = tmp_path / "talk.jsonl"
    out.write_text("mine")
    app = make_app(FakeHost(["Yes."]))
    async with app.run_test(size=(110, 33)) as pilot:
        await until(pilot, lambda: app.screen.query("#prompt"))
        await type_in(pilot, app, f"/record {tmp_path}/nowhere/talk")
        await hears(pilot, app, "there is no folder")
        await type_in(pilot, app, f"/record {tmp_path}/talk.gif")
        await hears(pilot, app, "written as a trace")
        await type_in(pilot, app, f"/record {out}")
        await until(pilot, lambda: isinstance(app.screen, Confirm))
        await pilot.press("escape")
        assert not app.session.recording
        await type_in(pilot, app, f"/record {tmp_path}/talk")
        await until(pilot, lambda: isinstance(app.screen, Confirm))
        await pilot.press("enter")
        await until(pilot, lambda: app.session.recording)
        await type_in(pilot, app, f"/record {tmp_path}/other")
        await hears(pilot, app, "is being recorded; F8 stops it")
        assert out.read_text() == "mine"
        app._chat.composer.prompt.replace_text("")
        await ask(pilot, app, "Hi?")
        await answered(pilot, app)
        await pilot.press("f8")
        await until(pilot, lambda: not app.session.recording)
    assert len(list(read(out))) > 5


async def test_the_last_answer_becomes_a_demo(demos: Path):
    app = make_app(FakeHost(["One.", "Two."]))
    async with app.run_test(size=(110, 33)) as pilot:
        await ask(pilot, app, "First?")
        await answered(pilot, app)
        await ask(pilot, app, "And second?")
        await answered(pilot, app, 2)
        await pilot.press("alt+s")
        await until(pilot, (demos / "and-second.jsonl").exists)
        await pilot.press("alt+s")
        await until(pilot, (demos / "and-second-2.jsonl").exists)
        assert "Saved the last answer to" in told(app)
    events = list(read(demos / "and-second.jsonl"))
    assert [turn.text for turn in events if isinstance(turn, Turn)] == ["And second?", "Two."]


async def test_an_export_from_the_app(tmp_path: Path):
    app = make_app(FakeHost(["Yes."]))
    async with app.run_test(size=(90, 28)) as pilot:
        await pilot.press("f6")
        assert not isinstance(app.screen, ExportDialog)  # there is nothing yet
        await ask(pilot, app, "Hi?")
        await answered(pilot, app)
        await pilot.press("f6")
        await until(pilot, lambda: isinstance(app.screen, ExportDialog))
        file = app.screen.query_one("#file")
        assert file.value == str(tmp_path / "here" / "hi.gif")
        await pilot.press("left")
        assert file.value.endswith("hi.cast")
        await pilot.press("enter")
        await until(pilot, lambda: "Exported" in told(app), 60)
        assert isinstance(app.screen, type(app._chat))
    text = (tmp_path / "here" / "hi.cast").read_text()
    assert '"width": 100, "height": 30' in text
    assert "Yes." in text


async def test_the_dialog_follows_the_name_and_asks_before_it_replaces(tmp_path: Path):
    out = tmp_path / "here" / "mine.md"
    out.write_text("mine")
    app = make_app(FakeHost(["Yes."]))
    async with app.run_test(size=(90, 28)) as pilot:
        await ask(pilot, app, "Hi?")
        await answered(pilot, app)
        await pilot.press("f6")
        await until(pilot, lambda: isinstance(app.screen, ExportDialog))
        dialog = app.screen
        dialog.query_one("#file").value = "mine.md"
        await pilot.pause()
        assert dialog.query_one("#row-format").value == "md"
        assert not dialog.query_one("#row-size").display
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(app.screen, Confirm))
        await pilot.press("enter")
        await until(pilot, lambda: "Exported" in told(app), 60)
    assert "**You**" in out.read_text()


@pytest.mark.parametrize(("path", "says"), [("x.jpg", "doesn't say what to make"), ("no/x.gif", "no folder")])
async def test_what_can_not_be_is_said(path: str, says: str):
    app = make_app(FakeHost(["Yes."]))
    async with app.run_test(size=(90, 28)) as pilot:
        await ask(pilot, app, "Hi?")
        await answered(pilot, app)
        await type_in(pilot, app, f"/export {path}")
        await hears(pilot, app, says)


async def test_an_export_is_cancelled_and_leaves_nothing(tmp_path: Path):
    app = make_app(FakeHost([f"{ANSWER} " * 12]))  # its export takes longer than it takes to cancel it
    async with app.run_test(size=(90, 28)) as pilot:
        await ask(pilot, app, "Hi?")
        await answered(pilot, app)
        await type_in(pilot, app, "/export long.gif")
        await until(pilot, lambda: isinstance(app.screen, Exporting))
        export = app._sharing.export
        await pilot.press("enter")
        await until(pilot, lambda: not isinstance(app.screen, Exporting))
        await until(pilot, lambda: export.done > 0.01, 60)
        assert "export" in said(app._chat.status)
        await pilot.press("f6")
        await until(pilot, lambda: isinstance(app.screen, Exporting))
        dialog = app.screen
        await pilot.press("escape")
        dialog._draw()  # its clock may strike once more
        await until(pilot, lambda: "was cancelled" in told(app))
        export.wait(30)
    assert os.listdir(tmp_path / "here") == []  # noqa: PTH208


async def test_a_failure_is_said_where_it_stays(tmp_path: Path):
    app = make_app(FakeHost(["Yes."]))
    async with app.run_test(size=(90, 28)) as pilot:
        await ask(pilot, app, "Hi?")
        await answered(pilot, app)
        (tmp_path / "here" / "a.md").mkdir()
        await type_in(pilot, app, f"/export {tmp_path / 'here' / ('x' * 250)}.txt")
        await until(pilot, lambda: "can't be written" in told(app), 60)
