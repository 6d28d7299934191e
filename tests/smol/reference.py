"""The default model once more, slow and independent: transformers' Llama over the whole text at every step.

No cache, no fused weights: the adapter is added by hooks on the linear layers, where a mask stands.
"""

from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from torch import Tensor
from transformers import LlamaConfig, LlamaForCausalLM

from dllm_tui.engine.gguf import GGUF
from dllm_tui.families import smol

STOP = 2
SCALE = 2.0


class Reference:
    """Both streams on a base in a GGUF file."""

    def __init__(self, base: Path) -> None:
        file = GGUF(base)
        g = file.geometry()
        config = LlamaConfig(
            vocab_size=g.vocab_size,
            hidden_size=g.hidden_size,
            intermediate_size=g.intermediate_size,
            num_hidden_layers=g.layers,
            num_attention_heads=g.heads,
            num_key_value_heads=g.kv_heads,
            rms_norm_eps=g.norm_eps,
            rope_parameters={"rope_type": "default", "rope_theta": g.rope_theta},
            max_position_embeddings=g.context_length,
            tie_word_embeddings=True,
        )
        self.net: Any = LlamaForCausalLM.from_pretrained(None, config=config, state_dict=dict(file.tensors()))
        self.adapter = load_file(smol.ADAPTER)
        self.mask_id = g.vocab_size
        self.masked = torch.zeros(0, 1)
        for name, module in self.net.named_modules():
            if name.endswith("_proj"):
                stem = name.removeprefix("model.")
                down, up = (self.factor(f"{stem}.lora_{letter}") for letter in "AB")
                module.register_forward_hook(self.hook(down, up))

    def factor(self, name: str) -> Tensor:
        value = self.adapter[name].float()
        if f"{name}.step" in self.adapter:
            steps = self.adapter[f"{name}.step"].float()
            value = value * (steps[:, None] if name.endswith("lora_A") else steps)
        return value

    def hook(self, down: Tensor, up: Tensor) -> Any:
        def add(module: Any, inputs: tuple[Tensor, ...], output: Tensor) -> Tensor:
            return output + SCALE * self.masked * (inputs[0] @ down.T @ up.T)

        return add

    @torch.inference_mode()
    def logits(self, ids: list[int]) -> Tensor:
        """[T, vocab]: known tokens see what is before them, masks see everything."""
        given = torch.tensor(ids)
        is_mask = given == self.mask_id
        self.masked = is_mask[:, None].float()
        x = self.net.get_input_embeddings()(given.where(~is_mask, 0))
        x[is_mask] = self.adapter["mask_embedding"].float()
        sees = torch.ones(len(ids), len(ids), dtype=torch.bool).tril() | is_mask[:, None]
        return self.net(inputs_embeds=x[None], attention_mask=sees[None, None]).logits[0]

    def decode(self, prompt: list[int], *, size: int, count: int, threshold: float, leftmost: bool) -> Any:
        """An answer, and what each denoising step committed: (position, token, confidence).

        Args:
            prompt: ids.
            size: of blocks.
            count: of tokens.
            threshold: what is surer is committed.
            leftmost: from the left only; else the surest first.
        """
        text, steps = list(prompt), []
        while len(text) < len(prompt) + count:
            start = len(text)
            first = int(self.logits(text)[-1].argmax())
            block = [first] + [self.mask_id] * (size - 1)
            while self.mask_id in block:
                chances = self.logits([*text, *block[:-1]])[start - 1 :].softmax(-1)
                sure, best = (t.tolist() for t in chances.max(-1))
                masks = [at for at, token in enumerate(block) if token == self.mask_id]
                if leftmost:
                    taken = masks[:1]
                    for at in masks[1:]:
                        if (
                            best[taken[-1]] == STOP
                            or sure[at] <= threshold
                            or (at - 1 in masks and best[at] == best[at - 1])
                        ):
                            break
                        taken.append(at)
                else:
                    taken = [at for at in masks if sure[at] > threshold]
                    taken = taken or [max(masks, key=lambda at: sure[at])]
                for at in taken:
                    block[at] = best[at]
                steps.append([(start - len(prompt) + at, best[at], sure[at]) for at in taken])
                until = block.index(STOP) if STOP in block else size
                until = min(until, len(prompt) + count - start - 1)
                if self.mask_id not in block[: until + 1] and until + 1 < size:
                    return [*text, *block[: until + 1]][len(prompt) :], steps
            text += block
            if STOP in block:
                text = text[: start + block.index(STOP) + 1]
                break
        return text[len(prompt) :][:count], steps
