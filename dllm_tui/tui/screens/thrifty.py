"""A screen on which a small change costs little, however much else is there."""

from collections.abc import Iterable
from typing import Any, TypeVar

from textual._compositor import ChopsUpdate, Compositor
from textual.geometry import Region
from textual.screen import Screen
from textual.strip import Strip

Result = TypeVar("Result")


class ThriftyScreen(Screen[Result]):
    """Asks of its widgets only the lines that are drawn again.

    Textual asks every widget in view for all of its lines, for any change anywhere: on a screen of twenty
    widgets that is most of what a frame costs, and this program draws a frame a step.
    """

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        self._compositor = _Thrifty()


class _Thrifty(Compositor):
    _changed: tuple[Region, ...] = ()
    """Parts of the screen that a partial update is about."""

    def render_partial_update(self) -> ChopsUpdate | None:
        self._changed = tuple(self._dirty_regions)
        try:
            return super().render_partial_update()
        finally:
            self._changed = ()

    def _get_renders(self, crop: Region | None = None) -> Iterable[tuple[Region, Region, list[Strip]]]:
        """Of each widget the region, the part of it that is drawn, and the lines of that part."""
        if not self._changed:
            yield from super()._get_renders(crop)
            return
        for widget, (region, clip) in self.visible_widgets.items():
            seen = region.intersection(clip)
            if changed := [part for part in self._changed if seen.overlaps(part)]:
                top = max(min(part.y for part in changed), seen.y)
                bottom = min(max(part.bottom for part in changed), seen.bottom)
                part = Region(seen.x, top, seen.width, bottom - top)
                yield region, part, widget.render_lines(part.translate(-region.offset))
