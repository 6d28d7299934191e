"""Small films made by hand, of everything that a screen can show."""

from collections.abc import Iterable

from rich.cells import cell_len

from dllm_tui.trace.frames import Cell, Film, Frame, Look, Marker, Row, Shot

INK, PAPER = 0xDFE5EE, 0x0D1118
PLAIN = Look(INK, PAPER)
PALETTE = tuple(0x111111 * number for number in range(16))


def row(text: str, look: Look = PLAIN, width: int = 20) -> Row:
    cells: list[Cell] = []
    for character in text:
        size = cell_len(character)
        if not size:
            cells[-1] = (cells[-1][0] + character, look)
            continue
        cells += [(character, look), *[("", look)] * (size - 1)]
    return tuple(cells[:width]) + ((" ", PLAIN),) * (width - len(cells))


def frame(*rows: Row) -> Frame:
    return Frame(rows)


def film(shots: Iterable[tuple[float, Frame]], *, seconds: float = 4.0) -> Film:
    reel = [Shot(second, shown) for second, shown in shots]
    first = reel[0].frame
    return Film(
        width=first.width,
        height=first.height,
        seconds=seconds,
        shots=iter(reel),
        title="Say <hello> & “goodbye”",
        foreground=INK,
        background=PAPER,
        palette=PALETTE,
        markers=(Marker(0.0, "Say hello"), Marker(1.5, "block 2")),
    )


WARM = Look(0xE69F00, 0x102030, bold=True)
SHY = Look(0x8A4B2A, PAPER, italic=True, underline=True)
GONE = Look(0xFFFFFF, 0x553300, strike=True)

SHOTS = [
    (0.0, frame(row("╭─ hello <b>&amp; ───"), row("│ ░░░░ 한글 é e\u0301 😀"), row("╰┈┈┈▁▂▃▄▅▆▇█▌▎▖⣿"))),
    (0.5, frame(row("╭─ hello <b>&amp; ───"), row("│ the  한글 x", WARM), row("╰┈┈┈▁▂▃▄▅▆▇█▌▎▖⣿"))),
    (1.25, frame(row("╭─ goodbye ─────────╮"), row("│ the  文字 x", SHY), row("bye </script> ]]>", GONE))),
    (2.0, frame(row("╭─ hello <b>&amp; ───"), row("│ the  文字 x", SHY), row("bye </script> ]]>", GONE))),
]
"""Frames with markup, wide and combining characters, emoji, lines, blocks and every attribute."""


def sample() -> Film:
    return film(SHOTS)
