"""Bytes of a small film in every format that is the same everywhere: python -m tests.film.golden writes them.

The trace is ``data/small.jsonl``. They change when the interface does; look at what changed before writing.
"""

import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from dllm_tui.trace import export
from dllm_tui.trace.archive import Archive
from dllm_tui.tui.film import Take, film, still
from tests.film import traces

FOLDER = Path(__file__).with_name("data")
TRACE = FOLDER / "small.jsonl"
NAMES = ("small.cast", "small.svg", "step.svg", "small.md", "small.txt")
"""GIFs and pictures are the same in every place too, but their letters are drawn by Pillow's own FreeType."""
TAKE = Take(size=(60, 16), theme="lagoon", fps=25)


def made(names: Sequence[str] = NAMES) -> Iterator[tuple[str, bytes]]:
    """Every file's name and content."""
    with tempfile.TemporaryDirectory() as folder, Archive(TRACE) as archive:
        for name in names:
            path = Path(folder) / name
            if path.suffix in {".md", ".txt"}:
                export.write_text(archive, path)
            elif name.startswith("step"):
                export.write_still(still(archive, TAKE, 5), path)
            else:
                export.write_film(film(archive, TAKE), path)
            yield name, path.read_bytes()


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    traces.write(TRACE, traces.small())
    for name, data in made():
        (FOLDER / name).write_bytes(data)
