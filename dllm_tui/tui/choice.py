"""What a list to choose from is made of."""

from dataclasses import dataclass

from textual.content import Content


@dataclass(frozen=True)
class Choice:
    """One line of a list."""

    value: str
    title: str
    detail: str | Content = ""
    """Beside the title, fainter."""
