"""What is learnt from: files, prompts, and chats that the base writes."""

import json
from collections.abc import Sequence
from itertools import islice
from pathlib import Path

import pytest
import torch

from dllm_tui.adapt.data import Chat, DataError, read
from dllm_tui.adapt.network import Network
from dllm_tui.adapt.prompts import Prompt, prompts
from dllm_tui.adapt.selfmade import Writer, has_loop
from dllm_tui.engine.autoregressive import Base, find
from dllm_tui.ports import Message
from tests.adapt.tiny import CPU


@pytest.fixture
def found(base: Path) -> Base:
    return find(str(base))


def chats_of(found: Base, path: Path, longest: int = 100) -> list[Chat]:
    return read(
        path, found.words, vocabulary=found.geometry.vocab_size, stop_id=found.stop_id, longest=longest
    )


def text_of(found: Base, ids: Sequence[int]) -> str:
    return b"".join(map(found.words.piece, ids)).decode()


def test_every_answer_of_a_chat_is_learnt_behind_what_came_before_it(found: Base, tmp_path: Path):
    path = tmp_path / "chats.jsonl"
    said = [
        ("system", "Be kind."),
        ("user", "Hi"),
        ("assistant", "Yes?"),
        ("user", "No"),
        ("assistant", "Ok"),
    ]
    path.write_text(json.dumps({"messages": [{"role": r, "content": c} for r, c in said]}) + "\n\n")
    first, second = chats_of(found, path, longest=1000)
    for chat, count in ((first, 3), (second, 5)):
        ((start, end),) = chat.answers
        asked = [Message(role, text) for role, text in said[: count - 1]]  # type: ignore[arg-type]
        assert list(chat.ids[:start]) == found.words.encode_chat(asked)
        assert text_of(found, chat.ids[start:end]) == said[count - 1][1] + "<|im_end|>"


def test_long_chats_are_cut_and_long_texts_go_into_several(found: Base, tmp_path: Path):
    chat, text = tmp_path / "chats.jsonl", tmp_path / "text.txt"
    turns = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "word " * 50}]
    chat.write_text(json.dumps({"messages": turns}))
    (cut,) = chats_of(found, chat)
    assert len(cut.ids) == 100
    assert cut.answers[0][1] == 100
    text.write_text("some words " * 40)
    pieces = chats_of(found, text)
    assert "".join(text_of(found, piece.ids) for piece in pieces) == "some words " * 40
    assert all(piece.answers == ((1, len(piece.ids)),) for piece in pieces)


@pytest.mark.parametrize(
    ("name", "content", "problem"),
    [
        ("x.jsonl", "", "nothing to learn"),
        ("x.txt", "", "nothing to learn"),
        ("x.jsonl", '{"messages": []}', "line 1 has no messages"),
        ("x.jsonl", '\n{"messages": [}', "line 2 is not JSON"),
        ("x.jsonl", "[1]", "not a JSON object"),
        ("x.jsonl", '{"messages": "hi"}', "not a list"),
        ("x.jsonl", '{"messages": [{"role": "robot", "content": "x"}]}', "needs a role"),
        ("x.jsonl", '{"messages": [{"role": "user", "content": 5}]}', "needs a role"),
        ("x.jsonl", '{"messages": [{"role": "user", "content": "x"}]}', "nothing to learn"),
        ("x.jsonl", '{"ids": [1, 999999], "answers": [[1, 2]]}', "not token ids"),
        ("x.jsonl", '{"ids": [1, true], "answers": [[1, 2]]}', "not token ids"),
        ("x.jsonl", '{"ids": [1, 2], "answers": [[1, 3]]}', "not pairs"),
        ("x.jsonl", '{"ids": [1, 2], "answers": [[0, 2]]}', "not pairs"),
    ],
)
def test_malformed_data_is_told(found: Base, tmp_path: Path, name: str, content: str, problem: str):
    (tmp_path / name).write_text(content)
    with pytest.raises(DataError, match=problem):
        chats_of(found, tmp_path / name)


def test_files_that_cannot_be_read(found: Base, tmp_path: Path):
    (tmp_path / "bytes.txt").write_bytes(b"\xff\xfe\x00")
    for name in ("bytes.txt", "nowhere.jsonl"):
        with pytest.raises(DataError, match=name):
            chats_of(found, tmp_path / name)


def test_a_chat_comes_back_as_it_was_written(found: Base, tmp_path: Path):
    chat = Chat((1, 2, 3), ((1, 3),), (Message("user", "Größe"), Message("assistant", "é\n")))
    (tmp_path / "x.jsonl").write_text(chat.line() + "\n")
    assert chats_of(found, tmp_path / "x.jsonl") == [chat]


def test_prompts_are_wide_and_held_out_ones_never_trained_on():
    trained = list(islice(prompts(0), 1500))
    held_out = {prompt.turns[0] for prompt in islice(prompts(0, held_out=True), 500)}
    assert len({prompt.turns[0] for prompt in trained}) > 1000
    assert len(held_out) > 300
    assert not held_out & {turn for prompt in trained for turn in prompt.turns}
    assert [p.turns for p in islice(prompts(0), 20)] == [p.turns for p in trained[:20]]
    assert {len(p.turns) for p in trained} == {1, 2, 3}
    assert not any("{" in turn or "}" in turn for p in trained for turn in p.turns)


def test_answers_written_together_are_those_written_alone(found: Base):
    """Greedy: what a slot says depends on its own chat alone."""
    network = Network(found.geometry, dict(found.read()), CPU, torch.float32)
    asked = [
        Prompt(None, ("Hello there",), 9, 0.0, 1),
        Prompt("Be kind.", ("a", "b"), 14, 0.0, 2),
        Prompt(None, ("What is water?",), 5, 0.0, 3),
        Prompt(None, ("x",), 11, 0.0, 4),
    ]
    writer = Writer(network, found.words, found.stop_id, slots=3, capacity=120)
    made = list(writer.write(iter(asked)))
    assert made
    for chat in made:
        ((start, end),) = chat.answers
        assert list(chat.ids[:start]) == found.words.encode_chat(chat.messages[:-1])
        ids = torch.tensor(chat.ids)
        greedy = (network.read(ids).hidden @ network.head.T).argmax(-1)
        assert ids[start:end].tolist() == greedy[start - 1 : end - 1].tolist()
        assert end - start <= 14


def test_sampled_answers_follow_from_their_seed(found: Base):
    network = Network(found.geometry, dict(found.read()), CPU, torch.float32)

    def written(seed: int) -> list[tuple[int, ...]]:
        prompt = Prompt(None, ("Hello",), 8, 0.8, seed)
        return [c.ids for c in Writer(network, found.words, found.stop_id, slots=2).write(iter([prompt]))]

    assert written(1) == written(1) != written(2)


def test_loops():
    assert has_loop([5, 1, 2, 3] * 4)
    assert has_loop([9] * 8)
    assert not has_loop([7, 7, 7, 7])
    assert not has_loop(list(range(200)))
