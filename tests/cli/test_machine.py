"""What this machine can hold, found out without torch."""

from importlib import metadata
from pathlib import Path

import pytest

from dllm_tui.cli import machine
from dllm_tui.cli.machine import this_machine
from dllm_tui.families.catalogue import find

GIB = 2**30


@pytest.fixture
def gpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine with two GPUs; its value is the program that tells of them."""
    program = tmp_path / "nvidia-smi"
    program.write_text("#!/bin/sh\necho '24576, NVIDIA A'\necho '49152, NVIDIA B'\n")
    program.chmod(0o700)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.setattr(metadata, "version", lambda _name: "2.13.0")
    machine._gpus.cache_clear()
    return program


@pytest.fixture(autouse=True)
def forgotten() -> None:
    machine._gpus.cache_clear()


def test_several_gpus_hold_more_than_one(gpus: Path):
    both = this_machine()
    assert (both.name, both.fast, both.bytes_per_weight) == ("2 × NVIDIA A", True, 2)
    assert both.memory == pytest.approx(0.9 * 72 * GIB, abs=2)
    assert both.largest == pytest.approx(0.9 * 48 * GIB, abs=1)
    mixture, whole = find("JetLM/SDAR-30B-A3B-Chat"), find("google/diffusiongemma-26B-A4B-it")
    assert mixture
    assert whole
    assert not both.missing(mixture)
    assert both.missing(whole)  # it isn't spread, and neither holds it alone


def test_one_of_several(gpus: Path):
    assert this_machine("cuda:1").name == "NVIDIA B"
    assert this_machine("cuda:1", "float32").bytes_per_weight == 4
    assert not this_machine("cpu").fast


def test_fewer_bits_need_less_on_one_gpu(gpus: Path):
    dense, mixture = find("GSAI-ML/LLaDA-8B-Instruct"), find("JetLM/SDAR-30B-A3B-Chat")
    assert dense
    assert mixture
    needs = [this_machine(dtype=dtype).needs(dense) for dtype in ("float32", "bf16", "int8", "int4")]
    assert needs == sorted(needs, reverse=True)
    assert 5e9 < needs[-1] < 8e9
    small = this_machine(dtype="int4")
    assert small.needs(mixture) == this_machine().needs(mixture)
    assert small.memory == small.largest  # what is quantised isn't spread


@pytest.mark.parametrize(
    ("visible", "name"), [("1", "NVIDIA B"), ("", "the processor"), ("-1", "the processor")]
)
def test_hidden_gpus_are_not_counted(gpus: Path, monkeypatch: pytest.MonkeyPatch, visible: str, name: str):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    assert this_machine().name == name


@pytest.mark.parametrize("program", ["#!/bin/sh\nexit 9\n", "#!/bin/sh\necho No devices were found\n"])
def test_a_driver_that_says_nothing_is_no_gpu(gpus: Path, program: str):
    gpus.write_text(program)
    assert not this_machine().fast


def test_torch_without_cuda_uses_no_gpu(gpus: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(metadata, "version", lambda _name: "2.13.0+cpu")
    assert not this_machine().fast


def test_a_container_has_what_it_may_use(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    limits = tmp_path / "memory.max", tmp_path / "none"
    monkeypatch.setattr(machine, "CGROUP_LIMITS", limits)
    limits[0].write_text("max\n")
    whole = this_machine("cpu").memory
    limits[0].write_text("1000000000\n")
    assert this_machine("cpu").memory == 900_000_000 < whole
