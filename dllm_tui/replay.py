"""A recorded session in place of a live one: what the interface asks of a session, answered from a trace."""

from bisect import bisect_left
from collections.abc import Mapping, Sequence

from dllm_tui.events import (
    AnyEvent,
    Header,
    KnobChange,
    KnobsSet,
    ModelInfo,
    Pieces,
    RunStart,
    ScreenSize,
    Turn,
)
from dllm_tui.knobs import KNOBS, KnobError, Knobs, LiveKnobs
from dllm_tui.ports import HostState, Message, Origin, Run, Sink
from dllm_tui.session import Session, SessionError
from dllm_tui.settings import Settings
from dllm_tui.trace.archive import Archive
from dllm_tui.trace.chats import follow, versions_after

NOT_NOW = "This is a replay of a recorded session."
LIVE = "Start dllm-chat without replay for that."


class ReplayHost:
    """Stands for the model that answered then. Implements :class:`dllm_tui.ports.Host`."""

    def __init__(self) -> None:
        self.state = HostState()

    def show(self, model: ModelInfo | None) -> None:
        """Say that this model is ready."""
        self.state = HostState(
            phase="ready",
            requested=model.id if model else "",
            model=model or ModelInfo(id="unknown model", family=""),
        )

    def load(self, model: str) -> None:
        """Nothing is loaded."""

    def generate(
        self,
        messages: Sequence[Message],
        knobs: LiveKnobs,
        *,
        sinks: Sequence[Sink] = (),
        index: int = 0,
        origin: Origin | None = None,
    ) -> Run:
        """Nothing is generated.

        Raises:
            SessionError: always.
        """
        raise SessionError(NOT_NOW, LIVE)

    def pieces(self, text: str) -> list[tuple[int, bytes]]:
        """Nothing is read.

        Raises:
            SessionError: always.
        """
        raise SessionError(NOT_NOW, LIVE)

    def close(self) -> None:
        """There is nothing to free."""


class ReplaySession(Session):
    """The session of a trace after some of its events.

    Args:
        archive: the trace.
    """

    def __init__(self, archive: Archive) -> None:
        self.archive = archive
        self.count = 0
        """Events that have happened."""
        self._stage = ReplayHost()
        self._seen: dict[int, Run] = {}
        """Runs that began since the session was last put somewhere."""
        super().__init__(self._stage, Settings())

    def put(self, count: int) -> None:
        """Stand after the first ``count`` events, with no run in progress."""
        self.count = count
        self._seen.clear()
        self._run = None
        self._stage.show(self.archive.header_at(count).model)
        self._knobs(Knobs().to_dict())
        turned = self.archive.timeline.turned
        first = last = bisect_left(turned, count)
        while first and not isinstance(self.archive[turned[first - 1]], RunStart):
            first -= 1
        for at in turned[max(first - 1, 0) : last]:
            self._turned(self.archive[at])

    @property
    def next(self) -> AnyEvent:
        """The event that happens next; it must be there."""
        return self.archive[self.count]

    def take(self) -> None:
        """The next event happens."""
        event = self.next
        self.count += 1
        match event:
            case Header():
                self._stage.show(event.model)
            case Turn() | ScreenSize():
                pass
            case KnobsSet():
                self._turned(event)
            case RunStart():
                self._turned(event)
                self._run = self._seen[event.run] = Run(self._live)
                known = self.archive.runs[event.run][1]
                assert isinstance(known, Pieces)
                for told in (event, known):
                    self._run.add(told)
            case _:
                self._turned(event)
                if event.run in self._seen:
                    self._seen[event.run].add(event)

    @property
    def turns(self) -> tuple[Turn, ...]:
        """The conversation as it was then."""
        return tuple(self.archive.turns_at(self.count))

    @property
    def versions(self) -> tuple[Turn, ...]:
        """The answers that the last prompt had got then."""
        versions, turns = dict[int, Turn](), list[Turn]()
        for turn in self.archive.said(self.count):
            versions = versions_after(versions, turns, turn)
            turns = follow(turns, turn)
        return tuple(turn for _, turn in sorted(versions.items()))

    @property
    def events(self) -> Mapping[int, Sequence[AnyEvent]]:
        """Events of the runs."""
        return self.archive.runs

    @property
    def models(self) -> Mapping[int, str]:
        """The model of every run."""
        models = (
            (span.run, self.archive.header_at(span.event).model)
            for span in self.archive.timeline.runs.values()
        )
        return {run: model.id for run, model in models if model}

    @property
    def knobs(self) -> Knobs:
        """The knobs as they stood."""
        return self._live.now

    def turn(self, **changes: object) -> Knobs:
        """Nothing can be turned.

        Raises:
            KnobError: always.
        """
        raise KnobError("a replay shows the knobs as they were turned then")

    def resized(self, columns: int, rows: int) -> None:
        """What the session was recorded at is of no concern for how it is shown."""

    def unbranched(self, run: int) -> str:
        """Nothing is generated."""
        return "a replay has no model"

    def choose(self, run: int) -> None:
        """Nothing is changed.

        Raises:
            SessionError: always.
        """
        raise SessionError(NOT_NOW, LIVE)

    def regenerate(self) -> Run:
        """Nothing is generated.

        Raises:
            SessionError: always.
        """
        raise SessionError(NOT_NOW, LIVE)

    def send(self, text: str) -> Run:
        """Nothing is generated.

        Raises:
            SessionError: always.
        """
        raise SessionError(NOT_NOW, LIVE)

    def _turned(self, event: AnyEvent) -> None:
        """Show the knobs as they are from this event on."""
        match event:
            case RunStart():
                self._knobs(event.knobs)
            case KnobChange() | KnobsSet():
                self._knobs(event.changes)
            case _:
                pass

    def _knobs(self, values: Mapping[str, object]) -> None:
        """Show knobs as they were, as far as they are known here and in their range."""
        for name in values.keys() & KNOBS.keys():
            try:
                self._live.turn(**{name: values[name]})
            except KnobError:
                continue
