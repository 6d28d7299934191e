"""Blocks and masks: against brute force on small cases."""

import pytest
import torch

from dllm_tui.adapt.data import Chat
from dllm_tui.adapt.network import Network, Reading, group
from dllm_tui.adapt.readings import Readings
from dllm_tui.adapt.student import batch
from dllm_tui.adapt.windows import Noise, draw
from tests.adapt.tiny import CPU, geometry, weights

CHAT = Chat(tuple(range(1, 31)), ((4, 17), (20, 30)))


def random(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


@pytest.mark.parametrize("seed", range(8))
def test_leading_masks_cover_the_answer_once_from_some_place_on(seed: int):
    for each in draw(CHAT, Noise(leading=1.0, copies=3), random(seed)):
        starts = each.starts.tolist()
        assert starts == list(range(starts[0], starts[0] + each.size * len(starts), each.size))
        # The answer's first token is known, and the base itself says the second.
        (start, end) = next(span for span in CHAT.answers if span[0] + 2 <= starts[0] < span[1])
        assert starts[0] - (start + 2) < each.size
        assert end - each.size // 2 - 1 < starts[-1] + each.size
        assert each.masked.all()
        for first, left, weight in zip(starts, each.left.tolist(), each.weight, strict=True):
            assert left == list(range(1, each.size + 1))
            for cell in range(each.size):
                assert float(weight[cell]) == pytest.approx(0.7 ** (cell + 1) if first + cell < end else 0.0)


@pytest.mark.parametrize("seed", range(8))
def test_scattered_masks_come_with_their_complement(seed: int):
    windows = draw(CHAT, Noise(leading=0.0, copies=4), random(seed))
    for first, second in zip(windows[::2], windows[1::2], strict=True):
        assert torch.equal(first.starts, second.starts)
        assert torch.equal(first.masked[:, 1:], ~second.masked[:, 1:])
    for each in windows:
        assert not each.masked[:, 0].any()
        (start, end) = next(span for span in CHAT.answers if span[0] < each.starts[0] <= span[1])
        assert each.starts[0] - 1 - start < each.size + 1
        for first, masked, left, weight in zip(each.starts, each.masked, each.left, each.weight, strict=True):
            for cell in range(each.size):
                count = int(masked[: cell + 1].sum())
                assert left[cell] == count
                # The row before a mask is about its token; that of the last row is an input no more.
                if cell + 1 < each.size:
                    learnt = bool(masked[cell + 1]) and count > 0 and first + cell < end
                    assert float(weight[cell]) == pytest.approx(0.7**count if learnt else 0.0)


def test_weights_by_ratio_are_unbiased():
    """A token that the adapter is asked for at all is weighed by the ratio of its block."""
    chat = Chat(tuple(range(1, 10)), ((1, 9),))
    noise = Noise(sizes=(8,), shares=(1.0,), leading=0.0, copies=1, decay=1.0, by_ratio=True)
    total, count = 0.0, 0
    for seed in range(1000):
        for each in draw(chat, noise, random(seed)):
            if each.starts[0] == 2:
                total += float(each.weight[0, -1])
                count += 1
    # The last of 7 tokens has a mask to its left with 1 - (1 - t)⁶; ratios below 1/8 count as 1/8.
    ratios = torch.linspace(0, 1, 10_001)
    wanted = float((ratios / ratios.clamp(min=1 / 8) * (1 - (1 - ratios) ** 6)).mean())
    assert total / count == pytest.approx(wanted, abs=0.06)


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
                assert bool(made.masked[row]) == bool(masked[cell])
                if weight[cell] > 0:
                    at = next(learnt)
                    assert made.rows[at] == row
                    assert made.target.token[at] == text[start + cell]
                    assert made.left[at] == int(masked[: cell + 1].sum())
                    assert made.target.teacher_tokens[at, 0] == logits[start + cell - 1].argmax()
                row += 1
    assert next(learnt, None) is None
    assert float(made.target.weight.sum()) == pytest.approx(1.0)


def test_attention_of_windows_against_a_mask():
    """Every window sees the clean keys before its first input and itself; a known input nothing behind it."""
    g = geometry()
    network = Network(g, weights(g), CPU, torch.float32)
    count, length = 12, 20
    keys, values = (
        torch.randn(g.layers, g.kv_heads, length, g.head_dim, generator=random(i)) for i in (1, 2)
    )
    q = torch.randn(g.heads, count, g.head_dim, generator=random(3))
    k, v = (torch.randn(g.kv_heads, count, g.head_dim, generator=random(i)) for i in (4, 5))
    starts = torch.tensor([1, 7, 15])
    known = torch.tensor([[True, False, True, False], [False] * 4, [True, True, False, False]])
    windows = group(Reading(keys, values, torch.empty(0)), [(starts[:2], known[:2]), (starts[2:], known[2:])])
    assert windows.places.tolist() == [0, 1, 2, 3, 6, 7, 8, 9, 14, 15, 16, 17]
    mine = network._windows(1, windows, network._mask(windows), q, k, v)
    mask = torch.zeros(count, length + count, dtype=torch.bool)
    for row in range(count):
        window = row // 4
        mask[row, : int(starts[window]) - 1] = True
        last = row + 1 if known[window, row % 4] else 4 * window + 4
        mask[row, length + 4 * window : length + last] = True
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
