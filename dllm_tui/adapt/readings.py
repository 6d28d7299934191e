"""What the clean stream says of each chat, computed once and kept on disk for all epochs.

Keys and values are kept in 16 bits, and used so from the first time on: whether a reading comes from disk or
was just made changes nothing, so that an interrupted training goes on bit for bit.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from dllm_tui.adapt.data import Chat, digest
from dllm_tui.adapt.files import write_tensors
from dllm_tui.adapt.network import Network, Reading

TEACHERS = 32
"""Best tokens kept of each place; in a sharp model the others have next to no chance."""
CHUNK = 128
"""Rows whose logits are held at a time."""


@dataclass(frozen=True)
class Lesson:
    """A chat as the clean stream reads it: T tokens."""

    ids: Tensor
    """int64 [T]."""
    reading: Reading
    teacher_tokens: Tensor
    """int64 [T, K]: the base's best tokens for each place; zeros where nothing is learnt."""
    teacher_chances: Tensor
    """float32 [T, K], sum 1 where something is learnt."""


class Readings:
    """Lessons by the index of their chat.

    Args:
        network: the base.
        chats: what is learnt.
        directory: where readings are kept, or ``None`` to make them each time.
        base: what tells this base from others, so that no other one's readings are taken.
        most: bytes that may be kept there.
    """

    def __init__(
        self,
        network: Network,
        chats: Sequence[Chat],
        directory: Path | None = None,
        *,
        base: str = "",
        most: int = 8 << 30,
    ) -> None:
        self.network, self.chats, self.directory, self.base = network, chats, directory, base
        self._room = most - (
            sum(f.stat().st_size for f in directory.iterdir()) if directory and directory.is_dir() else 0
        )
        self.half = torch.bfloat16 if network.dtype is torch.bfloat16 else torch.float16

    def lesson(self, index: int) -> Lesson:
        """The clean stream's reading of one chat."""
        chat = self.chats[index]
        path = self.directory and self.directory / f"{index}.safetensors"
        mark = f"{self.base} {digest([chat])}"
        tensors = _kept(path, mark) if path else None
        if tensors is None:
            tensors = self._read(chat)
            size = sum(tensor.nbytes for tensor in tensors.values())
            if path and size <= self._room:
                write_tensors(path, tensors, {"mark": mark})
                self._room -= size
        device, dtype = self.network.device, self.network.dtype
        empty = torch.empty(0, device=device)
        keys, values = (tensors[name].to(device, dtype) for name in ("keys", "values"))
        return Lesson(
            torch.tensor(chat.ids, device=device),
            Reading(keys, values, empty),
            tensors["teacher_tokens"].to(device, torch.int64),
            tensors["teacher_chances"].to(device, torch.float32),
        )

    @torch.no_grad()
    def _read(self, chat: Chat) -> dict[str, Tensor]:
        network = self.network
        reading = network.read(torch.tensor(chat.ids, device=network.device))
        tokens = torch.zeros(len(chat.ids), TEACHERS, dtype=torch.int32, device=network.device)
        chances = torch.zeros(len(chat.ids), TEACHERS, dtype=self.half, device=network.device)
        for start, end in chat.answers:
            for first in range(start, end, CHUNK):
                rows = slice(first, min(first + CHUNK, end))
                # Row i says what follows token i.
                logits = reading.hidden[rows.start - 1 : rows.stop - 1] @ network.head.T
                best, which = logits.float().topk(min(TEACHERS, logits.shape[-1]), dim=-1)
                tokens[rows, : which.shape[1]] = which.int()
                chances[rows, : which.shape[1]] = best.softmax(-1).to(self.half)
        keys, values = reading.keys.to(self.half), reading.values.to(self.half)
        return {"keys": keys, "values": values, "teacher_tokens": tokens, "teacher_chances": chances}


def _kept(path: Path, mark: str) -> dict[str, Tensor] | None:
    """What a file holds; ``None`` where there is none, or it is damaged or another chat's."""
    try:
        with safe_open(path, framework="pt") as file:
            said: dict[str, str] = file.metadata() or {}
            names: list[str] = list(file.keys())
            tensors: dict[str, Tensor] = {name: file.get_tensor(name) for name in names}
    except (OSError, SafetensorError):
        return None
    return tensors if said.get("mark") == mark else None
