"""Lines out of words: where the text of each position stands, at a given width. Pure, and made for speed."""

from collections.abc import Mapping, Sequence
from enum import IntEnum
from typing import NamedTuple, TypeAlias

import msgspec
from rich.cells import cell_len

from dllm_tui.tui.cells import chop


class Part(IntEnum):
    """What a span of a line is."""

    TEXT = 0
    """Text of its position."""
    MARK = 1
    """The mark of a newline; left out where the line is full."""
    REST = 2
    """What a slot has more than its text."""


class Span(msgspec.Struct, frozen=True, gc=False):
    """Some cells of a line that belong to one position."""

    position: int
    text: str
    width: int
    part: Part = Part.TEXT
    look: int = -1
    """How it looks, of :mod:`dllm_tui.tui.palette`, if not as its position does."""


Line: TypeAlias = tuple[Span, ...]


class Shown(msgspec.Struct, frozen=True, gc=False):
    """What stands at one position."""

    lines: tuple[Line, ...]
    """A line break stands between each two; one line for most tokens. All but the last end with a mark."""
    width: int
    """Of the last line, in cells."""
    opens: bool
    """A line may break before it."""
    closes: bool
    """A line may break after it."""


class Start(NamedTuple):
    """Where a line starts. Starts are in the order of their lines."""

    position: int
    part: int = 0
    """Which of :attr:`Shown.lines`."""
    cut: int = 0
    """Cuts in this part before, where it is longer than a line."""
    word: bool = True
    """A word starts here."""
    soft: bool = False
    """The line before was full: spaces at the start are not drawn."""


class Wrapped(NamedTuple):
    """What :func:`wrap` made."""

    lines: list[Line]
    starts: list[Start]
    joined: int | None
    """Number of the known line with which the rest goes on, or ``None`` at the end of the text."""


def wrap(shown: Sequence[Shown], start: Start, width: int, known: Mapping[Start, int]) -> Wrapped:
    """Lay out lines greedily, word by word.

    A line breaks before a word that doesn't fit; a word longer than a line is cut between its positions, or
    within one if it must be.

    Args:
        shown: what is drawn at each position.
        start: where the first line starts.
        width: of a line, in cells, at least 1.
        known: numbers of lines that stay as they are if a line starts like one of them.
    """
    page = _Page(width, start, known)
    word: list[Span] = []
    size = part = 0
    closed = False
    for position in range(start.position, len(shown)):
        here = shown[position]
        lines = here.lines
        if word and (closed or here.opens):
            if page.used and page.used + size <= width:  # by far the most frequent: it fits
                page.line += word
                page.used += size
            else:
                page.place(word, size, part)
            word, size = [], 0
        closed = here.closes
        if len(lines) == 1:
            part = part if word else 0
        else:
            first = start.part if position == start.position else 0
            for number in range(first, len(lines) - 1):
                *text, mark = lines[number]
                size += sum(span.width for span in text)
                page.place(word + text, size, part if word else number)
                page.end_line(mark, Start(position, number + 1))
                word, size = [], 0
            part = len(lines) - 1
        word += lines[-1]
        size += here.width
        if page.joined is not None:
            return Wrapped(page.lines, page.starts, page.joined)
    page.place(word, size, part)
    page.finish()
    return Wrapped(page.lines, page.starts, page.joined)


class _Page:
    """The lines that are done, and the one that is being written."""

    def __init__(self, width: int, start: Start, known: Mapping[Start, int]) -> None:
        self.width = width
        self.known = known
        self.starts = [start]
        self.lines: list[Line] = []
        self.line: list[Span] = []
        self.used = 0
        self.joined: int | None = None

    def place(self, word: list[Span], size: int, part: int) -> None:
        """Put a word on this line or the next. ``part`` is what its first span is of its position."""
        if not word:
            return
        if self.used and self.used + size > self.width:
            self.begin(Start(word[0].position, part, soft=True))
        if not self.used and self.starts[-1].soft and word[0].text[:1] == " ":
            first, bare = word[0], word[0].text.lstrip(" ")
            spaces = len(first.text) - len(bare)
            word[0] = Span(first.position, bare, first.width - spaces, first.part)
            size -= spaces
        if size <= self.width - self.used:
            self.line += word
            self.used += size
        else:
            self.cut(word, part)

    def cut(self, word: list[Span], part: int) -> None:
        """Spread a word that is longer than a line over several."""
        position, cuts = word[0].position, 0
        for span in word:
            if span.position != position:
                position, part, cuts = span.position, 0, 0
            whole = span.width <= self.width
            for text in [span.text] if whole else chop(span.text, self.width):
                size = span.width if whole else cell_len(text)
                if self.used and self.used + size > self.width:
                    self.begin(Start(position, part, cuts, word=False, soft=True))
                self.line.append(Span(position, text, size, span.part))
                self.used += size
                cuts += 1

    def end_line(self, mark: Span, start: Start) -> None:
        """End the line with the mark of a newline, if there is room, and begin the next."""
        if self.used + mark.width <= self.width:
            self.line.append(mark)
        self.begin(start)

    def begin(self, start: Start) -> None:
        """End the line and begin the next, unless that is known."""
        if self.joined is not None:
            return
        self.lines.append(tuple(self.line))
        self.line, self.used = [], 0
        self.joined = self.known.get(start)
        if self.joined is None:
            self.starts.append(start)

    def finish(self) -> None:
        """End the last line."""
        if self.joined is None:
            self.lines.append(tuple(self.line))
