"""A finished answer as Markdown: apart from the rest, for it takes long to import."""

from markdown_it import MarkdownIt
from textual.widgets import Markdown


class AnswerText(Markdown):
    """HTML stands as it was written; a link opens nothing by itself."""

    def __init__(self, text: str) -> None:
        super().__init__(
            text, open_links=False, parser_factory=lambda: MarkdownIt("gfm-like", {"html": False})
        )
