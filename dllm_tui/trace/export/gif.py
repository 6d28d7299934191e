"""Animated GIFs: one palette for all, and of each frame only the pixels that are new."""

from io import BytesIO
from typing import BinaryIO

from PIL import Image, ImageChops

from dllm_tui.trace.export.raster import UNCHANGED, Painter
from dllm_tui.trace.frames import Film

MOST_FPS = 50
"""Browsers show a frame of under 2/100 s for 10/100 s."""

_PALETTE_AT = 13
"""Where in the file the palette is; it is known when all is painted."""
_LONGEST = 0xFFFF
"""Hundredths of a second that a frame can stand."""


def write(film: Film, out: BinaryIO) -> None:
    """Write a film that begins again at its end, into a file that can be wound back."""
    painter = Painter(film.width, film.height, film.background)
    size = painter.image.size
    out.write(b"GIF89a" + _short(*size) + b"\xf7\0\0" + bytes(768))
    out.write(b"\x21\xff\x0bNETSCAPE2.0\x03\x01\0\0\0")
    shown: Image.Image | None = None
    since = 0
    """The image that is written next, and when it appears, in hundredths of a second."""
    before: Image.Image | None = None
    for second, frame in film.shots:
        now = round(second * 100)
        if shown is not None and now > since:
            _image(out, shown, before, now - since)
            before, since = shown, now
        painter.paint(frame)
        shown = painter.image.copy()
    if shown is not None:
        _image(out, shown, before, max(2, round(film.seconds * 100) - since))
    out.write(b";")
    out.seek(_PALETTE_AT)
    out.write(painter.palette.rgb())


def _image(out: BinaryIO, image: Image.Image, before: Image.Image | None, hundredths: int) -> None:
    """What is new in an image, to stand so long."""
    box = (0, 0, *image.size)
    if before is not None:
        changed = ImageChops.difference(image, before).point(lambda value: 255 if value else 0)
        box = changed.getbbox() or (0, 0, 1, 1)
        image, same = image.crop(box), ImageChops.invert(changed.crop(box))
        image.paste(UNCHANGED, mask=same)
    while hundredths > 0:
        delay = min(hundredths, _LONGEST)
        hundredths -= delay
        # keep what is there (disposal 1), and let UNCHANGED show it
        out.write(b"\x21\xf9\x04\x05" + _short(delay) + bytes([UNCHANGED, 0]))
        out.write(b"\x2c" + _short(*box[:2], *image.size) + b"\0" + _packed(image))
        image = Image.new("L", (1, 1), UNCHANGED)
        box = (0, 0, 1, 1)


def _packed(image: Image.Image) -> bytes:
    """The image data as GIF packs it: Pillow writes a whole file, of which all but that is left out."""
    file = BytesIO()
    image.save(file, "GIF", optimize=False, interlace=0)
    data = file.getvalue()
    at = 13 + (3 << (data[10] & 7) + 1)  # behind the header and its palette
    while data[at] == 0x21:  # extensions
        at += 2
        while data[at]:
            at += data[at] + 1
        at += 1
    return data[at + 10 : -1]


def _short(*numbers: int) -> bytes:
    return b"".join(number.to_bytes(2, "little") for number in numbers)
