"""What an empty chat says: what this is, and how far the model is."""

from textual import events
from textual.content import Content
from textual.message import Message
from textual.reactive import reactive
from textual.style import Style
from textual.widgets import Static

from dllm_tui.ports import HostState

ABOUT = (
    "A diffusion model starts from a block of masks, looks at all of them at once, and commits what it is "
    "sure of. Ask something, and watch it. Then turn the threshold down, or choose the policy verify or the "
    "preset draft, and watch many fill in at once. To begin, click on one of these, or type:"
)
TRY = (
    "Tell me a short story about a lighthouse keeper.",
    "Why is the sky blue?",
    "Write a limerick about masks.",
)


class Welcome(Static):
    """Shown until there is a conversation. A click on an example asks for it to be put into the prompt."""

    state: reactive[HostState] = reactive(HostState(phase="loading", detail="the model is being loaded"))

    class Chosen(Message):
        """A person wants to begin with an example."""

        def __init__(self, text: str) -> None:
            super().__init__()
            self.text = text

    def __init__(self) -> None:
        super().__init__(id="welcome")
        self._said: str | None = None

    def watch_state(self, state: HostState) -> None:
        """Lay out anew only where other words are said: progress comes many times a second."""
        waiting = _waiting(state)
        if waiting == self._said:
            return
        self._said = waiting
        examples = (Content("  ") + Content(text).stylize(_example(text)).stylize("$accent") for text in TRY)
        lines = [Content(ABOUT), Content(""), *examples]
        if waiting:
            lines += [Content(""), Content(waiting)]
        self.update(Content("\n").join(lines).stylize_before("$muted"))

    def on_click(self, event: events.Click) -> None:
        """Choose an example."""
        text = event.style.meta.get("example")
        if text:
            self.post_message(self.Chosen(text))


def _example(text: str) -> Style:
    return Style.from_meta({"example": text})


def _waiting(state: HostState) -> str:
    match state.phase:
        case "loading" | "fetching":
            detail = state.detail or f"loading {state.requested}"
            return f"{detail[:1].upper()}{detail[1:]}. Type already: Enter sends as soon as it is ready."
        case "empty":
            return "No model is loaded: choose one with /model."
        case _:
            return ""
