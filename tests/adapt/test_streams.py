"""The training's two streams are the decoder's own forwards."""

import pytest
import torch
from torch.nn import functional

from dllm_tui.adapt.data import Chat
from dllm_tui.adapt.network import Network
from dllm_tui.adapt.readings import Readings
from dllm_tui.adapt.student import AdapterStudent, batch, forward
from dllm_tui.adapt.training import Recipe
from dllm_tui.adapt.windows import Noise, draw
from tests.adapt.tiny import CPU, KINDS, backbone, geometry, stirred, weights

torch.set_num_threads(1)


@pytest.mark.parametrize("kind", KINDS)
def test_both_streams_say_what_the_decoder_says(kind: str):
    g = geometry(kind)
    tensors = weights(g)
    network = Network(g, tensors, CPU, torch.float32)
    adapter = stirred(network)
    decoder = backbone(g, tensors, adapter)
    random = torch.Generator().manual_seed(3)
    chats = [
        Chat(tuple(torch.randint(1, 40, (n,), generator=random).tolist()), ((start, n),))
        for n, start in ((37, 9), (12, 10), (20, 1))
    ]
    readings = Readings(network, chats)
    readings.half = torch.float32
    lessons = []
    for index, chat in enumerate(chats):
        lesson = readings.lesson(index)
        said = decoder.forward(torch.tensor(chat.ids), torch.arange(len(chat.ids)), causal=True)
        torch.testing.assert_close(network.read(lesson.ids).hidden @ network.head.T, said)
        lessons.append((lesson, draw(chat, Noise(copies=4), random)))
    made = batch(lessons, stop_id=0)
    hidden = forward(network, adapter, made)
    row = 0
    for (_, windows), chat in zip(lessons, chats, strict=True):
        for each in windows:
            for start, masked in zip(each.starts.tolist(), each.masked, strict=True):
                cells = [*chat.ids, *[0] * each.size][start - 1 : start + each.size - 1]
                ids = [
                    g.vocab_size if hide else cell for cell, hide in zip(cells, masked.tolist(), strict=True)
                ]
                cache = decoder.new_cache(64)
                decoder.forward(
                    torch.tensor(chat.ids[:start]), torch.arange(start), cache=cache, write_at=0, causal=True
                )
                said = decoder.forward(
                    torch.tensor(ids),
                    torch.arange(start - 1, start + each.size - 1),
                    noised=True,
                    cache=cache,
                    context=start - 1,
                )
                mine = hidden[row : row + each.size] @ network.head.T
                torch.testing.assert_close(mine, said, atol=2e-5, rtol=1e-4)
                row += each.size
    assert row == len(made.ids)


def test_recomputing_gives_the_same_gradients():
    g = geometry()
    network = Network(g, weights(g), CPU, torch.float32)
    adapter = stirred(network)
    chat = Chat(tuple(range(1, 31)), ((4, 30),))
    made = batch([(Readings(network, [chat]).lesson(0), draw(chat, Noise(), torch.Generator()))], stop_id=0)
    found = []
    for recompute in (False, True):
        hidden = forward(network, adapter, made, recompute=recompute)
        found.append(torch.autograd.grad(hidden.square().sum(), list(adapter.parameters.values())))
    for once, again in zip(*found, strict=True):
        torch.testing.assert_close(once, again)


def test_in_bfloat16_gradients_are_close():
    """As on a GPU: factors in float32, arithmetic in bfloat16."""
    g = geometry(hidden_size=64, head_dim=16)
    chat = Chat(tuple(range(1, 31)), ((4, 30),))
    found = []
    for dtype in (torch.float32, torch.bfloat16):
        network = Network(g, weights(g), CPU, dtype)
        adapter = stirred(network)
        recipe = Recipe(rank=4, scale=0.5)
        student = AdapterStudent(network, adapter, Readings(network, [chat]), recipe, stop_id=0)
        value, _, _ = student.examine([student.draw(0, torch.Generator().manual_seed(1))[0]])
        value.backward()
        found.append({name: p.grad for name, p in adapter.parameters.items()})
        assert all(p.grad is not None and p.grad.dtype is torch.float32 for p in adapter.parameters.values())
    for name, exact in found[0].items():
        assert functional.cosine_similarity(exact.flatten(), found[1][name].flatten(), dim=0) > 0.98, name
