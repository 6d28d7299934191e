"""Where a model runs: names that people type, and what they are told."""

import subprocess
import sys

import pytest
import torch

from dllm_tui.engine import device as devices
from dllm_tui.engine.device import pick_device, pick_dtype
from dllm_tui.errors import EngineError

CPU = torch.device("cpu")


def test_auto_is_what_the_machine_has():
    found = pick_device("auto")
    assert found.type == ("cuda" if torch.cuda.is_available() else "cpu")
    assert pick_dtype("auto", found) in {torch.float32, torch.bfloat16}
    assert pick_device("cpu") == CPU


@pytest.mark.parametrize("name", ["gpu", "", "cpu:x", "mps", "cuda:99"])
def test_devices_that_are_not_there_are_refused(name):
    with pytest.raises(EngineError) as told:
        pick_device(name)
    assert told.value.hint


@pytest.mark.parametrize(("name", "dtype"), [("fp32", torch.float32), ("bf16", torch.bfloat16)])
def test_dtypes_have_short_and_long_names(name, dtype):
    assert pick_dtype(name, CPU) == pick_dtype(str(dtype).removeprefix("torch."), CPU) == dtype


@pytest.mark.parametrize("name", ["int3", "float16"])
def test_dtypes_that_do_not_work_are_refused(name):
    with pytest.raises(EngineError, match=name):
        pick_dtype(name, CPU)


@pytest.mark.parametrize(("fast", "dtype"), [(True, torch.bfloat16), (False, torch.float32)])
def test_auto_takes_bfloat16_only_where_the_processor_computes_in_it(monkeypatch, fast, dtype):
    monkeypatch.setattr(devices, "cpu_has_bf16", lambda: fast)
    assert pick_dtype("auto", CPU) == dtype


def threads(code: str, **environment: str) -> list[int]:
    """What some code prints in a fresh interpreter that knows ``settled``."""
    code = f"""
import os, torch
from dllm_tui.engine.device import settle_threads

def settled(cores, processors):
    torch.set_num_threads(cores)
    os.cpu_count = lambda: processors
    settle_threads.cache_clear()
    settle_threads()
    return torch.get_num_threads()

{code}
"""
    done = subprocess.run(
        [sys.executable, "-c", code], check=True, timeout=120, stdout=-1, text=True, env=environment
    )
    return [int(line) for line in done.stdout.split()]


def test_threads_leave_the_interface_room():
    machines = {(1, 1): 1, (2, 2): 2, (4, 4): 3, (4, 8): 4, (64, 128): 16}
    found = threads(f"print(*(settled(*machine) for machine in {list(machines)}))")
    assert dict(zip(machines, found, strict=True)) == machines


def test_the_number_of_threads_that_a_person_asks_for_is_kept():
    assert threads("settle_threads(); print(torch.get_num_threads())", OMP_NUM_THREADS="1") == [1]
