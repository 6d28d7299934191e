"""Linear layers with frozen weights, in the layout that multiplies fastest on the device."""

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from dllm_tui.engine.device import cpu_has_bf16

_mkldnn: Any = torch.ops.mkldnn


def can_prepack(device: torch.device, dtype: torch.dtype) -> bool:
    """Whether oneDNN has a blocked weight layout that pays here.

    In float32 it makes products of 8 to 16 rows about 1.5 to 2 times faster; in bfloat16 it helps only on
    processors that multiply it natively.
    """
    if device.type != "cpu" or not torch.backends.mkldnn.is_available():
        return False
    if dtype == torch.bfloat16:
        return cpu_has_bf16()
    return dtype == torch.float32


class Linear:
    """``x @ weight.T + bias``.

    Args:
        weight: [out, in]; may be given up to the packed copy, so the caller shouldn't keep it.
        bias: [out] or none.
        prepack: keep the weights in oneDNN's own layout, where :func:`can_prepack` says so.
    """

    def __init__(self, weight: Tensor, bias: Tensor | None = None, *, prepack: bool = True) -> None:
        self.out_features = weight.shape[0]
        self.bias = bias
        self.packed = prepack and can_prepack(weight.device, weight.dtype)
        # The private ops are what torch's own compiler emits for frozen linear layers.
        self.weight: Tensor = _mkldnn._reorder_linear_weight(weight) if self.packed else weight

    def __call__(self, x: Tensor) -> Tensor:
        """[rows, in] → [rows, out]."""
        if self.packed:
            return _mkldnn._linear_pointwise(x, self.weight, self.bias, "none", [], "")
        return functional.linear(x, self.weight, self.bias)
