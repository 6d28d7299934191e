"""Frames as pixels, in one palette of 256 colours that grows with what is shown."""

import unicodedata
from functools import lru_cache
from importlib import resources
from io import BytesIO

import msgspec
from PIL import Image, ImageDraw, ImageFont

from dllm_tui.trace.export.shapes import Shape, shape
from dllm_tui.trace.frames import Frame, Look, mix

CELL = (9, 19)
"""Pixels of a cell."""
MARGIN = 12
"""Pixels of background around the screen."""
UNCHANGED = 255
"""The index that no colour has: it stands for a pixel that stays as it was."""

_SIZE = 15
"""Pixels of an em; both fonts' characters are 0.6 em wide."""
_BASELINE = 14
_LEVELS = 7
"""Shades between the two colours of a cell: few, so that all fit into the palette and pack well."""
_RESERVED = 64
"""Places in the palette that only exact colours of the theme may take, not shades."""
_CLOSE = 300
"""Distance of two shades that are taken for one."""
_FINE = 4
"""Corners are drawn so many times larger, and then reduced."""


class Palette:
    """Colours as they come, until 255 are there; from then on the nearest."""

    def __init__(self) -> None:
        self.colours: list[int] = []
        self._index: dict[int, int] = {}

    def index(self, colour: int, *, exact: bool) -> int:
        """The place of a colour, or of one that is near enough."""
        known = self._index.get(colour)
        if known is not None:
            return known
        room = UNCHANGED - (0 if exact else _RESERVED)
        nearest = min(self._index, key=lambda other: _distance(colour, other), default=None)
        if len(self.colours) < room and (exact or nearest is None or _distance(colour, nearest) > _CLOSE):
            self._index[colour] = len(self.colours)
            self.colours.append(colour)
            return self._index[colour]
        assert nearest is not None
        return self._index[nearest]

    def rgb(self) -> bytes:
        """All 256 colours, three bytes each."""
        return b"".join(colour.to_bytes(3) for colour in self.colours).ljust(768, b"\0")


class Painter:
    """A screen in pixels, to which one frame after the other is painted.

    Args:
        width: columns.
        height: rows.
        background: around the cells.
    """

    def __init__(self, width: int, height: int, background: int) -> None:
        self.palette = Palette()
        size = (width * CELL[0] + 2 * MARGIN, height * CELL[1] + 2 * MARGIN)
        self.image = Image.new("L", size, self.palette.index(background, exact=True))
        """Indices into the palette."""
        self._before: Frame | None = None
        self._tiles: dict[tuple[str, Look, int], Image.Image] = {}
        self._shades: dict[tuple[int, int], list[int]] = {}

    def paint(self, frame: Frame) -> None:
        """Bring the image from the frame before to this one."""
        for y, left, right in frame.patches(self._before):
            row = frame.rows[y]
            for x in range(left, right):
                text, look = row[x]
                if text:
                    wide = x + 1 < len(row) and not row[x + 1][0]
                    place = (MARGIN + x * CELL[0], MARGIN + y * CELL[1])
                    self.image.paste(self._tile(text, look, 2 if wide else 1), place)
        self._before = frame

    def picture(self) -> Image.Image:
        """A copy of what is painted so far, in its colours."""
        picture = self.image.copy()
        picture.putpalette(self.palette.rgb())
        return picture

    def _tile(self, text: str, look: Look, cells: int) -> Image.Image:
        key = (text, look, cells)
        tile = self._tiles.get(key)
        if tile is None:
            mask = _mask(text, msgspec.structs.replace(look, fg=0, bg=0), cells)
            tile = self._tiles[key] = mask.point(self._shading(look.fg, look.bg))
        return tile

    def _shading(self, fg: int, bg: int) -> list[int]:
        """For each coverage 0 … 255 the index of that share of ``fg`` on ``bg``."""
        shades = self._shades.get((fg, bg))
        if shades is None:
            steps = [
                self.palette.index(mix(bg, fg, level / _LEVELS), exact=level in {0, _LEVELS})
                for level in (0, _LEVELS, *range(1, _LEVELS))
            ]
            steps = [steps[0], *steps[2:], steps[1]]
            shades = [steps[round(coverage * _LEVELS / 255)] for coverage in range(256)]
            self._shades[fg, bg] = shades
        return shades


def still(frame: Frame, background: int) -> bytes:
    """One frame as a PNG."""
    painter = Painter(frame.width, frame.height, background)
    painter.paint(frame)
    out = BytesIO()
    painter.picture().save(out, "PNG")
    return out.getvalue()


def _distance(one: int, other: int) -> int:
    """How different two colours look: green counts most, blue least."""
    red, green, blue = ((one >> shift & 0xFF) - (other >> shift & 0xFF) for shift in (16, 8, 0))
    return 3 * red * red + 6 * green * green + blue * blue


@lru_cache(maxsize=4096)
def _mask(text: str, look: Look, cells: int) -> Image.Image:
    """How much of each pixel of a cell its character covers, 0 … 255. Colours don't matter."""
    width, height = cells * CELL[0], CELL[1]
    mask = Image.new("L", (width, height))
    draw = ImageDraw.Draw(mask)
    drawn = shape(text, width, height)
    if drawn:
        _draw_shape(mask, draw, drawn)
    elif not text.isspace():
        _draw_glyph(draw, text, look, width)
    if look.underline:
        draw.rectangle((0, _BASELINE + 2, width - 1, _BASELINE + 2), fill=255)
    if look.strike:
        draw.rectangle((0, height // 2, width - 1, height // 2), fill=255)
    return mask


def _draw_shape(mask: Image.Image, draw: ImageDraw.ImageDraw, drawn: Shape) -> None:
    for left, top, right, bottom in drawn.rects:
        if right > left and bottom > top:
            draw.rectangle((left, top, right - 1, bottom - 1), fill=round(255 * drawn.opacity))
    if drawn.corner:
        mask.paste(_corner(drawn.corner, *mask.size))


def _corner(corner: str, width: int, height: int) -> Image.Image:
    """A line one pixel wide that turns around a corner."""
    large = Image.new("L", (width * _FINE, height * _FINE))
    draw = ImageDraw.Draw(large)
    x, y = (width - 1) // 2 * _FINE, (height - 1) // 2 * _FINE
    radius = (width - 1) // 2 * _FINE
    down, right = corner in "╭╮", corner in "╭╰"
    outer = radius + _FINE
    left = x if right else x + _FINE - 2 * outer
    top = y if down else y + _FINE - 2 * outer
    start = {"╭": 180, "╮": 270, "╰": 90, "╯": 0}[corner]
    draw.arc((left, top, left + 2 * outer - 1, top + 2 * outer - 1), start, start + 90, fill=255, width=_FINE)
    across = (x + outer, large.width) if right else (0, x + _FINE - outer)
    along = (y + outer, large.height) if down else (0, y + _FINE - outer)
    if across[0] < across[1]:
        draw.rectangle((across[0], y, across[1] - 1, y + _FINE - 1), fill=255)
    draw.rectangle((x, along[0], x + _FINE - 1, along[1] - 1), fill=255)
    return large.resize((width, height), Image.Resampling.BOX)


def _draw_glyph(draw: ImageDraw.ImageDraw, text: str, look: Look, width: int) -> None:
    character = unicodedata.normalize("NFC", text)[0]
    for name in ("Bold" if look.bold else "Italic" if look.italic else "Regular", "Symbols"):
        font, missing = _font(name)
        if width == CELL[0] and _ink(font, character) != missing:
            draw.text((0, _BASELINE), character, font=font, fill=255, anchor="ls")
            return
    # no font has it: a box as wide as the character is
    draw.rounded_rectangle((1, 4, width - 2, _BASELINE), radius=2, outline=160)


@lru_cache
def _font(name: str) -> tuple[ImageFont.FreeTypeFont, bytes]:
    """A font, and what it draws for a character that it doesn't have."""
    file = f"{'DejaVuSansMono' if name == 'Symbols' else 'JetBrainsMono'}-{name}.ttf"
    data = resources.files("dllm_tui.trace.export").joinpath("fonts", file).read_bytes()
    font = ImageFont.truetype(BytesIO(data), _SIZE, layout_engine=ImageFont.Layout.BASIC)
    return font, _ink(font, "\uffff")


def _ink(font: ImageFont.FreeTypeFont, character: str) -> bytes:
    image = Image.new("L", CELL)
    ImageDraw.Draw(image).text((0, _BASELINE), character, font=font, fill=255, anchor="ls")
    return image.tobytes()
