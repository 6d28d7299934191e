"""Whether a checkpoint fits a network: every name and shape, told before memory of that size is taken."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import torch

from dllm_tui.engine.checkpoint import Tensors
from dllm_tui.errors import CheckpointError
from dllm_tui.families.layout import Index, Network, Place, Placing

MISFIT = "The files don't belong together, or the config describes another variant."

Shape = tuple[int, ...]


@dataclass(frozen=True)
class Spot:
    """Where a tensor of the checkpoint, or some of its rows, goes in the network."""

    name: str
    """The tensor's own."""
    target: str
    """The parameter's."""
    at: Index
    """The part of the parameter that is written; all of it where it is empty."""
    first: int
    last: int
    """Rows ``first … last-1`` of the tensor; one without dimensions counts as one row."""


def fit(
    tensors: Tensors,
    place: Placing,
    network: Network,
    shapes: Mapping[str, Shape],
    tied: Mapping[str, str],
) -> tuple[Spot, ...]:
    """Find every tensor's place; what a checkpoint says twice is taken once.

    Args:
        tensors: of the checkpoint. Values are read only of tensors that have to be equal.
        place: the tensor-name map.
        network: class and config, for the map.
        shapes: of every parameter, by name; tied ones once.
        tied: other names of tied parameters.

    Raises:
        CheckpointError: a tensor is unknown, missing, there twice or of a wrong shape, or what should be one
            differs.
    """
    repeated = _repeated(tensors, place, network, tied)
    spots = [
        _spot(tensors, name, where, tied.get(where.target, where.target), shapes)
        for name in tensors.entries
        if name not in repeated
        for where in place(name, network)
    ]
    taken: dict[tuple[str, str], str] = {}
    filled: dict[str, int] = {}
    for spot in spots:
        other = taken.setdefault((spot.target, str(spot.at)), spot.name)
        if other != spot.name:
            raise CheckpointError(
                f"{tensors.where(spot.name)}: tensor {spot.name!r} goes where {other!r} went already.", MISFIT
            )
        entry = tensors.entries[spot.name]
        values = math.prod(entry.shape[1:]) * (spot.last - spot.first)
        filled[spot.target] = filled.get(spot.target, 0) + values
    for target, shape in shapes.items():
        if filled.get(target, 0) < math.prod(shape):
            part = "a part of " if target in filled else ""
            files = sorted({tensors.where(name) for name in tensors.entries})
            where = files[0] if len(files) == 1 else f"{files[0]} … {files[-1]}" if files else "the files"
            raise CheckpointError(
                f"The checkpoint is incomplete: nothing in {where} fills {part}{target!r}.", MISFIT
            )
    return tuple(spots)


def _spot(tensors: Tensors, name: str, where: Place, target: str, shapes: Mapping[str, Shape]) -> Spot:
    said = f"{tensors.where(name)}: tensor {name!r}"
    if target not in shapes:
        raise CheckpointError(f"{said} isn't known.", MISFIT)
    wanted = shapes[target]
    if where.at:
        try:
            wanted = tuple(torch.empty(wanted, device="meta")[where.at].shape)
        except IndexError:
            raise CheckpointError(
                f"{said} doesn't fit in {target} of shape {list(wanted)}.", MISFIT
            ) from None
    shape = tensors.entries[name].shape
    height = shape[0] if shape else 1
    first, last = where.rows or (0, height)
    if (last - first, *shape[1:]) != (wanted or (1,)) or last > height:
        raise CheckpointError(f"{said} has the shape {list(shape)}; {list(wanted)} was expected.", MISFIT)
    return Spot(name, target, where.at, first, last)


def _repeated(tensors: Tensors, place: Placing, network: Network, tied: Mapping[str, str]) -> set[str]:
    """Tensors that say again what one says that they are tied to."""
    origin = {where.target: name for name in tensors.entries for where in place(name, network)}
    found = {origin[alias]: origin[name] for alias, name in tied.items() if {alias, name} <= origin.keys()}
    for name, other in found.items():
        if not tensors.equal(name, other):
            raise CheckpointError(
                f"{tensors.where(name)}: tensor {name!r} differs from {other!r}, though config.json says "
                "that they are one (tie_word_embeddings).",
                "If the model has a head of its own, set tie_word_embeddings to false in config.json.",
            )
    return set(found)
