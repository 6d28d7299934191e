"""All weights instead of an adapter: an ordinary checkpoint of the Fast-dLLM v2 kind.

Both streams share the weights that are trained. The grid of blocks begins at position 0; the clean stream is
block-causal, as the decoder's is, and gives the first token of each block; the noised stream sees the clean
keys of the blocks before. The result is loaded like any checkpoint of that family.

Fast-dLLM v2: arXiv 2509.26328.
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from dllm_tui.adapt.data import Chat
from dllm_tui.adapt.files import write_tensors
from dllm_tui.adapt.network import Network, group
from dllm_tui.adapt.training import Recipe
from dllm_tui.engine.attention import block_mask
from dllm_tui.engine.autoregressive import Base
from dllm_tui.errors import CheckpointError
from dllm_tui.paths import write_private

ARCHITECTURE = "Fast_dLLM_QwenForCausalLM"
CHUNK = 256
"""Rows whose logits are held at a time."""
EMBEDDING, HEAD = "model.embed_tokens.weight", "lm_head.weight"


class WholeStudent:
    """A Qwen2 base, all of it; see :class:`dllm_tui.adapt.training.Student`.

    Args:
        base: the checkpoint.
        chats: what is learnt.
        recipe: how; the largest of its block sizes is the grid's.
        device: where it is trained.
        dtype: of the arithmetic; the weights are kept in float32.

    Raises:
        CheckpointError: the base is no Qwen2 with a directory of its own.
    """

    def __init__(
        self, base: Base, chats: Sequence[Chat], recipe: Recipe, device: torch.device, dtype: torch.dtype
    ) -> None:
        if base.config is None or not base.geometry.qkv_bias:
            raise CheckpointError(
                f"{base.name} is no Qwen2 checkpoint in safetensors; of others no whole model can be made.",
                "Leave --whole out: an adapter goes with any base.",
            )
        self.base, self.chats, self.recipe, self.device, self.dtype = base, chats, recipe, device, dtype
        self.size = max(recipe.noise.sizes)
        weights = dict(base.read())
        table = weights[EMBEDDING]
        self.mask_id = base.words.vocab_size
        if self.mask_id >= len(table):
            # No spare row: the mask gets one, and a head that isn't tied an output that is never learnt.
            weights[EMBEDDING] = torch.cat([table, table.mean(0, keepdim=True)])
            if HEAD in weights:
                weights[HEAD] = functional.pad(weights[HEAD], (0, 0, 0, 1))
        self.parameters = {
            name: nn.Parameter(tensor.to(device, torch.float32)) for name, tensor in weights.items()
        }

    def network(self) -> Network:
        """The network of the parameters as they are, with gradients."""
        return Network(self.base.geometry, self.parameters, self.device, self.dtype)

    def draw(self, index: int, random: torch.Generator) -> tuple[tuple[Chat, list[Tensor]], int]:
        """Maskings of one chat, two for each copy: bool [blocks, size].

        The second is the first one's complement, or another one from some token to the block's end.
        """
        chat, size, noise = self.chats[index], self.size, self.recipe.noise
        blocks = -(-len(chat.ids) // size)
        is_learnt = torch.zeros(blocks * size, dtype=torch.bool)
        for start, end in chat.answers:
            is_learnt[start:end] = True
        is_learnt = is_learnt.view(blocks, size)
        # A block's first token comes from the block before it, when that is finished.
        is_learnt[:, 0] = False
        made: list[Tensor] = []
        for _ in range(noise.copies):
            if float(torch.rand((), generator=random)) < noise.leading:
                made += [
                    is_learnt & (torch.arange(size) >= _lead(blocks, size, random)[:, None]) for _ in range(2)
                ]
            else:
                chance = torch.rand(blocks, 1, generator=random)
                masked = torch.rand(blocks, size, generator=random) < chance
                made += [is_learnt & masked, is_learnt & ~masked]
        return (chat, made), sum(int(masked.any(-1).sum()) for masked in made) * size

    def examine(self, drawn: Sequence[tuple[Chat, Sequence[Tensor]]]) -> tuple[Tensor, Tensor, Tensor]:
        """The loss of both streams."""
        network, size, device = self.network(), self.size, self.device
        rows, tokens, left = [], [], []
        for chat, maskings in drawn:
            blocks = len(maskings[0])
            ids = torch.tensor(chat.ids, device=device)
            ids = functional.pad(ids, (0, blocks * size - len(ids)), value=self.base.stop_id)
            seen = block_mask(len(ids), size)
            reading = network.clean(ids, None if seen is None else seen.to(device))
            firsts = [s for a, b in chat.answers for s in range(-(-a // size) * size, b, size) if s]
            rows.append(reading.hidden[[first - 1 for first in firsts]])
            tokens.append(ids[firsts])
            left.append(torch.zeros(len(firsts), dtype=torch.long))
            for masked in maskings:
                used = masked.any(-1).nonzero().flatten()
                if not len(used):
                    continue
                hidden_ids = ids.view(-1, size)[used.to(device)].flatten()
                flat = masked[used].flatten()
                noised = hidden_ids.where(~flat.to(device), self.mask_id)
                # The window that begins one token later has the inputs of this block.
                windows = group(reading, [(used * size + 1, torch.zeros(len(used), size, dtype=torch.bool))])
                x = functional.embedding(noised, network.embedding)
                hidden = network.noised(x, [windows], network.projected, recompute=device.type == "cuda")
                learnt = flat.nonzero().flatten()
                rows.append(hidden[(learnt - 1).to(device)])
                tokens.append(hidden_ids[learnt.to(device)])
                before = masked.cumsum(-1) - masked.long()
                left.append(before[used].flatten()[learnt])
        return (
            *self._loss(torch.cat(rows), torch.cat(tokens), network.head, torch.cat(left)),
            torch.cat(left),
        )

    def _loss(self, rows: Tensor, tokens: Tensor, head: Tensor, left: Tensor) -> tuple[Tensor, Tensor]:
        weight = (self.recipe.noise.decay ** left.float()).to(rows.device)
        weight = weight / weight.sum()
        total, right = torch.zeros((), device=rows.device), []

        def part(hidden: Tensor, head: Tensor, token: Tensor, share: Tensor) -> tuple[Tensor, Tensor]:
            logits = (hidden @ head.T).float()
            value = functional.cross_entropy(logits, token, reduction="none")
            return (value * share).sum(), (logits.argmax(-1) == token).detach()

        for pieces in zip(rows.split(CHUNK), tokens.split(CHUNK), weight.split(CHUNK), strict=True):
            hidden, token, share = pieces
            value: Any = checkpoint(part, hidden, head, token, share, use_reentrant=False)
            total = total + value[0]
            right.append(value[1])
        return total, torch.cat(right)


def _lead(count: int, size: int, random: torch.Generator) -> Tensor:
    """How many tokens of each block are known, from the left: mostly one, else any number."""
    several = torch.randint(1, size, (count,), generator=random)
    return torch.where(torch.rand(count, generator=random) < 0.7, torch.ones_like(several), several)


def write(directory: Path, student: WholeStudent, values: Mapping[str, Tensor]) -> None:
    """Write the checkpoint: config, weights in bfloat16, and the base's tokenizer.

    Raises:
        OSError: it can't be written.
    """
    config = {
        **(student.base.config or {}),
        "architectures": [ARCHITECTURE],
        "model_type": "Fast_dLLM_Qwen",
        "vocab_size": len(values[EMBEDDING]),
        "bd_size": student.size,
        "mask_token_id": student.mask_id,
        "eos_token_id": student.base.stop_id,
    }
    config.pop("auto_map", None)
    tensors = {name: value.to(torch.bfloat16) for name, value in values.items()}
    write_tensors(directory / "model.safetensors", tensors, {"format": "pt"})
    source = student.base.files[0].parent
    for path in sorted({*source.glob("tokenizer*"), *source.glob("*.jinja"), *source.glob("merges.txt")}):
        write_private(directory / path.name, path.read_bytes())
    if (source / "vocab.json").is_file():
        write_private(directory / "vocab.json", (source / "vocab.json").read_bytes())
    write_private(directory / "config.json", (json.dumps(config, indent=2) + "\n").encode())
