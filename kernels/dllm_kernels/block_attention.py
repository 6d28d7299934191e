"""Attention of one block over a static cache: few queries, many keys, no mask.

While a block is denoised its queries see everything before it and all of itself, so no mask is needed:
only how many slots of the cache are in use. That number is read from device memory, so that a captured
graph stays valid while the cache fills up.
"""

from torch import Tensor
from torch.nn import functional

from dllm_kernels.confidence import has_triton


def block_attention(query: Tensor, keys: Tensor, values: Tensor, length: Tensor) -> Tensor:
    """Softmax attention over the slots in use; on a GPU with Triton split over them.

    Args:
        query: [heads, T, head_dim], rotated; ``heads`` is a multiple of ``kv_heads``, and consecutive heads
            share keys and values.
        keys: [kv_heads, capacity, head_dim], the block's own included.
        values: the same shape.
        length: int32 [1] on the device of the query, slots in use: at least 1.

    Returns:
        The shape and dtype of the query.
    """
    if query.is_cuda and has_triton():
        from dllm_kernels.block_attention_triton import block_attention as kernel

        return kernel(query, keys, values, length)
    return block_attention_reference(query, keys, values, length)


def block_attention_reference(query: Tensor, keys: Tensor, values: Tensor, length: Tensor) -> Tensor:
    """What :func:`block_attention` computes, in plain torch; reads the length back from the device."""
    heads, rows, width = query.shape
    used = int(length)
    kv_heads = keys.shape[0]
    # Heads that share keys become rows of one head: nothing has to be repeated.
    grouped = query.reshape(1, kv_heads, heads // kv_heads * rows, width)
    mixed = functional.scaled_dot_product_attention(grouped, keys[None, :, :used], values[None, :, :used])
    return mixed.reshape(heads, rows, width)
