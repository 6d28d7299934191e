"""SVG: well-formed, without script, text as text; every row shows what it should when it should."""

import re
from io import StringIO
from xml.etree import ElementTree

import pytest

from dllm_tui.trace.export import svg
from dllm_tui.trace.export.raster import CELL
from dllm_tui.trace.frames import Frame
from tests.export import reel

SPACE = "{http://www.w3.org/2000/svg}"


def moving(shots: list[tuple[float, Frame]] = reel.SHOTS) -> str:
    out = StringIO()
    svg.write(reel.film(shots), out)
    return out.getvalue()


def standing(frame: Frame) -> str:
    out = StringIO()
    svg.write_still(reel.film([(0, frame)]), frame, out)
    return out.getvalue()


@pytest.mark.parametrize("text", [moving(), *(standing(frame) for _, frame in reel.SHOTS)])
def test_it_is_xml_that_nothing_is_fetched_or_run_for(text: str):
    tree = ElementTree.fromstring(text)
    assert tree.find(f"{SPACE}title").text == "Say <hello> & “goodbye”"
    assert {element.tag.removeprefix(SPACE) for element in tree.iter()} <= {
        *("svg", "title", "style", "rect", "defs", "g", "text", "path", "use")
    }
    assert "http" not in text.replace("http://www.w3.org/2000/svg", "")
    assert "url(" not in text
    assert not re.search(r"\son\w+=", text)
    for element in tree.iter():
        for name, value in element.attrib.items():
            assert not name.endswith("href") or value.startswith("#")


def test_a_still_has_the_words_of_its_frame():
    tree = ElementTree.fromstring(standing(reel.SHOTS[2][1]))
    words = [element.text for element in tree.iter(f"{SPACE}text")]
    assert words == ["goodbye", "the", "文字 x", "bye </script> ]]>"]
    text = next(element for element in tree.iter(f"{SPACE}text") if element.text == "文字 x")
    assert text.get("x") == str(7 * CELL[0])
    assert text.get("textLength") == str(6 * CELL[0])
    assert text.get("class") == "i u"
    assert text.get("fill") == "#8a4b2a"


def test_every_row_shows_what_it_should_when_it_should():
    text = moving()
    tree = ElementTree.fromstring(text)
    shared = {element.get("id"): element for element in tree.find(f"{SPACE}defs")}
    for y, window in enumerate(tree.findall(f"{SPACE}svg")):
        strip = window.find(f"{SPACE}g")
        assert strip.get("id") == f"r{y}"
        assert (window.get("y"), window.get("height")) == (str(y * CELL[1]), str(CELL[1]))
        rows = {_offset(part): _words(part, shared) for part in strip}
        times = _keyframes(text, y) or [(0.0, 0)]
        for second, frame in reel.SHOTS:
            offset = next(offset for time, offset in reversed(times) if time <= second + 1e-3)
            assert rows[offset] == _words(ElementTree.fromstring(standing(frame)).findall(f"{SPACE}g")[y], {})


def _offset(part: ElementTree.Element) -> int:
    move = re.search(r"translate\(0 (\d+)\)", part.get("transform", ""))
    return int(move[1]) if move else 0


def _words(part: ElementTree.Element, shared: dict[str | None, ElementTree.Element]) -> list[object]:
    elements = [shared[e.get("href", "")[1:]] if e.tag == f"{SPACE}use" else e for e in part]
    return [
        (e.tag, e.text, {name: value for name, value in e.attrib.items() if name != "id"}) for e in elements
    ]


def _keyframes(text: str, y: int) -> list[tuple[float, int]]:
    rule = re.search(rf"@keyframes k{y}\{{(.*?\}})\}}", text)
    if not rule:
        return []
    return [
        (float(share) / 100 * 4.0, int(offset))
        for share, offset in re.findall(r"([\d.]+)%\{transform:translateY\(-?(\d+)px\)\}", rule[1])
    ]


def test_a_row_that_comes_back_is_written_once():
    rows = ElementTree.fromstring(moving()).findall(f"{SPACE}svg")[0].find(f"{SPACE}g")
    assert len(rows) == 2


def test_who_wants_no_motion_sees_the_end():
    assert "@media (prefers-reduced-motion){#r0{animation:none;transform:translateY(0px)}}" in moving()
    assert "@media (prefers-reduced-motion){#r2{animation:none;transform:translateY(-19px)}}" in moving()
