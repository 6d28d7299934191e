"""Known checkpoints: how large they are, what they need, and which one suits a machine. No torch here.

Sizes are those of the model cards; where a card gives none, of the base model. Any other checkpoint of a
known family loads by its hub id, directory or file too.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

from dllm_tui.errors import StoreError
from dllm_tui.families import LAYOUTS, smol
from dllm_tui.families.family import Attention, Family

Use: TypeAlias = Literal["chat", "code", "text"]

GIGABYTE = 1_000_000_000

WORKING_SHARE = 0.1
WORKING_BYTES = GIGABYTE // 2
"""Memory beside the weights: keys and values, activations, and the program."""

FAMILIES: dict[str, Family] = {
    family.name: family for family in (smol.FAMILY, *(layout.family for layout in LAYOUTS))
}
"""Every family by its name."""


@dataclass(frozen=True, kw_only=True)
class Entry:
    """A checkpoint that people may want."""

    id: str
    """Hub id, or ``smol``."""
    family: Family
    parameters: float
    """Billions of weights."""
    active: float | None = None
    """Billions that work on one token, for mixtures of experts."""
    block: int | None = None
    """The block it was trained on, where it isn't the family's."""
    licence: str
    use: Use = "chat"
    """What it was trained for; ``text`` continues what it is given."""

    @property
    def size(self) -> str:
        """Weights in words, e.g. ``16B, 1.4B active``."""
        whole = _billions(self.parameters)
        return whole if self.active is None else f"{whole}, {_billions(self.active)} active"

    @property
    def blocks(self) -> int | None:
        """Default block, or ``None`` where the whole canvas is denoised at once or follows the knob."""
        return self.block or self.family.grid

    def memory(self, bytes_per_weight: float = 2) -> int:
        """Bytes that it needs to run, weights and all else.

        Args:
            bytes_per_weight: 2 for bfloat16, 4 for float32; a mixture of experts has no less than 2, whose
                weights aren't kept in fewer bits.
        """
        least = 0 if self.active is None else 2
        weights = self.parameters * GIGABYTE * max(least, bytes_per_weight)
        return int(weights * (1 + WORKING_SHARE)) + WORKING_BYTES


def _billions(number: float) -> str:
    return f"{number:.3g}B" if number >= 1 else f"{number * 1000:.3g}M"


def _entry(
    id: str,  # noqa: A002 - the entry's own word
    family: str,
    parameters: float,
    active: float | None = None,
    *,
    block: int | None = None,
    licence: str = "",
    use: Use = "chat",
) -> Entry:
    known = FAMILIES[family]
    return Entry(
        id=id,
        family=known,
        parameters=parameters,
        active=active,
        block=block,
        licence=licence or known.licence,
        use=use,
    )


ENTRIES: tuple[Entry, ...] = (
    _entry("smol", "smol", 0.135),
    _entry("dllm-hub/Qwen3-0.6B-diffusion-bd3lm-v0.1", "a2d-bd3lm", 0.6),
    _entry("dllm-hub/Qwen3-0.6B-diffusion-mdlm-v0.1", "a2d-mdlm", 0.6),
    _entry("dllm-hub/Qwen2.5-Coder-0.5B-Instruct-diffusion-bd3lm-v0.1", "a2d-bd3lm", 0.5, use="code"),
    _entry("dllm-hub/Qwen2.5-Coder-0.5B-Instruct-diffusion-mdlm-v0.1", "a2d-mdlm", 0.5, use="code"),
    _entry("dllm-hub/ModernBERT-base-chat-v0.1", "bert-chat", 0.15),
    _entry("dllm-hub/ModernBERT-large-chat-v0.1", "bert-chat", 0.4),
    _entry("Efficient-Large-Model/Fast_dLLM_v2_1.5B", "fast-dllm-v2", 1.54),
    _entry("Efficient-Large-Model/Fast_dLLM_v2_7B", "fast-dllm-v2", 7.6),
    _entry("JetLM/SDAR-1.7B-Chat", "sdar", 2.03),
    _entry("JetLM/SDAR-4B-Chat", "sdar", 4.4),
    _entry("JetLM/SDAR-8B-Chat", "sdar", 8.2),
    _entry("JetLM/SDAR-8B-Chat-b32", "sdar", 8.2, block=32),
    _entry("JetLM/SDAR-30B-A3B-Chat", "sdar-moe", 30.5, 3.3),
    _entry("GSAI-ML/LLaDA-8B-Instruct", "llada", 8.0, licence="MIT"),
    _entry("GSAI-ML/LLaDA-8B-Base", "llada", 8.0, licence="MIT", use="text"),
    _entry("GSAI-ML/LLaDA-1.5", "llada", 8.0, licence="MIT"),
    _entry("GSAI-ML/iLLaDA-8B-Instruct", "llada", 8.0, licence="Apache-2.0"),
    _entry("inclusionAI/LLaDA-MoE-7B-A1B-Instruct", "llada-moe", 7.0, 1.0),
    _entry("inclusionAI/LLaDA2.2-flash", "llada2.2", 103.0, 6.0),
    _entry("inclusionAI/LLaDA2.1-mini", "llada2.1", 16.0, 1.4),
    _entry("inclusionAI/LLaDA2.1-flash", "llada2.1", 100.0, 6.0),
    _entry("inclusionAI/LLaDA2.0-mini", "llada2", 16.0, 1.4),
    _entry("inclusionAI/LLaDA2.0-flash", "llada2", 100.0, 6.0),
    _entry("Dream-org/Dream-v0-Instruct-7B", "dream", 7.6),
    _entry("Dream-org/Dream-v0-Base-7B", "dream", 7.6, use="text"),
    _entry("Dream-org/Dream-Coder-v0-Instruct-7B", "dream", 7.6, use="code"),
    _entry("apple/DiffuCoder-7B-cpGRPO", "diffucoder", 7.6, use="code"),
    _entry("apple/DiffuCoder-7B-Instruct", "diffucoder", 7.6, use="code"),
    _entry("tencent/WeDLM-8B-Instruct", "wedlm", 8.2),
    _entry("tencent/WeDLM-7B-Instruct", "wedlm", 7.6),
    _entry("ByteDance-Seed/Stable-DiffCoder-8B-Instruct", "stable-diffcoder", 8.25, use="code"),
    _entry("radicalnumerics/RND1-Base-0910", "rnd1", 30.5, 3.3, use="text"),
    _entry("google/diffusiongemma-26B-A4B-it", "diffusion-gemma", 25.2, 3.8),
    _entry("nvidia/Nemotron-Labs-Diffusion-3B", "nemotron", 3.8),
    _entry("nvidia/Nemotron-Labs-Diffusion-8B", "nemotron", 8.5),
    _entry("nvidia/Nemotron-Labs-Diffusion-14B", "nemotron", 14.0),
    _entry("kuleshov-group/mdlm-owt", "mdlm", 0.17, use="text"),
    _entry("kuleshov-group/bd3lm-owt-block_size16", "bd3lm", 0.17, use="text"),
    _entry("kuleshov-group/sedd-noeos-owt", "sedd", 0.17, use="text"),
    _entry("louaaron/sedd-medium", "sedd", 0.42, use="text"),
)


def entries() -> tuple[Entry, ...]:
    """Every known checkpoint: the default model first, relatives beside each other, the newest before."""
    return ENTRIES


def find(name: str) -> Entry | None:
    """The entry of a catalogue name or hub id, in any case."""
    return next((entry for entry in ENTRIES if entry.id.lower() == name.lower()), None)


def refuse_nowhere(name: str) -> None:
    """Refuse what can't be a model: a path that leads nowhere, or a word that no model has for a name.

    Raises:
        StoreError: it is one.
    """
    if find(name) or Path(name).expanduser().exists():
        return
    if name.startswith(("/", "./", "../", "~")) or name.endswith(".gguf"):
        raise StoreError(f"There is no {name}.", "Give a directory, a GGUF file or a hub id.")
    if "/" not in name:
        raise StoreError(
            f"There is no model {name!r}, and no file or directory of that name.",
            "`dllm-chat models` lists what is known; a hub id is organisation/name.",
        )


def fits(memory: int, bytes_per_weight: float = 2) -> tuple[Entry, ...]:
    """The entries that a machine can hold.

    Args:
        memory: bytes for the model, on the device that it would run on.
        bytes_per_weight: 2 for bfloat16, 4 for float32.
    """
    return tuple(entry for entry in ENTRIES if entry.memory(bytes_per_weight) <= memory)


def recommended(memory: int, bytes_per_weight: float = 2, *, fast: bool = True) -> Entry:
    """The entry that suits a machine: the largest that chats, fits, and answers while one waits.

    Args:
        memory: bytes for the model.
        bytes_per_weight: 2 for bfloat16, 4 for float32, less in fewer bits.
        fast: there is an accelerator; a processor alone should not work on more than 2 billion weights a
            token.
    """
    most = float("inf") if fast else 2.0
    suited = [
        entry
        for entry in fits(memory, bytes_per_weight)
        if entry.use == "chat"
        and not entry.family.notice  # a licence that restricts use is for the person to choose
        and entry.family.attention is not Attention.FULL  # nothing can be cached: slow at any size
        and (entry.active or entry.parameters) <= most
    ]
    return max(suited, key=lambda entry: entry.parameters, default=ENTRIES[0])


def shortfall(entry: Entry, memory: int, bytes_per_weight: float = 2, *, fast: bool = True) -> str:
    """What a machine lacks for a model, and which one it could hold; empty where it fits.

    Args:
        entry: the model.
        memory: bytes for the model.
        bytes_per_weight: 2 for bfloat16, 4 for float32, less in fewer bits.
        fast: there is an accelerator.
    """
    needed = entry.memory(bytes_per_weight)
    if needed <= memory:
        return ""
    smaller = recommended(memory, bytes_per_weight, fast=fast)
    return (
        f"{entry.id} needs {needed / GIGABYTE:.1f} GB, {(needed - memory) / GIGABYTE:.1f} GB more than this "
        f"machine has for it. {smaller.id} ({smaller.size}) would fit."
    )
