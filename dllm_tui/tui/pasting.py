"""Pasted text is text: whatever it holds, no part of it is taken for keys."""

from collections.abc import Iterable

from textual._xterm_parser import XTermParser
from textual.message import Message

START, END = "\x1b[200~", "\x1b[201~"
"""What terminals send before and after pasted text."""
SHOWN = "\u241b"
"""The picture that Unicode has of an escape."""


class PasteParser(XTermParser):
    """Reads what a terminal sends, as Textual does, but for escapes inside pasted text.

    Not every terminal takes them out, and Textual reads them and what follows as keys that come before the
    paste: with a line break behind it, half a prompt would be sent. They are shown instead.
    """

    def __init__(self, debug: bool = False) -> None:
        super().__init__(debug)
        self._pasting = False
        self._before = ""
        """The last that was read outside of pasted text: it may be the first part of START."""
        self._kept = ""
        """The last of pasted text that may be the first part of END, and waits for the rest."""

    def feed(self, data: str) -> Iterable[Message]:
        """Read more; an empty text is the end."""
        if data:
            data = self._disarmed(data)
            if not data:
                return ()
        return super().feed(data)

    def _disarmed(self, text: str) -> str:
        text, self._kept = self._kept + text, ""
        done: list[str] = []
        while text:
            if self._pasting:
                inside, end, text = text.partition(END)
                if not end:
                    self._kept = _begun(inside)
                    inside = inside.removesuffix(self._kept)
                done.append(inside.replace("\x1b", SHOWN) + end)
                self._pasting = not end
            else:
                seen = self._before + text
                at = seen.find(START)
                self._pasting = at >= 0
                until = at + len(START) - len(self._before) if self._pasting else len(text)
                self._before = "" if self._pasting else seen[1 - len(START) :]
                done.append(text[:until])
                text = text[until:]
        return "".join(done)


def _begun(text: str) -> str:
    """The longest end of a text that END may begin with."""
    return next(END[:size] for size in range(len(END) - 1, -1, -1) if text.endswith(END[:size]))
