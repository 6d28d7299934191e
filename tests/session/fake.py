"""A host whose model says what the test wants, word by word, on its own thread."""

import queue
import threading
from collections.abc import Callable, Iterator, Sequence

import msgspec

from dllm_tui.events import (
    AnyEvent,
    BlockStart,
    Change,
    Commit,
    Done,
    Error,
    Guess,
    ModelInfo,
    Pieces,
    RunStart,
    Step,
)
from dllm_tui.knobs import Knobs, LiveKnobs
from dllm_tui.ports import HostState, Message, Origin, Run, Sink

STOP = 2
MODEL = ModelInfo(id="fake", family="fake", context_length=8192)


def last_said(messages: Sequence[Message]) -> str:
    """Answers with the number of messages and the last one."""
    return f"{len(messages)} {messages[-1].text}"


class FakeHost:
    """Answers one request after the other. A word is a token, and as many are counted in the prompt."""

    def __init__(
        self,
        answer: Callable[[Sequence[Message]], str] = last_said,
        *,
        model: ModelInfo | None = MODEL,
        defaults: Knobs | None = None,
    ) -> None:
        self.answer = answer
        self.asked: list[list[Message]] = []
        self.may_step = threading.Semaphore(10**9)
        """Every word takes one: a test that holds it back stops the model in mid-sentence."""
        self._ids: dict[str, int] = {}
        self._requests: queue.Queue[Callable[[], None]] = queue.Queue()
        self.state = HostState(phase="empty")
        self.ready(model, defaults or Knobs())
        threading.Thread(target=self._work, daemon=True).start()

    def ready(self, model: ModelInfo | None, defaults: Knobs) -> None:
        """Become ready with a model, or with ``None`` be loading still."""
        phase = "ready" if model else "loading"
        self.state = HostState(phase=phase, model=model, defaults=defaults if model else Knobs())

    def load(self, model: str) -> None:
        """Be ready at once, or fail for good with a model called ``broken``."""
        if model == "broken":
            error = Error(message="There is no model 'broken'.", hint="Choose another.")
            self.state = HostState(phase="failed", requested=model, error=error)
        else:
            self.ready(msgspec.structs.replace(MODEL, id=model), Knobs())

    def close(self) -> None:
        """Nothing to free."""

    def generate(
        self,
        messages: Sequence[Message],
        knobs: LiveKnobs,
        *,
        sinks: Sequence[Sink] = (),
        index: int = 0,
        origin: Origin | None = None,
    ) -> Run:
        run = Run(knobs)
        self.asked.append(list(messages))

        def work() -> None:
            for event in self._events(run, messages, index):
                for sink in sinks:
                    sink(event)
                run.add(event)

        self._requests.put(work)
        return run

    def _work(self) -> None:
        while True:
            self._requests.get()()

    def _events(self, run: Run, messages: Sequence[Message], index: int) -> Iterator[AnyEvent]:
        try:
            text = self.answer(messages)
        except MemoryError as error:
            yield Error(run=index, message=str(error))
            yield Done(run=index, reason="error")
            return
        yield RunStart(
            run=index,
            knobs=run.knobs.now.to_dict(),
            prompt_tokens=sum(len(message.text.split()) for message in messages),
        )
        words = [word + " " for word in text.split(" ")]
        length = len(words) + 1
        yield BlockStart(run=index, block=0, start=0, end=length)
        ids: list[int] = []
        for position, word in enumerate([*words, ""]):
            self.may_step.acquire()
            if run.cancelled:
                break
            token = self._ids.setdefault(word, len(self._ids) + 10) if word else STOP
            yield Pieces(run=index, pieces={token: word.encode()}, special=() if word else (STOP,))
            ids.append(token)
            yield Step(
                run=index,
                phase="denoise",
                step=position + 1,
                nfe=position + 1,
                t=position * 0.01,
                length=length,
                changes=(Change(position=position, token_id=token, confidence=0.5),),
                guesses=(Guess(position=length - 1, token_id=token, confidence=0.1),),
            )
        else:
            yield Commit(run=index, block=0, start=0, end=length)
        reason = "cancelled" if run.cancelled else "stop"
        yield Done(run=index, reason=reason, token_ids=tuple(ids), tokens=len(ids), nfe=len(ids))
