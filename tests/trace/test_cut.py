"""A part of a session as a trace: valid by itself, the same to look at, and telling no more than it must."""

from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from dllm_tui.events import AnyEvent, Canvas, Header, ModelInfo, Pieces, RunStart, Step, Turn
from dllm_tui.trace.archive import Archive
from dllm_tui.trace.cut import cut, last_answer
from dllm_tui.trace.export import write_trace
from dllm_tui.trace.player import real_time, without_idling
from dllm_tui.trace.reader import read
from tests.film import traces
from tests.trace import sample


def opened(tmp_path: Path, events: list[AnyEvent]) -> Archive:
    return Archive(traces.write(tmp_path / "a.jsonl", events))


def cells(events: list[AnyEvent]) -> dict[int, list[list[int | None]]]:
    """The canvas after every step, by run in the order of their starts."""
    order: list[int] = []
    canvases: dict[int, Canvas] = {}
    seen: dict[int, list[list[int | None]]] = {}
    for event in events:
        if isinstance(event, RunStart):
            order.append(event.run)
            canvases[event.run] = Canvas()
        elif isinstance(event, Step) and event.run in canvases:
            canvases[event.run].apply(event)
            seen.setdefault(order.index(event.run), []).append(list(canvases[event.run].cells))
    return seen


def conversation(events: list[AnyEvent]) -> list[str]:
    turns: list[str] = []
    for event in events:
        if isinstance(event, Turn):
            turns = [*turns[: event.replaces], event.text]
    return turns


def test_the_whole_is_the_same_session(tmp_path: Path):
    with opened(tmp_path, traces.session()) as archive:
        write_trace(cut(archive, real_time(archive.timeline)), tmp_path / "b.jsonl")
        with Archive(tmp_path / "b.jsonl") as other:
            assert conversation(list(other)) == conversation(list(archive))
            assert cells(list(other)) == cells(list(archive))
            times = [[moment.time for moment in trace.timeline.moments] for trace in (archive, other)]
            assert all(abs(one - two) < 0.01 for one, two in zip(*times, strict=True))


@settings(max_examples=40)
@given(data=st.data())
def test_any_part_is_a_trace(tmp_path_factory: object, data: st.DataObject):
    folder = tmp_path_factory.mktemp("cut")  # type: ignore[attr-defined]
    events = [*sample.session(), *traces.session()[1:3]]
    start = data.draw(st.integers(0, len(events)))
    stop = data.draw(st.integers(start, len(events)))
    with opened(folder, events) as archive:
        write_trace(cut(archive, real_time(archive.timeline), start, stop), folder / "b.jsonl")
    part = list(read(folder / "b.jsonl"))
    kept = [event for event in events[start:stop] if isinstance(event, Turn)]
    assert [event.text for event in part if isinstance(event, Turn)] == [turn.text for turn in kept]
    whole = conversation(events[:stop])
    assert conversation(part) == whole[len(whole) - len(conversation(part)) :]
    begun = [event for event in events[start:stop] if isinstance(event, RunStart)]
    assert [event.run for event in part if isinstance(event, RunStart)] == list(range(len(begun)))


def test_the_last_answer(tmp_path: Path):
    with opened(tmp_path, sample.session()) as archive:
        start, stop = last_answer(archive)
        part = list(cut(archive, real_time(archive.timeline), start, stop))
    assert [event.type for event in part[:4]] == ["header", "turn", "run", "pieces"]
    assert conversation(part) == ["And you?", "Hello 😀"]
    assert isinstance(part[1], Turn)
    assert (part[1].replaces, part[1].at) == (None, 0.0)
    with opened(tmp_path, [Header()]) as archive:
        assert last_answer(archive) == (0, 1)


def test_no_more_is_told_than_must_be(tmp_path: Path):
    model = ModelInfo(id="smol", family="smol", versions={"torch": "2.13.0"})
    events = [Header(created="2026-11-30T15:00:00Z", app="dllm-chat 0.1.0", model=model)]
    secret = Pieces(run=0, pieces={**traces.answer(0, "Yes.")[1].pieces, 999: b"secret"})  # type: ignore[union-attr]
    run = [secret if isinstance(event, Pieces) else event for event in traces.answer(0, "Yes.", at=1.7e9)]
    events += [traces.ask("Hello?", at=1.7e9), *run]
    with opened(tmp_path, events) as archive:
        write_trace(cut(archive, real_time(archive.timeline)), tmp_path / "b.jsonl")
    text = (tmp_path / "b.jsonl").read_text()
    for left_out in ("2026", "torch", "1700000000", "c2VjcmV0"):
        assert left_out not in text
    assert '"id":"smol"' in text


def test_idle_time_that_is_left_out_stays_out(tmp_path: Path):
    with opened(tmp_path, traces.session()) as archive:
        assert archive.timeline.duration > 60
        short = without_idling(archive.timeline, 1.0)
        write_trace(cut(archive, short), tmp_path / "b.jsonl")
        with Archive(tmp_path / "b.jsonl") as other:
            assert abs(other.timeline.duration - short.duration) < 0.1
