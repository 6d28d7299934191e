"""Families without golden numbers, held against transformers' own classes run in the plainest way.

Each test makes a tiny model of the class, saves its weights under the names and in the form that the
family's checkpoints have, loads that, and compares logits.
"""

import math
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from safetensors.torch import load_file
from torch import Tensor

from dllm_tui.engine.ddit import NoiseEmbedding
from dllm_tui.families.family import Attention
from tests.golden.cases import DATA
from tests.loading.checkpoints import copied, edit_tensors, load, refused, write

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
    "hidden_act": "silu",
}


def tiny(kind: str, **options: Any) -> Any:
    torch.manual_seed(7)
    cls = getattr(transformers, kind)
    network = cls(cls.config_class(**options, attn_implementation="eager")).eval()
    for parameter in network.parameters():  # norms too, so that every weight matters
        parameter.data.normal_(0.0, 0.2)
    return network


@torch.no_grad()
def plain(network: Any, ids: Tensor, mask: Tensor) -> Tensor:
    """Logits of the class itself, its mask additive."""
    blocked = torch.zeros(mask.shape).masked_fill(~mask, torch.finfo(torch.float32).min)
    return network(input_ids=ids[None], attention_mask=blocked[None, None], use_cache=False).logits[0]


IDS = torch.arange(3, 27)
EVERYWHERE = torch.ones(24, 24, dtype=torch.bool)


@pytest.mark.parametrize(
    ("architecture", "kind"),
    [
        ("A2DLlamaLMHeadModel", "LlamaForCausalLM"),
        ("A2DQwen2LMHeadModel", "Qwen2ForCausalLM"),
        ("A2DQwen3LMHeadModel", "Qwen3ForCausalLM"),
    ],
)
@pytest.mark.parametrize("backbone", ["lean", "stock"])
def test_a2d(tmp_path: Path, architecture: str, kind: str, backbone: Any) -> None:
    network = tiny(kind, **SIZES, tie_word_embeddings=True, rope_theta=1e4)
    config = {**SIZES, "architectures": [architecture], "rope_theta": 1e4, "tie_word_embeddings": True}
    tensors = {name: tensor for name, tensor in network.state_dict().items() if name != "lm_head.weight"}
    model = load(write(tmp_path / "tiny-mdlm", config, tensors), backbone)
    assert model.family.attention is Attention.FULL
    torch.testing.assert_close(
        model.backbone.forward(IDS, torch.arange(24)), plain(network, IDS, EVERYWHERE), atol=2e-4, rtol=0
    )


def test_sdar_moe(tmp_path: Path) -> None:
    experts = {"num_experts": 6, "num_experts_per_tok": 2, "moe_intermediate_size": 20}
    network = tiny("Qwen3MoeForCausalLM", **SIZES, **experts, norm_topk_prob=True, rope_theta=1e6)
    config = {
        **SIZES,
        **experts,
        "architectures": ["SDARMoeForCausalLM"],
        "model_type": "sdar_moe",
        "norm_topk_prob": True,
        "rope_theta": 1e6,
        "rope_scaling": None,
        "block_size": 8,
        "mask_token_id": 95,
    }
    tensors: dict[str, Tensor] = {}
    for name, tensor in network.state_dict().items():
        if name.endswith("experts.gate_up_proj"):
            for index, expert in enumerate(tensor):
                gate, up = expert.chunk(2)
                stem = f"{name.removesuffix('gate_up_proj')}{index}"
                tensors |= {f"{stem}.gate_proj.weight": gate, f"{stem}.up_proj.weight": up}
        elif name.endswith("experts.down_proj"):
            stem = name.removesuffix("down_proj")
            tensors |= {f"{stem}{index}.down_proj.weight": expert for index, expert in enumerate(tensor)}
        else:
            tensors[name] = tensor
    model = load(write(tmp_path / "SDAR-tiny-b8", config, tensors))
    assert (model.family.name, model.family.grid, model.family.defaults.block_size) == ("sdar-moe", 8, 8)
    torch.testing.assert_close(
        model.backbone.forward(IDS, torch.arange(24)), plain(network, IDS, EVERYWHERE), atol=2e-4, rtol=0
    )


ROPE = {
    "rope_type": "yarn",
    "rope_theta": 1e4,
    "factor": 16.0,
    "original_max_position_embeddings": 16,
    "beta_fast": 32.0,
    "beta_slow": 1.0,
    "mscale": 1.0,
    "mscale_all_dim": 1.0,
    "llama_4_scaling_beta": 0.1,
}


@pytest.mark.parametrize("rope", [ROPE, {"rope_type": "default", "rope_theta": 1e4}])
def test_nemotron(tmp_path: Path, rope: dict[str, Any]) -> None:
    """YaRN and the growing query scale too: the ids reach past the original context of 16."""
    needed = {"llama_4_scaling_beta": 0.0, "original_max_position_embeddings": 256}
    network = tiny("Ministral3ForCausalLM", **SIZES, rope_parameters={**needed, **rope})
    config = {
        **SIZES,
        "architectures": ["NemotronLabsDiffusionModel"],
        "model_type": "nemotron_labs_diffusion",
        "rope_parameters": rope,
        "block_size": 8,
        "mask_token_id": 90,
        "tie_word_embeddings": False,
    }
    tensors = {
        "diffusion_head.weight" if name == "lm_head.weight" else name.replace("model.", "encoder.", 1): tensor
        for name, tensor in network.state_dict().items()
    }
    model = load(write(tmp_path / "nemotron", config, tensors))
    places = torch.arange(24)
    both_ways = plain(network, IDS, EVERYWHERE)
    torch.testing.assert_close(model.backbone.forward(IDS, places), both_ways, atol=2e-4, rtol=0)
    causal = plain(network, IDS, EVERYWHERE.tril())
    torch.testing.assert_close(model.backbone.forward(IDS, places, causal=True), causal, atol=2e-4, rtol=0)
    assert model.family.two_streams
    assert "verify" in model.family.policies
    assert model.family.notice


@pytest.mark.parametrize("tied", [True, False])
def test_modern_bert(tmp_path: Path, tied: bool) -> None:
    """Windows included: the sequence is longer than the local attention's reach."""
    config: dict[str, Any] = {
        "vocab_size": 96,
        "hidden_size": 48,
        "intermediate_size": 64,
        "num_hidden_layers": 4,
        "num_attention_heads": 4,
        "max_position_embeddings": 256,
        "local_attention": 8,
        "global_attn_every_n_layers": 3,
        "pad_token_id": 0,
        "tie_word_embeddings": tied,
    }
    network = tiny("ModernBertForMaskedLM", **config)
    with torch.no_grad():
        expected = network(input_ids=IDS[None]).logits[0]
    tensors = {
        name: tensor
        for name, tensor in network.state_dict().items()
        if not (tied and name == "decoder.weight")
    }
    config |= {"architectures": ["ModernBertForMaskedLM"], "global_rope_theta": 160000.0}
    model = load(write(tmp_path / "ModernBERT-chat", config, tensors))
    torch.testing.assert_close(model.backbone.forward(IDS, torch.arange(24)), expected, atol=2e-4, rtol=0)
    rows = torch.tensor([2, 20])
    torch.testing.assert_close(
        model.backbone.forward(IDS, torch.arange(24), rows=rows), expected[rows], atol=2e-4, rtol=0
    )


def sedd_config(**changes: Any) -> dict[str, Any]:
    model = {
        "hidden_size": 48,
        "cond_dim": 24,
        "length": 18,
        "n_blocks": 2,
        "n_heads": 4,
        "scale_by_sigma": True,
        **changes,
    }
    return {"model": model, "tokens": 65, "graph": {"type": "absorb"}}


def test_sedd_is_mdlms_network_read_as_ratios(tmp_path: Path) -> None:
    """The golden MDLM checkpoint in SEDD's form: at sigma 0 its logits are known."""
    named = {
        name.removeprefix("backbone."): tensor
        for name, tensor in load_file(DATA / "mdlm" / "model.safetensors").items()
    }
    mdlm = load(DATA / "mdlm").backbone
    ids = torch.tensor([65, 3, 65, 7])
    places = torch.arange(4)
    logits = mdlm.forward(ids, places)

    plain_model = load(write(tmp_path / "sedd-plain", sedd_config(scale_by_sigma=False), named))
    assert (plain_model.family.name, plain_model.mask_id) == ("sedd", 65)
    score = plain_model.backbone.forward(ids, places)
    own = torch.zeros(4, 66, dtype=torch.bool).scatter(1, ids[:, None], True)
    assert (score[own] == 0).all()
    torch.testing.assert_close(score[~own], logits[~own])

    sigma = torch.tensor(0.7)
    scaled = load(write(tmp_path / "sedd-scaled", sedd_config(), named)).backbone
    ratio = scaled.forward(ids, places, condition=sigma) - plain_model.backbone.forward(
        ids, places, condition=sigma
    )
    expected = -math.log(math.exp(0.7) - 1) - math.log(65)
    torch.testing.assert_close(ratio[~own], torch.full_like(ratio[~own], expected))
    assert not torch.allclose(plain_model.backbone.forward(ids, places, condition=sigma), score)


def test_noise_embedding_is_sines_and_cosines() -> None:
    embedding = NoiseEmbedding(6)
    waves: list[Tensor] = []
    embedding.mlp[0].register_forward_pre_hook(lambda _, inputs: waves.append(inputs[0]))
    embedding(torch.tensor(0.5))
    frequencies = [10_000 ** (-step / 128) for step in range(128)]
    expected = [math.cos(0.5 * f) for f in frequencies] + [math.sin(0.5 * f) for f in frequencies]
    torch.testing.assert_close(waves[0], torch.tensor(expected))


class TestDiffusionGemmaFiles:
    """Encoder and decoder are one set of weights: a file may name it by either, or both."""

    IDS = torch.arange(8)

    def logits(self, path: Path) -> Tensor:
        network = load(path).backbone
        cache = network.new_cache(8)
        network.forward(self.IDS + 20, self.IDS, cache=cache, write_at=0)
        return network.forward(self.IDS, self.IDS + 8, noised=True, cache=cache)

    @staticmethod
    def by_encoder(tensors: dict[str, Tensor], *, only: bool) -> None:
        for name in list(tensors):
            shared = name.startswith("model.decoder.") and "self_conditioning" not in name
            if shared and not name.endswith("layer_scalar"):
                value = tensors.pop(name) if only else tensors[name].clone()
                tensors[name.replace("model.decoder.", "model.encoder.language_model.")] = value

    @pytest.mark.parametrize("only", [True, False])
    def test_either_name(self, tmp_path: Path, only: bool) -> None:
        checkpoint = copied("diffusion_gemma", tmp_path / "gemma")
        expected = self.logits(checkpoint)
        edit_tensors(checkpoint / "model.safetensors", lambda tensors: self.by_encoder(tensors, only=only))
        assert torch.equal(self.logits(checkpoint), expected)

    def test_names_that_disagree(self, tmp_path: Path) -> None:
        checkpoint = copied("diffusion_gemma", tmp_path / "gemma")

        def spoil(tensors: dict[str, Tensor]) -> None:
            self.by_encoder(tensors, only=False)
            tensors["model.encoder.language_model.layers.1.self_attn.q_proj.weight"] += 1

        edit_tensors(checkpoint / "model.safetensors", spoil)
        assert "differs from" in refused(checkpoint)

    def test_head_that_repeats_the_embedding(self, tmp_path: Path) -> None:
        checkpoint = copied("diffusion_gemma", tmp_path / "gemma")
        table = "model.decoder.embed_tokens.weight"
        edit_tensors(
            checkpoint / "model.safetensors",
            lambda tensors: tensors.update({"lm_head.weight": tensors[table].clone()}),
        )
        assert torch.equal(self.logits(checkpoint), self.logits(DATA / "diffusion_gemma"))
