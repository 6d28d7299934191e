"""Many decoders at once: what each asks of the network is run as one forward.

A decoder of eight rows reads every weight for those rows alone. To measure a model on a hundred prompts, each
gets a decoder in a thread of its own; when all of them wait for the network, it is run once for all.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from threading import Condition
from typing import TypeVar

from torch import Tensor

from dllm_tui.engine.backbone import Cache
from dllm_tui.engine.lean import LeanBackbone, Request
from dllm_tui.errors import EngineError

Result = TypeVar("Result")

ROWS = 1024
"""Rows of a forward at most, if one request alone doesn't have more."""


class Together:
    """A backbone (see :class:`~dllm_tui.engine.backbone.Backbone`) that decoders in several threads share.

    Args:
        network: what is run.
    """

    def __init__(self, network: LeanBackbone) -> None:
        self._network = network
        self.device, self.dtype = network.device, network.dtype
        self.vocab_size, self.context_length = network.vocab_size, network.context_length
        self._changed = Condition()
        self._waiting: list[tuple[Request, Future[Tensor]]] = []
        self._live = 0
        """Threads that may still ask for a forward."""

    def new_cache(self, capacity: int) -> Cache:
        """An empty cache for up to ``capacity`` positions."""
        return self._network.new_cache(capacity)

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
        """One forward; waits until it has been run with those of the others."""
        request = Request(
            ids=ids,
            positions=positions,
            noised=noised,
            cache=cache,
            context=context,
            write_at=write_at,
            mask=mask,
            causal=causal,
            rows=rows,
        )
        answer: Future[Tensor] = Future()
        with self._changed:
            self._waiting.append((request, answer))
            self._changed.notify()
        return answer.result()

    def run(self, works: Sequence[Callable[[], Result]]) -> list[Result]:
        """Do all of some works, each in a thread of its own; their forwards are run in this thread.

        Args:
            works: what uses this backbone.

        Raises:
            Exception: the first that a work raises.
        """
        self._live = len(works)
        with ThreadPoolExecutor(max(1, len(works)), thread_name_prefix="decoder") as pool:
            futures = [pool.submit(self._do, work) for work in works]
            try:
                while asked := self._asked():
                    self._answer(asked)
            except BaseException:
                self._give_up()
                raise
            return [future.result() for future in futures]

    def _do(self, work: Callable[[], Result]) -> Result:
        try:
            return work()
        finally:
            with self._changed:
                self._live -= 1
                self._changed.notify()

    def _asked(self) -> list[tuple[Request, Future[Tensor]]]:
        """What all wait for, as soon as all do; nothing when there is nobody left."""
        with self._changed:
            self._changed.wait_for(lambda: len(self._waiting) == self._live)
            asked, self._waiting = self._waiting, []
            return asked

    def _answer(self, asked: list[tuple[Request, Future[Tensor]]]) -> None:
        while asked:
            rows, taken = 0, 0
            while taken < len(asked) and (not taken or rows + len(asked[taken][0].ids) <= ROWS):
                rows += len(asked[taken][0].ids)
                taken += 1
            now, asked = asked[:taken], asked[taken:]
            try:
                said = self._network.forward_together([request for request, _ in now])
            except BaseException:
                asked = [*now, *asked]
                with self._changed:
                    self._waiting += asked
                raise
            for (_, answer), logits in zip(now, said, strict=True):
                answer.set_result(logits)

    def _give_up(self) -> None:
        """Let no thread wait any longer."""
        while True:
            with self._changed:
                self._changed.wait_for(lambda: len(self._waiting) == self._live)
                asked, self._waiting = self._waiting, []
            if not asked:
                return
            for _, answer in asked:
                answer.set_exception(EngineError("The measurement was stopped."))
