"""A recording: what happens in a session from some moment on, written as it happens, to give away."""

import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path

import msgspec

from dllm_tui.errors import TraceError
from dllm_tui.events import AnyEvent, Header, KnobsSet, RunStart, ScreenSize, Turn
from dllm_tui.trace.cut import Clip
from dllm_tui.trace.writer import Writer

PARTIAL = ".part"
"""Behind the name of a recording that goes on. Every line is whole: after a crash it is a trace as it is."""


class Recording:
    """Takes the events of a session and writes those of a trace that tells nothing of the machine.

    Events may come from any thread. The file has its name when the recording ends well, not before.

    Args:
        path: what it becomes.
        header: of the session as it stands.
        opening: how the interface stands.
        standing: turns of the conversation so far; they are not in it.
        replace: whether a file that is there may be replaced.
        now: the time of day.

    Raises:
        TraceError: the file can't be written, or is there already.
    """

    def __init__(
        self,
        path: Path,
        *,
        header: Header,
        opening: Iterable[ScreenSize | KnobsSet] = (),
        standing: int = 0,
        replace: bool = False,
        now: Callable[[], float] = time.time,
    ) -> None:
        self.path = path
        self.problem = ""
        """Why nothing more is recorded; empty where all is well."""
        self.turns = 0
        """Messages in it so far."""
        self._replace = replace
        self._refuse_to_replace()
        self._now = now
        self._began = now()
        self._clip = Clip(standing)
        self._header = self._clip.header(header)
        self._fresh = True
        """Nothing but how things stand has come since the last header."""
        self._lock = threading.RLock()
        self._writer: Writer | None = Writer(path.with_name(path.name + PARTIAL))
        self._put(self._header)
        for event in opening:
            self._put(msgspec.structs.replace(event, at=0.0))

    @property
    def seconds(self) -> float:
        """How long it has gone on."""
        return max(0.0, self._now() - self._began)

    @property
    def file(self) -> Path | None:
        """Where it is now: under its name, once it has ended well."""
        partial = self.path.with_name(self.path.name + PARTIAL)
        return next((path for path in (partial, self.path) if path.exists()), None)

    def write(self, event: AnyEvent) -> None:
        """Take the next event of the session.

        Raises:
            TraceError: the disk is full or gone; raised once. What was written before stays.
        """
        with self._lock:
            if isinstance(event, Header):
                event = self._clip.header(event)
                if self._fresh and event.model == self._header.model:
                    return
                self._header, self._fresh = event, True
                self._put(event)
                return
            at = getattr(event, "at", None)
            second = round(max(0.0, (self._now() if at is None else at) - self._began), 3)
            taken = self._clip.take(event, second)
            if taken is not None:
                self._fresh = self._fresh and not isinstance(taken, Turn | RunStart)
                self.turns += isinstance(taken, Turn)
                self._put(taken)

    def join(self, standing: int) -> None:
        """Another conversation, of so many turns, is what goes on."""
        with self._lock:
            self._clip.join(standing)

    def close(self) -> bool:
        """End it, and give the file its name; whether there is one: nothing may have been said.

        Raises:
            TraceError: a file of that name has come to be, or the folder can't be written. The recording
                stays under its other name.
        """
        with self._lock:
            if self._writer is None:
                return bool(self.turns)
            writer, self._writer = self._writer, None
            writer.close()
            try:
                if not self.turns:
                    writer.path.unlink()
                    return False
                self._refuse_to_replace()
                writer.path.replace(self.path)
            except OSError as error:
                raise TraceError(
                    f"{self.path}: can't be written: {error.strerror}", f"The recording is {writer.path}."
                ) from None
            except TraceError as error:
                raise TraceError(error.message, f"The recording is {writer.path}.") from None
        return True

    def _refuse_to_replace(self) -> None:
        if self.path.is_dir():
            raise TraceError(f"{self.path} is a folder.", "Give a file's name.")
        if self.path.exists() and not self._replace:
            raise TraceError(f"{self.path} exists already.", "Take another name, or remove it first.")

    def _put(self, event: AnyEvent) -> None:
        if self._writer is None or self.problem:
            return
        try:
            self._writer.write(event)
        except TraceError as error:
            self.problem = error.message
            raise
