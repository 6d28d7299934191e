"""Known checkpoints on this machine: what each needs, whether it is here, fits, and is recommended."""

from collections.abc import Collection
from dataclasses import dataclass

from dllm_tui.cli.machine import Machine
from dllm_tui.engine import hub_cache
from dllm_tui.families import smol
from dllm_tui.families.catalogue import GIGABYTE, Entry, entries, recommended
from dllm_tui.families.family import Family


@dataclass(frozen=True, kw_only=True)
class Facts:
    """A checkpoint, as it stands on this machine."""

    entry: Entry
    needed: int
    """Bytes of memory."""
    missing: int
    """Bytes that this machine has too few; 0 where it fits."""
    kept: bool
    """It is on disk."""
    recommended: bool

    @property
    def state(self) -> str:
        """How it stands, in words, e.g. ``on disk, recommended``."""
        fit = f"{self.missing / GIGABYTE:.1f} GB short" if self.missing else "fits"
        return ", ".join(["on disk"] * self.kept + [fit] + ["recommended"] * self.recommended)

    @property
    def memory(self) -> str:
        """Memory that it needs, in words."""
        return f"{self.needed / GIGABYTE:.1f} GB"

    @property
    def block(self) -> str:
        """Default block, in words."""
        return block_of(self.entry.family, self.entry.block)


def block_of(family: Family, trained: int | None = None) -> str:
    """The block that is denoised at a time by default: a number of cells, or ``all``.

    Args:
        family: the checkpoint's.
        trained: the block that the checkpoint itself was trained on, where that isn't the family's.
    """
    size = trained or family.grid
    if size is None and "block_size" in family.fixed_knobs:
        return "all"
    return str(size or family.defaults.block_size)


def facts_of(entry: Entry, machine: Machine, kept: Collection[str] | None = None) -> Facts:
    """How a checkpoint stands on a machine.

    Args:
        entry: the checkpoint.
        machine: where it would run.
        kept: hub ids of what is on disk, lower case; looked up where they aren't given.
    """
    kept = kept_ids() if kept is None else kept
    best = recommended(machine.memory, machine.bytes_per_weight, fast=machine.fast)
    return Facts(
        entry=entry,
        needed=machine.needs(entry),
        missing=machine.missing(entry),
        kept=smol.BASE.kept if entry.family is smol.FAMILY else entry.id.lower() in kept,
        recommended=entry is best,
    )


def survey(machine: Machine) -> list[Facts]:
    """How every known checkpoint stands on a machine."""
    kept = kept_ids()
    return [facts_of(entry, machine, kept) for entry in entries()]


def kept_ids() -> set[str]:
    """Hub ids of the models on disk, lower case."""
    return {name.lower() for name in hub_cache.kept()}
