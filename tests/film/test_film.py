"""Films: the app's own frames, on the times of the trace, the same everywhere."""

import asyncio
import json
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from dllm_tui.errors import ExportError
from dllm_tui.events import Header, RunStart, encode
from dllm_tui.trace import export
from dllm_tui.trace.archive import Archive
from dllm_tui.trace.frames import Film, Shot
from dllm_tui.tui.film import HOLD, Take, film, still
from tests.film import golden, traces
from tests.film.test_stage import theatre


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return traces.write(tmp_path / "a.jsonl", traces.small())


def filmed(path: Path, **take: Any) -> tuple[Film, list[Shot]]:
    with Archive(path) as archive:
        made = film(archive, Take(**{"size": (60, 16), **take}))
        return made, list(made.shots)


def test_the_shots_are_what_the_app_shows_at_their_times(path: Path):
    made, shots = filmed(path, fps=50)
    with Archive(path) as archive:
        timeline = archive.timeline
    assert made.seconds == pytest.approx(timeline.duration + HOLD)
    assert [second for second, _ in shots] == sorted({second for second, _ in shots})
    assert shots[0].second == 0
    for second, _ in shots:
        assert second * 50 == pytest.approx(round(second * 50))
    moments = [moment.time for moment in timeline.moments]
    for time in moments:  # every step is seen within a fiftieth of a second
        assert any(0 <= second - time < 0.0201 for second, _ in shots)

    async def live() -> str:
        async with theatre(path, size=(60, 16)) as there:
            return (await there.frame(len(traces.small()))).text()

    assert shots[-1].frame.text() == asyncio.run(live())
    assert all((frame.width, frame.height) == (60, 16) for _, frame in shots)


def test_two_steps_between_two_frames_are_one_shot(path: Path):
    _, many = filmed(path, fps=50)
    _, few = filmed(path, fps=2)
    assert len(few) < len(many) / 2
    assert few[-1].frame.text() == many[-1].frame.text()


def test_speed_stretches_times(path: Path):
    made, shots = filmed(path)
    slow, slow_shots = filmed(path, speed=0.5)
    assert slow.seconds - HOLD == pytest.approx(2 * (made.seconds - HOLD))
    assert len(slow_shots) >= len(shots)


def test_step_by_step(path: Path):
    made, shots = filmed(path, stepwise=True, fps=50)
    with Archive(path) as archive:
        steps = len(archive.timeline.moments)
    assert made.seconds == pytest.approx(0.5 * steps + HOLD)
    assert {round(second * 2, 6) % 1 for second, _ in shots} == {0.0}


def test_a_part_of_it(path: Path):
    whole, shots = filmed(path, fps=50)
    start, end = shots[3].second, shots[-4].second
    part, inner = filmed(path, fps=50, start=start, end=end)
    assert part.seconds == pytest.approx(end - start + HOLD)
    assert inner[0].second == 0.0
    assert inner[-1].second <= end - start
    assert inner[-1].frame != shots[-1].frame
    assert len(part.markers) < len(whole.markers)


def test_idle_time_is_left_out_only_when_asked(tmp_path: Path):
    path = traces.write(tmp_path / "a.jsonl", traces.session())
    with Archive(path) as archive:
        whole, short = (film(archive, Take(longest_idle=idle)) for idle in (None, 1.0))
        assert whole.seconds > 60
        assert short.seconds < 30
        with pytest.raises(ExportError, match="minutes long") as caught:
            film(archive, Take(speed=0.01))
        assert "--idle" in caught.value.hint


def test_markers_are_prompts_and_blocks(path: Path):
    made, _ = filmed(path)
    assert made.title == "Why is the sky blue?"
    assert [label for _, label in made.markers] == ["Why is the sky blue?", "block 1", "block 2"]
    assert made.markers[0].second == 0


@pytest.mark.parametrize("size", [(20, 5), (40, 10), (80, 24), (400, 120)])
def test_every_size(path: Path, size: tuple[int, int]):
    with Archive(path) as archive:
        made = still(archive, Take(size=size))
        (shot,) = made.shots
    assert (shot.frame.width, shot.frame.height) == size
    assert shot.frame.text().strip()


@pytest.mark.parametrize("size", [(19, 5), (20, 4), (401, 30), (100, 121), (0, 0)])
def test_sizes_that_are_none(path: Path, size: tuple[int, int]):
    with Archive(path) as archive, pytest.raises(ExportError, match="can't be"):
        film(archive, Take(size=size))


@pytest.mark.parametrize("theme", ["paper", "terminal", "contrast"])
def test_every_theme(path: Path, theme: str, tmp_path: Path):
    with Archive(path) as archive:
        made = still(archive, Take(theme=theme))
        export.write_still(made, tmp_path / "a.png")
        export.write_still(still(archive, Take(theme="lagoon")), tmp_path / "b.png")
        assert (tmp_path / "a.png").read_bytes() != (tmp_path / "b.png").read_bytes()
        with pytest.raises(ExportError, match="no theme 'mine'"):
            film(archive, Take(theme="mine"))


def test_themes_of_the_user(path: Path, tmp_path: Path):
    themes = tmp_path / "themes"
    themes.mkdir()
    (themes / "mine.toml").write_text('base = "lagoon"\nbackground = "#204060"\n')
    with Archive(path) as archive:
        assert film(archive, Take(theme="mine", themes_dir=themes)).background == 0x204060


def test_steps_by_their_number(path: Path):
    with Archive(path) as archive:
        steps = len(archive.timeline.moments)
        first, last = (next(iter(still(archive, Take(), step).shots)).frame for step in (1, steps))
        assert first.text() != last.text()
        for step in (0, steps + 1, -1):
            with pytest.raises(ExportError, match="no step"):
                still(archive, Take(), step)


@pytest.mark.parametrize("span", [(-1.0, None), (99.0, None), (1.0, 0.5)])
def test_parts_that_are_none(path: Path, span: tuple[float, float | None]):
    with Archive(path) as archive, pytest.raises(ExportError, match="nothing between"):
        film(archive, Take(start=span[0], end=span[1]))


@pytest.mark.parametrize("name", traces.edges())
def test_odd_sessions_become_films(tmp_path: Path, name: str):
    path = traces.write(tmp_path / "a.jsonl", traces.edges()[name])
    with Archive(path) as archive:
        if archive.timeline.duration > 3600:
            with pytest.raises(ExportError, match="minutes long"):
                film(archive, Take())
            return
        export.write_film(film(archive, Take(size=(60, 16), fps=5, stepwise=True)), tmp_path / "a.cast")
    sent = (tmp_path / "a.cast").read_text()
    assert json.loads(sent.splitlines()[0])["width"] == 60
    assert "\\u001b[31m" not in sent.replace("\\u001b[31m ", "")
    assert "\\u009b" not in sent


def test_a_trace_cut_off_after_any_line_becomes_a_film(tmp_path: Path):
    lines = [encode(event) + b"\n" for event in traces.small()]
    path = tmp_path / "a.jsonl"
    for count in range(1, len(lines), 5):
        path.write_bytes(b"".join(lines[:count]) + lines[count][:20])
        with Archive(path) as archive:
            assert next(iter(still(archive, Take(size=(60, 16))).shots)).frame.text()


def test_it_is_rendered_in_a_thread_while_another_app_runs(path: Path, tmp_path: Path):
    """So that the app itself can export."""
    export.write_film(filmed_lazily(path), tmp_path / "alone.cast")

    async def beside() -> None:
        async with theatre(path, size=(60, 16)) as there:
            await there.frame(4)
            before = (await there.frame(6)).text()
            work = asyncio.to_thread(export.write_film, filmed_lazily(path), tmp_path / "beside.cast")
            await work
            assert (await there.frame(6)).text() == before

    asyncio.run(beside())
    assert threading.active_count() < 20
    assert (tmp_path / "alone.cast").read_bytes() == (tmp_path / "beside.cast").read_bytes()


def filmed_lazily(path: Path) -> Film:
    return film(Archive(path), Take(size=(60, 16)))


def test_progress_is_told(path: Path):
    told: list[float] = []
    with Archive(path) as archive:
        list(film(archive, Take(size=(60, 16)), told.append).shots)
    assert told == sorted(told)
    assert told[-1] == 1.0


def test_a_film_that_nobody_wants_any_more_stops(path: Path, tmp_path: Path):
    """The disk is full after the first shots: the app behind it is closed, and the next film is as ever."""
    from tests.trace.test_writer import disk_of

    with disk_of(3000), pytest.raises(ExportError, match="File too large"):
        export.write_film(filmed_lazily(path), tmp_path / "a.cast")
    export.write_film(filmed_lazily(path), tmp_path / "a.cast")


# The same everywhere


def test_the_same_bytes_as_ever():
    """Write them anew with ``python -m tests.film.golden`` when the interface was changed on purpose."""
    for name, data in golden.made():
        assert data == (golden.FOLDER / name).read_bytes(), name


@pytest.mark.slow
@pytest.mark.parametrize(
    "environment",
    [
        {"TZ": "Asia/Kathmandu", "LC_ALL": "tr_TR.UTF-8", "LANG": "tr_TR.UTF-8"},
        {"TZ": "America/St_Johns", "LC_ALL": "C", "NO_COLOR": "1", "TERM": "dumb", "COLUMNS": "33"},
        {"PYTHONHASHSEED": "1", "SSH_TTY": "/dev/pts/1", "COLORTERM": "", "TERM": "xterm"},
    ],
)
def test_the_same_bytes_in_every_place(tmp_path: Path, environment: dict[str, str]):
    """In a process of its own, with another time zone, locale, terminal and order of hashing."""
    program = (
        "import sys\n"
        "from pathlib import Path\n"
        "from tests.film import golden\n"
        "for name, data in golden.made(('small.cast', 'small.gif')):\n"
        "    Path(sys.argv[1], name).write_bytes(data)\n"
    )
    subprocess.run(
        [sys.executable, "-c", program, str(tmp_path)],
        env={**os.environ, "PYTHONPATH": str(Path.cwd()), **environment},
        check=True,
    )
    for name, data in golden.made(("small.cast", "small.gif")):
        assert data == (tmp_path / name).read_bytes(), name


def test_no_model_and_no_torch_are_needed(path: Path, tmp_path: Path):
    program = (
        "import sys\n"
        "sys.argv[1:] = ['export', *sys.argv[1:]]\n"
        "from dllm_tui.cli import main\n"
        "try:\n"
        "    main()\n"
        "finally:\n"
        "    assert 'torch' not in sys.modules and 'transformers' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", program, str(path), str(tmp_path / "a.html")], check=True)
    assert (tmp_path / "a.html").stat().st_size > 250_000


def test_a_header_alone_has_no_film_but_a_still(tmp_path: Path):
    path = traces.write(tmp_path / "a.jsonl", [Header(), RunStart(run=0)])
    made, shots = filmed(path)
    assert made.seconds == HOLD
    assert len(shots) == 1
