"""Owns the model and one worker thread: loads, runs, cancels, frees. Importing this loads no torch.

The interface's thread only ever puts jobs into a queue and reads :attr:`EngineHost.state`; everything that
takes time, importing torch included, happens on the worker.
"""

import gc
import queue
import sys
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from dllm_tui.errors import DllmError, EngineError
from dllm_tui.events import AnyEvent, Canvas, Done, Error, Reason, Step
from dllm_tui.knobs import LiveKnobs
from dllm_tui.ports import HostState, Message, Origin, Run, Sink

if TYPE_CHECKING:
    from dllm_tui.engine.api import Engine

Progress: TypeAlias = Callable[[str, float], None]
Loader: TypeAlias = Callable[[str, Progress], "Engine"]

PATIENCE = 1.0
"""Seconds that :meth:`EngineHost.close` waits for the worker; a long forward is left to itself."""


class _Superseded(Exception):  # noqa: N818 - a signal, no error
    """Another model was asked for, or the host was closed, while this one was being loaded."""


@dataclass(frozen=True)
class _Load:
    model: str


@dataclass(frozen=True)
class _Answer:
    run: Run
    messages: tuple[Message, ...]
    sinks: list[Sink]
    index: int
    origin: Origin | None = None


class EngineHost:
    """The engine behind :class:`dllm_tui.ports.Host`. Every method returns at once.

    Jobs are done in order. Loading a model supersedes what was asked for before: what runs is cancelled,
    what waits ends as cancelled, and a load that goes on is given up.

    Args:
        device: ``auto``, ``cpu``, ``cuda`` or ``cuda:1``.
        dtype: ``auto``, ``float32``, ``bfloat16`` or ``float16``.
        alternatives: how many of the best tokens the guesses of a run report.
        loader: gives the engine of a model's name; by default :meth:`dllm_tui.engine.Engine.load`.
    """

    def __init__(
        self,
        device: str = "auto",
        dtype: str = "auto",
        *,
        alternatives: int = 0,
        loader: Loader | None = None,
    ) -> None:
        self._alternatives = alternatives
        self._loader = loader or _engine_loader(device, dtype)
        self._jobs: queue.SimpleQueue[_Load | _Answer | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._state = HostState()
        self._wanted: _Load | None = None
        self._pending: list[Run] = []
        self._closed = False
        self._engine: Engine | None = None
        self._worker = threading.Thread(target=self._work, name="dllm-engine", daemon=True)

    @property
    def state(self) -> HostState:
        """Where the host stands now; a new object whenever something changed."""
        return self._state

    def load(self, model: str) -> None:
        """Fetch and load a model in the background, in place of the present one.

        Args:
            model: a catalogue name, a hub id, a directory or a GGUF file.
        """
        with self._lock:
            if self._closed:
                return
            for run in self._pending:
                run.cancel()
            self._wanted = job = _Load(model)
            self._state = HostState(phase="loading", requested=model, detail=f"loading {model}")
            self._put(job)

    def generate(
        self,
        messages: Sequence[Message],
        knobs: LiveKnobs,
        *,
        sinks: Sequence[Sink] = (),
        index: int = 0,
        origin: Origin | None = None,
    ) -> Run:
        """Answer a conversation in the background.

        Args:
            messages: the conversation; the worker puts it into the model's chat template.
            knobs: may be turned while the run goes on.
            sinks: get every event on the worker's thread, before it can be seen in the run. One that raises
                is reported in the run and asked no more.
            index: becomes ``run`` in the run's events.
            origin: a canvas that the answer goes on from.

        Returns:
            The run. Whatever fails ends up in it as ``error`` and then ``done``.
        """
        run = Run(knobs)
        job = _Answer(run, tuple(messages), list(sinks), index, origin)
        with self._lock:
            if not self._closed:
                self._pending.append(run)
                self._put(job)
                return run
        self._end(job, "cancelled")
        return run

    def pieces(self, text: str) -> list[tuple[int, bytes]]:
        """The tokens of plain text, each with its bytes; at once, for the tokenizer is not the worker's.

        Raises:
            EngineError: no model is ready, or it comes without a tokenizer.
        """
        engine = self._engine
        if engine is None or engine.tokenizer is None:
            raise EngineError("No model is ready that could read these words.", "Wait until it is loaded.")
        tokenizer = engine.tokenizer
        return [(token, tokenizer.piece(token)) for token in tokenizer.encode(text)]

    def close(self) -> None:
        """Cancel what runs and free the model; returns within about a second."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
            self._wanted = None
            for run in self._pending:
                run.cancel()
            self._jobs.put(None)
        if self._worker.is_alive() and self._worker is not threading.current_thread():
            self._worker.join(PATIENCE)

    def _put(self, job: _Load | _Answer) -> None:
        if self._worker.ident is None:
            self._worker.start()
        self._jobs.put(job)

    # On the worker's thread

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            if isinstance(job, _Load):
                self._do_load(job)
            else:
                self._do_answer(job)
        self._free()

    def _do_load(self, job: _Load) -> None:
        # The old model goes first: two at once may not fit.
        self._free()
        try:
            self._tell(job, HostState(phase="loading", requested=job.model, detail=f"loading {job.model}"))
            engine = self._loader(job.model, lambda text, done: self._tell(job, _progress(job, text, done)))
            self._engine = engine
            ready = HostState(
                phase="ready",
                requested=job.model,
                model=engine.info,
                defaults=engine.defaults,
                notice=engine.family.notice,
            )
            self._tell(job, ready)
        except _Superseded:
            self._free()
        except BaseException as error:  # a panic of a Rust library is no Exception, and the thread must live
            self._free()
            state = HostState(phase="failed", requested=job.model, error=_explain(error, job.model))
            with self._lock:
                if job is self._wanted:
                    self._state = state

    def _tell(self, job: _Load, state: HostState) -> None:
        """Say where a load stands, or stop it if it isn't wanted any more."""
        with self._lock:
            if job is not self._wanted:
                raise _Superseded
            self._state = state

    def _do_answer(self, job: _Answer) -> None:
        run = job.run
        try:
            if run.cancelled:
                self._end(job, "cancelled")
                return
            engine, state = self._engine, self._state
            if engine is None:
                why = state.error.message if state.error else "No model is loaded."
                raise EngineError(why, state.error.hint if state.error else "Choose a model first.")
            if engine.tokenizer is None:
                raise EngineError(f"{engine.info.id} comes without a tokenizer: it can't chat.")
            prompt = engine.tokenizer.encode_chat(job.messages)
            for event in engine.generate(
                prompt,
                run.knobs,
                run=job.index,
                should_stop=lambda: run.cancelled,
                alternatives=self._alternatives,
                origin=job.origin,
            ):
                _add(job, event)
        except BaseException as error:  # as above
            about = _explain(error, "")
            _add(job, Error(run=job.index, message=about.message, hint=about.hint))
            self._end(job, "error")
        finally:
            with self._lock:
                self._pending = [other for other in self._pending if other is not run]

    def _end(self, job: _Answer, reason: Reason) -> None:
        """End a run that the engine didn't end itself, with what it has got so far."""
        canvas, steps = Canvas(), [event for event in job.run.events if isinstance(event, Step)]
        for step in steps:
            canvas.apply(step)
        tokens = tuple(token for token in canvas.cells if token is not None)
        done = Done(
            run=job.index,
            reason=reason,
            token_ids=tokens,
            tokens=len(tokens),
            nfe=steps[-1].nfe if steps else 0,
            nfe_by_phase=Counter(step.phase for step in steps if step.nfe),
            seconds=steps[-1].t if steps else 0.0,
        )
        _add(job, done)

    def _free(self) -> None:
        self._engine = None
        gc.collect()
        if (torch := sys.modules.get("torch")) and torch.cuda.is_initialized():
            torch.cuda.empty_cache()


def _engine_loader(device: str, dtype: str) -> Loader:
    def load(model: str, progress: Progress) -> "Engine":
        from dllm_tui.families.catalogue import refuse_nowhere

        refuse_nowhere(model)
        if "torch" not in sys.modules:
            progress("loading PyTorch", 0.0)
        from dllm_tui.engine import Engine

        return Engine.load(model, device=device, dtype=dtype, progress=progress)

    return load


def _progress(job: _Load, text: str, done: float) -> HostState:
    phase = "loading" if text.startswith("loading") else "fetching"
    return HostState(phase=phase, requested=job.model, detail=text, progress=done)


def _add(job: _Answer, event: AnyEvent) -> None:
    """Give an event to the sinks and then to the run; a sink that fails is reported and dropped."""
    failed: list[Error] = []
    for sink in list(job.sinks):
        try:
            sink(event)
        except Exception as error:
            job.sinks.remove(sink)
            about = _explain(error, "")
            failed.append(Error(run=job.index, message=about.message, hint=about.hint))
    # Errors go in front: nothing may come after done.
    for error in failed:
        _add(job, error)
    job.run.add(event)


def _explain(error: BaseException, model: str) -> Error:
    """An error in words for people."""
    if isinstance(error, DllmError):
        return Error(message=error.message, hint=error.hint)
    if isinstance(error, MemoryError) or "out of memory" in str(error).lower():
        return Error(
            message=f"There is not enough memory to load {model}." if model else "Out of memory.",
            hint="Choose a smaller model, or another device.",
        )
    return Error(
        message=f"Unexpected {type(error).__name__}: {error}".rstrip(": "),
        hint="This is a fault of the program; please report it.",
    )
