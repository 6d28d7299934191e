"""What a family of checkpoints is: five switches, names and defaults. No torch here."""

from dataclasses import dataclass, field
from enum import StrEnum

from dllm_tui.knobs import Knobs


class Attention(StrEnum):
    """Who sees whom (design: the first switch)."""

    FULL = "full"
    """Every position sees every other; only approximate caches exist."""
    BLOCK_CAUSAL = "block-causal"
    """A position sees its own block and all before it; finished blocks are cached exactly."""
    REORDERED = "reordered"
    """Causal over committed tokens first and masks last; rotary positions stay logical (WeDLM)."""
    ENCODER_CANVAS = "encoder-canvas"
    """A causal encoder's keys and values, read by a bidirectional canvas (DiffusionGemma)."""


class Noise(StrEnum):
    """What an undecided cell holds (the third switch)."""

    ABSORBING = "absorbing"
    """A mask token."""
    UNIFORM = "uniform"
    """Any token: every cell may change in every step."""


class Revision(StrEnum):
    """What may happen to a committed token (the fifth switch)."""

    MONOTONE = "monotone"
    EDIT = "edit"
    INSERT_DELETE = "insert-delete"
    RENOISE = "renoise"


MASKED = (
    "confidence",
    "factor",
    "adaptive",
    "margin",
    "entropy",
    "low-entropy",
    "eb",
    "runs",
    "credit",
    "sequential",
    "streaming",
    "random",
)
"""Policies that suit every family with a mask token."""


@dataclass(frozen=True, kw_only=True)
class Sampling:
    """How a family's reference makes a token and its confidence out of logits."""

    order: tuple[str, ...] = ("temperature", "top_k", "top_p")
    """In which order the three act."""
    within_top_p: bool = False
    """Top-p leaves out the token with which the best ones come to hold more than that (BD3-LM)."""
    counts_mask: bool = True
    """The mask's logit takes part in the softmax, although the mask is never predicted."""
    filtered: bool = False
    """Confidence, entropy and margin are those of the distribution that is sampled from, with temperature
    and filters (which then act at temperature 0 too); otherwise of the model's own."""
    suppressed: tuple[int, ...] = ()
    """Tokens that the model is not asked about at all: their logits count as minus infinity."""
    late: tuple[int, ...] = ()
    """Tokens that are committed last: they have no confidence, and the others' is among themselves."""
    greedy: bool = False
    """The best token is taken whatever the temperature, which then only shapes the confidence."""


@dataclass(frozen=True, kw_only=True)
class Renoising:
    """How a canvas of uniform noise is denoised (DiffusionGemma)."""

    coldest: float = 0.4
    """Temperature to which the knob's falls until the last step."""
    stability: int = 1
    """Steps for which the best tokens must have stayed the same before the canvas may be finished."""
    certainty: float = 0.005
    """Mean entropy, in nats, below which the model is sure enough to finish."""


@dataclass(frozen=True, kw_only=True)
class Family:
    """A group of checkpoints that are laid out and decoded alike."""

    name: str
    title: str
    """For people, e.g. ``LLaDA 2.0``."""
    explanation: str
    """How it decodes, in a few plain sentences."""
    licence: str
    notice: str = ""
    """Shown on load where the licence restricts use."""
    attention: Attention
    shift: int = 0
    """1 where the logits for position i are read at i - 1."""
    noise: Noise = Noise.ABSORBING
    revision: Revision = Revision.MONOTONE
    grid: int | None = None
    """Block size of the attention pattern where training fixed it; ``None`` follows the knob. A smaller
    ``block_size`` fills a block in parts of that size, one after the other (Fast-dLLM v2)."""
    response_grid: bool = False
    """The grid of blocks begins at the end of the prompt, not at position 0."""
    two_streams: bool = False
    """Prompt and finished blocks are read causally by the base's own weights; only the block that is being
    denoised is read bidirectionally, by adapted ones (``smol``)."""
    whole_blocks: bool = True
    """The last block keeps its size where it reaches past the longest answer."""
    overlap: float = 1.0
    """Share of a block that must be decided before the next one is begun beside it (D2F, d3LLM)."""
    closes: bool = False
    """A stop token, once committed, fills everything behind it, whatever is still open before it (d3LLM)."""
    finishes_block: bool = False
    """A stop token ends the answer only once its block is full, as in some references."""
    eps: float = 1e-3
    """Share of masks at which a linear noise schedule ends."""
    least: int = 1
    """Fewest tokens that a step commits when the schedule leaves it to the policy."""
    knows_noise: bool = False
    """The network is told how much noise there is (SEDD)."""
    edit_steps: int = 16
    """Forwards that a full block may spend on edits."""
    renoising: Renoising = field(default_factory=Renoising)
    sampling: Sampling = field(default_factory=Sampling)
    defaults: Knobs = field(default_factory=Knobs)
    policies: tuple[str, ...] = ("confidence",)
    """Policies that make sense for it, the default first."""
    fixed_knobs: dict[str, str] = field(default_factory=dict[str, str])
    """Knobs that it doesn't have, each with the reason shown to people."""

    @property
    def caches(self) -> tuple[str, ...]:
        """Values of the knob ``cache`` that it can decode with."""
        if self.attention is Attention.FULL:
            return "auto", "none", "prefix", "dual"
        in_parts = self.grid and not self.two_streams and "block_size" not in self.fixed_knobs
        sub_block = ("dual",) if in_parts and self.attention is Attention.BLOCK_CAUSAL else ()
        return "auto", "exact", *sub_block

    @property
    def unkept(self) -> str:
        """Why a run can't go on from a canvas that a person has changed; empty where it can."""
        if self.noise is Noise.UNIFORM:
            return f"{self.title} may change every cell in every step, so no word can be held in its place"
        if self.revision is Revision.INSERT_DELETE:
            return f"{self.title} inserts and deletes cells, so no word has a place of its own"
        return ""
