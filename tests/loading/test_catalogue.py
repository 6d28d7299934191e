"""The catalogue: consistent with the families, and honest about memory."""

import sys
from subprocess import run

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dllm_tui.families import LAYOUTS, layout_for
from dllm_tui.families.catalogue import GIGABYTE, Entry, entries, find, fits, recommended, shortfall
from dllm_tui.families.layout import Config


@pytest.mark.parametrize("entry", entries()[1:], ids=lambda entry: entry.id)
def test_every_id_is_dispatched_to_its_family(entry: Entry) -> None:
    own = [layout for layout in LAYOUTS if layout.family.name == entry.family.name]
    config = Config({"architectures": [own[0].architectures[0]]})
    assert layout_for(config, entry.id).family.name == entry.family.name


def test_every_family_has_an_entry() -> None:
    assert {entry.family.name for entry in entries()} == {"smol", *(layout.family.name for layout in LAYOUTS)}
    assert len({entry.id for entry in entries()}) == len(entries())


def test_memory_is_the_weights_and_some_more() -> None:
    llada = find("gsai-ml/llada-8b-instruct")
    assert llada
    assert llada.size == "8B"
    assert 16 * GIGABYTE < llada.memory() < 20 * GIGABYTE
    assert llada.memory(4) > 32 * GIGABYTE
    mixture = find("inclusionAI/LLaDA2.1-mini")
    assert mixture
    assert mixture.size == "16B, 1.4B active"
    assert mixture.memory() > 32 * GIGABYTE
    assert find("nobody/nothing") is None


@pytest.mark.parametrize(
    ("gigabytes", "fast", "name"),
    [
        (1, False, "smol"),
        (4, False, "Efficient-Large-Model/Fast_dLLM_v2_1.5B"),
        (64, False, "inclusionAI/LLaDA2.1-mini"),
        (24, True, "JetLM/SDAR-8B-Chat"),
        (141, True, "JetLM/SDAR-30B-A3B-Chat"),
    ],
)
def test_recommendations(gigabytes: int, fast: bool, name: str) -> None:
    assert recommended(gigabytes * GIGABYTE, fast=fast).id == name


@given(st.integers(0, 400 * GIGABYTE), st.sampled_from([2, 4]))
def test_what_fits_fits_and_what_does_not_is_told(memory: int, width: int) -> None:
    fitting = fits(memory, width)
    for entry in entries():
        message = shortfall(entry, memory, width)
        assert (message == "") == (entry in fitting)
        if message:
            assert entry.id in message
            assert "GB more" in message
            assert "would fit" in message


def test_no_torch() -> None:
    code = "import sys, dllm_tui.families.catalogue; print('torch' in sys.modules)"
    assert run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "False\n"
