"""One line that says what the looks on a canvas mean. Drawn with the canvas's own palette."""

from collections.abc import Iterator

from rich.segment import Segment
from textual.strip import Strip
from textual.widget import Widget

from dllm_tui.theming import RAMP_STEPS
from dllm_tui.tui import palette as look
from dllm_tui.tui.lens import Lens
from dllm_tui.tui.palette import Palette
from dllm_tui.tui.shape import Shape

_GAP = Segment("   ")


class Legend(Widget):
    """The legend of a canvas. Where the line is short, what matters least is left out."""

    DEFAULT_CSS = """
    Legend { height: 1; padding: 0 0 0 2; }
    """
    ALLOW_SELECT = False

    def __init__(self, palette: Palette, *, id: str | None = None, classes: str | None = None) -> None:  # noqa: A002 – Textual's name
        super().__init__(id=id, classes=classes)
        self._palette = palette

    @property
    def palette(self) -> Palette:
        """What it explains."""
        return self._palette

    @palette.setter
    def palette(self, palette: Palette) -> None:
        self._palette = palette
        self.refresh()

    def render_line(self, y: int) -> Strip:
        """As many of the entries as there is room for, in their order."""
        width = self.size.width
        line: list[Segment] = []
        used = 0
        for entry in self._entries():
            size = sum(segment.cell_length for segment in entry)
            gap = _GAP.cell_length if line else 0
            if used + gap + size <= width:
                line += [_GAP, *entry] if line else entry
                used += gap + size
        return Strip(line, used).apply_style(self.rich_style)

    def _entries(self) -> Iterator[list[Segment]]:
        palette = self._palette
        looks, quiet = palette.looks, palette.quiet
        name, low, high = palette.lens.scale
        usual = palette.lens is Lens.CONFIDENCE
        if palette.shape is Shape.HEAT:
            yield from self._heat()
            return
        if not name:  # what is unusual is said first
            yield [Segment("plain text", looks[look.PLAIN])]
        elif not usual:
            yield [Segment(f"{name} ", quiet), *self._scale(f"{low} ", f" {high}")]
        if palette.lens is Lens.ENTROPY:
            yield [Segment("not seen", looks[look.PLAIN])]
        yield [Segment(palette.glyphs.mask, looks[look.MASK]), Segment(" masked", quiet)]
        yield [Segment("guess".join(palette.glyphs.guess), looks[look.GUESS + RAMP_STEPS - 1])]
        yield [Segment(" fresh ", looks[look.FRESH + RAMP_STEPS - 1])]
        if usual:
            yield [Segment("settled ", quiet), *self._scale("", f" {low}{palette.glyphs.dash}{high}")]
        yield [Segment("edited", looks[look.EDITED + RAMP_STEPS - 1])]
        yield [Segment(" taken back ", looks[look.GONE])]

    def _heat(self) -> Iterator[list[Segment]]:
        palette, glyphs = self._palette, self._palette.glyphs
        looks, quiet = palette.looks, palette.quiet
        plain, by_entropy = palette.lens is Lens.PLAIN, palette.lens is Lens.ENTROPY
        guess, settled = (look.PLAIN, look.PLAIN) if plain else (look.SETTLED - 1, look.FRESH - 1)
        yield [Segment(glyphs.committed, looks[settled]), Segment(" committed", quiet)]
        yield [Segment(glyphs.levels, looks[guess]), Segment(" guess", quiet)]
        yield [Segment(glyphs.unguessed, looks[look.MASK]), Segment(" masked", quiet)]
        yield [Segment(glyphs.full, looks[settled]), Segment(" stands", quiet)]
        yield [Segment(glyphs.changed, looks[look.EDITED + RAMP_STEPS - 1]), Segment(" edited", quiet)]
        yield [Segment(glyphs.remasked, looks[look.CHANGED]), Segment(" remasked", quiet)]
        yield [Segment(glyphs.given, looks[settled]), Segment(" given", quiet)]
        if not plain:
            name, low, high = (Lens.ENTROPY if by_entropy else Lens.CONFIDENCE).scale
            yield [Segment(f"{name} ", quiet), *self._scale(f"{low} ", f" {high}")]

    def _scale(self, before: str, after: str) -> Iterator[Segment]:
        """The ramp with what stands at its ends; without colours, what its two halves are."""
        palette = self._palette
        ramp = palette.looks[look.SETTLED : look.SETTLED + RAMP_STEPS]
        if palette.plain:
            lower, upper = palette.lens.halves
            yield from (Segment(f"{lower} ", ramp[0]), Segment(upper, ramp[-1]))
        else:
            yield Segment(before, palette.quiet)
            yield from (Segment(palette.glyphs.full, style) for style in ramp)
            yield Segment(after, palette.quiet)
