"""All backbones behind one interface: the same numbers with and without a cache, lean or stock."""

from functools import cache as remembered

import pytest
import torch
from torch import Tensor

from dllm_tui.engine.attention import block_mask
from dllm_tui.engine.backbone import Backbone
from tests.golden.cases import DATA
from tests.loading.checkpoints import load

DENSE = ["llada", "dream", "sdar", "fast_dllm_v2", "wedlm", "wedlm_qwen2", "stable_diffcoder", "a2d_mdlm"]
CACHED = [*DENSE, "llada_moe", "llada2", "rnd1", "bd3lm", "mdlm"]
IDS = torch.arange(2, 26)
PLACES = torch.arange(24)


@remembered
def backbone(family: str, choice: str) -> Backbone:
    return load(DATA / family, choice).backbone  # pyright: ignore[reportArgumentType]


def close(left: Tensor, right: Tensor) -> None:
    torch.testing.assert_close(left, right, atol=5e-5, rtol=0)


@pytest.mark.parametrize("choice", ["auto", "stock"])
@pytest.mark.parametrize("family", CACHED)
class TestCache:
    def test_blocks_one_by_one_are_the_whole(self, family: str, choice: str) -> None:
        network = backbone(family, choice)
        whole = network.forward(IDS, PLACES, mask=block_mask(24, 8))
        cache = network.new_cache(24)
        for start in (0, 8, 16):
            span = slice(start, start + 8)
            close(network.forward(IDS[span], PLACES[span], cache=cache, write_at=start), whole[span])
        assert cache.length == 24

    def test_a_look_leaves_no_trace(self, family: str, choice: str) -> None:
        network = backbone(family, choice)
        cache = network.new_cache(24)
        network.forward(IDS[:16], PLACES[:16], cache=cache, write_at=0)
        block = {"ids": IDS[16:], "positions": PLACES[16:], "cache": cache}
        first = network.forward(**block)
        network.forward(IDS[:8] + 30, PLACES[16:], cache=cache)
        network.forward(IDS[:8] + 30, PLACES[8:16], cache=cache, context=8)
        close(network.forward(**block), first)
        assert cache.length == 16

    def test_causal_behind_a_context(self, family: str, choice: str) -> None:
        network = backbone(family, choice)
        whole = network.forward(IDS, PLACES, causal=True)
        cache = network.new_cache(24)
        network.forward(IDS[:10], PLACES[:10], cache=cache, write_at=0, causal=True, rows=slice(0, 0))
        close(network.forward(IDS[10:], PLACES[10:], cache=cache, causal=True), whole[10:])

    def test_truncated_slots_are_forgotten(self, family: str, choice: str) -> None:
        network = backbone(family, choice)
        cache = network.new_cache(24)
        network.forward(IDS[:8], PLACES[:8], cache=cache, write_at=0)
        expected = network.forward(IDS[16:], PLACES[16:], cache=cache)
        network.forward(IDS[8:16], PLACES[8:16], cache=cache, write_at=8)
        cache.truncate(8)
        close(network.forward(IDS[16:], PLACES[16:], cache=cache), expected)

    def test_slots_in_the_middle_are_written(self, family: str, choice: str) -> None:
        """The dual cache: a block's new keys and values replace its old ones, and nothing else."""
        network = backbone(family, choice)
        cache = network.new_cache(48)
        network.forward(IDS, PLACES, cache=cache, write_at=0)
        mask = torch.ones(8, 32, dtype=torch.bool)
        mask[:, 8:16] = False  # the block's old slots
        block = {"positions": PLACES[8:16], "cache": cache, "mask": mask, "write_at": 8}
        look = {"ids": IDS[:8], "positions": PLACES[:8] + 24, "cache": cache}
        before = network.forward(**look)
        network.forward(IDS[8:16], **block)  # the same again
        close(network.forward(**look), before)
        network.forward(IDS[8:16] + 40, **block)
        assert not torch.allclose(network.forward(**look), before, atol=1e-3)
        assert cache.length == 24
        network.forward(IDS[8:16], **block)
        close(network.forward(**look), before)

    def test_rows(self, family: str, choice: str) -> None:
        network = backbone(family, choice)
        whole = network.forward(IDS, PLACES)
        assert whole.dtype == torch.float32
        close(network.forward(IDS, PLACES, rows=torch.tensor([3, 0, 23])), whole[[3, 0, 23]])
        close(network.forward(IDS, PLACES, rows=slice(-1, None)), whole[-1:])
        assert network.forward(IDS, PLACES, rows=slice(0, 0)).shape == (0, network.vocab_size)


@pytest.mark.parametrize("family", DENSE)
def test_lean_and_stock_agree(family: str) -> None:
    lean, stock = backbone(family, "lean"), backbone(family, "stock")
    assert type(lean) is not type(stock)
    assert (lean.vocab_size, lean.context_length) == (stock.vocab_size, stock.context_length)
    generator = torch.Generator().manual_seed(3)
    ids = torch.randint(lean.vocab_size, (24,), generator=generator)
    places = torch.randperm(400, generator=generator)[:24]  # any positions, in any order
    mask = torch.rand(24, 24, generator=generator) < 0.5
    mask.fill_diagonal_(True)
    for options in ({}, {"causal": True}, {"mask": mask}):
        close(lean.forward(ids, places, **options), stock.forward(ids, places, **options))


class TestCanvas:
    def test_two_canvases_with_and_without_cache(self) -> None:
        """What the encoder wrote is what it would write again, windows of 16 included."""
        network = backbone("diffusion_gemma", "auto")
        prompt, first, second = torch.arange(20), torch.arange(40, 48), torch.arange(60, 68)
        kept = network.new_cache(64)
        network.forward(prompt, torch.arange(20), cache=kept, write_at=0)
        network.forward(first, torch.arange(20, 28), cache=kept, write_at=20)
        at_once = network.new_cache(64)
        network.forward(torch.cat((prompt, first)), torch.arange(28), cache=at_once, write_at=0)
        places = torch.arange(28, 36)
        logits = network.forward(second, places, noised=True, cache=kept)
        close(logits, network.forward(second, places, noised=True, cache=at_once))
        assert kept.length == 28
        kept.truncate(20)
        without = network.forward(second, places - 8, noised=True, cache=kept)
        assert not torch.allclose(without, logits)

    def test_condition_changes_what_it_sees(self) -> None:
        network = backbone("diffusion_gemma", "auto")
        cache = network.new_cache(16)
        network.forward(torch.arange(4), torch.arange(4), cache=cache, write_at=0)
        canvas = {"ids": torch.arange(8), "positions": torch.arange(4, 12), "noised": True, "cache": cache}
        first = network.forward(**canvas)
        assert not torch.allclose(network.forward(**canvas, condition=first / 0.8), first)

    def test_what_it_cannot_do(self) -> None:
        network = backbone("diffusion_gemma", "auto")
        with pytest.raises(ValueError, match="without a mask"):
            network.forward(IDS, PLACES, mask=torch.ones(24, 24, dtype=torch.bool))
        with pytest.raises(ValueError, match="the canvas nowhere"):
            network.forward(IDS, PLACES, noised=True, cache=network.new_cache(24), write_at=0)
