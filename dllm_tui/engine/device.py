"""Where a model runs, in which dtype, and with how many threads."""

import os
from functools import cache
from typing import Literal

import torch

from dllm_tui.errors import EngineError

DTYPES = {
    "float32": torch.float32,
    "fp32": torch.float32,
    "bfloat16": torch.bfloat16,
    "bf16": torch.bfloat16,
    "float16": torch.float16,
    "fp16": torch.float16,
}


def pick_device(name: str) -> torch.device:
    """The device of a name; ``auto`` is CUDA where there is one, else the CPU.

    Raises:
        EngineError: no such device, or not on this machine.
    """
    if name == "auto":
        return torch.device("cuda", 0) if torch.cuda.is_available() else torch.device("cpu")
    try:
        device = torch.device(name)
    except RuntimeError:
        raise EngineError(
            f"device is {name!r}, which is no device.", "Use auto, cpu, cuda or cuda:1."
        ) from None
    if device.type == "cpu":
        return torch.device("cpu")
    if device.type != "cuda":
        raise EngineError(f"Device {device.type} isn't supported.", "Use auto, cpu or cuda.")
    count = torch.cuda.device_count()
    if not torch.cuda.is_available() or (device.index or 0) >= count:
        found = f"this machine has {count}" if count else "torch finds no CUDA device here"
        raise EngineError(f"device is {name!r}, but {found}.", "Use device auto or cpu.")
    return torch.device("cuda", device.index or 0)


def pick_dtype(name: str, device: torch.device) -> torch.dtype:
    """The dtype of a name; ``auto`` is bfloat16 where the hardware computes in it, else float32.

    Raises:
        EngineError: no such dtype, or not on that device.
    """
    if name == "auto":
        fast = torch.cuda.is_bf16_supported() if device.type == "cuda" else cpu_has_bf16()
        return torch.bfloat16 if fast else torch.float32
    dtype = DTYPES.get(name.removeprefix("torch."))
    if dtype is None:
        raise EngineError(f"dtype is {name!r}; it must be auto, float32, bfloat16, float16, int8 or int4.")
    if dtype is torch.float16 and device.type == "cpu":
        raise EngineError("dtype float16 isn't for CPUs.", "Use bfloat16 or float32 there.")
    return dtype


def pick_bits(name: str) -> Literal["int8", "int4"] | None:
    """The number of bits that a dtype's name asks to keep weights in; ``None`` for those that compute too."""
    return name if name == "int8" or name == "int4" else None  # noqa: PLR1714 (narrows the type)


def cpu_has_bf16() -> bool:
    """Whether the processor itself multiplies bfloat16 (AVX-512 BF16 or AMX), not by way of float32."""
    has_units = torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported()  # pyright: ignore[reportPrivateUsage] - no public name
    return bool(has_units and torch.ops.mkldnn._is_mkldnn_bf16_supported())


@cache
def settle_threads() -> None:
    """Set how many threads the CPU's arithmetic uses, once a process.

    All cores, as torch counts them, at most 16: a forward over a few tokens is bound by memory. The
    arithmetic waits for its slowest thread, so whatever else wants a processor holds up the rest. Where
    cores have second threads the interface finds its place there; else it gets a core of its own, but not
    one of two: that would cost more than it saves. ``OMP_NUM_THREADS`` overrules all of it.
    """
    if "OMP_NUM_THREADS" in os.environ:
        return
    cores = torch.get_num_threads()
    whole = cores >= (os.cpu_count() or 1)
    torch.set_num_threads(min(16, cores - 1 if whole and cores > 2 else cores))
