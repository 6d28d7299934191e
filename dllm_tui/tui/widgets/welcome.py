"""What an empty chat says: what this is, and how far the model is."""

from textual.content import Content
from textual.reactive import reactive
from textual.widgets import Static

from dllm_tui.session import HostState

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

    state: reactive[HostState] = reactive(HostState(), layout=True)

    def __init__(self) -> None:
        super().__init__(id="welcome")

    def render(self) -> Content:
        """A few calm lines."""
        lines = [Content(ABOUT), Content("")]
        lines += [Content.assemble(("  " + text, "$accent")) for text in TRY]
        waiting = self._waiting()
        if waiting:
            lines += [Content(""), Content(waiting)]
        return Content("\n").join(lines).stylize_before("$muted")

    def _waiting(self) -> str:
        match self.state.phase:
            case "loading" | "fetching":
                detail = self.state.detail or f"loading {self.state.requested}"
                return f"{detail[:1].upper()}{detail[1:]}. Type already: Enter sends as soon as it is ready."
            case "empty":
                return "No model is loaded: choose one with /model."
            case _:
                return ""
