"""GIFs: any reader shows the frames that were painted, for as long as they stood."""

from io import BytesIO

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from dllm_tui.trace.export import gif
from dllm_tui.trace.export.raster import CELL, MARGIN, Painter, Palette, still
from dllm_tui.trace.export.shapes import shape
from dllm_tui.trace.frames import Frame, Look
from tests.export import reel
from tests.export.test_frames import FRAMES


def written(shots: list[tuple[float, Frame]], seconds: float = 4.0) -> bytes:
    file = BytesIO()
    gif.write(reel.film(shots, seconds=seconds), file)
    return file.getvalue()


def painted(frame: Frame) -> Image.Image:
    return Image.open(BytesIO(still(frame, reel.PAPER))).convert("RGB")


def close(one: Image.Image, other: Image.Image) -> bool:
    """Alike but for shades that the palette took for one."""
    pairs = zip(one.tobytes(), other.tobytes(), strict=True)
    return max(abs(a - b) for a, b in pairs) < 40


def test_a_reader_shows_every_frame_for_its_time():
    image = Image.open(BytesIO(written(reel.SHOTS)))
    assert image.size == (20 * CELL[0] + 2 * MARGIN, 3 * CELL[1] + 2 * MARGIN)
    assert image.n_frames == 4
    assert image.info["loop"] == 0
    durations = []
    for index, (_, frame) in enumerate(reel.SHOTS):
        image.seek(index)
        durations.append(image.info["duration"])
        assert close(image.convert("RGB"), painted(frame))
    assert durations == [500, 750, 750, 2000]


@settings(max_examples=20)
@given(frames=st.lists(FRAMES, min_size=1, max_size=5))
def test_whatever_the_frames_are(frames: list[Frame]):
    image = Image.open(BytesIO(written([(float(index), frame) for index, frame in enumerate(frames)], 9)))
    image.seek(image.n_frames - 1)
    assert close(image.convert("RGB"), painted(frames[-1]))


def test_it_has_one_palette():
    data = written(reel.SHOTS)
    colours = {tuple(data[13 + 3 * index : 16 + 3 * index]) for index in range(256)}
    assert {(0xDF, 0xE5, 0xEE), (0x0D, 0x11, 0x18), (0xE6, 0x9F, 0x00), (0x55, 0x33, 0x00)} <= colours
    assert data[10] & 0x80
    assert not any(flags & 0x80 for flags in descriptors(data))


def descriptors(data: bytes) -> list[int]:
    """The flags of every image of the file."""
    at, flags = 13 + 768, list[int]()
    while data[at] != 0x3B:
        if data[at] == 0x21:
            at += 2
        else:
            flags.append(data[at + 9])
            at += 11
        while data[at]:
            at += data[at] + 1
        at += 1
    return flags


def test_frames_too_close_for_a_gif_become_one():
    shots = [(0.0, reel.SHOTS[0][1]), (0.001, reel.SHOTS[1][1]), (0.002, reel.SHOTS[2][1])]
    image = Image.open(BytesIO(written(shots, seconds=1)))
    assert image.n_frames == 1
    assert close(image.convert("RGB"), painted(reel.SHOTS[2][1]))
    assert image.info["duration"] == 1000


def test_a_frame_may_stand_for_an_hour():
    image = Image.open(BytesIO(written(reel.SHOTS[:1], seconds=3600)))
    total = 0
    for index in range(image.n_frames):
        image.seek(index)
        total += image.info["duration"]
    assert total == 3_600_000


def test_only_what_changed_is_written():
    same = [(index / 10, reel.SHOTS[0][1]) for index in range(100)]
    moving = [(index / 10, reel.SHOTS[index % 2][1]) for index in range(100)]
    first = len(written(reel.SHOTS[:1]))
    assert len(written(same, seconds=11)) < first + 100 * 60
    assert len(written(moving, seconds=11)) < 40 * first


# Pixels


def test_shades_and_theme_colours_share_the_palette():
    palette = Palette()
    for colour in range(0, 0xFFFFFF, 50_000):
        palette.index(colour, exact=False)
    shades = len(palette.colours)
    assert shades < 192
    for colour in (0x123456, 0x654321):
        assert palette.colours[palette.index(colour, exact=True)] == colour
    for colour in range(7, 0xFFFFFF, 50_000):
        palette.index(colour, exact=True)
    assert len(palette.colours) == 255
    assert len(palette.rgb()) == 768


@pytest.mark.parametrize(
    ("character", "dark"),
    [(" ", 0.0), ("█", 1.0), ("▄", 0.5), ("▌", 0.5), ("▁", 1 / 8), ("▖", 0.25), ("░", 1.0), ("─", 1 / 19)],
)
def test_blocks_fill_their_share_of_the_cell(character: str, dark: float):
    frame = Frame((reel.row(character * 4, width=4),))
    image = painted(frame).crop((MARGIN, MARGIN, MARGIN + 4 * CELL[0], MARGIN + CELL[1]))
    pixels = list(image.get_flattened_data())
    share = sum(pixel != (0x0D, 0x11, 0x18) for pixel in pixels) / len(pixels)
    assert share == pytest.approx(dark, abs=0.07)


def test_lines_meet_without_a_gap():
    frame = Frame((reel.row("╭──╮", width=4), reel.row("│╳┃│", width=4), reel.row("╰──╯", width=4)))
    image = painted(frame)
    x, y = MARGIN + 4, MARGIN + 9
    ink = image.getpixel((x + CELL[0], y))
    for row in range(y + 8, y + 30):
        assert image.getpixel((x, row)) == ink
    for column in range(x + 8, x + 20):
        assert image.getpixel((column, y)) == ink


@pytest.mark.parametrize("character", ["한", "😀", "\ue000", "\U0001f468‍👩", "ا"])
def test_what_no_font_has_is_a_box_of_its_width(character: str):
    width = 2 if character[0] in "한😀\U0001f468" else 1
    cells = ((character, reel.PLAIN), ("", reel.PLAIN))[:width]
    image = painted(Frame(((*cells, (" ", reel.PLAIN)),)))
    columns = [
        x
        for x in range(image.width)
        if any(image.getpixel((x, y)) != (0x0D, 0x11, 0x18) for y in range(image.height))
    ]
    assert columns[0] == MARGIN + 1
    assert columns[-1] == MARGIN + width * CELL[0] - 2


def test_ordinary_characters_are_all_there():
    """No box for what models and our interface write."""
    missing = set()
    box = bytes(painted(Frame((reel.row("\ue000", width=1),))).tobytes())
    for character in map(
        chr, [*range(0x21, 0x7F), *range(0xA1, 0x180), *range(0x391, 0x3CA), *range(0x410, 0x450)]
    ):
        if character not in "\xad\u03a2":
            image = painted(Frame((reel.row(character, width=1),)))
            if bytes(image.tobytes()) == box:
                missing.add(character)
    for character in "–—‘’“”…•·→←↑↓↵≤≥≈≠×÷±∞√∑∫●○◆▾▴▸◂▯◦✓✗€£¥™°":
        if bytes(painted(Frame((reel.row(character, width=1),))).tobytes()) == box:
            missing.add(character)
    assert not missing


def test_attributes_can_be_seen():
    plain = painted(Frame((reel.row("abc", width=3),))).tobytes()
    for attribute in ("bold", "italic", "underline", "strike"):
        look = Look(reel.INK, reel.PAPER, **{attribute: True})
        assert painted(Frame((reel.row("abc", look, 3),))).tobytes() != plain


def test_every_line_block_and_braille_character_has_a_shape_or_a_glyph():
    for code in (*range(0x2500, 0x25A0), *range(0x2801, 0x2900)):
        drawn = shape(chr(code), *CELL)
        if drawn is None:
            assert 0x2500 <= code < 0x2580
            continue
        assert drawn.rects or drawn.corner
        for left, top, right, bottom in drawn.rects:
            assert 0 <= left <= right <= CELL[0]
            assert 0 <= top <= bottom <= CELL[1]


def test_a_painter_paints_only_forward_and_the_same():
    painter = Painter(20, 3, reel.PAPER)
    for _, frame in reel.SHOTS:
        painter.paint(frame)
    assert close(painter.picture().convert("RGB"), painted(reel.SHOTS[-1][1]))
