"""A model that is ready to decode: its family's switches, its network, and the ids that steer the loop."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any, Protocol, TypeGuard

from dllm_tui.engine.backbone import Backbone
from dllm_tui.engine.fitting import MISFIT
from dllm_tui.engine.tokenizer import ChatTokenizer
from dllm_tui.errors import CheckpointError
from dllm_tui.events import ModelInfo
from dllm_tui.families.family import Attention, Family, Noise
from dllm_tui.families.layout import Config, Layout, shown
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


def model_of(
    layout: Layout,
    config: Config,
    generation: Mapping[str, Any],
    words: ChatTokenizer | None,
    backbone: Backbone,
    *,
    name: str,
    parameters: int,
    revision: str | None = None,
    dtype: str | None = None,
) -> Model:
    """The model, its ids resolved.

    Args:
        layout: of its family.
        config: the checkpoint's.
        generation: fields of ``generation_config.json``.
        words: its tokenizer, if it has one.
        backbone: filled.
        name: for people: hub id, or name of the directory or file.
        parameters: number of weights.
        revision: of a hub id.
        dtype: of the weights, where it isn't the arithmetic's.

    Raises:
        CheckpointError: an id is missing or outside the vocabulary.
    """
    family = layout.settled(config, name)
    ids = words.ids if words else {}
    size = backbone.vocab_size
    said = [source.get("eos_token_id") for source in (config, generation, config.table("text_config"))]
    stops = [stop for value in said for stop in (value if isinstance(value, list) else [value])]
    stops += [ids[token] for token in layout.stop_tokens if token in ids]
    pad = config.get("pad_token_id", generation.get("pad_token_id"))
    mask = None if family.noise is Noise.UNIFORM else _mask_id(layout, config, words, size)
    delete = config.get("delete_token_id", layout.delete_id)
    split = config.get("split_token_id", layout.split_id)
    for role, token in {"mask": mask, "delete": delete, "split": split}.items():
        if token is not None and not _is_id(token, size):
            raise CheckpointError(
                f"{name}: the {role} token's id is {shown(token)}, and the network has ids 0 to {size - 1}.",
                MISFIT,
            )
    return Model(
        family=family,
        backbone=backbone,
        tokenizer=words,
        mask_id=mask,
        stop_ids=frozenset(stop for stop in stops if _is_id(stop, size)),
        pad_id=pad if _is_id(pad, size) else None,  # some configs have -1
        delete_id=delete,
        split_id=split,
        info=ModelInfo(
            id=name,
            family=family.name,
            title=f"{name.rpartition('/')[2]} ({family.title})",
            revision=revision,
            licence=family.licence,
            parameters=parameters,
            device=str(backbone.device),
            dtype=dtype or str(backbone.dtype).removeprefix("torch."),
            attention=family.attention.value,
            cache="none" if family.attention is Attention.FULL else "exact",
            context_length=backbone.context_length,
            tokenizer_sha256=words.sha256 if words else None,
            policies=family.policies,
            caches=family.caches,
            fixed_knobs=family.fixed_knobs,
            unkept=family.unkept,
            versions={library: version(library) for library in ("torch", "transformers", "tokenizers")},
        ),
    )


def _is_id(token: object, size: int) -> TypeGuard[int]:
    return type(token) is int and 0 <= token < size


def _mask_id(layout: Layout, config: Config, words: ChatTokenizer | None, vocabulary: int) -> int | None:
    """The mask's id: as the config has it, else the tokenizer, else the published checkpoints.

    ``None`` where nothing says; whoever uses the model then has to know.
    """
    if (said := config.get("mask_token_id")) is not None:
        return said
    fixed = layout.mask_id
    if fixed is not None and fixed < 0:
        return vocabulary + fixed
    if words is None:
        return fixed if fixed is not None and fixed < vocabulary else None
    named = words.named_tokens.get("mask_token")
    for token in (*layout.mask_tokens, *([named] if named else [])):
        if token in words.ids:
            return words.ids[token]
    if fixed is not None and not layout.mask_tokens:  # it has no name to look for
        return fixed
    raise CheckpointError(
        f"{words.name}: neither config.json (mask_token_id) nor the tokenizer say which token is the mask; "
        f"looked for {' or '.join(layout.mask_tokens) or 'a mask_token'}.",
        "Add mask_token_id to config.json if you know it.",
    )
