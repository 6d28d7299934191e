"""Videos, by a real ffmpeg: what is in the file is what the film shows, for as long as it shows it."""

import json
import shutil
import subprocess
from pathlib import Path

import pytest
from PIL import Image, ImageChops, ImageStat

from dllm_tui.trace import export
from dllm_tui.trace.export.raster import Painter
from tests.export import reel

pytestmark = pytest.mark.skipif(
    not (shutil.which("ffmpeg") and shutil.which("ffprobe")), reason="there is no ffmpeg"
)

FPS = 10


@pytest.fixture
def video(tmp_path: Path) -> Path:
    path = tmp_path / "a.mp4"
    export.write_film(reel.sample(), path, fps=FPS)
    return path


def test_every_player_knows_it(video: Path):
    asked = ["ffprobe", "-v", "error", "-of", "json", "-show_streams", "-show_format", str(video)]
    told = json.loads(subprocess.run(asked, capture_output=True, check=True).stdout)
    (stream,) = told["streams"]
    assert (stream["codec_name"], stream["pix_fmt"]) == ("h264", "yuv420p")
    assert (stream["width"] % 2, stream["height"] % 2) == (0, 0)
    assert int(stream["nb_frames"]) == round(reel.sample().seconds * FPS)
    assert float(told["format"]["duration"]) == pytest.approx(reel.sample().seconds, abs=1 / FPS)
    assert "encoder" not in told["format"].get("tags", {})


def test_it_shows_the_film(video: Path, tmp_path: Path):
    subprocess.run(
        ["ffmpeg", "-v", "error", "-i", str(video), str(tmp_path / "%03d.png")], check=True, timeout=60
    )
    film = reel.sample()
    painter = Painter(film.width, film.height, film.background)
    for second, frame in film.shots:
        painter.paint(frame)
        wanted = painter.image.copy()
        wanted.putpalette(painter.palette.rgb())
        with Image.open(tmp_path / f"{round(second * FPS) + 1:03}.png") as shown:
            part = shown.convert("RGB").crop((0, 0, *wanted.size))
        off = ImageStat.Stat(ImageChops.difference(part, wanted.convert("RGB"))).mean
        assert max(off) < 8, second


def test_the_same_film_is_the_same_bytes(video: Path, tmp_path: Path):
    export.write_film(reel.sample(), tmp_path / "b.mp4", fps=FPS)
    assert video.read_bytes() == (tmp_path / "b.mp4").read_bytes()


def test_what_there_is_stays_where_ffmpeg_fails(tmp_path: Path):
    """A side of more pixels than H.264 takes."""
    path = tmp_path / "a.mp4"
    path.write_text("mine")
    film = reel.film([(0.0, reel.frame(*[reel.row("x", width=2000)] * 2))], seconds=0.2)
    with pytest.raises(export.ExportError):
        export.write_film(film, path, force=True, fps=5)
    assert path.read_text() == "mine"
    assert [file.name for file in tmp_path.iterdir()] == ["a.mp4"]
