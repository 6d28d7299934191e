"""The signs that panels, bars and lines are drawn with: two sets, one of them plain ASCII."""

import msgspec


class Marks(msgspec.Struct, frozen=True, kw_only=True):
    """Signs of one cell each, unless said otherwise."""

    filled: str
    """A slider's part below its value."""
    empty: str
    thumb: str
    bars: str
    """Heights of a bar chart's cell, the lowest first; the last one is full."""
    level: str
    """A threshold drawn across a chart."""
    busy: str
    """Before what is going on."""
    idle: str
    turned: str
    """A knob that was turned while it runs."""
    back: str
    """Tokens that were taken back: remasked, or not agreed with."""
    edited: str
    """Tokens that became others."""
    opens: str
    """After what opens a choice."""
    dot: str
    """Between two parts of a line."""
    dots: str
    """After what goes on; any width."""
    at_most: str
    times: str
    tick: str
    """Between two blocks of a timeline."""
    none: str
    """A bar of no height."""
    playing: str
    paused: str
    arrow: str
    """From a former value to a new one."""


UNICODE = Marks(
    filled="━",
    empty="─",
    thumb="●",
    bars="▁▂▃▄▅▆▇█",
    level="┈",
    busy="●",
    idle="○",
    turned="◆",
    back="▽",
    edited="◇",
    opens="▾",
    dot="·",
    dots="…",
    at_most="≤",
    times="×",
    tick="│",
    none="·",
    playing="▶",
    paused="‖",
    arrow="→",
)
ASCII = Marks(
    filled="=",
    empty="-",
    thumb="O",
    bars="_.:-=+*#",
    level="~",
    busy="*",
    idle="o",
    turned="!",
    back="<",
    edited="%",
    opens="v",
    dot="-",
    dots="...",
    at_most="<=",
    times="x",
    tick="|",
    none=" ",
    playing=">",
    paused="=",
    arrow="->",
)
