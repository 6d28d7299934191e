"""How a family's files become a network: config map, tensor-name map, token ids. No torch here.

A family file is mostly a :class:`Layout`: which architectures it answers to, which class its weights are
loaded into, and where each tensor goes. The maps are plain functions of names and numbers.
"""

import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from dllm_tui.errors import CheckpointError
from dllm_tui.families.family import Family

MOST = sys.float_info.max
"""Largest number; a whole one in a JSON file may be larger."""

SHOWN = 80
"""Longest value from a file that a message repeats."""

UNKNOWN_VARIANT = "This is a variant of the family that isn't known here; its answers would be wrong."


def shown(value: object) -> str:
    """A value from a file for a message, cut where it is long."""
    text = repr(value)
    return text if len(text) <= SHOWN else f"{text[: SHOWN - 1]}…"


class Config:
    """The fields of a checkpoint's ``config.json``, read strictly: what is missing or unknown is refused."""

    def __init__(self, fields: Mapping[str, Any], source: str = "config.json") -> None:
        self.fields = fields
        self.source = source

    @property
    def architecture(self) -> str:
        """``architectures[0]``, or an empty string."""
        names = self.fields.get("architectures")
        return names[0] if isinstance(names, list) and names and isinstance(names[0], str) else ""

    def get(self, name: str, default: Any = None) -> Any:
        """The field, or ``default`` where it is missing or null."""
        value = self.fields.get(name)
        return default if value is None else value

    def integer(self, name: str, least: int = 1, most: int = 2**31 - 1, default: int | None = None) -> int:
        """A whole number.

        Args:
            name: of the field.
            least: smallest that makes sense.
            most: largest that makes sense.
            default: for a field that is missing or null.

        Raises:
            CheckpointError: it is missing and has no default, or it is something else.
        """
        value = self.get(name, default)
        if type(value) is not int or not least <= value <= most:
            raise CheckpointError(
                f"{self.source}: {name} is {self._shown(name)}, not a whole number from {least} to {most}."
            )
        return value

    def table(self, name: str) -> "Config":
        """The fields of a nested table; none where it is missing, null or false.

        Raises:
            CheckpointError: it is something else.
        """
        value = self.fields.get(name) or {}
        if not isinstance(value, Mapping):
            raise CheckpointError(f"{self.source}: {name} is {self._shown(name)}, not a table of fields.")
        return Config(value, f"{self.source}, {name}")

    def number(self, name: str, most: float = MOST) -> float:
        """A number above zero.

        Args:
            name: of the field.
            most: largest that makes sense.

        Raises:
            CheckpointError: it is missing or something else.
        """
        value = self.fields.get(name)
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= most:
            limit = "" if most == MOST else f", {most:g} at most"
            raise CheckpointError(
                f"{self.source}: {name} is {self._shown(name)}, not a number above zero{limit}."
            )
        return float(value)

    def expect(self, **wanted: object) -> None:
        """Refuse the checkpoint unless every field is there and has the value that is implemented here.

        Raises:
            CheckpointError: naming the first field that differs.
        """
        for name, value in wanted.items():
            if self.fields.get(name) != value:
                raise CheckpointError(
                    f"{self.source}: {name} is {self._shown(name)}; only {value!r} is implemented.",
                    UNKNOWN_VARIANT,
                )

    def refuse(self, *names: str) -> None:
        """Refuse the checkpoint if one of the fields is set: it asks for something not implemented here.

        Raises:
            CheckpointError: naming the first field that is set.
        """
        for name in names:
            if self.fields.get(name):
                raise CheckpointError(
                    f"{self.source}: {name} is {self._shown(name)}, which is not implemented.",
                    UNKNOWN_VARIANT,
                )

    def multiple(self, name: str, of: str) -> None:
        """Refuse the checkpoint if one whole number isn't a multiple of another; both, where they are given.

        Raises:
            CheckpointError: naming both.
        """
        whole, part = self.fields.get(name), self.fields.get(of)
        if type(whole) is int and type(part) is int and whole % part:
            raise CheckpointError(f"{self.source}: {name} is {whole}, not a multiple of {of}, {part}.")

    def _shown(self, name: str) -> str:
        return shown(self.fields[name]) if name in self.fields else "missing"


@dataclass(frozen=True)
class Network:
    """The class that the weights are loaded into, and the config it is built with."""

    kind: str
    """Name of a transformers class, or of one of our own (``dllm_tui.engine.load`` knows them)."""
    options: Mapping[str, Any]
    """Keyword arguments of its config."""


MOST_BLOCK = 4096
"""Longest block that the knobs know."""

Index: TypeAlias = tuple[int | slice, ...]


@dataclass(frozen=True)
class Place:
    """Where a checkpoint's tensor, or some of its rows, goes in the network."""

    target: str
    at: Index = ()
    """The part of the target that is written; all of it by default."""
    rows: tuple[int, int] | None = None
    """First and last (excluded) of the tensor's rows that go there; all by default."""


Placing: TypeAlias = Callable[[str, Network], tuple[Place, ...]]
"""Where a tensor goes, by its name. A name of which nothing is needed goes nowhere: ``()``."""


def same_names(name: str, network: Network) -> tuple[Place, ...]:
    """The map of checkpoints whose tensors have the network's own names.

    Old files carry the rotary frequencies too; they are computed here.
    """
    return () if name.endswith("rotary_emb.inv_freq") else (Place(name),)


@dataclass(frozen=True, kw_only=True)
class Layout:
    """A family and how its checkpoints are laid out."""

    family: Family
    architectures: tuple[str, ...]
    """Values of ``architectures[0]`` that it answers to."""
    network: Callable[[Config], Network]
    """The config map. Refuses variants that aren't implemented."""
    place: Placing = same_names
    named: str = ""
    """A pattern in the checkpoint's name, which alone tells some families apart; lower case."""
    marked: tuple[str, ...] = ()
    """Config fields that tell as much: one of them is enough."""
    block_field: str | None = None
    """The config field with the block that the checkpoint was trained on."""
    block_required: bool = True
    """The config has to name it; otherwise it is that of the checkpoint's name, or the family's."""
    block_named: str = ""
    """A pattern in the checkpoint's name whose group is the block; lower case."""
    mask_tokens: tuple[str, ...] = ()
    """Names of the mask in the tokenizer, asked where the config has no ``mask_token_id``."""
    mask_id: int | None = None
    """The mask of the published checkpoints, for files that have neither; counts from the end of the
    vocabulary where it is negative."""
    delete_id: int | None = None
    split_id: int | None = None
    """Predictions that delete a cell, or split it, where the config doesn't name them."""
    stop_tokens: tuple[str, ...] = ()
    """Tokens that end an answer besides the config's ``eos_token_id``."""
    gguf: str | None = None
    """llama.cpp's name of the architecture, where it knows it."""
    tokenizer: str | None = None
    """Hub id of the tokenizer, for checkpoints that come without one."""
    chat_template: str | None = None
    """Used where the tokenizer knows its control tokens: the checkpoint's own has faults, or isn't there."""
    template_preamble: str = ""
    """Put before the template, e.g. to set what the checkpoint's own would be told otherwise."""

    def answers(self, config: Config, name: str) -> bool:
        """Whether a checkpoint is of this family.

        Args:
            config: the checkpoint's.
            name: its hub id or the name of its directory.
        """
        if config.architecture not in self.architectures:
            return False
        told = not self.named and not self.marked
        told = told or any(name in config.fields for name in self.marked)
        return told or bool(self.named and re.search(self.named, name.lower()))

    def settled(self, config: Config, name: str) -> Family:
        """The family as this checkpoint has it: with the block that it was trained on.

        Args:
            config: the checkpoint's.
            name: its hub id or the name of its directory.

        Raises:
            CheckpointError: the config says nothing about that, and has to.
        """
        if self.block_field is None:
            return self.family
        named = re.search(self.block_named, name.lower()) if self.block_named else None
        if not (self.block_required or self.block_field in config.fields or named):
            return self.family
        default = int(named[1]) if named else None
        block = config.integer(self.block_field, most=MOST_BLOCK, default=default)
        defaults = self.family.defaults
        if self.family.grid == defaults.block_size:  # otherwise the grid's blocks are decoded in parts
            steps = block if defaults.steps == defaults.block_size else defaults.steps
            defaults = defaults.replace(block_size=block, steps=steps)
        return replace(self.family, grid=block, defaults=defaults)
