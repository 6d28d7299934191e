"""What an empty chat says: what this is, and how far the model is."""

from textual.content import Content
from textual.reactive import reactive
from textual.widgets import Static

from dllm_tui.ports import HostState

ABOUT = (
    "A diffusion model doesn't type. It starts from a block of masks and fills all of them in parallel, "
    "the surest first. Ask something, and watch it; turn the knobs while it writes."
)
TRY = (
    "Tell me a short story about a lighthouse keeper.",
    "Why is the sky blue?",
    "Write a limerick about masks.",
)


class Welcome(Static):
    """Shown until there is a conversation."""

    state: reactive[HostState] = reactive(HostState(phase="loading", detail="the model is being loaded"))

    def __init__(self) -> None:
        super().__init__(id="welcome")
        self._said: str | None = None

    def watch_state(self, state: HostState) -> None:
        """Lay out anew only where other words are said: progress comes many times a second."""
        waiting = _waiting(state)
        if waiting == self._said:
            return
        self._said = waiting
        lines = [Content(ABOUT), Content(""), *(Content.styled(f"  {text}", "$accent") for text in TRY)]
        if waiting:
            lines += [Content(""), Content(waiting)]
        self.update(Content("\n").join(lines).stylize_before("$muted"))


def _waiting(state: HostState) -> str:
    match state.phase:
        case "loading" | "fetching":
            detail = state.detail or f"loading {state.requested}"
            return f"{detail[:1].upper()}{detail[1:]}. Type already: Enter sends as soon as it is ready."
        case "empty":
            return "No model is loaded: choose one with /model."
        case _:
            return ""
