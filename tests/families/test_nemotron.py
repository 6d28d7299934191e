"""Nemotron-Labs-Diffusion's three modes, held against slow loops written after its repository.

There are no golden numbers for it: the loops here recompute everything in every step, without a cache.
"""

from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from torch import Tensor

from dllm_tui.engine.api import Engine
from dllm_tui.events import Done
from tests.loading.checkpoints import load, write

BLOCK, MASK, STOP = 8, 90, 91
SIZES: dict[str, Any] = {
    "vocab_size": 96,
    "hidden_size": 48,
    "intermediate_size": 80,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 12,
    "max_position_embeddings": 256,
    "rms_norm_eps": 1e-6,
}
CONFIG = {
    **SIZES,
    "architectures": ["NemotronLabsDiffusionModel"],
    "hidden_act": "silu",
    "rope_parameters": {"rope_type": "default", "rope_theta": 1e4},
    "block_size": BLOCK,
    "mask_token_id": MASK,
    "eos_token_id": STOP,
    "tie_word_embeddings": False,
}
PROMPT = [5, 17, 40, 3, 60, 22, 81]


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Engine:
    torch.manual_seed(11)
    rope = {"rope_type": "default", "rope_theta": 1e4}
    needed = {"llama_4_scaling_beta": 0.0, "original_max_position_embeddings": 256}
    config = transformers.Ministral3Config(**SIZES, rope_parameters={**rope, **needed})
    network = transformers.Ministral3ForCausalLM(config)
    tensors = {
        "diffusion_head.weight" if name == "lm_head.weight" else name.replace("model.", "encoder.", 1): tensor
        for name, tensor in network.state_dict().items()
    }
    for tensor in tensors.values():
        tensor.normal_(0.0, 0.3)
    tensors["diffusion_head.weight"][MASK] = 0.0
    path: Path = write(tmp_path_factory.mktemp("nemotron"), CONFIG, tensors)
    return Engine(load(path))


def logits(engine: Engine, ids: list[int], mask: Tensor) -> Tensor:
    return engine.model.backbone.forward(torch.tensor(ids), torch.arange(len(ids)), mask=mask).clone()


def causal(length: int) -> Tensor:
    return torch.ones(length, length, dtype=torch.bool).tril()


def best(row: Tensor) -> int:
    row = row.clone()
    row[MASK] = -torch.inf
    return int(row.argmax())


def autoregressive(engine: Engine, count: int) -> list[int]:
    ids = list(PROMPT)
    while len(ids) < len(PROMPT) + count and (len(ids) == len(PROMPT) or ids[-1] != STOP):
        ids.append(best(logits(engine, ids, causal(len(ids)))[-1]))
    return ids[len(PROMPT) :]


def diffusion(engine: Engine, count: int, threshold: float) -> list[int]:
    """Block by block; the first token of each is the autoregressive reading's."""
    ids = list(PROMPT)
    while len(ids) < len(PROMPT) + count:
        start = len(ids)
        ids += [best(logits(engine, ids, causal(start))[-1])] + [MASK] * (BLOCK - 1)
        while MASK in ids[start:]:
            mask = causal(len(ids))
            mask[start:, start:] = True
            rows = logits(engine, ids, mask)
            open_cells = [place for place in range(start, len(ids)) if ids[place] == MASK]
            rows[:, MASK] = -torch.inf
            chance = {place: float(rows[place].softmax(-1).max()) for place in open_cells}
            surest = max(open_cells, key=lambda place: chance[place])
            for place in open_cells:
                if place == surest or chance[place] > threshold:
                    ids[place] = int(rows[place].argmax())
            first = ids.index(STOP, start) if STOP in ids[start:] else None
            if first is not None and MASK not in ids[start:first]:
                return ids[len(PROMPT) : first + 1]
    return ids[len(PROMPT) : len(PROMPT) + count]


def answer(engine: Engine, **knobs: Any) -> Done:
    *_, done = engine.generate(PROMPT, engine.defaults.replace(**knobs))
    assert isinstance(done, Done)
    return done


def test_defaults(engine: Engine) -> None:
    assert engine.defaults.block_size == BLOCK
    assert engine.model.mask_id == MASK
    assert engine.model.stop_ids == {STOP}


@pytest.mark.parametrize("threshold", [0.02, 0.05, 0.2, 1.0])
def test_diffusion(engine: Engine, threshold: float) -> None:
    done = answer(engine, threshold=threshold, steps=64, max_new_tokens=24)
    assert list(done.token_ids) == diffusion(engine, 24, threshold)


def test_self_speculation_writes_what_the_autoregressive_model_writes(engine: Engine) -> None:
    done = answer(engine, policy="verify", threshold=0.0, max_new_tokens=24)
    assert list(done.token_ids) == autoregressive(engine, 24)


def test_blocks_of_one_are_the_autoregressive_mode(engine: Engine) -> None:
    done = answer(engine, block_size=1, max_new_tokens=24)
    assert list(done.token_ids) == autoregressive(engine, 24)
    assert done.nfe_by_phase.get("denoise", 0) == 0
