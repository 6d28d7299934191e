"""GGUF files: what is read is what was written, and a damaged file says so."""

import struct
from pathlib import Path

import pytest
import torch
from gguf import GGUFReader
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dllm_tui.engine.gguf import GGUF
from dllm_tui.errors import CheckpointError


def test_tensors_come_back_under_their_hugging_face_names(tiny_gguf: Path, weights: dict[str, torch.Tensor]):
    read = dict(GGUF(tiny_gguf).tensors())
    assert read.keys() == weights.keys()
    for name, tensor in weights.items():
        tolerance = 0.01 if tensor.ndim == 2 else 0.0  # Q8_0 rounds to 1/127 of a block's largest
        torch.testing.assert_close(read[name], tensor, atol=tolerance, rtol=0)


def test_header_agrees_with_the_reader_of_the_gguf_package(tiny_gguf: Path):
    ours, theirs = GGUF(tiny_gguf), GGUFReader(tiny_gguf)
    fields = {k: f.contents() for k, f in theirs.fields.items() if not k.startswith("GGUF.")}
    assert ours.metadata == fields
    for tensor in theirs.tensors:
        entry = ours.entries[tensor.name]
        assert (entry.start, entry.size) == (tensor.data_offset, tensor.n_bytes)
        assert entry.shape == tuple(reversed(tensor.shape.tolist()))


def test_geometry(tiny_gguf: Path):
    geometry = GGUF(tiny_gguf).geometry()
    assert (geometry.heads, geometry.kv_heads, geometry.head_dim) == (4, 2, 16)
    assert geometry.tied_head
    assert not geometry.qkv_bias
    assert geometry.context_length == 128


@pytest.mark.parametrize("keep", [0, 3, 4, 20, 200, 2000, -1, -4000])
def test_truncated(tiny_gguf: Path, keep: int):
    whole = tiny_gguf.read_bytes()
    tiny_gguf.write_bytes(whole[:keep])
    with pytest.raises(CheckpointError, match=r"tiny\.gguf"):
        GGUF(tiny_gguf)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_any_damage_is_told_or_harmless(tiny_gguf: Path, data: st.DataObject):
    """Flip bytes anywhere in the header: it loads, or it fails in words; never another exception."""
    whole = bytearray(tiny_gguf.read_bytes())
    for _ in range(data.draw(st.integers(1, 4))):
        whole[data.draw(st.integers(0, 3000))] = data.draw(st.integers(0, 255))
    damaged = tiny_gguf.with_name("damaged.gguf")
    damaged.write_bytes(whole)
    try:
        file = GGUF(damaged)
        geometry = file.geometry()
        for _ in file.tensors():
            pass
        assert geometry.hidden_size > 0
    except CheckpointError as error:
        assert error.message


def test_a_list_that_claims_too_much_allocates_nothing(tmp_path: Path):
    path = tmp_path / "big.gguf"
    key = b"general.architecture"
    header = b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + struct.pack("<Q", len(key)) + key
    path.write_bytes(header + struct.pack("<IIQ", 9, 4, 1 << 60))
    with pytest.raises(CheckpointError, match="claims"):
        GGUF(path)


def test_values_that_are_no_numbers(tiny_gguf: Path):
    whole = bytearray(tiny_gguf.read_bytes())
    entry = GGUF(tiny_gguf).entries["output_norm.weight"]
    whole[entry.start : entry.start + 4] = struct.pack("<f", float("nan"))
    tiny_gguf.write_bytes(whole)
    with pytest.raises(CheckpointError, match=r"output_norm\.weight.*NaN"):
        dict(GGUF(tiny_gguf).tensors())


def test_not_a_gguf_file(tmp_path: Path):
    path = tmp_path / "text.gguf"
    path.write_text("hello, this is no model at all")
    with pytest.raises(CheckpointError, match="doesn't begin with"):
        GGUF(path)
    with pytest.raises(CheckpointError, match="can't be read"):
        GGUF(tmp_path / "missing.gguf")
