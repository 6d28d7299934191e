"""Chats that the base writes itself: what it would say is what the noised stream should learn to draft.

Text of other origin would teach the noised stream another voice than that of the clean stream, which judges
it. Many answers are written at once, each in a slot of its own; one that is finished makes room for the next.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from dllm_tui.adapt.data import Chat
from dllm_tui.adapt.network import Network
from dllm_tui.adapt.prompts import Prompt
from dllm_tui.engine.linear import Linear
from dllm_tui.engine.tokenizer import ChatTokenizer
from dllm_tui.ports import Message

LOOP_LENGTHS = range(1, 40)
LOOPS = 4
"""An answer whose end is the same words so many times over has run into a loop; it is left out."""


@dataclass
class Slot:
    """One answer while it is written."""

    prompt: Prompt
    messages: list[Message]
    random: torch.Generator
    ids: list[int]
    begun: int

    @property
    def answer(self) -> list[int]:
        """What is written so far."""
        return self.ids[self.begun :]


class Writer:
    """Writes answers, many at a time.

    Args:
        network: the base.
        words: its tokenizer.
        stop_id: ends an answer.
        slots: answers at a time.
        capacity: longest prompt and answer together; longer ones are left out.
    """

    def __init__(
        self, network: Network, words: ChatTokenizer, stop_id: int, *, slots: int = 48, capacity: int = 768
    ) -> None:
        g = network.geometry
        self.network, self.words, self.stop_id = network, words, stop_id
        self.slots: list[Slot | None] = [None] * slots
        self.cache = torch.zeros(
            (g.layers, 2, slots, g.kv_heads, capacity, g.head_dim), device=network.device, dtype=network.dtype
        )
        self.capacity = capacity
        self.packed = [{n: Linear(w) for n, w in layer.projections.items()} for layer in network.layers]
        self.head = Linear(network.head)

    @torch.inference_mode()
    def write(self, prompts: Iterator[Prompt]) -> Iterator[Chat]:
        """Answers without end, or until the prompts end: as they are finished.

        A prompt of several turns gives one chat a turn, each as the app would send it.
        """
        waiting: list[tuple[Prompt, list[Message]]] = []
        while True:
            self._fill(prompts, waiting)
            if not any(self.slots):
                return
            self._step()
            for index, slot in enumerate(self.slots):
                if slot is None or not self._is_done(slot):
                    continue
                self.slots[index] = None
                if has_loop(slot.answer):
                    continue
                chat = self._chat(slot)
                yield chat
                if sum(message.role == "user" for message in chat.messages) < len(slot.prompt.turns):
                    waiting.append((slot.prompt, list(chat.messages)))

    def _fill(self, prompts: Iterator[Prompt], waiting: list[tuple[Prompt, list[Message]]]) -> None:
        """Begin an answer in every empty slot, to the next question of a chat or to a new prompt."""
        for index in range(len(self.slots)):
            while self.slots[index] is None:
                asked = waiting.pop() if waiting else None
                prompt = asked[0] if asked else next(prompts, None)
                if prompt is None:
                    return
                self.slots[index] = self._begin(index, prompt, asked[1] if asked else [])

    def _chat(self, slot: Slot) -> Chat:
        answer = slot.answer[:-1] if slot.answer[-1] == self.stop_id else slot.answer
        text = b"".join(map(self.words.piece, answer)).decode("utf-8", "replace")
        messages = (*slot.messages, Message("assistant", text))
        return Chat(tuple(slot.ids), ((slot.begun, len(slot.ids)),), messages)

    def _begin(self, index: int, prompt: Prompt, messages: list[Message]) -> Slot | None:
        """Ask a prompt's next question in a slot; ``None`` where it would be too long."""
        turn = sum(message.role == "user" for message in messages)
        opening = [Message("system", prompt.system)] if prompt.system and not messages else []
        messages = [*opening, *messages, Message("user", prompt.turns[turn])]
        ids = self.words.encode_chat(messages)
        if len(ids) + prompt.most > self.capacity:
            return None
        reading = self.network.read(torch.tensor(ids))
        self.cache[:, 0, index, :, : len(ids)] = reading.keys
        self.cache[:, 1, index, :, : len(ids)] = reading.values
        slot = Slot(prompt, messages, torch.Generator().manual_seed(prompt.seed + turn), ids, len(ids))
        slot.ids.append(self._pick(slot, self.head(reading.hidden[-1:])[0].float()))
        return slot

    def _step(self) -> None:
        """One more token for every answer."""
        g, device = self.network.geometry, self.network.device
        live = [index for index, slot in enumerate(self.slots) if slot]
        lent = [slot for slot in self.slots if slot]
        rows = torch.tensor(live, device=device)
        places = torch.tensor([len(slot.ids) - 1 for slot in lent], device=device)
        longest = int(places.max()) + 1
        visible = (torch.arange(longest, device=device) <= places[:, None])[:, None, None]
        everyone = len(live) == len(self.slots)

        def attend(layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
            # Each answer is a sequence of its own: its heads are rows over its own keys.
            keys, values = self.cache[layer]
            keys[rows, :, places], values[rows, :, places] = k.transpose(0, 1), v.transpose(0, 1)
            keys, values = keys[:, :, :longest], values[:, :, :longest]
            if not everyone:
                keys, values = keys[rows], values[rows]
            q = q.transpose(0, 1).reshape(len(live), g.kv_heads, -1, g.head_dim)
            return functional.scaled_dot_product_attention(q, keys, values, attn_mask=visible).reshape(
                len(live), -1
            )

        def projected(layer: int, name: str, x: Tensor) -> Tensor:
            return self.packed[layer][name](x)

        x = functional.embedding(
            torch.tensor([slot.ids[-1] for slot in lent], device=device), self.network.embedding
        )
        rotation = self.network.rotation(places)
        for index in range(g.layers):
            x = self.network.layer(index, x, rotation, attend, projected)
        logits = self.head(self.network.normed(x, self.network.norm)).float()
        best = logits.argmax(-1).tolist()
        for row, slot in enumerate(lent):
            slot.ids.append(self._pick(slot, logits[row]) if slot.prompt.temperature else best[row])

    def _pick(self, slot: Slot, logits: Tensor) -> int:
        if not slot.prompt.temperature:
            return int(logits.argmax())
        # One number a token: torch.multinomial would draw one for each word that there is.
        upto = (logits.cpu().double() / slot.prompt.temperature).softmax(-1).cumsum(-1)
        drawn = torch.rand((), generator=slot.random, dtype=torch.float64) * upto[-1]
        return int(torch.searchsorted(upto, drawn, right=True).clamp(max=len(upto) - 1))

    def _is_done(self, slot: Slot) -> bool:
        return slot.ids[-1] == self.stop_id or len(slot.answer) >= slot.prompt.most or has_loop(slot.answer)


def has_loop(ids: list[int]) -> bool:
    """Whether the end of some ids is the same few, over and over."""
    return any(
        len(ids) >= n * LOOPS and ids[-n * LOOPS :] == ids[-n:] * LOOPS and (n > 2 or len(ids) >= 8 * n)
        for n in LOOP_LENGTHS
    )
