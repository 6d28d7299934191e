"""A block's attention over the cache: in torch against float64, in Triton against torch."""

import pytest
import torch
from dllm_kernels.block_attention import block_attention, block_attention_reference
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor


def inputs(
    seed: int, heads: int, kv_heads: int, rows: int, capacity: int, width: int
) -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    query = torch.randn(heads, rows, width, generator=generator)
    keys, values = torch.randn(2, kv_heads, capacity, width, generator=generator)
    return query, keys, values


def in_double(query: Tensor, keys: Tensor, values: Tensor, used: int) -> Tensor:
    groups = query.shape[0] // keys.shape[0]
    keys, values = (part[:, :used].double().repeat_interleave(groups, 0) for part in (keys, values))
    scores = query.double() @ keys.mT / query.shape[-1] ** 0.5
    return scores.softmax(-1) @ values


@settings(deadline=None)
@given(
    seed=st.integers(0, 2**31),
    shape=st.sampled_from([(4, 4), (9, 3), (8, 1)]),
    rows=st.integers(1, 9),
    capacity=st.integers(1, 40),
    share=st.floats(0, 1),
)
def test_torch_agrees_with_float64(seed, shape, rows, capacity, share):
    query, keys, values = inputs(seed, *shape, rows, capacity, 16)
    used = 1 + int(share * (capacity - 1))
    keys[:, used:] = torch.nan
    values[:, used:] = torch.nan
    ours = block_attention(query, keys, values, torch.tensor([used], dtype=torch.int32))
    torch.testing.assert_close(ours.double(), in_double(query, keys, values, used), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("heads", "kv_heads", "rows", "width"), [(9, 3, 8, 64), (4, 4, 1, 16), (8, 1, 20, 32), (2, 2, 3, 24)]
)
@pytest.mark.parametrize(("capacity", "used"), [(300, 1), (300, 65), (700, 700)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_triton_agrees_with_torch(kernels, device, heads, kv_heads, rows, width, capacity, used, dtype):
    query, keys, values = (x.to(device, dtype) for x in inputs(1, heads, kv_heads, rows, capacity, width))
    length = torch.tensor([used], dtype=torch.int32, device=device)
    ours = kernels["block_attention"].block_attention(query, keys, values, length)
    expected = block_attention_reference(query.float(), keys.float(), values.float(), length)
    tolerance = 2e-6 if dtype == torch.float32 else 2e-3
    assert ours.dtype == dtype
    torch.testing.assert_close(ours.float(), expected, rtol=tolerance, atol=tolerance)


def test_triton_reads_the_cache_where_it_lies(kernels, device):
    """Keys and values are views of one cache [layers, 2, kv_heads, capacity, head_dim]."""
    slots = torch.randn(2, 2, 3, 100, 16, generator=torch.Generator().manual_seed(0)).to(device)
    query = torch.randn(6, 4, 16, generator=torch.Generator().manual_seed(1)).to(device)
    keys, values = slots[1].unbind(0)
    length = torch.tensor([70], dtype=torch.int32, device=device)
    ours = kernels["block_attention"].block_attention(query, keys[:, 5:], values[:, 5:], length)
    expected = block_attention_reference(query, keys[:, 5:], values[:, 5:], length)
    torch.testing.assert_close(ours, expected, rtol=2e-6, atol=2e-6)
