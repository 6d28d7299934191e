"""What isn't a prompt, a frame or knobs is refused at once, in words."""

import pytest
import torch

from dllm_tui.engine import Engine
from dllm_tui.errors import EngineError
from dllm_tui.events import Done
from dllm_tui.knobs import Knobs
from tests.engine.tiny import VOCAB, tiny_model

FEW = Knobs(max_new_tokens=4, block_size=4)


@pytest.mark.parametrize(
    ("prompt", "says"),
    [
        ("hello", "text, not token ids"),
        (b"hello", "text, not token ids"),
        ([], "empty"),
        ([1.5], "1.5 is unknown"),
        ([True], "True is unknown"),
        (["a"], "'a' is unknown"),
        ([None], "None is unknown"),
        ([-1], "-1 is unknown"),
        ([VOCAB], f"ids 0 to {VOCAB - 1}"),
        ([10**30], "is unknown"),
    ],
)
def test_what_is_no_prompt_is_refused(prompt, says):
    engine = Engine(tiny_model())
    with pytest.raises(EngineError, match=says):
        engine.generate(prompt, FEW)
    with pytest.raises(EngineError, match=says):
        engine.logits(prompt)


@pytest.mark.parametrize("knobs", [{"steps": 4}, "fast", 3, {}])
def test_what_is_no_knobs_is_refused(knobs):
    with pytest.raises(EngineError, match="not Knobs"):
        Engine(tiny_model()).generate([5, 6], knobs)


def test_a_frame_is_of_ids_too():
    with pytest.raises(EngineError, match=r"1\.5 is unknown"):
        Engine(tiny_model()).generate([5, 6], FEW, frame=[None, 1.5])


def test_a_tensor_of_ids_is_a_prompt():
    engine = Engine(tiny_model())

    def answer(prompt) -> Done:
        *_, done = engine.generate(prompt, FEW)
        return done

    assert answer(torch.tensor([5, 6])).token_ids == answer([5, 6]).token_ids
