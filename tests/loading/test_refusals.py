"""What can be wrong with a checkpoint, and what is said about it: file and tensor or field by name."""

import json
import struct
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import load_file

from dllm_tui.engine.shards import Shard
from dllm_tui.errors import CheckpointError
from tests.loading.checkpoints import copied, edit_json, edit_tensors, load, refused, split

FIRST = "model.transformer.blocks.0.q_proj.weight"


@pytest.fixture
def llada(tmp_path: Path) -> Path:
    return copied("llada", tmp_path / "llada")


def weights(checkpoint: Path) -> Path:
    return checkpoint / "model.safetensors"


@pytest.mark.parametrize("backbone", ["lean", "stock"])
class TestTensors:
    """The same with both backbones, which read in different ways."""

    def test_missing(self, llada: Path, backbone: str) -> None:
        edit_tensors(weights(llada), lambda tensors: tensors.pop(FIRST))
        assert "model.layers.0.self_attn.q_proj.weight" in refused(llada, backbone=backbone)

    def test_unknown(self, llada: Path, backbone: str) -> None:
        edit_tensors(weights(llada), lambda tensors: tensors.update({"visitor.weight": torch.ones(2)}))
        assert "visitor.weight" in refused(llada, backbone=backbone)

    def test_wrong_shape(self, llada: Path, backbone: str) -> None:
        edit_tensors(weights(llada), lambda tensors: tensors.update({FIRST: torch.ones(48, 47)}))
        message = refused(llada, backbone=backbone)
        assert "q_proj.weight" in message
        assert "47" in message

    @pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
    def test_not_finite(self, llada: Path, backbone: str, value: float) -> None:
        edit_tensors(weights(llada), lambda tensors: tensors[FIRST].view(-1)[-1:].fill_(value))
        message = refused(llada, backbone=backbone)
        assert "model.safetensors" in message
        assert FIRST in message

    def test_tied_head_that_differs(self, llada: Path, backbone: str) -> None:
        edit_json(llada / "config.json", weight_tying=True)
        message = refused(llada, backbone=backbone)
        assert "model.transformer.ff_out.weight" in message
        assert "tie_word_embeddings" in message

    def test_tied_head_that_repeats_the_embedding_is_taken(self, llada: Path, backbone: str) -> None:
        def tie(tensors: dict[str, torch.Tensor]) -> None:
            tensors["model.transformer.ff_out.weight"] = tensors["model.transformer.wte.weight"].clone()

        edit_tensors(weights(llada), tie)
        untied = load(llada, backbone)
        edit_json(llada / "config.json", weight_tying=True)
        tied = load(llada, backbone)
        ids = torch.arange(8)
        assert torch.equal(tied.backbone.forward(ids, ids), untied.backbone.forward(ids, ids))
        assert tied.info.parameters == untied.info.parameters - 96 * 48


def test_experts_beyond_their_number(tmp_path: Path) -> None:
    moe = copied("llada_moe", tmp_path / "llada_moe")
    name = "model.layers.0.mlp.experts.8.down_proj.weight"
    edit_tensors(moe / "model.safetensors", lambda tensors: tensors.update({name: torch.ones(48, 24)}))
    assert name in refused(moe)


def test_one_expert_missing(tmp_path: Path) -> None:
    moe = copied("llada_moe", tmp_path / "llada_moe")
    edit_tensors(
        moe / "model.safetensors", lambda tensors: tensors.pop("model.layers.1.mlp.experts.3.up_proj.weight")
    )
    assert "a part of 'model.layers.1.mlp.experts.gate_up_proj'" in refused(moe)


class TestShards:
    def test_shards_are_one_model(self, llada: Path) -> None:
        ids = torch.arange(8)
        whole = load(llada).backbone.forward(ids, ids)
        split(llada)
        assert torch.equal(load(llada).backbone.forward(ids, ids), whole)

    def test_missing(self, llada: Path) -> None:
        split(llada)
        (llada / "model-00002-of-00002.safetensors").unlink()
        message = refused(llada)
        assert "model-00002-of-00002.safetensors is missing" in message
        assert "model.safetensors.index.json puts tensor 'model.transformer." in message

    def test_name_too_long_for_a_file(self, llada: Path) -> None:
        where = split(llada)
        where[FIRST] = "long" * 2000
        (llada / "model.safetensors.index.json").write_text(json.dumps({"weight_map": where}))
        message = refused(llada)
        assert "is missing" in message
        assert FIRST in message
        assert len(message) < 500

    @pytest.mark.parametrize("name", ["../outside.safetensors", "/etc/passwd", "sub/model.safetensors", ".."])
    def test_index_that_leads_elsewhere(self, llada: Path, name: str) -> None:
        where = split(llada)
        where[FIRST] = name
        (llada / "model.safetensors.index.json").write_text(json.dumps({"weight_map": where}))
        message = refused(llada)
        assert repr(name) in message
        assert FIRST in message

    def test_same_tensor_in_two(self, llada: Path) -> None:
        split(llada)
        file = llada / "model-00001-of-00002.safetensors"
        tensor = load_file(llada / "model-00002-of-00002.safetensors")
        edit_tensors(file, lambda tensors: tensors.update(dict([next(iter(tensor.items()))])))
        assert next(iter(tensor)) in refused(llada)


class TestFiles:
    def test_pickles_are_never_opened(self, llada: Path) -> None:
        weights(llada).rename(llada / "pytorch_model.bin")
        message = refused(llada)
        assert "pytorch_model.bin" in message
        assert "safetensors" in message

    def test_no_weights(self, llada: Path) -> None:
        weights(llada).unlink()
        assert "no weights" in refused(llada)

    @pytest.mark.parametrize("name", ["model.safetensors", "config.json", "tokenizer_config.json"])
    def test_link_that_leaves_the_directory(self, llada: Path, name: str) -> None:
        (llada / "tokenizer_config.json").write_text("{}")
        outside = llada.parent / name
        (llada / name).rename(outside)
        (llada / name).symlink_to(outside)
        assert f"{name} is a link that leads out of" in refused(llada)

    def test_links_of_the_hubs_cache_are_followed(self, tmp_path: Path) -> None:
        snapshot = tmp_path / "models--org--llada" / "snapshots" / "0123"
        copied("llada", snapshot)
        blobs = snapshot.parent.parent / "blobs"
        blobs.mkdir()
        for file in list(snapshot.iterdir()):
            file.rename(blobs / file.name)
            file.symlink_to(blobs / file.name)
        assert load(snapshot).family.name == "llada"

    def test_no_config(self, llada: Path) -> None:
        (llada / "config.json").unlink()
        assert "config.json is missing" in refused(llada)

    @pytest.mark.parametrize("text", ["", "{", "[]", '"text"', "nul", "[" * 100_000])
    def test_config_that_is_no_table(self, llada: Path, text: str) -> None:
        (llada / "config.json").write_text(text)
        assert "config.json" in refused(llada)


class TestBytes:
    """A safetensors file whose bytes lie."""

    def test_cut_short(self, llada: Path) -> None:
        whole = weights(llada).read_bytes()
        weights(llada).write_bytes(whole[:-1000])
        message = refused(llada)
        assert "model.safetensors is cut short" in message
        assert "tensor 'model." in message

    @pytest.mark.parametrize("claimed", [2**63 - 1, 2**64 - 1, 10**12, 100_000_001])
    def test_absurd_header(self, llada: Path, claimed: int) -> None:
        weights(llada).write_bytes(struct.pack("<Q", claimed) + b"{}")
        assert str(claimed) in refused(llada)

    @pytest.mark.parametrize(
        "entry",
        [
            {"dtype": "F32", "shape": [2, 2], "data_offsets": [0, 15]},
            {"dtype": "F32", "shape": [2, 2], "data_offsets": [16, 0]},
            {"dtype": "F32", "shape": [-2, -2], "data_offsets": [0, 16]},
            {"dtype": "F32", "shape": [2.0, 2], "data_offsets": [0, 16]},
            {"dtype": "F32", "shape": [True, 4], "data_offsets": [0, 16]},
            {"dtype": "F8_E4M3", "shape": [16], "data_offsets": [0, 16]},
            {"dtype": "F32", "shape": [2, 2]},
            {"shape": [2, 2], "data_offsets": [0, 16]},
            {"dtype": "F32", "shape": "22", "data_offsets": [0, 16]},
            [1, 2, 3],
            None,
        ],
    )
    def test_entry_that_cannot_be(self, tmp_path: Path, entry: object) -> None:
        header = json.dumps({"weight": entry}).encode()
        file = tmp_path / "model.safetensors"
        file.write_bytes(struct.pack("<Q", len(header)) + header + bytes(16))
        with pytest.raises(CheckpointError, match="'weight'"):
            Shard(file)

    def test_name_given_twice(self, tmp_path: Path) -> None:
        entry = b'{"dtype":"F32","shape":[1],"data_offsets":[0,4]}'
        header = b'{"w":' + entry + b',"w":' + entry + b"}"
        file = tmp_path / "model.safetensors"
        file.write_bytes(struct.pack("<Q", len(header)) + header + bytes(4))
        with pytest.raises(CheckpointError, match="twice"):
            Shard(file)

    @given(st.binary(max_size=200))
    def test_any_bytes_give_a_message_and_no_traceback(self, data: bytes) -> None:
        import tempfile

        with tempfile.NamedTemporaryFile(suffix=".safetensors") as file:
            file.write(data)
            file.flush()
            try:
                shard = Shard(Path(file.name))
            except CheckpointError:
                return
            for name in shard.entries:  # what is accepted can be read
                assert sum(len(rows) for _, rows in shard.pieces(name)) <= len(data)


class TestConfigs:
    """Variants that are not implemented are refused by the field that asks for them."""

    @pytest.mark.parametrize(
        ("family", "changes", "field"),
        [
            ("llada", {"block_type": "sequential"}, "block_type"),
            ("llada", {"activation_type": "swiglu"}, "activation_type"),
            ("llada", {"rope": False}, "rope"),
            ("llada", {"layer_norm_type": "default"}, "layer_norm_type"),
            ("llada", {"include_bias": True}, "include_bias"),
            ("llada", {"include_qkv_bias": True}, "include_qkv_bias"),
            ("llada", {"alibi": True}, "alibi"),
            ("llada", {"scale_logits": True}, "scale_logits"),
            ("llada", {"d_model": None}, "d_model"),
            ("llada", {"n_layers": "three"}, "n_layers"),
            ("llada", {"n_layers": -3}, "n_layers"),
            ("llada", {"rms_norm_eps": True}, "rms_norm_eps"),
            ("llada", {"rope_theta": 10**400}, "rope_theta"),
            ("llada", {"n_kv_heads": 3}, "n_kv_heads"),
            ("llada_moe", {"moe_router_score_function": "sigmoid"}, "moe_router_score_function"),
            ("llada_moe", {"shared_expert_intermediate_size": 24}, "shared_expert_intermediate_size"),
            ("llada_moe", {"qk_layernorm": False}, "qk_layernorm"),
            ("llada_moe", {"partial_rotary_factor": 0.5}, "partial_rotary_factor"),
            ("llada_moe", {"moe_layer_freq": [0, 1]}, "moe_layer_freq"),
            ("llada2", {"expert_capacity": 2}, "expert_capacity"),
            ("llada2", {"score_function": "softmax"}, "score_function"),
            ("llada2", {"norm_topk_prob": False}, "norm_topk_prob"),
            ("llada2", {"use_qkv_bias": True}, "use_qkv_bias"),
            ("llada2", {"moe_intermediate_size": None}, "moe_intermediate_size"),
            ("llada2", {"n_group": 8}, "n_group"),
            ("llada2", {"n_group": 3}, "n_group"),
            ("llada2", {"topk_group": 50}, "topk_group"),
            ("llada2", {"num_experts_per_tok": 50}, "num_experts_per_tok"),
            ("llada2", {"partial_rotary_factor": 1.5}, "partial_rotary_factor"),
            ("dream", {"use_sliding_window": True}, "use_sliding_window"),
            ("dream", {"hidden_act": "gelu"}, "hidden_act"),
            ("dream", {"rope_theta": None}, "rope_theta"),
            ("dream", {"rope_parameters": {"rope_type": "default"}}, "rope_theta"),
            ("dream", {"num_key_value_heads": 3}, "num_key_value_heads"),
            ("fast_dllm_v2", {"bd_size": None}, "bd_size"),
            ("sdar", {"attention_bias": True}, "attention_bias"),
            ("sdar", {"block_size": 0}, "block_size"),
            ("wedlm_qwen2", {"attention_bias": False}, "attention_bias"),
            ("a2d_mdlm", {"attention_bias": True}, "attention_bias"),
            ("stable_diffcoder", {"mlp_bias": True}, "mlp_bias"),
            ("rnd1", {"norm_topk_prob": False}, "norm_topk_prob"),
            ("rnd1", {"decoder_sparse_step": 2}, "decoder_sparse_step"),
            ("rnd1", {"mlp_only_layers": [0]}, "mlp_only_layers"),
            ("rnd1", {"num_experts_per_tok": 100}, "num_experts_per_tok"),
            ("mdlm", {"time_conditioning": True}, "time_conditioning"),
            ("bd3lm", {"adaln": False}, "adaln"),
            ("bd3lm", {"n_heads": 7}, "n_heads"),
            ("diffusion_gemma", {"canvas_length": None}, "canvas_length"),
            ("diffusion_gemma", {"text_config": None}, "text_config"),
        ],
    )
    def test_variant(self, tmp_path: Path, family: str, changes: dict[str, object], field: str) -> None:
        checkpoint = copied(family, tmp_path / family)
        edit_json(checkpoint / "config.json", **changes)
        message = refused(checkpoint)
        assert "config.json" in message
        assert field in message

    @pytest.mark.parametrize("architecture", ["LlamaForCausalLM", "Qwen3ForCausalLM", "GPT2LMHeadModel", ""])
    def test_not_a_diffusion_model(self, llada: Path, architecture: str) -> None:
        edit_json(llada / "config.json", architectures=[architecture])
        assert "is not a diffusion model that is known here" in refused(llada)

    @pytest.mark.parametrize("architectures", [None, [], "LLaDAModelLM", [7]])
    def test_no_architecture(self, llada: Path, architectures: object) -> None:
        edit_json(llada / "config.json", architectures=architectures)
        assert "config.json" in refused(llada)

    @pytest.mark.parametrize("token", [96, -1, "mask", 1.5])
    def test_mask_outside_the_vocabulary(self, llada: Path, token: object) -> None:
        edit_json(llada / "config.json", mask_token_id=token)
        message = refused(llada)
        assert "mask" in message
        assert repr(token) in message
