import json
from pathlib import Path

import pytest
import tokenizers
import torch
from safetensors.torch import save_file
from tokenizers import AddedToken, decoders, pre_tokenizers
from tokenizers.models import BPE
from tokenizers.trainers import BpeTrainer

from tests.adapt.tiny import geometry, weights

torch.set_num_threads(1)

TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
CONFIG = {
    "llama": ("LlamaForCausalLM", "llama"),
    "qwen2": ("Qwen2ForCausalLM", "qwen2"),
    "qwen3": ("Qwen3ForCausalLM", "qwen3"),
}


def write_base(directory: Path, kind: str = "llama") -> Path:
    """A tiny checkpoint as transformers writes it, with a tokenizer of bytes."""
    backend = tokenizers.Tokenizer(BPE())
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    backend.train_from_iterator(
        ["abc abc abc"], BpeTrainer(vocab_size=260, initial_alphabet=alphabet, show_progress=False)
    )
    backend.add_special_tokens(
        [AddedToken(token, special=True, normalized=False) for token in ("<|im_start|>", "<|im_end|>")]
    )
    size = backend.get_vocab_size(with_added_tokens=True)
    directory.mkdir(parents=True, exist_ok=True)
    backend.save(str(directory / "tokenizer.json"))
    (directory / "tokenizer_config.json").write_text(
        json.dumps(
            {
                "tokenizer_class": "PreTrainedTokenizerFast",
                "eos_token": "<|im_end|>",
                "chat_template": TEMPLATE,
            }
        )
    )
    g = geometry(kind, vocab_size=size, context_length=1024)
    architecture, model_type = CONFIG[kind]
    (directory / "config.json").write_text(
        json.dumps(
            {
                "architectures": [architecture],
                "model_type": model_type,
                "vocab_size": size,
                "hidden_size": g.hidden_size,
                "num_hidden_layers": g.layers,
                "num_attention_heads": g.heads,
                "num_key_value_heads": g.kv_heads,
                "head_dim": g.head_dim,
                "intermediate_size": g.intermediate_size,
                "rms_norm_eps": g.norm_eps,
                "rope_theta": g.rope_theta,
                "max_position_embeddings": g.context_length,
                "tie_word_embeddings": g.tied_head,
                "hidden_act": "silu",
            }
        )
    )
    save_file(weights(g), directory / "model.safetensors")
    return directory


@pytest.fixture
def base(tmp_path: Path) -> Path:
    return write_base(tmp_path / "base")
