"""What a list to choose from is made of."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Choice:
    """One line of a list."""

    value: str
    title: str
    detail: str = ""
    """Beside the title, fainter."""
