"""Blocks and masks: against brute force on small cases."""

import pytest
import torch

from dllm_tui.adapt.data import Chat
from dllm_tui.adapt.network import Group, Network, Reading
from dllm_tui.adapt.readings import Readings
from dllm_tui.adapt.student import batch
from dllm_tui.adapt.windows import Noise, draw
from tests.adapt.tiny import CPU, geometry, weights

CHAT = Chat(tuple(range(1, 31)), ((4, 17), (20, 30)))


def random(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


@pytest.mark.parametrize("seed", range(8))
def test_blocks_cover_the_answer_from_some_place_on(seed: int):
    for each in draw(CHAT, Noise(copies=3), random(seed)):
        starts = each.starts.tolist()
        assert starts == list(range(starts[0], starts[0] + each.size * len(starts), each.size))
        (start, end) = next(span for span in CHAT.answers if span[0] <= starts[0] < span[1])
        assert starts[0] - start < each.size
        assert starts[-1] <= end - each.size // 2 or len(starts) == 1
        assert end - each.size // 2 < starts[-1] + each.size
        assert not each.masked[:, 0].any()
        for first, masked, weight in zip(starts, each.masked, each.weight, strict=True):
            left = 0
            for cell in range(each.size):
                learnt = bool(masked[cell]) and first + cell < end
                assert float(weight[cell]) == pytest.approx(0.7**left if learnt else 0.0)
                left += int(masked[cell])


def test_scattered_masks_come_with_their_complement():
    windows = draw(CHAT, Noise(leading=0.0, copies=4), random(0))
    for first, second in zip(windows[::2], windows[1::2], strict=True):
        assert torch.equal(first.starts, second.starts)
        assert torch.equal(first.masked[:, 1:], ~second.masked[:, 1:])


def test_leading_masks_go_from_some_token_to_the_end():
    for each in draw(CHAT, Noise(leading=1.0, copies=4), random(0)):
        for masked in each.masked.tolist():
            known = masked.index(True)
            assert known >= 1
            assert masked == [False] * known + [True] * (each.size - known)


def test_weights_by_ratio_are_unbiased():
    """Of a block with n tokens that can be masked, each is weighed 1 on average."""
    chat = Chat(tuple(range(1, 10)), ((1, 9),))
    noise = Noise(sizes=(8,), shares=(1.0,), leading=0.0, copies=1, decay=1.0, by_ratio=True)
    total, count = 0.0, 0
    for seed in range(1000):
        for each in draw(chat, noise, random(seed)):
            if each.starts[0] == 1:
                total += float(each.weight[0, 1:].mean())
                count += 1
    # Ratios below 1/8 are weighed as if they were 1/8: 1/16 of the weight is missing.
    assert total / count == pytest.approx(15 / 16, abs=0.05)


def test_what_is_learnt_is_what_stands_there():
    g = geometry()
    network = Network(g, weights(g), CPU, torch.float32)
    lesson = Readings(network, [CHAT]).lesson(0)
    windows = draw(CHAT, Noise(copies=2), random(1))
    made = batch([(lesson, windows)], stop_id=0)
    text = [*CHAT.ids, *[0] * 40]
    row, learnt = 0, iter(range(len(made.rows)))
    logits = network.read(lesson.ids).hidden @ network.head.T
    for each in windows:
        for start, masked, weight in zip(each.starts.tolist(), each.masked, each.weight, strict=True):
            for cell in range(each.size):
                assert made.ids[row] == text[start + cell - 1]
                assert bool(made.masked[row]) == (cell > 0 and bool(masked[cell - 1]))
                if weight[cell] > 0:
                    at = next(learnt)
                    assert made.rows[at] == row
                    assert made.target.token[at] == text[start + cell]
                    assert made.left[at] == int(masked[:cell].sum())
                    assert made.target.teacher_tokens[at, 0] == logits[start + cell - 1].argmax()
                row += 1
    assert next(learnt, None) is None
    assert float(made.target.weight.sum()) == pytest.approx(1.0)


def test_attention_of_windows_against_a_mask():
    """Every window sees the clean keys before its first input, and itself; nothing of other windows."""
    g = geometry()
    network = Network(g, weights(g), CPU, torch.float32)
    count, length = 12, 20
    keys, values = (
        torch.randn(g.layers, g.kv_heads, length, g.head_dim, generator=random(i)) for i in (1, 2)
    )
    q = torch.randn(g.heads, count, g.head_dim, generator=random(3))
    k, v = (torch.randn(g.kv_heads, count, g.head_dim, generator=random(i)) for i in (4, 5))
    starts = torch.tensor([1, 7, 15])
    group = Group(Reading(keys, values, torch.empty(0)), starts, 4)
    mine = network._windows(1, group, q, k, v)
    mask = torch.zeros(count, length + count, dtype=torch.bool)
    for row in range(count):
        window = row // 4
        mask[row, : int(starts[window]) - 1] = True
        mask[row, length + 4 * window : length + 4 * window + 4] = True
    both = [
        torch.cat([far[1], near], dim=1).repeat_interleave(2, dim=0) for far, near in ((keys, k), (values, v))
    ]
    plain = torch.nn.functional.scaled_dot_product_attention(
        q[None], both[0][None], both[1][None], attn_mask=mask
    )
    torch.testing.assert_close(mine, plain[0].transpose(0, 1).reshape(count, -1))


@pytest.mark.parametrize(
    "wrong", [{"sizes": (1,), "shares": (1.0,)}, {"shares": (1.0,)}, {"leading": 2.0}, {"copies": 0}]
)
def test_noise_that_makes_no_sense(wrong: dict[str, object]):
    with pytest.raises(ValueError, match=r"block|share|copies"):
        Noise(**wrong)  # type: ignore[arg-type]
