"""From logits to what a policy decides on: a token for each position, and how sure the model is of it."""

from dataclasses import dataclass

import torch
from dllm_kernels.confidence import confidence
from torch import Tensor

from dllm_tui.knobs import Knobs


@dataclass(frozen=True)
class Scores:
    """What one forward says of n positions. On the host, whatever device computed it."""

    token: Tensor
    """int64 [n], the predicted token: the best one, or a sample where the temperature asks for it."""
    confidence: Tensor
    """float32 [n], its probability before temperature, filters and noise."""
    entropy: Tensor
    """float32 [n], of the distribution, in nats."""
    margin: Tensor
    """float32 [n], the best token's probability less the second's."""
    top: Tensor
    """float32 [n, alternatives, 2]: (token, probability), best first."""

    def row(self, index: int) -> "Scores":
        """The scores of one position alone."""
        at = slice(index, index + 1)
        return Scores(self.token[at], self.confidence[at], self.entropy[at], self.margin[at], self.top[at])


def read(
    logits: Tensor,
    knobs: Knobs,
    *,
    forbidden: Tensor | None = None,
    generator: torch.Generator,
    alternatives: int = 0,
) -> Scores:
    """Score every row.

    One small transfer from the device; the logits stay where they are.

    Args:
        logits: float32 [n, vocab].
        knobs: temperature, top-p and top-k count here.
        forbidden: int64 [1], the mask's id where the head has a column for it. It is never predicted,
            but it takes part in the softmax, as in the reference decoders.
        generator: on the host; one number is drawn per row when sampling, so a seed gives the same
            answer whatever the device.
        alternatives: how many of the best tokens to report beside the predicted one.
    """
    seen = confidence(logits, forbidden)
    token, sure = seen.token, seen.confidence
    if knobs.temperature > 0:
        uniform = torch.rand(logits.shape[0], generator=generator).to(logits.device)
        token = sample(logits, knobs, uniform, forbidden)
        sure = (logits.gather(-1, token.unsqueeze(-1)).squeeze(-1) - seen.lse).exp()
    # A float32 holds every token id exactly: one tensor, one transfer.
    columns = [token.float(), sure, seen.entropy, seen.margin]
    if alternatives:
        allowed = logits if forbidden is None else logits.index_fill(-1, forbidden, -torch.inf)
        best = allowed.topk(min(alternatives, logits.shape[-1]))
        chances = (best.values - seen.lse.unsqueeze(-1)).exp()
        columns += [*best.indices.float().unbind(-1), *chances.unbind(-1)]
    packed = torch.stack(columns, -1).cpu()
    ids, chances = packed[:, 4:].chunk(2, dim=-1)
    sure, entropy, margin = packed[:, 1:4].unbind(-1)
    return Scores(packed[:, 0].long(), sure, entropy, margin, torch.stack([ids, chances], -1))


def sample(logits: Tensor, knobs: Knobs, uniform: Tensor, forbidden: Tensor | None = None) -> Tensor:
    """One token a row, by inverting the distribution's sum at ``uniform``: int64 [n].

    Temperature, then top-k, then top-p of what top-k left.

    Args:
        logits: float32 [n, vocab].
        knobs: with a temperature above 0.
        uniform: float32 [n] in [0, 1), on the logits' device.
        forbidden: ids that are never drawn.
    """
    chances = (logits / knobs.temperature).softmax(-1)
    if forbidden is not None:
        chances = chances.index_fill(-1, forbidden, 0.0)
    if 0 < knobs.top_k < chances.shape[-1]:
        least = chances.topk(knobs.top_k).values[:, -1:]
        chances = chances.masked_fill(chances < least, 0.0)
    if knobs.top_p < 1:
        least = _nucleus(chances / chances.sum(-1, keepdim=True), knobs.top_p)
        chances = chances.masked_fill(chances < least * chances.sum(-1, keepdim=True), 0.0)
    sums = chances.cumsum(-1)
    target = uniform.unsqueeze(-1) * sums[:, -1:]
    drawn = torch.searchsorted(sums, target, right=True).squeeze(-1)
    return drawn.clamp_(max=chances.shape[-1] - 1)


def _nucleus(chances: Tensor, top_p: float) -> Tensor:
    """Smallest probability in the smallest set that holds ``top_p``: float32 [n, 1]."""
    size = chances.shape[-1]
    # Sorting a whole vocabulary takes a CPU longer than the network; the few best are nearly always enough.
    for count in (size,) if chances.is_cuda else (64, 1024, size):
        best = chances.topk(min(count, size)).values
        before = best.cumsum(-1) - best
        if count >= size or bool((before[:, -1] >= top_p).all()):
            return best.masked_fill(before >= top_p, torch.inf).amin(-1, keepdim=True)
    raise AssertionError("the whole vocabulary was tried")
