"""The engine as a library: load a model, ask for logits, generate."""

from collections.abc import Callable, Iterator, Sequence
from operator import index
from pathlib import Path
from typing import TypeAlias

import torch
from torch import Tensor

from dllm_tui.engine.attention import sequence_mask
from dllm_tui.engine.device import pick_bits, pick_device, pick_dtype, settle_threads
from dllm_tui.engine.loop import Decoder
from dllm_tui.engine.model import Model, Tokenizer
from dllm_tui.engine.schedules import noise_level
from dllm_tui.errors import EngineError
from dllm_tui.events import AnyEvent, ModelInfo
from dllm_tui.families.family import Family
from dllm_tui.families.smol import is_adapter
from dllm_tui.knobs import Knobs, LiveKnobs
from dllm_tui.ports import Origin

Progress: TypeAlias = Callable[[str, float], None]
"""Gets what is being done, for people, and how much of it is done, 0 … 1. May raise, to stop."""


class Engine:
    """A loaded model and its decode loop.

    One generation at a time: it is as thread-safe as the network is.

    Args:
        model: what a family's loader gives.
    """

    def __init__(self, model: Model) -> None:
        self.model = model

    @classmethod
    def load(
        cls, model: str | Path, device: str = "auto", dtype: str = "auto", progress: Progress | None = None
    ) -> "Engine":
        """Fetch a model if need be, and load it.

        Args:
            model: a catalogue name (``smol``), a hub id, a directory or a GGUF file.
            device: ``auto``, ``cpu``, ``cuda`` or ``cuda:1``.
            dtype: ``auto``, ``float32``, ``bfloat16`` or ``float16``; on CUDA also ``int8`` and ``int4``
                (weights alone, the arithmetic in bfloat16).
            progress: is told how far it is; may raise, to stop.

        Raises:
            DllmError: it can't be fetched or loaded; message and hint are for people.
        """
        place = pick_device(device)
        bits = pick_bits(dtype)
        kind = pick_dtype("bfloat16" if bits else dtype, place)
        if place.type == "cpu":
            settle_threads()
        if str(model) == "smol":
            if bits:
                raise EngineError(f"smol isn't kept in {bits}: it is small as it is.", "Use dtype auto.")
            from dllm_tui.engine.adapter_load import load_smol

            return cls(load_smol(place, kind, progress))
        directory = Path(model).expanduser()
        if is_adapter(directory) and not bits:
            from dllm_tui.engine.adapter_load import load_adapter

            return cls(load_adapter(directory, place, kind, progress))
        from dllm_tui.engine.load import load_checkpoint

        return cls(load_checkpoint(model, place, kind, progress, bits=bits))

    @property
    def family(self) -> Family:
        """The family's switches, names and defaults."""
        return self.model.family

    @property
    def device(self) -> torch.device:
        """Where the model is."""
        return self.model.backbone.device

    @property
    def defaults(self) -> Knobs:
        """The family's default knobs."""
        return self.model.family.defaults

    @property
    def info(self) -> ModelInfo:
        """What the model says of itself."""
        return self.model.info

    @property
    def tokenizer(self) -> Tokenizer | None:
        """``None`` for a checkpoint that comes without one."""
        return self.model.tokenizer

    def logits(self, token_ids: Sequence[int]) -> Tensor:
        """One forward over decided tokens, in the family's own attention.

        For ``smol`` that is the clean stream: the base model's causal logits. Where the mask has an id of
        its own, masks may stand among the tokens.

        Args:
            token_ids: at least one.

        Returns:
            float32 [T, vocab], raw: row i is what the network puts out at place i, whatever the shift.

        Raises:
            EngineError: no ids, too many, or an unknown one.
        """
        backbone = self.model.backbone
        ids = torch.tensor(self._checked(token_ids, room=0), device=self.device)
        mask = sequence_mask(self.family, len(ids))
        with torch.inference_mode():
            return backbone.forward(
                ids,
                torch.arange(len(ids), device=self.device),
                mask=None if mask is None else mask.to(self.device),
                condition=torch.tensor(noise_level(1.0)) if self.family.knows_noise else None,
            ).float()

    def generate(
        self,
        prompt_ids: Sequence[int],
        knobs: Knobs | LiveKnobs | None = None,
        *,
        run: int = 0,
        should_stop: Callable[[], bool] = lambda: False,
        alternatives: int = 0,
        frame: Sequence[int | None] = (),
        origin: Origin | None = None,
    ) -> Iterator[AnyEvent]:
        """Generate an answer; closing the iterator cancels.

        Args:
            prompt_ids: the prompt, chat template included.
            knobs: how to decode, the family's defaults if ``None``. :class:`~dllm_tui.knobs.LiveKnobs` may
                be turned meanwhile: a change holds from the next step, of the block size from the next block.
            run: the number that the events carry.
            should_stop: asked before every forward; true ends the run with ``cancelled``.
            alternatives: how many of the best tokens each guess reports.
            frame: the answer's first cells, where some are given: a token, or ``None`` for one to be found.
            origin: go on from a canvas, as another run left it or a person changed it, in place of ``frame``.
                Its finished blocks are read as the prompt is; its last block goes on from the step it had
                come to. Where nothing is drawn and cache and policy are exact (not ``prefix``, ``dual`` or
                ``credit``), the answer is that of a run that was never interrupted.

        Returns:
            Events, ``run`` first and ``done`` last. Running out of memory is reported as ``error`` before
            ``done``; the engine can be used further.

        Raises:
            EngineError: the prompt is empty, too long or not of token ids, a given token is unknown or lies
                past ``max_new_tokens``, the knobs are none, they or the origin ask for what the family
                doesn't do, or the prompt isn't the origin's.
        """
        if not isinstance(knobs, Knobs | LiveKnobs | None):  # pyright: ignore[reportUnnecessaryIsInstance] (untyped callers)
            raise EngineError(
                f"knobs is a {type(knobs).__name__}, not Knobs.", "Say engine.defaults.replace(steps=4)."
            )
        live = knobs if isinstance(knobs, LiveKnobs) else LiveKnobs(knobs or self.defaults)
        if len(frame) > live.now.max_new_tokens:
            raise EngineError(
                f"The frame has {len(frame)} cells, the longest answer {live.now.max_new_tokens}.",
                "Raise max_new_tokens.",
            )
        given = [token if token is None else self._id(token) for token in frame]
        prompt = self._checked(prompt_ids, room=1)
        if origin is not None:
            self._check_origin(origin, len(prompt))
        return Decoder(
            self.model,
            prompt,
            live,
            run=run,
            should_stop=should_stop,
            alternatives=alternatives,
            frame=given,
            origin=origin,
        ).events()

    def _check_origin(self, origin: Origin, prompt: int) -> None:
        """Whether a run can begin there."""
        if origin.prompt_tokens != prompt:
            raise EngineError(
                f"The canvas belongs to a prompt of {origin.prompt_tokens} tokens; this one has {prompt}.",
                "Ask again instead.",
            )
        if prompt + len(origin.cells) > self.model.backbone.context_length:
            raise EngineError(
                f"Prompt and canvas have {prompt + len(origin.cells)} cells; {self.info.id} holds "
                f"{self.model.backbone.context_length}."
            )
        edges = [*origin.blocks, origin.start]
        masks = None in origin.cells[: origin.start]
        if edges[0] != 0 or edges != sorted(edges) or edges[-1] > len(origin.cells) or masks:
            raise EngineError("The canvas has masks in its finished blocks, or gaps between them.")
        for cell in origin.cells:
            if cell is not None:
                self._id(cell.token_id)

    def _checked(self, token_ids: Sequence[int], room: int) -> list[int]:
        """The ids as a list, if the model can take them and ``room`` more."""
        if isinstance(token_ids, str | bytes):
            raise EngineError(
                "The prompt is text, not token ids.",
                "Encode it first: engine.tokenizer.encode_chat(messages).",
            )
        ids = [self._id(token) for token in token_ids]
        context = self.model.backbone.context_length
        if not ids:
            raise EngineError("The prompt is empty.", "Say something.")
        if len(ids) + room > context:
            raise EngineError(
                f"The prompt has {len(ids)} tokens; {self.info.id} holds {context}, its answer included.",
                "Begin a new chat, or shorten the prompt.",
            )
        return ids

    def _id(self, token: int) -> int:
        """The token as a plain integer (tensors and arrays have others), if the model knows it."""
        known = self.model.backbone.vocab_size
        try:
            number = -1 if isinstance(token, bool) else index(token)
        except TypeError:
            number = -1
        if not 0 <= number < known:
            raise EngineError(f"Token id {token!r} is unknown: {self.info.id} has ids 0 to {known - 1}.")
        return number
