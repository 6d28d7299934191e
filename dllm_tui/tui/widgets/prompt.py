"""The prompt: a small editor that grows, remembers, and completes slash commands."""

from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import ClassVar

from rich.text import Text
from textual import events
from textual._ansi_sequences import ANSI_SEQUENCES_KEYS
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.message import Message
from textual.widgets import Static, TextArea

from dllm_tui.tui.actions import ACTIONS, Keymap, bindings
from dllm_tui.tui.cells import clean, pictured
from dllm_tui.tui.commands import CommandError, Completion, parse


class _Key(StrEnum):
    ALT_ENTER = "alt+enter"


# Most terminals send Alt+Enter as Escape and a carriage return, which Textual's table lacks: it reads Enter.
ANSI_SEQUENCES_KEYS.setdefault("\x1b\r", (_Key.ALT_ENTER,))  # pyright: ignore[reportAttributeAccessIssue] (declared read-only)

MAX_PASTE = 1_000_000
"""Characters of one paste that are taken: more is a mistake, and would stall the editor."""
SHOWN = 8
"""Completions that are shown at once."""


def _editing() -> list[BindingType]:
    """The editor's own keys, but for those that the program needs."""
    taken = {"up", "down", "f6", "f7", "pageup", "pagedown", "ctrl+c,super+c"}
    return [b for b in TextArea.BINDINGS if isinstance(b, Binding) and b.key not in taken]


_PROMPT_ACTIONS = [action.id for action in ACTIONS.values() if action.scope == "prompt"]


class Prompt(TextArea, inherit_bindings=False):
    """Where a person types. Posts :class:`Sent`; empty text is not sent."""

    BINDINGS: ClassVar[list[BindingType]] = [*bindings("prompt"), *_editing()]

    class Sent(Message):
        """A person pressed Enter on some text."""

        def __init__(self, text: str) -> None:
            super().__init__()
            self.text = text

    class Edited(Message):
        """What is typed has changed."""

    def __init__(self, keymap: Keymap) -> None:
        super().__init__(
            id="prompt",
            soft_wrap=True,
            highlight_cursor_line=False,
            placeholder="Ask something",
            compact=True,
        )
        self.match_cursor_bracket = False
        self.cursor_blink = False  # no timer while nothing happens
        self.keymap = keymap
        self.past: list[str] = []
        """Prompts so far, the newest last."""
        self._back = 0
        """How far back in the past we are; 0 is what is being typed."""
        self._draft = ""

    def remember(self, text: str) -> None:
        """Keep a prompt for the arrow keys."""
        if not self.past or self.past[-1] != text:
            self.past.append(text)
        self._back = 0

    def replace_text(self, text: str) -> None:
        """Put a text in place of what is there, the cursor behind it."""
        self.text = text
        self.move_cursor(self.document.end)

    def get_line(self, line_index: int) -> Text:
        """A line as it is shown: nothing in it can steer the terminal."""
        return Text(pictured(self.document.get_line(line_index)), end="", no_wrap=True)

    # -- keys

    async def _on_key(self, event: events.Key) -> None:
        """Do the prompt's own actions here: by the bindings they would come after what is typed next."""
        for action in _PROMPT_ACTIONS:
            if event.key in self.keymap[action]:
                event.stop()
                event.prevent_default()
                await self.run_action(action)
                return
        if event.key.startswith("alt+"):
            event.prevent_default()  # most terminals tell it with its letter, which nobody types here

    async def _on_paste(self, event: events.Paste) -> None:
        """Take pasted text with its line breaks, in one form, and no longer than is sane."""
        text = event.text[:MAX_PASTE].replace("\r\n", "\n").replace("\r", "\n")
        await super()._on_paste(events.Paste(text))
        event.stop()
        event.prevent_default()

    def on_text_area_changed(self) -> None:
        """Tell the composer."""
        self.post_message(self.Edited())

    def action_newline(self) -> None:
        """Break the line."""
        self.insert("\n")

    def action_send(self) -> None:
        """Hand over what was typed."""
        if self.composer.accept(sending=True):
            return
        text = self.text.strip()
        if text:
            self.post_message(self.Sent(text))

    def action_older(self) -> None:
        """Up: a completion, a line, or an earlier prompt."""
        if self.composer.move(-1):
            return
        if self.cursor_at_first_line and self._back < len(self.past):
            self._travel(1)
        else:
            self.action_cursor_up()

    def action_newer(self) -> None:
        """Down: a completion, a line, or a later prompt."""
        if self.composer.move(1):
            return
        if self.cursor_at_last_line and self._back:
            self._travel(-1)
        else:
            self.action_cursor_down()

    async def action_knobs(self) -> None:
        """Take a completion, or go to the knobs."""
        if not self.composer.accept():
            await self.run_action("app.knobs")

    def _travel(self, by: int) -> None:
        if self._back == 0:
            self._draft = self.text
        self._back += by
        self.replace_text(self.past[-self._back] if self._back else self._draft)
        if by > 0:
            self.move_cursor((0, len(self.document[0])))

    @property
    def composer(self) -> "Composer":
        """What it lies in."""
        assert isinstance(self.parent, Composer)
        return self.parent


class Above(Static):
    """What hovers above the prompt: completions, or one message."""

    def __init__(self) -> None:
        super().__init__(id="above", markup=False)
        self.completions: Sequence[Completion] = ()
        self.chosen = 0
        self.moved = False
        """Whether the choice was made on purpose."""
        self._told = 0
        self._passing = 0
        """Number of the message that goes by itself, while it is shown."""
        self.display = False

    def say(self, text: str) -> None:
        """Show a message in place of completions."""
        self.completions = ()
        self._passing = 0
        self.display = bool(text)
        self.set_class(True, "-message")
        self.set_class(False, "-calm")
        self.update(Content(clean(text)))

    def tell(self, text: str, seconds: float) -> None:
        """Show a message of no fault, which goes by itself."""
        self.say(text)
        self.set_class(True, "-calm")
        self._told += 1
        self._passing = told = self._told
        self.set_timer(seconds, lambda: self.offer(()) if self._passing == told else None)

    def offer(self, completions: Sequence[Completion]) -> None:
        """Show completions, or nothing where there are none."""
        self.completions, self.chosen, self.moved = completions, 0, False
        self._passing = 0
        self.display = bool(completions)
        self.set_class(False, "-message")
        self._draw()

    def move(self, by: int) -> None:
        """Choose another completion, round at the ends."""
        self.chosen, self.moved = (self.chosen + by) % len(self.completions), True
        self._draw()

    def _draw(self) -> None:
        first = max(0, self.chosen - SHOWN + 1)
        shown = self.completions[first : first + SHOWN]
        width = max((len(completion.label) for completion in self.completions), default=0) + 3
        lines = [
            Content.assemble(
                (
                    completion.label.ljust(width),
                    "bold $accent" if first + row == self.chosen else "$foreground",
                ),
                (completion.help, "$muted"),
            )
            for row, completion in enumerate(shown)
        ]
        more = len(self.completions) - len(shown)
        if more:
            lines.append(Content.styled(f"{more} more", "$muted"))
        self.update(Content("\n").join(lines))


class Composer(Vertical):
    """The prompt and what hovers above it."""

    def __init__(self, complete: Callable[[str], Sequence[Completion]], keymap: Keymap) -> None:
        super().__init__(id="composer")
        self._complete = complete
        self.prompt = Prompt(keymap)
        self.above = Above()

    def compose(self) -> ComposeResult:
        """One above the other."""
        yield self.above
        yield self.prompt

    def on_prompt_edited(self) -> None:
        """Offer how a command may go on."""
        self.above.offer(self._complete(self.prompt.text))

    def dismiss(self) -> bool:
        """Hide what hovers; whether there was anything."""
        shown = self.above.display
        self.above.offer(())
        return shown

    def move(self, by: int) -> bool:
        """Choose another completion; whether there is any."""
        if len(self.above.completions) > 1:
            self.above.move(by)
        return len(self.above.completions) > 1

    def accept(self, *, sending: bool = False) -> bool:
        """Take the chosen completion into the prompt.

        Args:
            sending: Enter was pressed: what is right as typed stays, unless another was chosen on purpose.

        Returns:
            Whether there is still something to type, so that nothing should be sent or left yet.
        """
        above, typed = self.above, self.prompt.text
        if not above.completions:
            return False
        if sending and not above.moved and (typed[-1:] in " 0123456789" or self._right(typed)):
            return False  # a wrong number is not made another one in passing
        completion = above.completions[above.chosen]
        self.prompt.replace_text(completion.text)
        return not sending or completion.text.endswith(" ")

    @staticmethod
    def _right(text: str) -> bool:
        try:
            parse(text)
        except CommandError:
            return False
        return True
