"""The training's two streams are the decoder's own forwards."""

import pytest
import torch

from dllm_tui.adapt.data import Chat
from dllm_tui.adapt.network import Network
from dllm_tui.adapt.readings import Readings
from dllm_tui.adapt.student import batch, forward
from dllm_tui.adapt.windows import Noise, draw
from tests.adapt.tiny import CPU, KINDS, backbone, geometry, stirred, weights

torch.set_num_threads(1)


@pytest.mark.parametrize("kind", KINDS)
def test_both_streams_say_what_the_decoder_says(kind: str):
    g = geometry(kind)
    tensors = weights(g)
    network = Network(g, tensors, CPU, torch.float32)
    adapter = stirred(network)
    adapter.merge()
    decoder = backbone(g, tensors, adapter)
    random = torch.Generator().manual_seed(3)
    chats = [
        Chat(tuple(torch.randint(1, 40, (n,), generator=random).tolist()), ((start, n),))
        for n, start in ((37, 9), (20, 1))
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
                hides = [False, *masked[:-1].tolist()]
                ids = [g.vocab_size if hide else cell for cell, hide in zip(cells, hides, strict=True)]
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
