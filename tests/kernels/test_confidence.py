"""The row reduction: in torch against float64, in Triton against torch."""

import pytest
import torch
from dllm_kernels.confidence import Confidence, confidence, confidence_reference
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor


def in_double(logits: Tensor, forbidden: Tensor | None) -> Confidence:
    """The definition, as plainly as it can be written."""
    chances = logits.double().softmax(-1)
    allowed = logits.double() if forbidden is None else logits.double().index_fill(-1, forbidden, -torch.inf)
    token = allowed.argmax(-1)
    rows = torch.arange(len(token))
    best = chances[rows, token]
    chances_of_others = chances.clone()
    chances_of_others[rows, token] = -1
    return Confidence(
        token,
        best,
        logits.double().logsumexp(-1),
        torch.special.entr(chances).sum(-1),
        best - chances_of_others.amax(-1),
    )


def same(ours: Confidence, expected: Confidence, entropy: float = 5e-6) -> None:
    assert ours.token.tolist() == expected.token.tolist()
    for name in ("confidence", "lse", "entropy", "margin"):
        tolerance = entropy if name == "entropy" else 2e-6
        torch.testing.assert_close(
            getattr(ours, name).double(),
            getattr(expected, name).double(),
            rtol=2e-6,
            atol=tolerance,
            msg=name,
        )


def rows_of(seed: int, rows: int, columns: int, scale: float, *, distinct: int | None = None) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    logits = torch.randn(rows, columns, generator=generator) * scale
    return logits if distinct is None else logits.mul(distinct).round().div(distinct)


@settings(max_examples=200, deadline=None)
@given(
    seed=st.integers(0, 2**31),
    rows=st.integers(1, 5),
    columns=st.integers(2, 1500),
    scale=st.sampled_from([0.0, 0.1, 3.0, 30.0]),
    distinct=st.sampled_from([None, 1]),
    hidden=st.integers(0, 4),
    banned=st.lists(st.integers(0, 1499), max_size=3),
)
def test_torch_agrees_with_float64(seed, rows, columns, scale, distinct, hidden, banned):
    logits = rows_of(seed, rows, columns, scale, distinct=distinct)
    logits[:, : min(hidden, columns - 2)] = -torch.inf
    ids = sorted({token for token in banned if token < columns})[: columns - 3]
    forbidden = torch.tensor(ids, dtype=torch.int64) if ids else None
    before = logits.clone()
    same(confidence(logits, forbidden), in_double(logits, forbidden))
    assert torch.equal(logits, before)


def test_equals_go_to_the_lowest_id():
    logits = torch.zeros(2, 1000)
    logits[1, [300, 700]] = 5.0
    assert confidence(logits).token.tolist() == [0, 300]
    assert confidence(logits, torch.tensor([0, 300])).token.tolist() == [1, 700]


def test_a_forbidden_favourite_keeps_its_probability():
    logits = torch.tensor([[0.0, 3.0, 1.0]])
    read = confidence(logits, torch.tensor([1]))
    chances = logits.softmax(-1)[0]
    assert read.token.tolist() == [2]
    torch.testing.assert_close(read.confidence[0], chances[2])
    torch.testing.assert_close(read.margin[0], chances[2] - chances[1])


def test_half_precision_is_read_in_float32():
    logits = rows_of(0, 3, 700, 3.0).bfloat16()
    same(confidence(logits), in_double(logits, None))


@pytest.mark.parametrize(("rows", "columns"), [(1, 2), (3, 7), (2, 1024), (2, 4096), (3, 5000), (1, 9001)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_triton_agrees_with_torch(kernels, device, rows, columns, dtype):
    kernel = kernels["confidence"].confidence
    logits = rows_of(columns, rows, columns, 3.0).to(dtype).to(device)
    favourites = logits.argmax(-1).unique()
    for forbidden in (None, torch.tensor([1], device=device), favourites if columns > rows + 1 else None):
        same(
            Confidence(*(part.cpu() for part in kernel(logits, forbidden))),
            Confidence(*(part.cpu() for part in confidence_reference(logits, forbidden))),
        )


def test_triton_passes_over_tiles_without_a_chance(kernels, device):
    logits = torch.full((2, 9000), -torch.inf, device=device)
    logits[:, 8999] = 1.0
    logits[1, 20] = 1.0
    read = kernels["confidence"].confidence(logits, None)
    assert read.token.tolist() == [8999, 20]
    assert read.confidence.tolist() == [1.0, 0.5]
    assert read.margin.tolist() == [1.0, 0.0]
    assert read.entropy.tolist() == pytest.approx([0.0, 0.6931472], abs=1e-6)


def test_triton_reads_a_view(kernels, device):
    wide = rows_of(1, 4, 3000, 3.0).to(device)
    view = wide[::2, :2000]
    same(kernels["confidence"].confidence(view, None), confidence_reference(view, None))
