"""Which family a checkpoint is of, and which ids steer its decoding."""

import json
import string
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from tokenizers import Tokenizer, decoders, models, pre_tokenizers

from dllm_tui.engine import Engine
from dllm_tui.errors import CheckpointError, EngineError
from dllm_tui.families import LAYOUTS, layout_for
from dllm_tui.families.catalogue import FAMILIES
from dllm_tui.families.family import Attention, Noise
from dllm_tui.families.layout import Config
from dllm_tui.knobs import KNOBS, POLICIES
from dllm_tui.session import Message
from tests.golden.cases import DATA
from tests.loading.checkpoints import copied, edit_json, load, refused


def config_of(architecture: str, **fields: object) -> Config:
    return Config({"architectures": [architecture], **fields})


@pytest.mark.parametrize(
    ("architecture", "name", "family"),
    [
        ("LLaDAModelLM", "GSAI-ML/LLaDA-8B-Instruct", "llada"),
        ("LLaDAMoEModelLM", "inclusionAI/LLaDA-MoE-7B-A1B-Instruct", "llada-moe"),
        ("LLaDA2MoeModelLM", "inclusionAI/LLaDA2.0-mini", "llada2"),
        ("LLaDA2MoeModelLM", "inclusionAI/LLaDA2.0-flash-CAP", "llada2"),
        ("LLaDA2MoeModelLM", "inclusionAI/LLaDA2.1-mini", "llada2.1"),
        ("LLaDA2MoeModelLM", "inclusionAI/LLaDA2.2-flash", "llada2.2"),
        ("LLaDA2MoeModelLM", "my-finetune", "llada2"),
        ("DreamModel", "Dream-org/Dream-v0-Instruct-7B", "dream"),
        ("DreamModel", "apple/DiffuCoder-7B-cpGRPO", "diffucoder"),
        ("Fast_dLLM_QwenForCausalLM", "Efficient-Large-Model/Fast_dLLM_v2_1.5B", "fast-dllm-v2"),
        ("SDARForCausalLM", "JetLM/SDAR-1.7B-Chat", "sdar"),
        ("SDARMoeForCausalLM", "JetLM/SDAR-30B-A3B-Chat", "sdar-moe"),
        ("WeDLMForCausalLM", "tencent/WeDLM-8B-Instruct", "wedlm"),
        ("StableDiffcoderForCausalLM", "ByteDance-Seed/Stable-DiffCoder-8B-Instruct", "stable-diffcoder"),
        ("RND1LM", "radicalnumerics/RND1-Base-0910", "rnd1"),
        ("A2DQwen3LMHeadModel", "dllm-hub/Qwen3-0.6B-diffusion-mdlm-v0.1", "a2d-mdlm"),
        ("A2DQwen3LMHeadModel", "dllm-hub/Qwen3-0.6B-diffusion-bd3lm-v0.1", "a2d-bd3lm"),
        ("ModernBertForMaskedLM", "dllm-hub/ModernBERT-base-chat-v0.1", "bert-chat"),
        ("DiffusionGemmaForBlockDiffusion", "google/diffusiongemma-26B-A4B-it", "diffusion-gemma"),
        ("NemotronLabsDiffusionModel", "nvidia/Nemotron-Labs-Diffusion-8B", "nemotron"),
        ("BD3LM", "kuleshov-group/bd3lm-owt-block_size16", "bd3lm"),
        ("MDLM", "kuleshov-group/mdlm-owt", "mdlm"),
        ("MDLM", "kuleshov-group/sedd-noeos-owt", "sedd"),
    ],
)
def test_family_by_architecture_and_name(architecture: str, name: str, family: str) -> None:
    assert layout_for(config_of(architecture), name).family.name == family


def test_family_by_config_where_the_name_says_nothing() -> None:
    marked = config_of("LLaDA2MoeModelLM", delete_token_id=156930)
    assert layout_for(marked, "my-finetune").family.name == "llada2.2"
    assert layout_for(Config({"graph": {"type": "absorb"}}), "my-finetune").family.name == "sedd"


def test_model_type_alone_decides_nothing() -> None:
    """Stable-DiffCoder says ``llama``, LLaDA-MoE says ``llada``."""
    assert (
        layout_for(config_of("StableDiffcoderForCausalLM", model_type="llama")).family.name
        == "stable-diffcoder"
    )
    assert layout_for(config_of("LLaDAMoEModelLM", model_type="llada")).family.name == "llada-moe"


def test_a_person_may_know_better() -> None:
    config = config_of("LLaDA2MoeModelLM")
    assert layout_for(config, "my-finetune", "llada2.1").family.name == "llada2.1"
    with pytest.raises(Exception, match="or not as 'sdar'"):
        layout_for(config, "my-finetune", "sdar")


@pytest.mark.parametrize(
    "layout", LAYOUTS, ids=lambda layout: f"{layout.family.name}-{layout.architectures[0]}"
)
def test_declarations_are_consistent(layout) -> None:
    family = layout.family
    assert family.policies
    assert set(family.policies) <= POLICIES.keys()
    assert family.defaults.policy in family.policies
    assert family.fixed_knobs.keys() <= KNOBS.keys()
    assert all(reason.endswith((".", ":")) for reason in family.fixed_knobs.values())
    assert family.licence
    assert 60 < len(family.explanation) < 600
    assert family.shift in {0, 1}
    assert (family.noise is Noise.UNIFORM) == (family.attention is Attention.ENCODER_CANVAS)
    assert not family.grid or family.grid % family.defaults.block_size == 0


def test_knobs_that_nothing_reads_are_not_offered() -> None:
    """Insertion and deletion are a state machine of their own, which knows two thresholds."""
    family = FAMILIES["llada2.2"]
    assert family.policies == ("confidence",)
    free = KNOBS.keys() - family.fixed_knobs.keys()
    assert free == {"threshold", "edit_threshold", "policy", "max_new_tokens", "cache", "cfg_scale"}


@pytest.mark.parametrize(
    ("family", "caches"),
    [
        ("llada", ("auto", "none", "prefix", "dual")),
        ("sdar", ("auto", "exact")),
        ("fast-dllm-v2", ("auto", "exact", "dual")),
        ("nemotron", ("auto", "exact")),
        ("wedlm", ("auto", "exact")),
        ("diffusion-gemma", ("auto", "exact")),
    ],
)
def test_approximate_caches_are_off_unless_asked_for(family: str, caches: tuple[str, ...]) -> None:
    assert FAMILIES[family].caches == caches
    assert FAMILIES[family].defaults.cache == "auto"


def test_restricted_licences_say_so() -> None:
    noticed = {layout.family.name for layout in LAYOUTS if layout.family.notice}
    assert noticed == {"wedlm", "diffucoder", "nemotron"}


@pytest.mark.parametrize(
    ("family", "mask", "stops", "pad"),
    [
        ("llada", 95, {92}, 92),
        ("dream", 93, {90}, 90),
        ("sdar", 98, {92, 93}, 92),
        ("wedlm", 97, {92}, 93),
        ("stable_diffcoder", 5, {92}, 1),
        ("rnd1", 94, {90}, 89),
        ("mdlm", 65, set(), None),
        ("bd3lm", 65, set(), None),
        ("diffusion_gemma", None, {1, 7}, 0),
        ("llada2", None, set(), 91),  # neither config nor tokenizer: the reference is told
    ],
)
def test_ids_from_configs(family: str, mask: int | None, stops: set[int], pad: int | None) -> None:
    model = load(DATA / family)
    assert (model.mask_id, model.stop_ids, model.pad_id) == (mask, frozenset(stops), pad)


def test_without_a_mask_nothing_is_generated() -> None:
    with pytest.raises(EngineError, match="which of its tokens is the mask"):
        next(Engine(load(DATA / "llada2")).generate([1]))


def test_ids_that_cannot_be_are_left_out(tmp_path: Path) -> None:
    checkpoint = copied("llada", tmp_path / "LLaDA-tiny")
    edit_json(checkpoint / "config.json", pad_token_id=-1, eos_token_id=[92, 4000, "end", [1]])
    model = load(checkpoint)
    assert (model.stop_ids, model.pad_id) == (frozenset({92}), None)


@pytest.mark.parametrize(
    ("family", "block"), [("sdar", 4), ("fast_dllm_v2", 32), ("bd3lm", 4), ("diffusion_gemma", 8)]
)
def test_block_from_configs(family: str, block: int) -> None:
    assert load(DATA / family).family.grid == block


def test_block_of_a_variant(tmp_path: Path) -> None:
    checkpoint = copied("sdar", tmp_path / "SDAR-1.7B-Chat-b32")
    edit_json(checkpoint / "config.json", block_size=32)
    family = load(checkpoint).family
    assert (family.grid, family.defaults.block_size, family.defaults.steps) == (32, 32, 32)


@pytest.mark.parametrize(("name", "block"), [("SDAR-1.7B-Chat", 4), ("SDAR-8B-Chat-b16", 16)])
def test_sdar_whose_config_names_no_block_goes_by_its_name(tmp_path: Path, name: str, block: int) -> None:
    checkpoint = copied("sdar", tmp_path / name)
    edit_json(checkpoint / "config.json", block_size=None)
    family = load(checkpoint).family
    assert (family.grid, family.defaults.block_size) == (block, block)


def add_tokenizer(checkpoint: Path, tokens: Mapping[str, int], template: str | None = None) -> None:
    """A byte-level tokenizer with these control tokens, at these ids."""
    alphabet = [*string.ascii_letters, *"!?.,:<>[]|/_-ĠĊ"]
    vocabulary = {**{token: i for i, token in enumerate(alphabet)}, **tokens}
    backend = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    backend.add_special_tokens(list(tokens))
    backend.save(str(checkpoint / "tokenizer.json"))
    (checkpoint / "tokenizer_config.json").write_text(json.dumps({"chat_template": template}))


class TestTokenizers:
    def test_mask_and_stops_by_name(self, tmp_path: Path) -> None:
        checkpoint = copied("llada2", tmp_path / "LLaDA2.0-tiny")
        add_tokenizer(checkpoint, {"<|mask|>": 94, "<|role_end|>": 95})
        model = load(checkpoint)
        assert (model.mask_id, model.stop_ids) == (94, frozenset({95}))

    def test_no_mask_token(self, tmp_path: Path) -> None:
        checkpoint = copied("llada2", tmp_path / "LLaDA2.0-tiny")
        add_tokenizer(checkpoint, {"<|role_end|>": 95})
        message = refused(checkpoint)
        assert "<|mask|>" in message
        assert "mask_token_id" in message

    def test_a_mask_without_a_name_is_that_of_the_published_checkpoints(self, tmp_path: Path) -> None:
        checkpoint = copied("wedlm", tmp_path / "WeDLM-tiny")
        edit_json(checkpoint / "config.json", mask_token_id=None)
        add_tokenizer(checkpoint, {"<|im_end|>": 95})
        assert "the mask token's id is 151665" in refused(checkpoint)

    def test_the_configs_mask_is_enough(self, tmp_path: Path) -> None:
        checkpoint = copied("llada", tmp_path / "LLaDA-tiny")
        add_tokenizer(checkpoint, {"<|eot_id|>": 93})
        model = load(checkpoint)
        assert (model.mask_id, model.stop_ids) == (95, frozenset({92, 93}))

    def test_illada_has_another_mask_and_its_own_template(self, tmp_path: Path) -> None:
        checkpoint = copied("llada", tmp_path / "iLLaDA-tiny")
        edit_json(checkpoint / "config.json", mask_token_id=None)
        own = "{% for m in messages %}{{ m.content }}{% endfor %}!"
        add_tokenizer(checkpoint, {"<[MASK_TOKEN]>": 90}, own)
        model = load(checkpoint)
        assert model.mask_id == 90
        assert text_of(model, Message("user", "a")).endswith("!")

    def test_lladas_template_is_ours(self, tmp_path: Path) -> None:
        checkpoint = copied("llada", tmp_path / "LLaDA-tiny")
        control = {"<|start_header_id|>": 92, "<|end_header_id|>": 93, "<|eot_id|>": 94}
        add_tokenizer(checkpoint, control, "{% raise %}")
        text = text_of(load(checkpoint), Message("user", "  a b  "))
        assert text == (
            "<|start_header_id|>user<|end_header_id|>\n\na b<|eot_id|>"
            "<|start_header_id|>assistant<|end_header_id|>\n\n"
        )

    @pytest.mark.parametrize(
        "part",
        [
            {"normalizer": {"type": "Prepend", "prepend": ""}},  # the library panics
            {"model": {"type": "WordLevel", "unk_token": "zz", "vocab": {"a": 0}}},
        ],
    )
    def test_a_tokenizer_that_fails_at_a_text_is_told(self, tmp_path: Path, part: dict[str, object]) -> None:
        checkpoint = copied("llada", tmp_path / "LLaDA-tiny")
        add_tokenizer(checkpoint, {"<|eot_id|>": 94})
        edit_json(checkpoint / "tokenizer.json", **part)
        model = load(checkpoint)
        assert model.tokenizer
        with pytest.raises(CheckpointError, match="The tokenizer of LLaDA-tiny can't be used"):
            model.tokenizer.encode_chat([Message("user", "hi there")])

    def test_a2d_does_not_think(self, tmp_path: Path) -> None:
        """Qwen3's template opens a thought unless it is told not to; these models close none."""
        checkpoint = copied("a2d_mdlm", tmp_path / "tiny-mdlm")
        template = "{{ 'quiet' if enable_thinking is defined and not enable_thinking else 'thinking' }}"
        add_tokenizer(checkpoint, {"<|mask|>": 94}, template)
        assert text_of(load(checkpoint), Message("user", "a")) == "quiet"

    def test_bert_chat_and_rnd1_have_templates_of_their_own(self) -> None:
        for name, expected in {
            "bert-chat": "[SYS]\nS\n[/SYS]\n\n[Question]\nQ\n[/Question]\n\n[Answer]\n",
            "rnd1": "S\n\nQuestion: Q\nAnswer:",
        }.items():
            layout = next(layout for layout in LAYOUTS if layout.family.name == name)
            from dllm_tui.engine.chat_template import compile_template

            assert layout.chat_template
            messages = [{"role": "system", "content": "S"}, {"role": "user", "content": "Q"}]
            assert compile_template(layout.chat_template, name)(messages, {}) == expected


def text_of(model, *messages: Message) -> str:
    words = model.tokenizer
    return b"".join(words.piece(token) for token in words.encode_chat(messages)).decode()


def test_what_a_model_says_of_itself(tmp_path: Path) -> None:
    checkpoint = copied("wedlm", tmp_path / "secret" / "WeDLM-tiny")
    info = load(checkpoint).info
    assert info.id == "WeDLM-tiny"
    assert str(tmp_path) not in repr(info)
    assert (info.family, info.attention, info.cache) == ("wedlm", "reordered", "exact")
    assert info.parameters == 49_072
    assert info.context_length == 512
    assert {"torch", "transformers"} <= info.versions.keys()
    full = load(DATA / "dream").info
    assert (full.attention, full.cache) == ("full", "none")


def test_layouts_are_plain_data() -> None:
    """Replaceable, so that a test or a person can bend one."""
    layout = LAYOUTS[0]
    assert replace(layout, mask_id=3).mask_id == 3
