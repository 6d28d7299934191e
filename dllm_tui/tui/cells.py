"""From the bytes of tokens to cells that are safe to print. Pure; rich measures the characters.

What a model writes goes to the terminal character by character, so nothing may pass that moves the cursor,
starts an escape sequence, reorders text or has a width that terminals disagree on. Such characters become
pictures here. Ordinary text, wide characters and combining marks included, is kept as it is.
"""

import unicodedata
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import msgspec
from rich.cells import cell_len, set_cell_size, split_graphemes


class Glyphs(msgspec.Struct, frozen=True, kw_only=True):
    """The marks of our own that a canvas is drawn with."""

    mask: str
    """A position without an opinion; repeated to the width of its slot. One cell."""
    guess: tuple[str, str]
    """Around a guess, one cell each, where no colour tells it from what is committed; else empty."""
    newline: str
    """Stands before the line break that it names."""
    tab: str
    unseen: str
    """A character that is there and can't be seen: joiners, direction marks, byte order marks."""
    broken: str
    """Bytes that are no character, alone or with their neighbours."""
    bar: str
    """In the gutter, beside every line of a block. One cell."""
    active_bar: str
    """The same beside the block that is being denoised. One cell."""
    full: str
    """A cell of colour. One cell."""
    dot: str
    """Between the parts of a headline."""
    dash: str
    """Between the ends of a range."""
    above: str
    """Before what stands further up."""
    levels: str
    """On a heat map: guesses, the least sure first. One cell each, as the following."""
    unguessed: str
    """A mask of which the model had no opinion."""
    committed: str
    """A mask that becomes a token."""
    changed: str
    """A token that becomes another."""
    remasked: str
    """A token that goes back to the mask."""
    given: str
    """A token that the run was given."""
    pictures: bool
    """Control characters as Unicode's control pictures, else in caret notation."""


UNICODE = Glyphs(
    mask="░",
    guess=("", ""),
    newline="↵",
    tab="→   ",
    unseen="◦",
    broken="▯",
    bar="▎",
    active_bar="▌",
    full="█",
    dot=" · ",
    dash="–",
    above="▴",
    levels="░▒▓",
    unguessed="·",
    committed="●",
    changed="◆",
    remasked="×",
    given="■",
    pictures=True,
)
COLOURLESS = msgspec.structs.replace(UNICODE, guess=("░", "░"))
"""A guess stands in its mask."""
ASCII = Glyphs(
    mask=".",
    guess=("<", ">"),
    newline="\\n",
    tab=">   ",
    unseen="?",
    broken="?",
    bar="|",
    active_bar="#",
    full="#",
    dot=" - ",
    dash="-",
    above="^",
    levels="0123456789",
    unguessed=".",
    committed="@",
    changed="!",
    remasked="x",
    given="=",
    pictures=False,
)


class Piece(NamedTuple):
    """A token's text as it is printed."""

    lines: tuple[str, ...]
    """Printable; between each two stands a newline, to be drawn as its mark and then a line break."""
    widths: tuple[int, ...]
    """Of each line, in terminal cells."""


def partial(piece: bytes) -> bool:
    """Whether the bytes are not valid UTF-8 alone: they may be with those of their neighbours."""
    try:
        piece.decode()
    except UnicodeDecodeError:
        return True
    return False


def decode_each(pieces: Sequence[bytes]) -> list[str]:
    """The text of each of some adjacent tokens, where a character may span several.

    A character belongs to the token that has its first byte; a token that only continues one has no text.
    Bytes that complete no character become one U+FFFD a token.
    """
    data = b"".join(pieces)
    owners = [owner for owner, piece in enumerate(pieces) for _ in piece]
    texts = [""] * len(pieces)
    position = 0
    while position < len(data):
        owner = owners[position]
        size = _sequence_length(data[position])
        try:
            texts[owner] += data[position : position + size].decode()
        except UnicodeDecodeError:
            size = 1
            if not texts[owner].endswith("\ufffd"):
                texts[owner] += "\ufffd"
        position += size
    return texts


def printable(text: str, glyphs: Glyphs = UNICODE) -> str:
    """``text`` on one line with everything unsafe replaced by pictures, line breaks by their mark."""
    shown = text if text.isascii() and text.isprintable() else text.translate(_table(glyphs))
    return shown if shown or not text else glyphs.unseen


@lru_cache(maxsize=1 << 16)
def piece_of(text: str, glyphs: Glyphs = UNICODE) -> Piece:
    """A token's text as it is printed, cut at its newlines."""
    lines = tuple(printable(line, glyphs) for line in text.split("\n"))
    return Piece(lines, tuple(cell_len(line) for line in lines))


def clean(text: str, glyphs: Glyphs = UNICODE) -> str:
    """A whole text made safe for the terminal, for what is not drawn as a canvas: prompts, answers, messages.

    Line breaks and tabs stay, and the joiners that emoji and many scripts are written with.
    """
    return text.replace("\r\n", "\n").translate(_prose_table(glyphs))


def pictured(text: str) -> str:
    """As :func:`clean`, with one character for each: for an editor, which counts them."""
    return text if text.isprintable() else text.translate(_editor_table())


def cut(text: str, width: int, dots: str) -> str:
    """``text`` in at most ``width`` cells; where it is cut, as many of the dots as fit show it."""
    if cell_len(text) <= width:
        return text
    dots = dots[: max(width, 0)]
    return set_cell_size(text, max(width, 0) - len(dots)).rstrip() + dots


def chop(text: str, width: int) -> list[str]:
    """``text`` in parts of at most ``width`` cells, never cutting a wide character in two.

    Where a single character is wider than ``width``, which is at least 1, a full stop takes its place.
    """
    parts, used = [""], 0
    spans, _ = split_graphemes(text)
    for start, end, size in spans:
        fits = size <= width
        if used + (size if fits else 1) > width:
            parts.append("")
            used = 0
        parts[-1] += text[start:end] if fits else "."
        used += size if fits else 1
    return parts


def _sequence_length(lead: int) -> int:
    """Bytes of the UTF-8 sequence that starts with ``lead`` (Unicode 16, table 3-7); 1 where none does."""
    if 0xC2 <= lead <= 0xDF:
        return 2
    if 0xE0 <= lead <= 0xEF:
        return 3
    return 4 if 0xF0 <= lead <= 0xF4 else 1


_KEPT = "\n\t\u200c\u200d"
"""Line breaks, tabs, and the joiners of emoji and scripts."""
_SELECTORS = (*range(0xFE00, 0xFE10), *range(0xE0100, 0xE01F0))


class _Table(dict[int, str]):
    """A translation table that is filled as characters come by."""

    def __init__(self, glyphs: Glyphs) -> None:
        super().__init__({ord("\n"): glyphs.newline, ord("\t"): glyphs.tab, 0xFFFD: glyphs.broken})
        # Terminals disagree on the width of what a variation selector selects.
        self.update((code, "") for code in _SELECTORS)
        self.update((noncharacter, glyphs.broken) for noncharacter in range(0xFDD0, 0xFDF0))
        self.glyphs = glyphs

    def __missing__(self, code: int) -> str:
        self[code] = shown = self.picture(code)
        return shown

    def picture(self, code: int) -> str:
        category = unicodedata.category(chr(code))
        if category == "Cc" and code < 0x80:
            control = "␡" if code == 0x7F else chr(0x2400 + code)
            return control if self.glyphs.pictures else f"^{chr(code ^ 0x40)}"
        if category in {"Cc", "Cf", "Zl", "Zp"}:
            return self.glyphs.unseen
        if category == "Cs" or code & 0xFFFE == 0xFFFE:
            return self.glyphs.broken
        return chr(code)


@lru_cache(maxsize=8)
def _table(glyphs: Glyphs) -> _Table:
    return _Table(glyphs)


@lru_cache(maxsize=8)
def _prose_table(glyphs: Glyphs) -> _Table:
    table = _Table(glyphs)
    table.update((ord(kept), kept) for kept in (*_KEPT, "\ufe0f"))
    return table


@lru_cache(maxsize=1)
def _editor_table() -> _Table:
    table = _Table(UNICODE)
    table.update((code, chr(code)) for code in (*map(ord, _KEPT), *_SELECTORS))
    return table
