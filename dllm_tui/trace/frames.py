"""What a screen shows, frozen: a grid of cells, and films of such grids. Pure data; knows no terminal."""

from collections.abc import Iterable, Iterator
from typing import NamedTuple, TypeAlias

import msgspec


class Look(msgspec.Struct, frozen=True, gc=False):
    """How a cell looks, with everything resolved to two colours: reverse and dim are in them."""

    fg: int
    """``0xRRGGBB``, as all colours here."""
    bg: int
    bold: bool = False
    italic: bool = False
    underline: bool = False
    strike: bool = False


Cell: TypeAlias = tuple[str, Look]
"""A character (with what combines with it) and its look; empty behind a character that is two cells wide."""

Row: TypeAlias = tuple[Cell, ...]


class Span(NamedTuple):
    """Neighbouring cells that look alike."""

    x: int
    width: int
    text: str
    look: Look


class Patch(NamedTuple):
    """Cells ``left … right-1`` of row ``y``."""

    y: int
    left: int
    right: int


class Frame(msgspec.Struct, frozen=True):
    """A screen. All rows have the same number of cells."""

    rows: tuple[Row, ...]

    @property
    def width(self) -> int:
        """Columns."""
        return len(self.rows[0]) if self.rows else 0

    @property
    def height(self) -> int:
        """Rows."""
        return len(self.rows)

    def text(self) -> str:
        """The characters alone, a line a row, without blanks at line ends."""
        return "".join("".join(text for text, _ in row).rstrip() + "\n" for row in self.rows)

    def patches(self, before: "Frame | None") -> Iterator[Patch]:
        """What differs from a frame of the same size, in order; no patch cuts a character in two.

        Without a frame before, everything does. Few cells between two changes belong to one patch with them.
        """
        for y, row in enumerate(self.rows):
            if before is None:
                yield Patch(y, 0, len(row))
                continue
            former = before.rows[y]
            if row is former or row == former:
                continue
            left = right = -1
            for x in range(len(row)):
                if row[x] == former[x] or x < right:
                    continue
                start, end = _whole(row, former, x)
                if left >= 0 and start - right > _BETWEEN:
                    yield Patch(y, left, right)
                    left = start
                left, right = start if left < 0 else left, end
            yield Patch(y, left, right)


_BETWEEN = 10
"""Cells that cost less to send again than to jump over."""


def _whole(row: Row, former: Row, x: int) -> tuple[int, int]:
    """The cells around ``x`` whose characters are whole in both rows."""
    left, right = x, x + 1
    while left and not (row[left][0] and former[left][0]):
        left -= 1
    while right < len(row) and not (row[right][0] and former[right][0]):
        right += 1
    return left, right


def spans(row: Row, left: int = 0, right: int | None = None) -> Iterator[Span]:
    """The cells of a row, or of a part of it, in spans that look alike."""
    right = len(row) if right is None else right
    start = left
    while start < right:
        look, end = row[start][1], start + 1
        while end < right and row[end][1] == look:
            end += 1
        yield Span(start, end - start, "".join(text for text, _ in row[start:end]), look)
        start = end


def mix(one: int, other: int, share: float) -> int:
    """A colour on the way from one (``share`` 0) to another (1)."""
    mixed = 0
    for shift in (16, 8, 0):
        a, b = one >> shift & 0xFF, other >> shift & 0xFF
        mixed |= round(a + (b - a) * share) << shift
    return mixed


def hexed(colour: int) -> str:
    """The colour as ``#rrggbb``."""
    return f"#{colour:06x}"


class Shot(NamedTuple):
    """From this second on, the screen shows this."""

    second: float
    frame: Frame


class Marker(NamedTuple):
    """A place in a film to jump to."""

    second: float
    label: str


class Film(msgspec.Struct, frozen=True, kw_only=True):
    """A show, ready to be written. Its shots come one by one, once, in order; the first is at second 0."""

    width: int
    """Columns."""
    height: int
    """Rows."""
    seconds: float
    """From the first shot to the end of the last."""
    shots: Iterable[Shot]
    title: str
    foreground: int
    background: int
    """Of the theme: behind everything, and around it."""
    palette: tuple[int, ...]
    """The 16 colours of a terminal in this theme."""
    markers: tuple[Marker, ...] = ()
