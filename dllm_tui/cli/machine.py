"""What this machine can hold and how fast it is, found out without torch."""

import os
import shutil
import subprocess
from dataclasses import dataclass
from functools import cache
from importlib import metadata
from pathlib import Path

from dllm_tui.families.catalogue import Entry
from dllm_tui.families.family import Attention

FOR_A_MODEL = 0.9
"""Share of the memory that a model may have; system and other programs need the rest."""

CGROUP_LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")
"""Where a container says how much it may use."""

WIDTHS = {"float32": 4.0, "bfloat16": 2.0, "float16": 2.0, "int8": 1.15, "int4": 0.75}
"""Bytes a weight. In few bits the embedding and the head stay in 2 bytes, a seventh of a model of 8 billion
weights, and the scales come on top."""
SHORT = {"fp32": "float32", "bf16": "bfloat16", "fp16": "float16"}

SMI = ("nvidia-smi", "--query-gpu=memory.total,name", "--format=csv,noheader,nounits")
SMI_SECONDS = 5


@dataclass(frozen=True, kw_only=True)
class Machine:
    """Where a model would run."""

    name: str
    """For people, e.g. ``NVIDIA H200`` or ``the processor``."""
    memory: int
    """Bytes for a model, over all GPUs where there are several."""
    largest: int
    """Bytes on one device."""
    dtype: str
    """Of the weights."""
    fast: bool
    """There is an accelerator."""

    @property
    def bytes_per_weight(self) -> float:
        """Of a dense model; mixtures of experts aren't kept in fewer than 16 bits."""
        return WIDTHS[self.dtype]

    def room(self, entry: Entry) -> int:
        """Bytes that a model can have: one with an encoder is not spread over several GPUs."""
        return self.largest if entry.family.attention is Attention.ENCODER_CANVAS else self.memory

    def needs(self, entry: Entry) -> int:
        """Bytes that a model needs here, weights and all else."""
        return entry.memory(self.bytes_per_weight)

    def missing(self, entry: Entry) -> int:
        """Bytes that a model needs and that aren't there; 0 where it fits."""
        return max(0, self.needs(entry) - self.room(entry))


def this_machine(device: str = "auto", dtype: str = "auto") -> Machine:
    """This machine, as the engine would use it.

    Args:
        device: ``auto``, ``cpu``, ``cuda`` or ``cuda:1``.
        dtype: ``auto`` or a dtype's name.
    """
    gpus = [] if device == "cpu" else _gpus()
    _, colon, index = device.partition(":")
    if colon and index.isdigit():
        gpus = gpus[int(index) : int(index) + 1]
    kind = SHORT.get(dtype, dtype)
    if kind not in WIDTHS:
        kind = "bfloat16" if gpus or _has_bf16() else "float32"
    if not gpus:
        memory = int(_ram() * FOR_A_MODEL)
        return Machine(name="the processor", memory=memory, largest=memory, dtype=kind, fast=False)
    sizes = [int(size * FOR_A_MODEL) for size, _ in gpus]
    name = gpus[0][1] if len(gpus) == 1 else f"{len(gpus)} × {gpus[0][1]}"
    # What is quantised isn't spread.
    memory = max(sizes) if kind in {"int8", "int4"} else sum(sizes)
    return Machine(name=name, memory=memory, largest=max(sizes), dtype=kind, fast=True)


@cache
def _gpus() -> list[tuple[int, str]]:
    """Bytes and name of each CUDA GPU that torch would use."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if not shutil.which(SMI[0]) or visible in {"", "-1"} or metadata.version("torch").endswith("+cpu"):
        return []
    try:
        said = subprocess.run(SMI, capture_output=True, text=True, timeout=SMI_SECONDS, check=True).stdout
        rows = [line.partition(",") for line in said.splitlines()]
        gpus = [(int(size) * 2**20, name.strip()) for size, _, name in rows]
    except (OSError, ValueError, subprocess.SubprocessError):
        return []
    chosen = (visible or "").split(",")
    if all(index.isdigit() for index in chosen):
        return [gpus[int(index)] for index in chosen if int(index) < len(gpus)]
    return gpus


def _ram() -> int:
    """Bytes of memory that this process can have."""
    sizes = [os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")]
    for path in CGROUP_LIMITS:
        try:
            sizes.append(int(Path(path).read_text()))
        except (OSError, ValueError):  # no such file, or "max"
            continue
    return min(sizes)


def _has_bf16() -> bool:
    """Whether the processor multiplies bfloat16 itself; else the engine takes float32."""
    try:
        flags = Path("/proc/cpuinfo").read_text().partition("\nflags")[2].partition("\n")[0].split()
    except OSError:
        return False
    return not {"avx512_bf16", "amx_bf16"}.isdisjoint(flags)
