"""Pages: all in one file, nothing fetched; and a real browser plays them."""

import json
import re
import shutil
import subprocess
from html.parser import HTMLParser
from io import StringIO
from pathlib import Path

import pytest
from PIL import Image

from dllm_tui.trace.export import cast, html
from dllm_tui.trace.frames import Film
from tests.export import reel

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


def page(film: Film) -> str:
    out = StringIO()
    html.write(film, out)
    return out.getvalue()


class Parts(HTMLParser):
    """Elements with their attributes, and the text of scripts."""

    def __init__(self) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[tuple[str, str]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        if self.elements:
            self.texts.append((self.elements[-1][0], data))


def parts(text: str) -> Parts:
    parser = Parts()
    parser.feed(text)
    return parser


def test_the_cast_in_it_is_the_cast():
    read = parts(page(reel.sample()))
    data = next(text for tag, text in read.texts if tag == "script" and text.startswith('"'))
    assert json.loads(data) == "".join(cast.lines(reel.sample()))


def test_nothing_is_fetched():
    read = parts(page(reel.sample()))
    assert not [attrs for _, attrs in read.elements if attrs.keys() & {"src", "href", "srcset", "action"}]
    policy = next(a["content"] for t, a in read.elements if t == "meta" and a.get("http-equiv"))
    assert policy is not None
    assert policy.startswith("default-src 'none'")
    assert "http" not in policy
    assert "connect-src" not in policy


def test_what_people_typed_stays_data():
    read = parts(page(reel.sample()))
    assert [tag for tag, _ in read.elements].count("script") == 3
    assert next(text for tag, text in read.texts if tag == "title") == "Say <hello> & “goodbye”"


@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium here; CI installs one")
def test_a_browser_shows_the_text(tmp_path: Path):
    """With no network, the player draws the last frame, and text of it can be found in the page."""
    path = tmp_path / "film.html"
    path.write_text(page(reel.sample()).replace('"loop": true', '"loop": true, "startAt": 3'))
    picture = tmp_path / "film.png"
    options = ["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--window-size=500,300"]
    options += [f"--user-data-dir={tmp_path / 'profile'}", "--host-resolver-rules=MAP * ~NOTFOUND"]
    options += ["--virtual-time-budget=3000", "--force-device-scale-factor=1"]
    command = [str(CHROMIUM), *options, f"--screenshot={picture}", "--dump-dom", path.as_uri()]
    shown = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert "ap-player" in shown.stdout, shown.stderr
    text = re.sub(r"<(script|style).*?</\1>", "", shown.stdout, flags=re.DOTALL)
    assert "hello" in re.sub(r"<[^>]+>", "", text).replace("\xa0", " ")
    colours = Image.open(picture).convert("RGB").getcolors(1 << 20)
    assert colours
    drawn = {colour for _, colour in colours}
    assert {(0x0D, 0x11, 0x18), (0x55, 0x33, 0x00)} <= drawn  # the page's background, and a span's
    ink = sum(count for count, colour in colours if sum(colour) > 400)
    assert ink > 200
