"""Asciicasts: what a terminal would have been sent. Version 2 is read by everything, 3 by the newest tools.

https://docs.asciinema.org/manual/asciicast/v2/ and …/v3/ describe the formats.
"""

import json
from collections.abc import Iterator
from typing import Any

from dllm_tui.trace.frames import Film, Frame, Look, hexed, spans

VERSIONS = (2, 3)


def lines(film: Film, version: int = 2) -> Iterator[str]:
    """The lines of a cast, each with its newline. Markers stand at blocks and turns."""
    yield _json(_header(film, version))
    last = 0
    for second, kind, data in _events(film):
        # in whole milliseconds from the start, so that differences add up to what they should
        now = round(second * 1000)
        yield _json([(now - last if version == 3 else now) / 1000, kind, data])
        last = now


def _header(film: Film, version: int) -> dict[str, Any]:
    theme = {
        "fg": hexed(film.foreground),
        "bg": hexed(film.background),
        "palette": ":".join(hexed(colour) for colour in film.palette),
    }
    if version == 3:
        term = {"cols": film.width, "rows": film.height, "type": "xterm-256color", "theme": theme}
        return {"version": 3, "term": term, "title": film.title}
    return {
        "version": 2,
        "width": film.width,
        "height": film.height,
        "duration": round(film.seconds, 3),
        "title": film.title,
        "env": {"TERM": "xterm-256color"},
        "theme": theme,
    }


def _events(film: Film) -> Iterator[tuple[float, str, str]]:
    waiting = list(film.markers)
    before: Frame | None = None
    for second, frame in film.shots:
        while waiting and waiting[0].second < second:
            marker = waiting.pop(0)
            yield marker.second, "m", marker.label
        drawn = _output(frame, before, film)
        yield second, "o", drawn if before else "\x1b[?25l\x1b[2J" + drawn
        before = frame
    for marker in waiting:
        yield marker.second, "m", marker.label
    yield film.seconds, "o", "\x1b[0m\x1b[?25h"


def _output(frame: Frame, before: Frame | None, film: Film) -> str:
    """What brings a terminal from one frame to the next."""
    parts: list[str] = []
    style = ""
    for y, left, right in frame.patches(before):
        parts.append(f"\x1b[{y + 1};{left + 1}H")
        for span in spans(frame.rows[y], left, right):
            wanted = _style(span.look, film)
            if wanted != style:
                style = wanted
                parts.append(style)
            parts.append(span.text)
    return "".join(parts)


def _style(look: Look, film: Film) -> str:
    codes = ["0"]
    codes += ["1"] * look.bold + ["3"] * look.italic + ["4"] * look.underline + ["9"] * look.strike
    for kind, colour, default in ((38, look.fg, film.foreground), (48, look.bg, film.background)):
        if colour != default:
            codes.append(f"{kind};2;{colour >> 16};{colour >> 8 & 0xFF};{colour & 0xFF}")
    return f"\x1b[{';'.join(codes)}m"


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False) + "\n"
