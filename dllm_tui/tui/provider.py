"""The command palette, made from the actions. Loaded when it is first opened."""

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, cast

from textual.command import DiscoveryHit, Hit, Hits, Provider

from dllm_tui.knobs import POLICIES, PRESETS
from dllm_tui.tui.actions import ACTIONS

if TYPE_CHECKING:
    from dllm_tui.tui.app import ChatApp


class Actions(Provider):
    """The command palette: every action that makes sense now, every preset and policy."""

    async def discover(self) -> Hits:
        """Everything, in the registry's order."""
        for title, help_, run in self._entries():
            yield DiscoveryHit(title, run, help=help_)

    async def search(self, query: str) -> Hits:
        """What matches."""
        matcher = self.matcher(query)
        for title, help_, run in self._entries():
            score = matcher.match(title)
            if score > 0:
                yield Hit(score, matcher.highlight(title), run, help=help_)

    def _entries(self) -> list[tuple[str, str, Callable[[], object]]]:
        app = cast("ChatApp", self.app)
        entries: list[tuple[str, str, Callable[[], object]]] = []
        for action in ACTIONS.values():
            if action.listed and not action.unavailable(app.situation):
                keys = app.key_for(action.id)
                help_ = "  ".join(part for part in (keys, f"/{action.slash[0]}") if part)
                entries.append((action.title, help_, partial(app.run_action, action.id)))
        for name, knobs in PRESETS.items():
            help_ = ", ".join(f"{key} {value}" for key, value in knobs.items())
            entries.append((f"Preset: {name}", help_, partial(app.turn, **knobs)))
        entries += [
            (f"Policy: {name}", POLICIES[name], partial(app.turn, policy=name)) for name in app.policies
        ]
        return entries
