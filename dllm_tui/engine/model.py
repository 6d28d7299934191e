"""A model that is ready to decode: its family's switches, its network, and the ids that steer the loop."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from dllm_tui.engine.backbone import Backbone
from dllm_tui.events import ModelInfo
from dllm_tui.families.family import Family
from dllm_tui.ports import Message


class Tokenizer(Protocol):
    """Text to ids and back."""

    sha256: str
    """Hash of what defines it, for the trace's header."""
    vocab_size: int
    """Ids it knows; the network's vocabulary may be larger."""

    def encode(self, text: str) -> list[int]:
        """The ids of plain text; control tokens written in it stay text."""
        ...

    def encode_chat(self, messages: Sequence[Message]) -> list[int]:
        """The ids of a conversation in the model's chat template, up to where its answer begins."""
        ...

    def piece(self, token_id: int) -> bytes:
        """The bytes that a token stands for, not always valid UTF-8 alone; empty for an unknown id."""
        ...

    def is_special(self, token_id: int) -> bool:
        """Whether it is a control token (end of turn …), not part of the text."""
        ...


@dataclass(frozen=True, kw_only=True)
class Model:
    """What a family's loader hands to the engine."""

    family: Family
    backbone: Backbone
    tokenizer: Tokenizer | None = None
    """``None`` for a checkpoint that comes without one: it still generates ids."""
    mask_id: int | None = None
    """Input id of an undecided cell. Virtual (``vocab_size``, a row appended to the embedding) where the
    head has no such column; otherwise it is never committed. ``None`` for uniform noise."""
    stop_ids: frozenset[int] = frozenset()
    """Tokens that end an answer."""
    pad_id: int | None = None
    delete_id: int | None = None
    """Predicted where a cell should go (LLaDA 2.2)."""
    split_id: int | None = None
    """Predicted where a cell should make room for a new mask before it (LLaDA 2.2)."""
    info: ModelInfo
