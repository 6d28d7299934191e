"""MP4, for places that take no GIF: frames are handed to the ffmpeg of the system."""

import contextlib
import errno
import os
import shutil
import subprocess
from collections.abc import Iterator
from itertools import repeat
from pathlib import Path
from tempfile import TemporaryFile

from dllm_tui.errors import ExportError
from dllm_tui.trace.export.raster import Painter
from dllm_tui.trace.frames import Film


def write(film: Film, path: Path, fps: int) -> None:
    """Write a film.

    Raises:
        ExportError: there is no ffmpeg, or it could not write the film.
        OSError: the disk is full.
    """
    ffmpeg = shutil.which("ffmpeg")
    if ffmpeg is None:
        raise ExportError(
            "MP4 needs ffmpeg, which is not installed.", "Install it, or export a .gif: that needs nothing."
        )
    painter = Painter(film.width, film.height, film.background)
    width, height = painter.image.size
    source = ["-f", "rawvideo", "-pix_fmt", "rgb24", "-s", f"{width}x{height}", "-r", str(fps), "-i", "-"]
    # H.264 wants even sides, and yuv420p is what every player knows
    target = ["-vf", "pad=ceil(iw/2)*2:ceil(ih/2)*2", "-c:v", "libx264", "-pix_fmt", "yuv420p", "-crf", "18"]
    exact = ["-fflags", "+bitexact", "-flags:v", "+bitexact", "-map_metadata", "-1", "-threads", "1"]
    command = [ffmpeg, "-v", "error", "-y", *source, *target, *exact, "-movflags", "+faststart"]
    with TemporaryFile() as said:
        with subprocess.Popen(
            [*command, "-f", "mp4", str(path)], stdin=subprocess.PIPE, stderr=said
        ) as process:
            assert process.stdin
            # where ffmpeg gives up, the pipe breaks; it says why
            with contextlib.suppress(BrokenPipeError), process.stdin as pipe:
                for picture in _pictures(film, painter, fps):
                    pipe.write(picture)
        said.seek(0)
        reason = said.read().decode(errors="replace").strip().splitlines()
        if any(os.strerror(errno.ENOSPC) in line for line in reason):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        if process.returncode or reason:  # where only the end could not be written, it still returns 0
            raise ExportError(
                f"ffmpeg could not write the film: {reason[-1] if reason else 'it gives no reason'}"
            )


def _pictures(film: Film, painter: Painter, fps: int) -> Iterator[bytes]:
    """The pixels of every frame, so many a second."""
    picture, written = b"", 0
    for second, frame in film.shots:
        now = round(second * fps)
        yield from repeat(picture, now - written)
        written = now
        painter.paint(frame)
        picture = painter.picture().convert("RGB").tobytes()
    yield from repeat(picture, max(1, round(film.seconds * fps) - written))
