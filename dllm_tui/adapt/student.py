"""The student that ``smol`` was: frozen weights, and a low-rank adapter for masked positions."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from dllm_tui.adapt.loss import Target, loss
from dllm_tui.adapt.lowrank import LowRank
from dllm_tui.adapt.network import Group, Network, group
from dllm_tui.adapt.readings import Lesson, Readings
from dllm_tui.adapt.training import Recipe
from dllm_tui.adapt.windows import Windows, draw


@dataclass(frozen=True)
class Batch:
    """Windows that are run together: N rows, R of them learnt."""

    ids: Tensor
    """int64 [N]: input tokens; what stands at masked places doesn't matter."""
    masked: Tensor
    """bool [N]: inputs that are the mask."""
    groups: list[Group]
    rows: Tensor
    """int64 [R]: rows that are learnt."""
    target: Target
    left: Tensor
    """int64 [R]: masks to the left of the token in its block."""


def batch(lessons: Sequence[tuple[Lesson, Sequence[Windows]]], stop_id: int, distil: float = 0.0) -> Batch:
    """Lay out windows of several chats, their weights brought to a sum of 1.

    Args:
        lessons: chats and their windows.
        stop_id: stands behind a chat's end.
        distil: see :class:`~dllm_tui.adapt.training.Recipe`.
    """
    ids, masked, groups, rows, tokens, weights, left, taught, chances = ([] for _ in range(9))
    count = 0
    for lesson, windows in lessons:
        for each in windows:
            size, device = each.size, lesson.ids.device
            cells = each.starts[:, None] + torch.arange(-1, size)
            padded = functional.pad(
                lesson.ids, (0, max(0, int(cells.max()) + 1 - len(lesson.ids))), value=stop_id
            )
            tokens_here = padded[cells.to(device)]
            ids.append(tokens_here[:, :-1].flatten())
            masked.append(each.masked.flatten())
            learnt = each.weight.flatten().nonzero().flatten()
            rows.append(learnt + count)
            tokens.append(tokens_here[:, 1:].flatten()[learnt.to(device)])
            weights.append(each.weight.flatten()[learnt])
            left.append(each.left.flatten()[learnt])
            places = (each.starts[:, None] + torch.arange(size)).flatten()[learnt].to(device)
            taught.append(lesson.teacher_tokens[places])
            chances.append(lesson.teacher_chances[places])
            count += each.masked.numel()
        if windows:
            groups.append(group(lesson.reading, [(each.starts, ~each.masked) for each in windows]))
    device = ids[0].device
    weight = torch.cat(weights)
    target = Target(
        torch.cat(tokens),
        (weight / weight.sum()).to(device),
        torch.cat(taught),
        torch.cat(chances),
        distil,
    )
    return Batch(
        torch.cat(ids),
        torch.cat(masked).to(device),
        groups,
        torch.cat(rows).to(device),
        target,
        torch.cat(left),
    )


def forward(network: Network, adapter: LowRank, made: Batch, *, recompute: bool = False) -> Tensor:
    """The noised stream over a batch: [N, hidden], normed."""
    x = functional.embedding(made.ids, network.embedding)
    x = torch.where(made.masked[:, None], adapter.mask, x)
    return network.noised(x, made.groups, adapter.on(made.masked), recompute=recompute)


class AdapterStudent:
    """A low-rank adapter; see :class:`dllm_tui.adapt.training.Student`.

    Args:
        network: the base.
        adapter: what is trained.
        readings: the clean stream's, of the chats.
        recipe: how.
        stop_id: stands behind an answer's end.
    """

    def __init__(
        self, network: Network, adapter: LowRank, readings: Readings, recipe: Recipe, *, stop_id: int
    ) -> None:
        self.network, self.adapter, self.readings, self.recipe = network, adapter, readings, recipe
        self.stop_id = stop_id
        self.parameters = adapter.parameters

    def draw(self, index: int, random: torch.Generator) -> tuple[tuple[Lesson, list[Windows]], int]:
        """The noised blocks of one chat, beside what the clean stream says of it."""
        windows = draw(self.readings.chats[index], self.recipe.noise, random)
        return (self.readings.lesson(index), windows), sum(each.masked.numel() for each in windows)

    def examine(self, drawn: Sequence[tuple[Lesson, Sequence[Windows]]]) -> tuple[Tensor, Tensor, Tensor]:
        """The loss of the noised stream."""
        network = self.network
        made = batch(drawn, self.stop_id, self.recipe.distil)
        # Memory is what a GPU lacks first; a CPU lacks time.
        hidden = forward(network, self.adapter, made, recompute=network.device.type == "cuda")
        value, right = loss(hidden[made.rows], network.head, made.target)
        return value, right, made.left
