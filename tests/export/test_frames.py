"""Frozen frames: what changed between two, and what alike cells they are made of."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from dllm_tui.trace.frames import Frame, Patch, Row, hexed, mix, spans
from tests.export import reel

LOOKS = st.sampled_from([reel.PLAIN, reel.WARM, reel.SHY])
TEXT = st.text(st.sampled_from("ab 한글é😀─█"), max_size=12)
ROWS = st.builds(lambda text, look: reel.row(text, look, 10), TEXT, LOOKS)
FRAMES = st.lists(ROWS, min_size=3, max_size=3).map(lambda rows: Frame(tuple(rows)))


@given(before=FRAMES, after=FRAMES)
def test_patches_are_all_that_changed(before: Frame, after: Frame):
    rows = [list(row) for row in before.rows]
    for y, left, right in after.patches(before):
        assert 0 <= left < right <= 10
        assert rows[y][left:right] != list(after.rows[y][left:right])
        for shown in (before, after):  # no character is cut in two
            assert shown.rows[y][left][0]
            assert right == 10 or shown.rows[y][right][0]
        rows[y][left:right] = after.rows[y][left:right]
    assert tuple(map(tuple, rows)) == after.rows


def test_the_first_frame_is_all_new():
    frame = reel.SHOTS[0][1]
    assert list(frame.patches(None)) == [Patch(y, 0, 20) for y in range(3)]
    assert list(frame.patches(frame)) == []


@given(row=ROWS)
def test_spans_are_the_row(row: Row):
    parts = list(spans(row))
    assert "".join(span.text for span in parts) == "".join(text for text, _ in row)
    assert [span.x for span in parts] == [sum(s.width for s in parts[:n]) for n in range(len(parts))]
    assert sum(span.width for span in parts) == len(row)
    assert all(one.look != other.look for one, other in pairwise(parts))


def test_text_is_what_can_be_read():
    assert reel.SHOTS[2][1].text() == "╭─ goodbye ─────────╮"[:20] + "\n│ the  文字 x\nbye </script> ]]>\n"


def test_colours_mix():
    assert mix(0x000000, 0xFFFFFF, 0.5) == 0x808080
    assert mix(0x102030, 0xA0B0C0, 0.0) == 0x102030
    assert mix(0x102030, 0xA0B0C0, 1.0) == 0xA0B0C0
    assert hexed(0x0A0B0C) == "#0a0b0c"
