"""Lines, blocks, shades and braille as geometry, so that they meet their neighbours without a seam.

A font draws them as it likes; a terminal that cares draws them itself, and so do our pictures. Coordinates
are pixels of a cell, from its upper left corner.
"""

import re
import unicodedata
from functools import lru_cache
from typing import Literal, NamedTuple, TypeAlias

Corner: TypeAlias = Literal["╭", "╮", "╰", "╯"]


class Rect(NamedTuple):
    """A filled rectangle."""

    left: int
    top: int
    right: int
    bottom: int


class Shape(NamedTuple):
    """What a character looks like."""

    rects: tuple[Rect, ...]
    opacity: float = 1.0
    corner: Corner | None = None
    """A quarter of a circle from the middle of one side of the cell to that of the next."""


_QUADRANTS = {
    "▖": "3",
    "▗": "4",
    "▘": "1",
    "▙": "134",
    "▚": "14",
    "▛": "123",
    "▜": "124",
    "▝": "2",
    "▞": "23",
    "▟": "234",
}
"""Quarters of the cell: 1 and 2 above, 3 and 4 below."""

_SHADES = {"░": 0.4, "▒": 0.6, "▓": 0.8}
_THICK = {"LIGHT": 1, "HEAVY": 2}
_LINE = re.compile(r"BOX DRAWINGS (LIGHT|HEAVY) ((?:(?:AND |)(?:HORIZONTAL|VERTICAL|UP|DOWN|LEFT|RIGHT) ?)+)")
_DASH = re.compile(r"BOX DRAWINGS (LIGHT|HEAVY) (DOUBLE|TRIPLE|QUADRUPLE) DASH (HORIZONTAL|VERTICAL)")
_DASHES = {"DOUBLE": 2, "TRIPLE": 3, "QUADRUPLE": 4}


@lru_cache(maxsize=512)
def shape(character: str, width: int, height: int) -> Shape | None:
    """The geometry of a character in a cell of so many pixels; ``None`` where a font has to draw it."""
    code = ord(character) if len(character) == 1 else 0
    if 0x2500 <= code < 0x2580:
        return _line(character, width, height)
    if 0x2580 <= code < 0x25A0:
        return _block(character, code, width, height)
    if 0x2800 <= code < 0x2900:
        return _braille(code - 0x2800, width, height)
    return None


def _line(character: str, width: int, height: int) -> Shape | None:
    if character in {"╭", "╮", "╰", "╯"}:
        return Shape((), corner=character)  # pyright: ignore[reportArgumentType] (it is one of the four)
    name = unicodedata.name(character)
    if dashed := _DASH.fullmatch(name):
        weight, number, direction = dashed.groups()
        return _dashes(_THICK[weight], _DASHES[number], direction, width, height)
    if not (straight := _LINE.fullmatch(name)):
        return None
    weight, words = straight.groups()
    thick = _THICK[weight]
    x, y = (width - thick) // 2, (height - thick) // 2
    ends = set(words.replace("HORIZONTAL", "LEFT RIGHT").replace("VERTICAL", "UP DOWN").split())
    rects = []
    if ends & {"LEFT", "RIGHT"}:
        rects.append(Rect(0 if "LEFT" in ends else x, y, width if "RIGHT" in ends else x + thick, y + thick))
    if ends & {"UP", "DOWN"}:
        rects.append(Rect(x, 0 if "UP" in ends else y, x + thick, height if "DOWN" in ends else y + thick))
    return Shape(tuple(rects))


def _dashes(thick: int, number: int, direction: str, width: int, height: int) -> Shape:
    across = direction == "HORIZONTAL"
    long, wide = (width, height) if across else (height, width)
    side = (wide - thick) // 2
    rects = []
    for dash in range(number):
        start, end = round(dash * long / number), round((dash + 1) * long / number)
        end = max(start + 1, end - max(1, (end - start) // 3))
        rects.append(Rect(start, side, end, side + thick) if across else Rect(side, start, side + thick, end))
    return Shape(tuple(rects))


def _block(character: str, code: int, width: int, height: int) -> Shape:
    whole = Rect(0, 0, width, height)
    if character in _SHADES:
        return Shape((whole,), _SHADES[character])
    if character in _QUADRANTS:
        x, y = width // 2, height // 2
        quarters = {
            "1": Rect(0, 0, x, y),
            "2": Rect(x, 0, width, y),
            "3": Rect(0, y, x, height),
            "4": Rect(x, y, width, height),
        }
        return Shape(tuple(quarters[number] for number in _QUADRANTS[character]))
    if 0x2581 <= code <= 0x2588:
        return Shape((Rect(0, height - _part(height, code - 0x2580), width, height),))
    if 0x2589 <= code <= 0x258F:
        return Shape((Rect(0, 0, _part(width, 0x2590 - code), height),))
    sides = {
        "▀": Rect(0, 0, width, height - _part(height, 4)),
        "▐": Rect(_part(width, 4), 0, width, height),
        "▔": Rect(0, 0, width, _part(height, 1)),
        "▕": Rect(width - _part(width, 1), 0, width, height),
    }
    return Shape((sides[character],))


def _part(length: int, eighths: int) -> int:
    return max(1, round(length * eighths / 8))


def _braille(dots: int, width: int, height: int) -> Shape:
    """Bits 0 … 2 and 6 are the left column from the top, 3 … 5 and 7 the right one."""
    size = max(1, width // 4)
    rects = []
    for bit in range(8):
        if dots >> bit & 1:
            column, row = (bit - 6, 3) if bit >= 6 else divmod(bit, 3)
            x = round(width * (2 * column + 1) / 4 - size / 2)
            y = round(height * (2 * row + 1) / 8 - size / 2)
            rects.append(Rect(x, y, x + size, y + size))
    return Shape(tuple(rects))
