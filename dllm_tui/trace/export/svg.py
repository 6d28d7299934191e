"""SVG: the still of a frame, and a film that moves by style sheet alone. Text stays text."""

import re
from collections import Counter
from collections.abc import Iterator
from html import escape
from itertools import chain, groupby
from typing import TextIO

from dllm_tui.trace.export.raster import CELL, MARGIN
from dllm_tui.trace.export.shapes import Shape, shape
from dllm_tui.trace.frames import Film, Frame, Look, Row, hexed, spans

_WIDE, _HIGH = CELL
_BASELINE = 14
_FONTS = "ui-monospace,'JetBrains Mono','Cascadia Mono',Menlo,Consolas,'DejaVu Sans Mono',monospace"
_BEHIND = "\x01"
"""In place of the empty cell behind a wide character."""
_CORNERS = {
    "╭": "M{x},{h}V{y1}A{r},{r} 0 0 1 {x1},{y}H{w}",
    "╮": "M{x},{h}V{y1}A{r},{r} 0 0 0 {x0},{y}H0",
    "╰": "M{x},0V{y0}A{r},{r} 0 0 0 {x1},{y}H{w}",
    "╯": "M{x},0V{y0}A{r},{r} 0 0 1 {x0},{y}H0",
}
"""From one side of a cell to the next; ``x0`` and ``x1`` are left and right of the middle by the radius."""


def write_still(film: Film, frame: Frame, out: TextIO) -> None:
    """Write one frame."""
    out.write(_head(film))
    for y, row in enumerate(frame.rows):
        out.write(f'<g transform="translate(0 {y * _HIGH})">{"".join(_row(row, film.background))}</g>\n')
    out.write("</svg>\n")


def write(film: Film, out: TextIO) -> None:
    """Write a film that begins again at its end.

    Every row is a strip of all that it ever shows, one above the other, behind a window one row high; the
    style sheet moves the strip. What rows have in common is written once. Who asked for reduced motion sees
    the end.
    """
    strips = [_Strip() for _ in range(film.height)]
    for shot in film.shots:
        for y, strip in enumerate(strips):
            strip.show(shot.frame.rows[y], shot.second)
    drawn = [[list(_row(row, film.background)) for row in strip.rows] for strip in strips]
    counts = Counter(chain.from_iterable(chain.from_iterable(drawn)))
    shared = {part: f"p{number}" for number, (part, count) in enumerate(counts.items()) if count > 1}

    rules = [_rule(y, strip, film.seconds) for y, strip in enumerate(strips) if len(strip.times) > 1]
    out.write(_head(film, "".join(rules)))
    out.write("<defs>\n")
    for part, name in shared.items():
        out.write(part.replace(" ", f' id="{name}" ', 1) + "\n")
    out.write("</defs>\n")
    window = f'width="{film.width * _WIDE}" height="{_HIGH}" overflow="hidden"'
    for y, rows in enumerate(drawn):
        out.write(f'<svg y="{y * _HIGH}" {window}><g id="r{y}">\n')
        for index, parts in enumerate(rows):
            move = f' transform="translate(0 {index * _HIGH})"' if index else ""
            used = (f'<use href="#{shared[part]}"/>' if part in shared else part for part in parts)
            out.write(f"<g{move}>{''.join(used)}</g>\n")
        out.write("</g></svg>\n")
    out.write("</svg>\n")


class _Strip:
    """What a row shows, in the order in which it is first shown, and when."""

    def __init__(self) -> None:
        self.rows: dict[Row, int] = {}
        self.times: list[tuple[float, int]] = []

    def show(self, row: Row, second: float) -> None:
        """From this second on it shows this."""
        index = self.rows.setdefault(row, len(self.rows))
        if not self.times or self.times[-1][1] != index:
            self.times.append((second, index))


def _rule(y: int, strip: _Strip, seconds: float) -> str:
    frames = "".join(
        f"{_number(100 * second / seconds)}%{{transform:translateY({-index * _HIGH}px)}}"
        for second, index in strip.times
    )
    last = strip.times[-1][1] * _HIGH
    return (
        f"@keyframes k{y}{{{frames}}}"
        f"#r{y}{{animation:k{y} {_number(seconds)}s step-end infinite}}"
        f"@media (prefers-reduced-motion){{#r{y}{{animation:none;transform:translateY({-last}px)}}}}\n"
    )


def _head(film: Film, rules: str = "") -> str:
    width, height = film.width * _WIDE + 2 * MARGIN, film.height * _HIGH + 2 * MARGIN
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="{-MARGIN} {-MARGIN} {width} {height}" '
        f'width="{width}" height="{height}" xml:space="preserve">\n'
        f"<title>{escape(film.title)}</title>\n"
        f"<style>text{{font:15px {_FONTS};white-space:pre}}"
        ".b{font-weight:700}.i{font-style:italic}.u{text-decoration:underline}.s{text-decoration:line-through}"
        f".c{{fill:none}}\n{rules}</style>\n"
        f'<rect x="{-MARGIN}" y="{-MARGIN}" width="{width}" height="{height}" rx="8" '
        f'fill="{hexed(film.background)}"/>\n'
    )


def _row(row: Row, background: int) -> Iterator[str]:
    """The elements of a row, those behind first."""
    yield from _backgrounds(row, background)
    yield from _foregrounds(row)


def _backgrounds(row: Row, background: int) -> Iterator[str]:
    left, colour = 0, background
    for x in range(len(row) + 1):
        here = row[x][1].bg if x < len(row) else None
        if here != colour or here is None:
            if colour != background and x > left:
                yield _rect(left * _WIDE, 0, (x - left) * _WIDE, _HIGH, hexed(colour))
            left, colour = x, background if here is None else here


def _foregrounds(row: Row) -> Iterator[str]:
    for span in spans(row):
        cells = range(span.x, span.x + span.width)
        drawn = {at: shape(row[at][0], *CELL) for at in cells}
        for is_shape, group in groupby(cells, key=lambda at: row[at][0] if drawn[at] else None):
            part = list(group)
            figure = drawn[part[0]]
            if is_shape and figure:
                yield from _figure(figure, part[0], len(part), hexed(span.look.fg))
            else:
                yield from _words(row, part, span.look)


def _words(row: Row, cells: list[int], look: Look) -> Iterator[str]:
    """Text, cut where there is more than one blank: each part stands exactly where its cells are."""
    names = ["b"] * look.bold + ["i"] * look.italic + ["u"] * look.underline + ["s"] * look.strike
    kind = f' class="{" ".join(names)}"' if names else ""
    text = "".join(row[at][0] or _BEHIND for at in cells)
    for part in re.finditer(r"\S+(?: \S+)*", text):
        x, width = (cells[0] + part.start()) * _WIDE, len(part[0]) * _WIDE
        yield (
            f'<text x="{x}" y="{_BASELINE}" textLength="{width}" fill="{hexed(look.fg)}"{kind}>'
            f"{escape(part[0].replace(_BEHIND, ''), quote=False)}</text>"
        )


def _figure(figure: Shape, x: int, count: int, fill: str) -> Iterator[str]:
    """The same shape in neighbouring cells."""
    opacity = "" if figure.opacity == 1 else f'" fill-opacity="{figure.opacity}'
    for left, top, right, bottom in figure.rects:
        if (left, right) == (0, _WIDE):
            yield _rect(x * _WIDE, top, count * _WIDE, bottom - top, fill + opacity)
        else:
            for at in range(x, x + count):
                yield _rect(at * _WIDE + left, top, right - left, bottom - top, fill + opacity)
    if figure.corner:
        path = f'd="{_corner(figure.corner)}" stroke="{fill}"'
        for at in range(x, x + count):
            yield f'<path class="c" transform="translate({at * _WIDE})" {path}/>'


def _corner(corner: str) -> str:
    middle, across, radius = (_WIDE - 1) // 2 + 0.5, (_HIGH - 1) // 2 + 0.5, _WIDE // 2
    places = {"x": middle, "x0": middle - radius, "x1": middle + radius}
    places |= {"y": across, "y0": across - radius, "y1": across + radius}
    numbers = {name: _number(value) for name, value in places.items()}
    return _CORNERS[corner].format(**numbers, w=_WIDE, h=_HIGH, r=radius)


def _rect(x: int, y: int, width: int, height: int, fill: str) -> str:
    return f'<rect x="{x}" y="{y}" width="{width}" height="{height}" fill="{fill}"/>'


def _number(value: float) -> str:
    return f"{value:.4f}".rstrip("0").rstrip(".")
