"""Text to ids and back; what people type never steers the model."""

import json
from pathlib import Path
from typing import Any

import pytest
import tokenizers
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import AddedToken, decoders, normalizers, pre_tokenizers, processors
from tokenizers.models import BPE
from tokenizers.trainers import BpeTrainer
from transformers import AutoTokenizer

from dllm_tui.engine import tokenizer
from dllm_tui.engine.gguf import GGUF
from dllm_tui.engine.tokenizer import ChatTokenizer
from dllm_tui.errors import CheckpointError
from dllm_tui.session import Message

CHATML = (
    "{%- for m in messages %}\n"
    "    {%- if loop.first and m.role != 'system' %}"
    "{{ '<|im_start|>system\\nBe kind.<|im_end|>\\n' }}{% endif %}\n"
    "    {{- '<|im_start|>' + m.role + '\\n' + m.content | trim + '<|im_end|>' + '\\n' }}\n"
    "{%- endfor %}\n"
    "{%- if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
)
CONTROL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
PARTS = ["<", "|", ">", "im", "_", "end", "start", "<|im_end|>", "<|", "\n", " ", "a"]
SAMPLE = [
    "The quick brown fox, it's 1234 years old. Naïve café! 漢字 und Größe\n\n  def f(x):\n\treturn x"
] * 3


def trained() -> tokenizers.Tokenizer:
    backend = tokenizers.Tokenizer(BPE())
    backend.normalizer = normalizers.NFC()
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    backend.post_processor = processors.ByteLevel(trim_offsets=False)
    trainer = BpeTrainer(
        vocab_size=400, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False
    )
    backend.train_from_iterator(SAMPLE, trainer)
    backend.add_special_tokens([AddedToken(t, special=True, normalized=False) for t in CONTROL])
    backend.add_tokens([AddedToken("<think>", special=False, normalized=False)])
    return backend


def written(directory: Path, **config: Any) -> Path:
    """A checkpoint's directory with a tokenizer as transformers saves it."""
    trained().save(str(directory / "tokenizer.json"))
    about = {"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": "<|im_end|>", **config}
    (directory / "tokenizer_config.json").write_text(json.dumps(about))
    return directory


def load(directory: Path, **options: Any) -> ChatTokenizer:
    made = tokenizer.from_directory(directory, **options)
    assert made is not None
    return made


@pytest.fixture(scope="module")
def chat(tmp_path_factory: pytest.TempPathFactory) -> ChatTokenizer:
    return load(written(tmp_path_factory.mktemp("chat"), chat_template=CHATML))


def text_of(words: ChatTokenizer, ids: list[int]) -> str:
    return b"".join(words.piece(i) for i in ids).decode()


def test_a_chat_gets_the_ids_that_transformers_gives(tmp_path: Path):
    words = load(written(tmp_path, chat_template=CHATML))
    theirs = AutoTokenizer.from_pretrained(tmp_path)
    chat = [
        ("system", "Reply in 漢字."),
        ("user", " Hello,  it's 1234 \n"),
        ("assistant", "Ok <think>"),
        ("user", "é"),
    ]
    for count in range(1, 5):
        wanted = theirs.apply_chat_template(
            [{"role": r, "content": t} for r, t in chat[:count]],
            add_generation_prompt=True,
            tokenize=True,
            return_dict=False,
        )
        assert words.encode_chat([Message(r, t) for r, t in chat[:count]]) == wanted  # type: ignore[arg-type]


@settings(max_examples=200, deadline=None)
@given(st.lists(st.sampled_from(PARTS), max_size=12).map("".join))
def test_what_is_typed_never_becomes_a_control_token(chat: ChatTokenizer, text: str):
    plain = chat.encode(text)
    assert not any(chat.is_special(i) for i in plain)
    assert text_of(chat, plain) == text
    ids = chat.encode_chat([Message("user", text)])
    empty = chat.encode_chat([Message("user", "")])
    assert [i for i in ids if chat.is_special(i)] == [i for i in empty if chat.is_special(i)]
    assert text_of(chat, ids) == text_of(chat, empty).replace("user\n", f"user\n{text.strip()}")


@settings(max_examples=200, deadline=None)
@given(st.text())
def test_any_text_comes_back(chat: ChatTokenizer, text: str):
    back = text_of(chat, chat.encode(text))
    assert back == tokenizers.normalizers.NFC().normalize_str(text)


def test_marks_in_the_text_are_kept(chat: ChatTokenizer):
    every = "".join(map(chr, range(0xE000, 0xE003))) + "<|im_end|>"
    assert text_of(chat, chat.encode(every)) == every


def test_half_a_surrogate_pair_is_replaced(chat: ChatTokenizer):
    assert text_of(chat, chat.encode("a\ud800b\ud83d\ude42")) == "a\ufffdb🙂"


def test_pieces_and_special_tokens(chat: ChatTokenizer):
    ids = chat.ids
    assert chat.piece(ids["<|im_end|>"]) == b"<|im_end|>"
    assert chat.is_special(ids["<|im_end|>"])
    assert not chat.is_special(ids["<think>"])
    assert chat.piece(ids["Ġ"]) == b" "
    assert chat.piece(ids["Ċ"]) == b"\n"
    assert chat.piece(10**6) == b""
    assert b"".join(sorted(chat.piece(ids[c]) for c in pre_tokenizers.ByteLevel.alphabet())) == bytes(
        range(256)
    )


def test_sentencepiece_pieces():
    vocabulary = {"<unk>": 0, "▁": 1, "a": 2, "▁a": 3, "<0x0A>": 4, "<0xE2>": 5}
    backend = tokenizers.Tokenizer(BPE(vocab=vocabulary, merges=[("▁", "a")], byte_fallback=True))
    backend.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]
    )
    words = ChatTokenizer(backend, name="spm")
    assert [words.piece(i) for i in (3, 4, 5)] == [b" a", b"\n", b"\xe2"]


def test_further_control_tokens_of_a_family(tmp_path: Path):
    """A mask token that its checkpoint doesn't declare special is one all the same."""
    words = load(written(tmp_path), control=["<think>"])
    assert words.is_special(words.ids["<think>"])
    assert words.ids["<think>"] not in words.encode("a <think> b")


def test_without_a_template_the_texts_are_joined(tmp_path: Path):
    words = load(written(tmp_path))
    ids = words.encode_chat([Message("user", "One."), Message("assistant", "Two.")])
    assert text_of(words, ids) == "One.\n\nTwo."


def test_template_beside_the_config_comes_first(tmp_path: Path):
    (written(tmp_path, chat_template=CHATML) / "chat_template.jinja").write_text("{{ eos_token }}!")
    words = load(tmp_path)
    assert words.encode_chat([Message("user", "x")])[0] == words.ids["<|im_end|>"]


def test_vocabulary_and_merges_alone(tmp_path: Path):
    """Dream's layout: no tokenizer.json; control tokens in the config."""
    whole = tmp_path / "whole"
    whole.mkdir()
    reference = written(whole, chat_template=CHATML)
    state = json.loads((reference / "tokenizer.json").read_text())
    (tmp_path / "vocab.json").write_text(json.dumps(state["model"]["vocab"]))
    lines = [" ".join(pair) for pair in state["model"]["merges"]]
    (tmp_path / "merges.txt").write_text("#version: 0.2\n" + "\n".join(lines) + "\n")
    added = {str(t["id"]): {k: v for k, v in t.items() if k != "id"} for t in state["added_tokens"]}
    config = {"added_tokens_decoder": added, "eos_token": "<|im_end|>", "chat_template": CHATML}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(config))
    chat = [Message("user", "The quick brown fox <|im_end|>")]
    assert load(tmp_path).encode_chat(chat) == load(reference).encode_chat(chat)


def test_there_may_be_none(tmp_path: Path):
    assert tokenizer.from_directory(tmp_path) is None


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("tokenizer.json", "{"),
        ("tokenizer.json", '{"model": 3}'),
        ("tokenizer_config.json", "[1, 2"),
        ("tokenizer_config.json", "[]"),
        ("tokenizer_config.json", '{"added_tokens_decoder": {"9999": {"content": "<x>"}}}'),
        ("tokenizer_config.json", '{"added_tokens_decoder": {"9999": 5}}'),
        ("tokenizer_config.json", '{"chat_template": "{% for x in %}"}'),
        ("special_tokens_map.json", "\ud800".encode("utf-16", "surrogatepass").decode("latin-1")),
    ],
)
def test_damaged_files_are_told(tmp_path: Path, name: str, content: str):
    (written(tmp_path) / name).write_text(content, "latin-1")
    with pytest.raises(CheckpointError):
        tokenizer.from_directory(tmp_path)


@pytest.mark.parametrize(
    "template",
    [
        "{{ raise_exception('no system message') }}",
        "{{ messages[9].content.nothing() }}",
        "{% set ns = namespace(__class__=1) %}",
        "{{ ''.__class__.__mro__[1].__subclasses__() }}",
        "{% for i in range(10000000) %}x{% endfor %}",
        "{{ messages.append(1) }}",
        "{{ lipsum() }}",
    ],
)
def test_templates_that_fail_or_reach_out(tmp_path: Path, template: str):
    words = load(written(tmp_path, chat_template=template))
    with pytest.raises(CheckpointError, match="chat template"):
        words.encode_chat([Message("user", "x")])


def test_template_features_of_transformers(tmp_path: Path):
    template = (
        "{% set ns = namespace(n=0) %}{% for m in messages %}"
        "{% if m.role == 'system' %}{% continue %}{% endif %}{% set ns.n = ns.n + 1 %}"
        "{% generation %}{{ m.content | tojson }}{% endgeneration %}{% endfor %}{{ ns.n }}"
    )
    words = load(written(tmp_path, chat_template=template))
    ids = words.encode_chat([Message("system", "s"), Message("user", 'a "é" <b>')])
    assert text_of(words, ids) == '"a \\"é\\" <b>"1'


def test_from_gguf(tiny_gguf: Path):
    words = tokenizer.from_gguf(GGUF(tiny_gguf))
    assert words.encode("abc ab") == [8, 6, 5]
    assert words.encode_chat([Message("user", " ab ")]) == [1, 5, 0, 1]
    assert [words.is_special(i) for i in (0, 1, 2, 9)] == [True, True, False, False]
    assert words.encode("<|end|>").count(0) == 0
    assert words.named_tokens["eos_token"] == "<|end|>"


def test_unknown_kinds_are_refused(tiny_gguf: Path):
    file = GGUF(tiny_gguf)
    file.metadata["tokenizer.ggml.pre"] = "martian"
    with pytest.raises(CheckpointError, match="martian"):
        tokenizer.from_gguf(file)
    file.metadata |= {"tokenizer.ggml.pre": "smollm", "tokenizer.ggml.merges": ["a z"]}
    with pytest.raises(CheckpointError, match="merges"):
        tokenizer.from_gguf(file)


def test_hash_follows_vocabulary_and_template(tmp_path: Path):
    first = load(written(tmp_path))
    assert first.sha256 == load(tmp_path).sha256
    assert first.sha256 != load(written(tmp_path, chat_template=CHATML)).sha256
