"""The line on top: which model, where it computes, and what it is doing."""

from typing import ClassVar

from rich.cells import cell_len, set_cell_size
from rich.segment import Segment
from textual.reactive import reactive
from textual.strip import Strip
from textual.widget import Widget

from dllm_tui.session import HostState
from dllm_tui.tui.marks import UNICODE, Marks

BAR = 12
"""Cells of the progress bar."""
DTYPES = {"float32": "fp32", "bfloat16": "bf16", "float16": "fp16"}


class StatusLine(Widget):
    """Draws a :class:`~dllm_tui.session.HostState`; what does not fit is left out from the middle."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {
        "status--brand",
        "status--name",
        "status--about",
        "status--busy",
        "status--idle",
        "status--failed",
        "status--filled",
        "status--empty",
    }

    state: reactive[HostState] = reactive(HostState())
    running: reactive[bool] = reactive(False)

    def __init__(self, *, marks: Marks = UNICODE) -> None:
        super().__init__(id="status")
        self.marks = marks

    def render_line(self, y: int) -> Strip:
        """Brand and model on the left, what goes on at the right."""
        right = self._doing()
        room = self.size.width - sum(cell_len(text) for text, _ in right) - 1
        left: list[tuple[str, str]] = []
        for text, name in self._model():
            used = sum(cell_len(part) for part, _ in left)
            if used + cell_len(text) > room:
                if name == "status--about" and room - used > 8:
                    left.append((set_cell_size(text, room - used - 1) + self.marks.dots[0], name))
                break
            left.append((text, name))
        gap = room + 1 - sum(cell_len(text) for text, _ in left)
        parts = [*left, (" " * max(gap, 0), ""), *right]
        segments = [
            Segment(text, self.get_component_rich_style(name) if name else self.rich_style)
            for text, name in parts
        ]
        return Strip(segments).adjust_cell_length(self.size.width, self.rich_style)

    def _model(self) -> list[tuple[str, str]]:
        model, dot = self.state.model, f" {self.marks.dot} "
        parts = [(" dllm-chat ", "status--brand"), ("  ", "")]
        if model is None:
            return [*parts, (self.state.requested, "status--name")]
        cache = {"none": "no cache"}.get(model.cache, f"{model.cache} cache")
        about = dot.join((model.title, f"{model.device} {DTYPES.get(model.dtype, model.dtype)}", cache))
        return [*parts, (model.id, "status--name"), (" " + about, "status--about")]

    def _doing(self) -> list[tuple[str, str]]:
        state, marks = self.state, self.marks
        if self.running:
            return [(f"{marks.busy} denoising ", "status--busy")]
        match state.phase:
            case "ready":
                return [(f"{marks.busy} ready ", "status--idle")]
            case "failed":
                return [("failed ", "status--failed")]
            case "empty":
                return [("no model ", "status--idle")]
            case _:
                word = "downloading" if state.phase == "fetching" else "loading"
                if state.progress is None:
                    return [(f"{marks.busy} {word} ", "status--busy")]
                filled = round(state.progress * BAR)
                return [
                    (f"{word} {state.progress:.0%} ", "status--busy"),
                    (marks.filled * filled, "status--filled"),
                    (marks.empty * (BAR - filled) + " ", "status--empty"),
                ]
