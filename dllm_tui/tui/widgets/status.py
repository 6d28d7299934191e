"""The line on top: which model, where it computes, and what it is doing."""

from rich.segment import Segment
from textual.reactive import reactive
from textual.strip import Strip

from dllm_tui.ports import HostState
from dllm_tui.tui.cells import printable
from dllm_tui.tui.pen import Drawn, Pen

BAR = 12
"""Cells of the progress bar."""
DTYPES = {"float32": "fp32", "bfloat16": "bf16", "float16": "fp16"}


class StatusLine(Drawn):
    """Draws a :class:`~dllm_tui.session.HostState`; what does not fit is left out from the middle."""

    state: reactive[HostState] = reactive(HostState(phase="loading"))
    approximate: reactive[bool] = reactive(False)
    """An approximate cache is chosen."""
    running: reactive[bool] = reactive(False)
    instead: reactive[str] = reactive("")
    """Said in place of what goes on, where nothing goes on now: a replay is paused."""

    recording: reactive[str] = reactive("")
    """How long a recording has gone on; empty where there is none."""
    exporting: reactive[float | None] = reactive[float | None](None)
    """How much of an export is done."""

    def __init__(self, pen: Pen) -> None:
        super().__init__(pen, id="status")

    def render_line(self, y: int) -> Strip:
        """Brand and model on the left, what goes on at the right."""
        right = [*self._beside(), *self._doing()]
        room = self.size.width - sum(segment.cell_length for segment in right) - 1
        left = Strip(self._model())
        if left.cell_length > room:
            dots = self.pen.marks.dots[:1]
            left = Strip([*left.crop(0, max(room - 1, 0)), Segment(dots, self.pen.muted)])
        return self.finish(Strip([*left.adjust_cell_length(room + 1), *right]))

    def _model(self) -> list[Segment]:
        pen, model, dot = self.pen, self.state.model, f" {self.pen.marks.dot} "
        parts = [Segment(" dllm-chat ", pen.lit), Segment("  ")]
        if model is None:
            return [*parts, Segment(printable(self.state.requested, pen.glyphs), pen.bold)]
        kept = "approximate" if self.approximate else model.cache
        cache = {"none": "no cache"}.get(kept, f"{kept} cache")
        about = dot.join((model.title, f"{model.device} {DTYPES.get(model.dtype, model.dtype)}", cache))
        name, about = (printable(text, pen.glyphs) for text in (model.id, about))
        return [*parts, Segment(name, pen.bold), Segment(" " + about, pen.muted)]

    def _beside(self) -> list[Segment]:
        """What goes on beside the model."""
        pen, parts = self.pen, list[Segment]()
        if self.recording:
            parts += [Segment(f"{pen.marks.busy} REC {self.recording}", pen.bold + pen.error), Segment("  ")]
        if self.exporting is not None:
            parts += [Segment(f"export {self.exporting:.0%}", pen.accent), Segment("  ")]
        return parts

    def _doing(self) -> list[Segment]:
        state, pen = self.state, self.pen
        if self.running or self.instead:
            busy = f"{pen.marks.busy} denoising "
            return [Segment(f"{self.instead} ", pen.muted) if self.instead else Segment(busy, pen.accent)]
        match state.phase:
            case "ready":
                return [Segment(f"{pen.marks.busy} ready ", pen.muted)]
            case "failed":
                return [Segment("failed ", pen.error)]
            case "empty":
                return [Segment("no model ", pen.muted)]
            case "fetching" | "loading":
                word = "downloading" if state.phase == "fetching" else "loading"
                if not state.progress:
                    return [Segment(f"{pen.marks.busy} {word} ", pen.accent)]
                filled = round(state.progress * BAR)
                return [
                    Segment(f"{word} {state.progress:.0%} ", pen.accent),
                    Segment(pen.marks.filled * filled, pen.accent),
                    Segment(pen.marks.empty * (BAR - filled) + " ", pen.frame),
                ]
