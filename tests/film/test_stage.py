"""The app with a recorded session: at every count it looks the same, however one came there."""

import contextlib
import random
from collections import Counter
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from dllm_tui.events import AnyEvent, Done, RunStart, Turn
from dllm_tui.settings import Settings
from dllm_tui.theming import DEFAULT, shipped
from dllm_tui.trace.archive import Archive
from dllm_tui.trace.frames import Frame
from dllm_tui.tui.capture import Camera
from dllm_tui.tui.film import settle
from dllm_tui.tui.stage import Stage
from tests.film import traces


class Theatre:
    """A stage that can be asked for its frames."""

    def __init__(self, app: Stage) -> None:
        self.app = app
        self.camera = Camera(app, shipped()[DEFAULT])
        self.pilot = None

    async def frame(self, count: int) -> Frame:
        self.app.show(count)
        return await settle(self.pilot, self.camera)


@contextlib.asynccontextmanager
async def theatre(path: Path, size: tuple[int, int] = (110, 34)) -> AsyncGenerator[Theatre]:
    with Archive(path) as archive:
        opened = Theatre(Stage(archive, Settings(animation=False), environment={}))
        async with opened.app.run_test(size=size) as pilot:
            opened.pilot = pilot
            yield opened


def between_runs(events: list[AnyEvent]) -> list[int]:
    """Counts at which no answer is being written."""
    counts, going = [], set[int]()
    for count, event in enumerate(events):
        if not going:
            counts.append(count)
        if isinstance(event, RunStart):
            going.add(event.run)
        elif isinstance(event, Done):
            going.discard(event.run)
    return [*counts, len(events)]


async def test_to_and_fro_it_looks_the_same(tmp_path: Path):
    events = traces.session()
    path = traces.write(tmp_path / "a.jsonl", events)
    async with theatre(path) as there:
        straight = {at: await there.frame(at) for at in between_runs(events)}
    assert len(straight) > 15
    async with theatre(path) as there:
        for at in random.Random(1).sample(sorted(straight), 12):
            frame = await there.frame(at)
            assert frame.text() == straight[at].text()
            assert frame == straight[at]


async def test_to_and_fro_an_unfinished_answer_says_the_same(tmp_path: Path):
    """It may be laid out otherwise: a masked place keeps room for what was guessed there."""
    events = traces.session()
    path = traces.write(tmp_path / "a.jsonl", events)

    def said(frame: Frame) -> Counter[str]:
        return Counter(c for c in frame.text() if c.isalnum())

    async with theatre(path, size=(90, 40)) as there:
        straight = {at: said(await there.frame(at)) for at in range(0, len(events) + 1, 6)}
    async with theatre(path, size=(90, 40)) as there:
        for at in random.Random(2).sample(sorted(straight), 12):
            assert said(await there.frame(at)) == straight[at]


async def test_it_tells_the_story(tmp_path: Path):
    events = traces.session()
    path = traces.write(tmp_path / "a.jsonl", events)
    starts = [at for at, event in enumerate(events) if isinstance(event, RunStart)]
    async with theatre(path) as there:
        assert "Ask something" in (await there.frame(0)).text()
        first = (await there.frame(starts[0] + 6)).text()
        assert "Tell me a [b]story[/b]." in first
        assert "Be brief" not in first
        assert "░" in first
        turned = (await there.frame(starts[2] - 1)).text()
        assert "0.50" in turned
        again = (await there.frame(starts[3] - 1)).text()
        assert "Add two numbers." in again
        assert "return a + b" not in again
        edited = (await there.frame(len(events) - 30)).text()
        end = (await there.frame(len(events))).text()
        assert "No: in French." in end or "No: in French." in edited
        assert "Add two numbers." not in end
        assert "Voilà : é à ç, 한글 and 😀." in end
        assert "Out of memory." in end
        assert "Another one" in end
        assert [turn.text for turn in there.app.session.turns if turn.role == "user"][-1] == "Go on."


async def test_going_back_reads_only_what_it_needs(tmp_path: Path):
    """A step back in the last of many answers doesn't fold the others again."""
    events = traces.small()[:1]
    for run in range(12):
        events += [
            traces.ask(f"Question {run}"),
            *traces.answer(run, "One two three four five six."),
        ]
        events += [traces.said(run, "One two three four five six.")]
    path = traces.write(tmp_path / "a.jsonl", events)
    async with theatre(path) as there:
        await there.frame(len(events))
        taken = 0
        take = there.app.replayed.take

        def counted() -> None:
            nonlocal taken
            taken += 1
            take()

        there.app.replayed.take = counted  # type: ignore[method-assign]
        await there.frame(len(events) - 4)
        assert 0 < taken < 40


@pytest.mark.parametrize("name", traces.edges())
async def test_odd_sessions_are_shown(tmp_path: Path, name: str):
    events = traces.edges()[name]
    async with theatre(traces.write(tmp_path / "a.jsonl", events)) as there:
        for at in (*range(len(events) + 1), 1, len(events)):
            frame = await there.frame(at)
        asked = [event.text for event in events if isinstance(event, Turn) and event.role == "user"]
        if asked and asked[0].startswith(("Hello", "Race")):
            assert asked[0] in frame.text()


async def test_nothing_is_asked_of_a_model(tmp_path: Path):
    path = traces.write(tmp_path / "a.jsonl", traces.small())
    async with theatre(path) as there:
        end = await there.frame(len(traces.small()))
        for act in ("regenerate", "edit_last", "new_chat", "stop"):
            await there.app.run_action(act)
        there.app.turn(steps=3)
        for key in ("h", "i", "enter"):
            await there.pilot.press(key)
        assert there.app.is_running
        there.app.show(0)
        assert (await there.frame(len(traces.small()))).rows[:4] == end.rows[:4]
