"""Text to ids and back, over the ``tokenizers`` library: from a checkpoint's files or from GGUF metadata.

What a person types never becomes a control token. A chat template is filled with text whose control tokens
were cut by a mark (a character that occurs nowhere in it); the filled template is split at the marks and
the parts are encoded one by one, so that only the template's own control tokens are ever whole.
"""

import hashlib
import json
import re
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import tokenizers
from tokenizers import AddedToken, Regex, decoders, normalizers, pre_tokenizers
from tokenizers.models import BPE

from dllm_tui.engine.chat_template import compile_template
from dllm_tui.engine.links import refuse_escape
from dllm_tui.errors import CheckpointError
from dllm_tui.ports import Message

if TYPE_CHECKING:
    from dllm_tui.engine.gguf import GGUF

MAX_FILE_BYTES = 256 << 20
"""Largest tokenizer file that is read; the largest known one has 34 MB."""

QWEN2 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
    r"|\s+(?!\S)|\s+"
)
LLAMA3 = QWEN2.replace(r"|\p{N}|", r"|\p{N}{1,3}|")
BAILING = (
    r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]"
    r"|\s+(?!\S)|\s+"
)

SPLITS: dict[str, str | None] = {
    "default": None,
    "gpt-2": None,
    "smollm": r"\p{N}",
    "llama-bpe": LLAMA3,
    "llama3": LLAMA3,
    "qwen2": QWEN2,
    "dream": QWEN2,
    "bailingmoe": BAILING,
    "bailingmoe2": BAILING,
    "llada-moe": BAILING,
}
"""How text is split before merging, by llama.cpp's name: a pattern, or GPT-2's own where there is none.

``smollm`` takes digits one by one and then splits as GPT-2 does.
"""

Mend: TypeAlias = Callable[[str | None, Mapping[str, int]], str | None]
"""Gets a checkpoint's own chat template, if it has one, and the known tokens; gives the one to use."""

GGUF_CONTROL, GGUF_USER_DEFINED = 3, 4


def _byte_of_character() -> dict[str, int]:
    """The byte that each character of a byte-level vocabulary stands for (GPT-2's table).

    Printable Latin-1 stands for itself, every other byte for the next free character from U+0100 on.
    """
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(0x100) if byte not in printable]
    return {chr(b): b for b in printable} | {chr(0x100 + i): byte for i, byte in enumerate(others)}


BYTE_OF = _byte_of_character()


def broken(what: str, name: str) -> CheckpointError:
    """The error for a tokenizer that can't be used."""
    return CheckpointError(f"The tokenizer of {name} can't be used: {what}.", "Get the model's files again.")


@contextmanager
def _explained(what: str, name: str) -> Generator[None]:
    """Turn the library's failures into ours: bare exceptions, and panics, which are no ``Exception``."""
    try:
        yield
    except (CheckpointError, KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:
        raise broken(f"{what} ({error})", name) from error


class ChatTokenizer:
    """A tokenizer with its chat template.

    Args:
        backend: the library's tokenizer, control tokens marked as special.
        name: of the model, for messages.
        template: the chat template (Jinja), or none: then a chat is its texts with blank lines between.
        named_tokens: what the template may ask for, e.g. ``{"bos_token": "<s>"}``.
        control: further texts that a person must not be able to write as a token.

    Raises:
        CheckpointError: the template is not valid.
    """

    def __init__(
        self,
        backend: tokenizers.Tokenizer,
        *,
        name: str,
        template: str | None = None,
        named_tokens: dict[str, str] | None = None,
        control: Sequence[str] = (),
    ) -> None:
        self.backend = backend
        self.name = name
        self.template = template
        self.named_tokens = named_tokens or {}
        self.vocab_size = backend.get_vocab_size(with_added_tokens=True)
        self._added = backend.get_added_tokens_decoder()
        self._special = {i for i, token in self._added.items() if token.special or token.content in control}
        shaped = [t.content for t in self._added.values() if re.fullmatch(r"<\|.*\|>", t.content)]
        texts = {*shaped, *control, *(self._added[i].content for i in self._special)}
        # Matched by looking ahead, so that overlapping ones are all found.
        self._control = re.compile(
            "(?=" + "|".join(re.escape(t) for t in sorted(texts, key=len, reverse=True) if len(t) > 1) + ")"
            if texts
            else r"(?!)"
        )
        self._byte_level, self._spaced = _piece_style(backend)
        self._render = compile_template(template, name) if template else None
        self.sha256 = self._hash()

    def _hash(self) -> str:
        """Of vocabulary and template: the same in every version of the library."""
        by_id = sorted((token_id, token) for token, token_id in self.ids.items())
        return hashlib.sha256(json.dumps([by_id, self.template]).encode()).hexdigest()

    @property
    def ids(self) -> dict[str, int]:
        """Id of every token by its text in the vocabulary."""
        return self.backend.get_vocab(with_added_tokens=True)

    def encode(self, text: str) -> list[int]:
        """The ids of plain text; control tokens written in it stay text.

        Raises:
            CheckpointError: the tokenizer fails at it.
        """
        mark, (text,) = self._guarded([text])
        return self._encode_parts(text, mark)

    def encode_chat(self, messages: Sequence[Message]) -> list[int]:
        """The ids of a conversation in the model's chat template, up to where its answer begins.

        Raises:
            CheckpointError: the template or the tokenizer failed, or refuses this conversation.
        """
        mark, texts = self._guarded([message.text for message in messages])
        if self._render is None:
            return self._encode_parts("\n\n".join(texts), mark)
        turns = [
            {"role": message.role, "content": text} for message, text in zip(messages, texts, strict=True)
        ]
        return self._encode_parts(self._render(turns, self.named_tokens), mark)

    def piece(self, token_id: int) -> bytes:
        """The bytes that a token stands for, not always valid UTF-8 alone; empty for an unknown id."""
        if token_id in self._added:
            return self._added[token_id].content.encode()
        token = self.backend.id_to_token(token_id)
        if token is None:
            return b""
        if self._byte_level and all(character in BYTE_OF for character in token):
            return bytes(BYTE_OF[character] for character in token)
        byte = re.fullmatch(r"<0x([0-9A-Fa-f]{2})>", token)
        if byte and not self._byte_level:
            return bytes([int(byte[1], 16)])
        return (token.replace("▁", " ") if self._spaced else token).encode()

    def is_special(self, token_id: int) -> bool:
        """Whether it is a control token (end of turn …), not part of the text."""
        return token_id in self._special

    def _guarded(self, texts: Sequence[str]) -> tuple[str, list[str]]:
        """A mark that occurs in none of the texts, and the texts with every control token cut by it."""
        # A lone half of a surrogate pair, as a terminal may hand over, is no text.
        clean = [t.encode("utf-16", "surrogatepass").decode("utf-16", "replace") for t in texts]
        used = set().union(*clean)
        mark = next(chr(code) for code in range(0xE000, 0xF900) if chr(code) not in used)
        return mark, [self._cut(text, mark) for text in clean]

    def _cut(self, text: str, mark: str) -> str:
        starts = [match.start() + 1 for match in self._control.finditer(text)]
        bounds = [0, *starts, len(text)]
        return mark.join(text[a:b] for a, b in pairwise(bounds))

    def _encode_parts(self, text: str, mark: str) -> list[int]:
        with _explained("it can't read this text", self.name):
            parts = self.backend.encode_batch_fast(text.split(mark), add_special_tokens=False)
        return [token_id for part in parts for token_id in part.ids]


def _piece_style(backend: tokenizers.Tokenizer) -> tuple[bool, bool]:
    """Whether tokens are spelt in byte-level characters, and whether ``▁`` stands for a space."""
    decoder = repr(backend.decoder)
    return "ByteLevel" in decoder, "▁" in decoder


def from_gguf(file: "GGUF") -> ChatTokenizer:
    """The tokenizer that a GGUF file carries.

    Raises:
        CheckpointError: it has none, or one of a kind that isn't known.
    """
    name = file.path.name
    kind = file.get("tokenizer.ggml.model", str)
    split = file.get("tokenizer.ggml.pre", str, "default")
    if kind != "gpt2" or split not in SPLITS:
        raise broken(f"its kind, {kind!r} with {split!r}, isn't known", name)
    tokens = file.get("tokenizer.ggml.tokens", list)
    kinds = file.get("tokenizer.ggml.token_type", list, [1] * len(tokens))
    merges = _pairs(file.get("tokenizer.ggml.merges", list))
    if len(kinds) != len(tokens) or not all(isinstance(t, str) for t in tokens):
        raise broken("the list of tokens is damaged", name)
    vocabulary = {token: i for i, token in enumerate(tokens)}
    added = [
        AddedToken(token, special=kind == GGUF_CONTROL, normalized=False)
        for token, kind in zip(tokens, kinds, strict=True)
        if kind in {GGUF_CONTROL, GGUF_USER_DEFINED}
    ]
    keys = {"bos": "bos", "eos": "eos", "unk": "unknown", "pad": "padding", "mask": "mask"}
    named = {
        f"{short}_token": tokens[token_id]
        for short, key in keys.items()
        if isinstance(token_id := file.metadata.get(f"tokenizer.ggml.{key}_token_id"), int)
        and token_id < len(tokens)
    }
    backend = byte_level(vocabulary, merges, SPLITS[split], added, name, digits_first=split == "smollm")
    return ChatTokenizer(
        backend, name=name, template=file.metadata.get("tokenizer.chat_template"), named_tokens=named
    )


def byte_level(
    vocabulary: dict[str, int],
    merges: Sequence[tuple[str, str]],
    split: str | None,
    added: Sequence[AddedToken],
    name: str,
    *,
    digits_first: bool = False,
) -> tokenizers.Tokenizer:
    """A byte-level BPE tokenizer from its parts.

    Args:
        vocabulary: id by token.
        merges: pairs, the first merged first.
        split: pattern that text is split by; GPT-2's own where there is none.
        added: control and other whole tokens.
        name: of the model, for messages.
        digits_first: apply ``split`` and then GPT-2's own.

    Raises:
        CheckpointError: vocabulary and merges don't fit.
    """
    ignore_merges = split == LLAMA3
    with _explained("vocabulary and merges don't fit", name):
        backend = tokenizers.Tokenizer(BPE(vocab=vocabulary, merges=merges, ignore_merges=ignore_merges))
    if split == QWEN2:
        backend.normalizer = normalizers.NFC()
    own = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=split is None or digits_first)
    splitting = [pre_tokenizers.Split(Regex(split), "isolated")] if split else []
    backend.pre_tokenizer = pre_tokenizers.Sequence([*splitting, own])
    backend.decoder = decoders.ByteLevel()
    backend.add_tokens(list(added))
    return backend


def _pairs(lines: Sequence[str]) -> list[tuple[str, str]]:
    halves = [str(line).partition(" ") for line in lines]
    return [(left, right) for left, _, right in halves]


def from_directory(
    directory: Path, *, control: Sequence[str] = (), mend: Mend = lambda template, known: template
) -> ChatTokenizer | None:
    """The tokenizer of a checkpoint's directory, or ``None`` where it has none.

    Args:
        directory: holds ``tokenizer.json``, or ``vocab.json`` and ``merges.txt`` (split as Qwen2 does), and
            perhaps ``tokenizer_config.json``, ``special_tokens_map.json`` and ``chat_template.jinja``.
        control: further tokens that a person must not be able to write, e.g. the mask.
        mend: gives the chat template to use instead of the checkpoint's own.

    Raises:
        CheckpointError: a file is damaged; it is named.
    """
    name = directory.name
    config = _read_json(directory / "tokenizer_config.json")
    named = _named_tokens(_read_json(directory / "special_tokens_map.json")) | _named_tokens(config)
    with _explained("a file is damaged", name):
        if (directory / "tokenizer.json").is_file():
            backend = tokenizers.Tokenizer.from_str(_read_text(directory / "tokenizer.json"))
        elif (directory / "vocab.json").is_file() and (directory / "merges.txt").is_file():
            vocabulary = _read_json(directory / "vocab.json")
            lines = _read_text(directory / "merges.txt").splitlines()
            merges = _pairs([line for line in lines if line and not line.startswith("#version")])
            backend = byte_level(vocabulary, merges, QWEN2, [], name)
        else:
            return None
        backend.no_truncation()
        backend.no_padding()
        _add_missing(backend, config, named, name)
    template = mend(_template(directory, config), backend.get_vocab(with_added_tokens=True))
    return ChatTokenizer(backend, name=name, template=template, named_tokens=named, control=control)


def _add_missing(
    backend: tokenizers.Tokenizer, config: dict[str, Any], named: dict[str, str], name: str
) -> None:
    """Add what ``added_tokens_decoder`` lists, in order of its ids, and mark named tokens as special."""
    listed = config.get("added_tokens_decoder")
    known = backend.get_added_tokens_decoder()
    by_id = {int(key): token for key, token in listed.items() if key.isdigit()} if listed else {}
    for token_id, token in sorted(by_id.items()):
        if token_id in known:
            continue
        flags = {f: bool(token.get(f)) for f in ("lstrip", "rstrip", "single_word", "normalized", "special")}
        backend.add_tokens([AddedToken(token["content"], **flags)])
        if backend.token_to_id(token["content"]) != token_id:
            raise broken(f"the added token {token['content']!r} doesn't get its id {token_id}", name)
    backend.add_special_tokens([t for t in named.values() if backend.token_to_id(t) is not None])


def _named_tokens(config: dict[str, Any]) -> dict[str, str]:
    named: dict[str, str] = {}
    for key, value in config.items():
        text = value.get("content") if isinstance(value, dict) else value
        if key.endswith("_token") and isinstance(text, str):
            named[key] = text
    return named


def _template(directory: Path, config: dict[str, Any]) -> str | None:
    if (directory / "chat_template.jinja").is_file():
        return _read_text(directory / "chat_template.jinja")
    template = config.get("chat_template")
    if isinstance(template, list):  # several by name: transformers' older layout
        by_name = {t.get("name"): t.get("template") for t in template if isinstance(t, dict)}
        template = by_name.get("default")
    return template if isinstance(template, str) else None


def _read_text(path: Path) -> str:
    refuse_escape(path)
    try:
        if path.stat().st_size > MAX_FILE_BYTES:
            raise CheckpointError(f"{path.name} is too large for a tokenizer's file.")
        return path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise CheckpointError(f"{path.name} can't be read: {error}.") from error


def _read_json(path: Path) -> dict[str, Any]:
    """A JSON object, empty where there is no file."""
    if not path.is_file():
        return {}
    try:
        value = json.loads(_read_text(path))
    except (ValueError, RecursionError) as error:
        raise CheckpointError(f"{path.name} is not valid JSON: {error}.") from error
    if not isinstance(value, dict):
        raise CheckpointError(f"{path.name} is not a JSON object.")
    return value
