"""What a canvas is drawn as. Pure."""

import enum


class Shape(enum.Enum):
    """A way to lay a canvas out."""

    TEXT = "text"
    """Words that flow, as they will be read."""
    GRID = "grid"
    """A cell of the same width for every token: nothing ever moves."""
    HEAT = "heat"
    """A map of one block: a row for every position, a column for every step."""

    @property
    def next(self) -> "Shape":
        """The one after this."""
        every = list(Shape)
        return every[(every.index(self) + 1) % len(every)]
