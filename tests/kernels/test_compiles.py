"""The interpreter takes more than the compiler does: the kernels must become machine code, GPU or not."""

import os
import subprocess
import sys

import pytest

SCRIPT = """
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from dllm_kernels import block_attention_triton, confidence_triton

TYPES = {"p16": "*bf16", "p32": "*fp32", "i32": "*i32", "i64": "*i64", "int": "i32", "float": "fp32"}

def build(kernel, kinds, **constants):
    names = [name for name in kernel.arg_names if name not in constants]
    assert len(names) == len(kinds), names
    signature = {name: TYPES[kind] for name, kind in zip(names, kinds)}
    signature |= dict.fromkeys(constants, "constexpr")
    triton.compile(ASTSource(kernel, signature=signature, constexprs=constants), target=TARGET)

TARGET = GPUTarget("cuda", 90, 32)
spans = ["p16", "i64", "p32", "i32", "int", "int", "int", "int"]
build(confidence_triton._reduce_spans, spans, BANNED=2, SPAN=4096, TILE=1024, FIELDS=5)
build(confidence_triton._join_spans, ["p32", "i32", "i64", "p32", "int", "int"], SPANS=16, FIELDS=5)
splits = ["p16", "p16", "p16", "i32", "p32", "p32", "float", *["int"] * 9]
build(block_attention_triton._attend_splits, splits, ROWS=32, KEYS=64, WIDTH=64, WIDTH_TILE=64)
join = ["p32", "p32", "p16", "int", "int", "int"]
build(block_attention_triton._join_splits, join, SPLITS=32, WIDTH=64, WIDTH_TILE=64)
"""


def test_kernels_compile_for_an_h100(tmp_path):
    pytest.importorskip("triton")
    env = os.environ | {"TRITON_INTERPRET": "0", "TRITON_CACHE_DIR": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], env=env, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
