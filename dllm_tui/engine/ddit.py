"""The diffusion transformer of the small originals: SEDD, MDLM and BD3-LM.

A GPT-2-sized transformer whose layer norms are shifted, scaled and gated by an embedding of the noise
level. Written after the papers (SEDD, arXiv 2310.16834; MDLM, arXiv 2406.07524; BD3-LM, arXiv 2503.09573;
adaptive layer norm: DiT, arXiv 2212.09748) and their repositories; modules have the checkpoints' names.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from dllm_tui.engine.backbone import Cache
from dllm_tui.engine.cache import BlockCache
from dllm_tui.engine.stock import CacheView, visible

FREQUENCIES = 256
"""Width of the sinusoidal embedding of the noise level."""

ROTARY_BASE = 10_000.0


@dataclass(frozen=True, kw_only=True)
class DDiTConfig:
    """Sizes of the network, and how it is used."""

    vocab_size: int
    """Rows of the embedding, the mask's included."""
    hidden_size: int
    blocks: int
    heads: int
    condition_size: int
    """Width of the noise embedding."""
    length: int
    """Longest sequence it was trained on."""
    score: bool = False
    """The output is a log-score and depends on the noise level (SEDD); logits otherwise."""
    scale_by_sigma: bool = False
    """SEDD: the network's output still needs log(exp(sigma) - 1) taken off."""


class Norm(nn.Module):
    """Layer norm without a bias, its statistics in float32."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))

    def forward(self, states: Tensor) -> Tensor:
        """[..., size] to the same."""
        return functional.layer_norm(states.float(), self.weight.shape).to(states.dtype) * self.weight


class NoiseEmbedding(nn.Module):
    """A noise level as a vector: sines and cosines of many frequencies through a small network."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.mlp = nn.Sequential(nn.Linear(FREQUENCIES, size), nn.SiLU(), nn.Linear(size, size))

    def forward(self, sigma: Tensor) -> Tensor:
        """Float [] to [size]."""
        half = FREQUENCIES // 2
        steps = torch.arange(half, dtype=torch.float32, device=sigma.device)
        angles = sigma.float() * torch.exp(-math.log(10_000) * steps / half)
        waves = torch.cat((angles.cos(), angles.sin()))
        return self.mlp(waves.to(next(self.parameters()).dtype))


class Embedding(nn.Module):
    """The table of token embeddings."""

    def __init__(self, rows: int, size: int) -> None:
        super().__init__()
        self.embedding = nn.Parameter(torch.empty(rows, size))


class Block(nn.Module):
    """Attention and a feed-forward network, both shifted, scaled and gated by the noise embedding."""

    def __init__(self, config: DDiTConfig, index: int) -> None:
        super().__init__()
        size = config.hidden_size
        self.index = index
        self.heads = config.heads
        self.norm1 = Norm(size)
        self.attn_qkv = nn.Linear(size, 3 * size, bias=False)
        self.attn_out = nn.Linear(size, size, bias=False)
        self.norm2 = Norm(size)
        self.mlp = nn.Sequential(
            nn.Linear(size, 4 * size), nn.GELU(approximate="tanh"), nn.Linear(4 * size, size)
        )
        self.adaLN_modulation = nn.Linear(config.condition_size, 6 * size)

    def forward(
        self,
        states: Tensor,
        noise: Tensor,
        turn: tuple[Tensor, Tensor],
        mask: Tensor | None,
        view: CacheView | None,
    ) -> Tensor:
        """[T, size] to the same; ``turn`` is cosine and sine of the rotary embedding, [T, head_dim / 2]."""
        shift1, scale1, gate1, shift2, scale2, gate2 = self.adaLN_modulation(noise).chunk(6)
        parts = self.attn_qkv(self.norm1(states) * (1 + scale1) + shift1)
        query, key, value = parts.view(len(states), 3, self.heads, -1).permute(1, 2, 0, 3)[:, None]
        query, key = rotate(query, *turn), rotate(key, *turn)
        if view is not None:
            key, value = view.update(key, value, self.index)
        mixed = functional.scaled_dot_product_attention(query, key, value, attn_mask=mask)
        states = states + gate1 * self.attn_out(mixed[0].transpose(0, 1).reshape(states.shape))
        return states + gate2 * self.mlp(self.norm2(states) * (1 + scale2) + shift2)


class Output(nn.Module):
    """The head, its norm shifted and scaled by the noise embedding too."""

    def __init__(self, config: DDiTConfig) -> None:
        super().__init__()
        self.norm_final = Norm(config.hidden_size)
        self.linear = nn.Linear(config.hidden_size, config.vocab_size)
        self.adaLN_modulation = nn.Linear(config.condition_size, 2 * config.hidden_size)

    def forward(self, states: Tensor, noise: Tensor) -> Tensor:
        """[T, size] to [T, vocab_size]."""
        shift, scale = self.adaLN_modulation(noise).chunk(2)
        return self.linear(self.norm_final(states) * (1 + scale) + shift)


def rotate(states: Tensor, cosine: Tensor, sine: Tensor) -> Tensor:
    """Rotary embedding over the whole head, the first half of its values paired with the second.

    Args:
        states: [..., T, head_dim].
        cosine: [T, head_dim / 2].
        sine: [T, head_dim / 2].
    """
    first, second = states.chunk(2, -1)
    return torch.cat((first * cosine - second * sine, second * cosine + first * sine), -1)


class DDiT(nn.Module):
    """The network."""

    def __init__(self, config: DDiTConfig) -> None:
        super().__init__()
        self.config = config
        self.vocab_embed = Embedding(config.vocab_size, config.hidden_size)
        self.sigma_map = NoiseEmbedding(config.condition_size)
        self.blocks = nn.ModuleList(Block(config, index) for index in range(config.blocks))
        self.output_layer = Output(config)

    def forward(
        self,
        ids: Tensor,
        positions: Tensor,
        sigma: Tensor,
        *,
        mask: Tensor | None = None,
        view: CacheView | None = None,
        rows: Tensor | slice = slice(None),
    ) -> Tensor:
        """Logits or log-scores: float32 [rows, vocab_size].

        Args:
            ids: int64 [T].
            positions: int64 [T].
            sigma: the noise level, float [].
            mask: as :func:`dllm_tui.engine.stock.visible` gives it.
            view: keys and values seen before.
            rows: the rows that are wanted.
        """
        states = self.vocab_embed.embedding[ids]
        noise = functional.silu(self.sigma_map(sigma))
        half = self.config.hidden_size // self.config.heads // 2
        steps = torch.arange(half, dtype=torch.float32, device=ids.device)
        angles = positions[:, None].float() / ROTARY_BASE ** (steps / half)
        turn = (angles.cos().to(states.dtype), angles.sin().to(states.dtype))
        for block in self.blocks:
            states = block(states, noise, turn, mask, view)
        logits = self.output_layer(states[rows], noise).float()
        return self._log_score(logits, ids[rows], sigma) if self.config.score else logits

    def _log_score(self, output: Tensor, ids: Tensor, sigma: Tensor) -> Tensor:
        """How likely each token is in a cell's place, over what is there (0 for that itself)."""
        if self.config.scale_by_sigma:
            output = output - torch.expm1(sigma.float()).log() - math.log(self.config.vocab_size - 1)
        return output.scatter(-1, ids[:, None], 0.0)


class DDiTBackbone:
    """The network behind :class:`dllm_tui.engine.backbone.Backbone`.

    Args:
        network: the model, its weights in place.
    """

    def __init__(self, network: DDiT) -> None:
        self.network = network.eval()
        self.device = network.output_layer.linear.weight.device
        self.dtype = network.output_layer.linear.weight.dtype
        self.vocab_size = network.config.vocab_size
        self.context_length = network.config.length

    def new_cache(self, capacity: int) -> BlockCache:
        """An empty cache for up to ``capacity`` positions."""
        config = self.network.config
        shape = (config.blocks, 2, config.heads, capacity, config.hidden_size // config.heads)
        return BlockCache(torch.zeros(shape, device=self.device, dtype=self.dtype))

    @torch.inference_mode()
    def forward(
        self,
        ids: Tensor,
        positions: Tensor,
        *,
        noised: bool = False,
        cache: Cache | None = None,
        context: int | None = None,
        write_at: int | None = None,
        mask: Tensor | None = None,
        causal: bool = False,
        rows: Tensor | slice | None = None,
        condition: Tensor | None = None,
    ) -> Tensor:
        """One forward; see :meth:`dllm_tui.engine.backbone.Backbone.forward`.

        ``condition`` is the noise level (float []); without it, 0: MDLM and BD3-LM are trained without.
        """
        count = ids.numel()
        seen = 0 if cache is None else cache.length if context is None else context
        view = CacheView(cache, seen, write_at, count) if isinstance(cache, BlockCache) else None
        sigma = torch.zeros((), device=ids.device) if condition is None else condition
        shown = visible(mask, causal, seen, count, ids.device)
        wanted = slice(None) if rows is None else rows
        logits = self.network(ids, positions, sigma, mask=shown, view=view, rows=wanted)
        if view is not None:
            view.close()
        return logits
