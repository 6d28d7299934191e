"""Decoding knobs: what they mean, their ranges and presets, and a box that is turned while a run goes on."""

import threading
from typing import Literal, TypeAlias

import msgspec

Value: TypeAlias = int | float | str | None
Holds: TypeAlias = Literal["step", "block", "run"]


class KnobError(ValueError):
    """A knob's name or value is not valid; the message says what is."""


class Knob(msgspec.Struct, frozen=True, kw_only=True):
    """What a person should know of one knob, and what values it takes."""

    name: str
    label: str
    """Short, for a panel."""
    help: str
    """One sentence: what turning it does."""
    type: type
    default: Value
    low: float | None = None
    high: float | None = None
    snaps: tuple[float, ...] = ()
    """Values that a slider rests on; a typed value may lie between them."""
    choices: dict[str, str] = {}
    """Named values, and what each does."""
    optional: bool = False
    """``None`` is a value too (shown as ``auto`` or ``off``)."""
    holds: Holds = "step"
    """From when a change during a run holds: the next step, block or run."""

    @property
    def option(self) -> str:
        """The command-line option, e.g. ``--block-size``."""
        return "--" + self.name.replace("_", "-")

    def check(self, value: object) -> Value:
        """The value in the knob's own type.

        Raises:
            KnobError: wrong type or out of range.
        """
        if value is None or (isinstance(value, str) and value.lower() in {"none", "auto", "off"}):
            if self.optional:
                return None
            if value is None:
                raise KnobError(f"{self.name} needs a value, {self.range_text()}")
        if self.choices:
            text = str(value)
            if text not in self.choices:
                raise KnobError(f"{self.name} is {text!r}; it must be one of {', '.join(self.choices)}")
            return text
        if isinstance(value, bool) or not isinstance(value, int | float | str):
            raise KnobError(f"{self.name} is {value!r}; it must be {self.range_text()}")
        try:
            number = self.type(value)
        except (ValueError, OverflowError):
            raise KnobError(f"{self.name} is {value!r}; it must be {self.range_text()}") from None
        whole = self.type is int and isinstance(value, float) and number != value
        low = float("-inf") if self.low is None else self.low
        high = float("inf") if self.high is None else self.high
        if whole or not low <= number <= high:
            raise KnobError(f"{self.name} is {value}; it must be {self.range_text()}")
        return number

    def range_text(self) -> str:
        """The allowed values in words, e.g. ``a whole number from 1 to 1024``."""
        if self.choices:
            return "one of " + ", ".join(self.choices)
        kind, form = ("a whole number", ".0f") if self.type is int else ("a number", "g")
        text = f"{kind} from {self.low:{form}} to {self.high:{form}}" if self.high is not None else kind
        return text + (" or none" if self.optional else "")


POLICIES: dict[str, str] = {
    "confidence": "the most confident anywhere in the block, all above the threshold at once",
    "streaming": "the leftmost masked position, and on to the right while the confidence passes",
    "verify": "draft, then keep what the autoregressive model agrees with: lossless, quickest with steps 1",
    "sequential": "from left to right, as many as the steps ask for",
    "margin": "like confidence, ordered by the gap between the best two tokens",
    "entropy": "the lowest entropies, while their sum stays within the entropy bound",
    "low-entropy": "like confidence, by entropy: all below the entropy bound (WeDLM, d3LLM)",
    "eb": "the most confident, while their entropies sum to the entropy bound (EB sampler)",
    "factor": "like confidence, but the more tokens at once, the surer each must be (Fast-dLLM)",
    "runs": "the best of every run of masks, and all above the threshold (dInfer)",
    "credit": "like confidence; a token that stays the best prediction gains weight (dInfer)",
    "adaptive": "many sure tokens at once, doubtful ones one by one, and fewer steps where it is sure",
    "origin": "each position by chance, as often as the steps ask for (Dream's first sampler)",
    "ancestral": "like origin; a step that commits nothing costs no forward (MDLM, BD3-LM)",
    "analytic": "each position with the chance that the model's ratios give it (SEDD)",
    "random": "positions drawn at random",
}
"""Commit policies and what each picks in a step."""

SCHEDULES: dict[str, str] = {
    "pace": "an equal share of what is left, so that the block is full when its steps run out",
    "llada": "equal shares of the block's masks, the remainder in the first steps",
    "quota": "equal shares of the whole block, what the prompt has of it included (SDAR, LLaDA 2)",
    "dllm": "a linear noise schedule, rounded half to even",
    "dream": "a linear noise schedule, rounded down: the first steps may commit none",
    "mdlm": "a linear noise schedule; the last step takes the best tokens for what is left",
    "bd3lm": "like mdlm, in slightly smaller steps",
    "rnd1": "what stays masked falls linearly, rounded down: steps may commit none",
    "free": "one; the last step takes what is left",
}
"""How many tokens a step commits at least, and who counts like that."""

CACHES: dict[str, str] = {
    "auto": "exact where the model can, otherwise none",
    "none": "every forward reads everything",
    "exact": "finished blocks, which nothing changes any more",
    "prefix": "approximate: what stands before the block, as it was when the block began (Fast-dLLM)",
    "dual": "approximate: what stands on both sides of what is denoised, as it was before (Fast-dLLM)",
}
"""What is kept between forwards. The approximate ones make another answer than the model's own."""

APPROXIMATE = frozenset({"prefix", "dual"})
"""Caches whose keys and values are not quite the model's."""

SUITED: dict[str, dict[str, Value]] = {"verify": {"steps": 1}}
"""What a policy works best with, where people ask for nothing else: a draft that is judged needs one step."""

PRESETS: dict[str, dict[str, Value]] = {
    "draft": {"steps": 4},
    "balanced": {"steps": 8},
    "polished": {"steps": 32},
}
"""Named settings: fewer steps are faster, more steps read better."""

KNOBS: dict[str, Knob] = {
    knob.name: knob
    for knob in (
        Knob(
            name="steps",
            label="steps",
            help="Most forwards a block may take: fewer are faster, more read better.",
            type=int,
            default=8,
            low=1,
            high=4096,
            snaps=(1, 2, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128),
        ),
        Knob(
            name="block_size",
            label="block",
            help="Positions that are denoised together.",
            type=int,
            default=8,
            low=1,
            high=4096,
            snaps=(2, 4, 8, 12, 16, 24, 32, 48, 64),
            holds="block",
        ),
        Knob(
            name="threshold",
            label="threshold",
            help="Commit every token that is more confident than this: lower is faster, higher reads better.",
            type=float,
            default=0.9,
            low=0.0,
            high=1.0,
            snaps=tuple(step / 20 for step in range(4, 21)),
        ),
        Knob(
            name="policy",
            label="policy",
            help="The rule that picks what to commit in a step.",
            type=str,
            default="confidence",
            choices=POLICIES,
        ),
        Knob(
            name="schedule",
            label="schedule",
            help="How many tokens a step commits at least; all but the first are those of a reference.",
            type=str,
            default="pace",
            choices=SCHEDULES,
            holds="block",
        ),
        Knob(
            name="temperature",
            label="temperature",
            help="0 takes the best token; higher samples more freely.",
            type=float,
            default=0.0,
            low=0.0,
            high=5.0,
            snaps=tuple(step / 10 for step in range(0, 21)),
        ),
        Knob(
            name="top_p",
            label="top-p",
            help="Sample from the smallest set of tokens with this much probability.",
            type=float,
            default=1.0,
            low=0.01,
            high=1.0,
            snaps=(0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 1.0),
        ),
        Knob(
            name="top_k",
            label="top-k",
            help="Sample from the k best tokens; 0 takes all.",
            type=int,
            default=0,
            low=0,
            high=1000,
            snaps=(0, 5, 10, 20, 40, 80),
        ),
        Knob(
            name="max_new_tokens",
            label="length",
            help="Longest answer, in tokens.",
            type=int,
            default=512,
            low=1,
            high=32768,
            snaps=(32, 64, 128, 256, 512, 1024, 2048),
        ),
        Knob(
            name="cache",
            label="cache",
            help="Keys and values kept between forwards; prefix and dual are approximate, and faster.",
            type=str,
            default="auto",
            choices=CACHES,
            holds="run",
        ),
        Knob(
            name="distance_penalty",
            label="distance",
            help="Confidence taken off per position from the leftmost mask: higher works more from the left.",
            type=float,
            default=0.0,
            low=0.0,
            high=1.0,
            snaps=(0.0, 0.01, 0.02, 0.05, 0.1, 0.2),
        ),
        Knob(
            name="entropy_bound",
            label="entropy",
            help="Summed entropy, in nats, that the entropy policy may commit in one step.",
            type=float,
            default=0.35,
            low=0.0,
            high=100.0,
            snaps=(0.05, 0.1, 0.2, 0.35, 0.5, 1.0, 2.0),
        ),
        Knob(
            name="pick_temperature",
            label="pick temp.",
            help="0 commits the surest positions; higher draws positions more freely (Dream's alg_temp).",
            type=float,
            default=0.0,
            low=0.0,
            high=5.0,
            snaps=(0.0, 0.1, 0.2, 0.5, 1.0, 2.0),
        ),
        Knob(
            name="edit_threshold",
            label="edit",
            help="Replace a committed token when another is more confident than this (token editing).",
            type=float,
            default=0.9,
            low=0.0,
            high=1.0,
            snaps=tuple(step / 20 for step in range(0, 21)),
        ),
        Knob(
            name="cfg_scale",
            label="cfg",
            help=(
                "Classifier-free guidance: push away from what the model says without the prompt; 0 is off. "
                "A guided forward counts once and takes twice as long."
            ),
            type=float,
            default=0.0,
            low=0.0,
            high=20.0,
            snaps=(0.0, 0.5, 1.0, 1.5, 2.0, 3.0),
            holds="run",
        ),
        Knob(
            name="seed",
            label="seed",
            help="Makes sampling reproducible; auto draws one.",
            type=int,
            default=None,
            low=0,
            high=2**53 - 1,
            optional=True,
            holds="run",
        ),
    )
}
"""Every knob by name, in the order in which people meet them."""


class Knobs(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A setting of every knob. Frozen; :meth:`replace` gives a checked copy.

    Raises:
        KnobError: on construction, when a value is out of its range.
    """

    steps: int = 8
    block_size: int = 8
    threshold: float = 0.9
    policy: str = "confidence"
    schedule: str = "pace"
    temperature: float = 0.0
    top_p: float = 1.0
    top_k: int = 0
    max_new_tokens: int = 512
    cache: str = "auto"
    distance_penalty: float = 0.0
    entropy_bound: float = 0.35
    pick_temperature: float = 0.0
    edit_threshold: float = 0.9
    cfg_scale: float = 0.0
    seed: int | None = None

    def __post_init__(self) -> None:
        for name, knob in KNOBS.items():
            msgspec.structs.force_setattr(self, name, knob.check(getattr(self, name)))

    def replace(self, **changes: object) -> "Knobs":
        """A copy with some knobs changed. ``preset`` may be given too: a name of :data:`PRESETS`.

        Raises:
            KnobError: unknown knob, or a value out of its range.
        """
        preset = changes.pop("preset", None)
        if preset is not None:
            if preset not in PRESETS:
                raise KnobError(f"preset is {preset!r}; it must be one of {', '.join(PRESETS)}")
            changes = {**PRESETS[str(preset)], **changes}
        unknown = [name for name in changes if name not in KNOBS]
        if unknown:
            raise KnobError(f"there is no knob {unknown[0]!r}; the knobs are {', '.join(KNOBS)}")
        return msgspec.structs.replace(self, **changes)

    def to_dict(self) -> dict[str, Value]:
        """Every knob by name."""
        return msgspec.structs.asdict(self)

    @property
    def preset(self) -> str | None:
        """Name of the preset that these knobs are on, if any."""
        values = self.to_dict()
        for name, preset in PRESETS.items():
            if all(values[key] == value for key, value in preset.items()):
                return name
        return None


class LiveKnobs:
    """The knobs of a running generation: turned by one thread, read by another before every step."""

    def __init__(self, knobs: Knobs) -> None:
        self._lock = threading.Lock()
        self._knobs = knobs

    @property
    def now(self) -> Knobs:
        """The setting in force."""
        return self._knobs

    def turn(self, **changes: object) -> Knobs:
        """Change some knobs and return the new setting.

        Raises:
            KnobError: as :meth:`Knobs.replace`; nothing is changed then.
        """
        with self._lock:
            self._knobs = self._knobs.replace(**changes)
            return self._knobs
