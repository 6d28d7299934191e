import unicodedata
from ast import literal_eval
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from dllm_tui.tui.cells import ASCII, UNICODE, chop, clean, decode_each, partial, piece_of, printable

GLYPHS = pytest.mark.parametrize("glyphs", [UNICODE, ASCII], ids=["unicode", "ascii"])
# What moves the cursor, switches something on, reorders or joins: categories of Unicode 15, chapter 4.5.
UNSAFE = {"Cc", "Cf", "Cs", "Zl", "Zp"}


def vocabulary() -> list[bytes]:
    lines = (Path(__file__).parent / "data/smollm2-pieces.txt").read_text("ascii").splitlines()
    return [literal_eval(f'b"{line}"') for line in (line.replace('"', '\\"') for line in lines[1:])]


def unsafe(text: str) -> list[str]:
    return [hex(ord(c)) for c in text if unicodedata.category(c) in UNSAFE or c in "\ufe0f\ufe0e"]


@GLYPHS
@given(text=st.text())
def test_nothing_unsafe_is_printed(glyphs, text):
    assert not unsafe(printable(text, glyphs))


@GLYPHS
@given(text=st.text())
def test_widths_are_those_that_rich_measures(glyphs, text):
    piece = piece_of(text, glyphs)
    assert list(piece.widths) == [cell_len(line) for line in piece.lines]
    # Parts may be joined or drawn apart: the width must not depend on it.
    assert cell_len("".join(piece.lines)) == sum(piece.widths)


@given(text=st.text())
def test_every_newline_and_nothing_else_cuts_a_piece(text):
    assert len(piece_of(text).lines) == text.count("\n") + 1


@given(text=st.text(st.characters(exclude_categories=["C", "Zl", "Zp", "Mn", "Me"])))
def test_ordinary_text_is_kept(text):
    assert printable(text) == text
    assert clean(text) == text


@pytest.mark.parametrize(
    "text",
    [
        "naïve café",
        "日本語のテキスト",
        "한국어",
        "שלום",
        "مرحبا",
        "กินข้าว",
        "e\u0301te\u0301",
        "🎉 done 👍🏽",
        "Ω≈ç√∫",
        "└── src",
    ],
)
def test_text_of_many_scripts_is_kept(text):
    assert printable(text) == text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[31mred", "␛[31mred"),
        ("a\tb", "a→   b"),
        ("a\rb", "a␍b"),
        ("\x00\x7f", "␀␡"),
        ("\x9b31m", "◦31m"),
        ("\u202egnp.exe", "◦gnp.exe"),
        ("👨\u200d👩", "👨◦👩"),
        ("❤\ufe0f", "❤"),
        ("\ufe0f", "◦"),
        ("\ufeff", "◦"),
        ("\u2028", "◦"),
        ("\ufffd", "▯"),
        ("\uffff", "▯"),
        ("", ""),
    ],
)
def test_pictures(text, shown):
    assert printable(text) == shown


def test_pictures_of_a_terminal_without_unicode():
    assert printable("\x1b[31m\t\u202e\ufffd", ASCII) == "^[[31m>   ??"
    assert all(mark.isascii() for mark in ASCII.__struct_fields__)


@given(pieces=st.lists(st.binary(max_size=6)))
def test_tokens_together_have_the_text_of_all_their_bytes(pieces):
    texts = decode_each(pieces)
    assert len(texts) == len(pieces)
    whole = b"".join(pieces).decode(errors="replace")
    # Runs of broken bytes may count differently; every real character stands, in order.
    assert "".join(texts).replace("\ufffd", "") == whole.replace("\ufffd", "")


@given(text=st.text(), cuts=st.lists(st.integers(0, 40)))
def test_characters_cut_between_tokens_are_put_together(text, cuts):
    data = text.encode(errors="ignore")
    edges = [0, *sorted(cut for cut in cuts if cut <= len(data)), len(data)]
    pieces = [data[a:b] for a, b in pairwise(edges)]
    assert "".join(decode_each(pieces)) == data.decode()


def test_a_character_belongs_to_the_token_that_begins_it():
    emoji = "🎉".encode()
    assert decode_each([b"a" + emoji[:1], emoji[1:3], emoji[3:] + b"b"]) == ["a🎉", "", "b"]
    assert decode_each([emoji[:2], b"x"]) == ["\ufffd", "x"]
    assert decode_each([emoji[2:], emoji]) == ["\ufffd", "🎉"]


@GLYPHS
def test_every_token_of_a_vocabulary_is_safe_alone(glyphs):
    pieces = vocabulary()
    assert sum(map(partial, pieces)) == 313
    for data in pieces:
        piece = piece_of(decode_each([data])[0], glyphs)
        assert not any(unsafe(line) for line in piece.lines), data
        assert [cell_len(line) for line in piece.lines] == list(piece.widths), data


def test_a_whole_text_keeps_breaks_tabs_and_joiners():
    text = "a\r\nb\tc\x1b[0m \u202e 👨\u200d👩 می\u200cخواهم ❤\ufe0f"
    assert clean(text) == "a\nb\tc␛[0m ◦ 👨\u200d👩 می\u200cخواهم ❤\ufe0f"


@given(
    text=st.text(st.characters(exclude_categories=["C", "Zl", "Zp"], exclude_characters="\ufe0f")),
    width=st.integers(1, 12),
)
def test_chopped_parts_fit_and_lose_nothing(text, width):
    parts = chop(text, width)
    assert all(cell_len(part) <= width for part in parts)
    if width > 1:
        assert "".join(parts) == text


def test_a_wide_character_that_fits_nowhere_becomes_a_stop():
    assert chop("a日b", 1) == ["a", ".", "b"]
