"""Asciicasts: a terminal that is fed one shows the film's frames, at their times."""

import json
import re
from typing import Any

import pyte
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dllm_tui.trace.export import cast
from dllm_tui.trace.frames import Film, Frame
from tests.export import reel
from tests.export.test_frames import FRAMES


def lines(film: Film, version: int) -> list[Any]:
    return [json.loads(line) for line in cast.lines(film, version)]


def played(events: list[Any], version: int, width: int, height: int) -> list[tuple[float, str]]:
    """What a terminal shows after each output, and when."""
    screen = pyte.Screen(width, height)
    stream = pyte.Stream(screen)
    shown, now = [], 0.0
    for time, kind, data in events:
        now = now + time if version == 3 else time
        if kind == "o":
            stream.feed(data)
            text = "".join(line.rstrip() + "\n" for line in screen.display)
            shown.append((round(now, 6), text))
    return shown


@pytest.mark.parametrize("version", cast.VERSIONS)
def test_a_terminal_shows_every_frame_at_its_time(version: int):
    header, *events = lines(reel.sample(), version)
    assert header["version"] == version
    shown = played(events, version, 20, 3)
    # the emoji and the combining accent are beyond pyte; all else is as it was
    expected = [(second, frame.text()) for second, frame in reel.SHOTS]
    assert [time for time, _ in shown[:-1]] == [second for second, _ in expected]
    for (_, seen), (_, frame) in zip(shown[1:], expected[1:], strict=False):
        assert seen == frame
    assert shown[-1] == (4.0, expected[-1][1])


@given(frames=st.lists(FRAMES, min_size=1, max_size=6), version=st.sampled_from(cast.VERSIONS))
def test_whatever_the_frames_are(frames: list[Frame], version: int):
    film = reel.film([(index / 3, frame) for index, frame in enumerate(frames)])
    _, *events = lines(film, version)
    shown = played(events, version, 10, 3)
    assert [text for _, text in shown[: len(frames)]] == [frame.text() for frame in frames]


def test_colours_and_attributes_reach_the_terminal():
    screen = pyte.Screen(20, 3)
    stream = pyte.Stream(screen)
    for _, kind, data in lines(reel.sample(), 2)[1:4]:
        if kind == "o":
            stream.feed(data)
    cell = screen.buffer[1][2]
    assert (cell.data, cell.fg, cell.bg, cell.bold) == ("t", "e69f00", "102030", True)
    cell = screen.buffer[0][4]
    assert (cell.fg, cell.bg, cell.bold) == ("default", "default", False)


def test_headers_say_size_and_theme():
    two, three = (lines(reel.sample(), version)[0] for version in (2, 3))
    assert (two["width"], two["height"], two["duration"]) == (20, 3, 4.0)
    assert two["theme"]["bg"] == "#0d1118"
    assert len(two["theme"]["palette"].split(":")) == 16
    assert three["term"]["cols"] == 20
    assert three["term"]["theme"] == two["theme"]
    for header in (two, three):
        assert header.keys().isdisjoint({"timestamp", "command"})
        assert header["title"] == "Say <hello> & “goodbye”"


def test_markers_stand_in_order_of_time():
    events = lines(reel.sample(), 2)[1:]
    assert [event[2] for event in events if event[1] == "m"] == ["Say hello", "block 2"]
    assert [event[0] for event in events] == sorted(event[0] for event in events)


def test_version_3_adds_up_to_the_same_times():
    film = [(index / 7, reel.SHOTS[index % 4][1]) for index in range(50)]
    two, three = (lines(reel.film(film, seconds=9), version)[1:] for version in (2, 3))
    now = 0.0
    for (time, *rest), (interval, *other) in zip(two, three, strict=True):
        now += interval
        assert now == pytest.approx(time, abs=1e-9)
        assert rest == other


def test_nothing_but_our_own_codes_is_sent():
    """Frames hold what can be printed; what is sent besides moves the cursor and sets styles."""
    sent = "".join(data for _, kind, data in lines(reel.sample(), 2)[1:] if kind == "o")
    codes = {part[-1] for part in re.findall(r"\x1b\[[^a-zA-Z]*[a-zA-Z]", sent)}
    assert codes == {"H", "m", "J", "l", "h"}
    assert "\n" not in sent
