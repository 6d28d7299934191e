"""What people take out of a session: recordings, demos, films. The app's actions for that are here."""

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from textual.timer import Timer

from dllm_tui import demos
from dllm_tui.errors import DllmError
from dllm_tui.exporting import Export, Order, Source
from dllm_tui.trace.export import FORMATS, format_of
from dllm_tui.tui.widgets.status import StatusLine

if TYPE_CHECKING:
    from dllm_tui.tui.app import ChatApp
    from dllm_tui.tui.screens.export import Wish

TICK = 0.25
"""Seconds between two looks at what goes on."""

READ = 5.0
"""Seconds in which a sentence can be read."""

ANSWER, CHAT = "answer", "chat"
"""What can be exported; everything else is the path of a recording."""


class Sharing:
    """Records, saves and exports for an app, and shows on its status line what goes on.

    Args:
        app: whose session it is.
        status: the line on top, which says what goes on.
        tell: says something in passing, for so many seconds.
        note: says what was done where it stays.
        report: says what went wrong.
    """

    def __init__(
        self,
        app: "ChatApp",
        status: StatusLine,
        *,
        tell: Callable[[str, float], None],
        note: Callable[[str], None],
        report: Callable[[DllmError], None],
    ) -> None:
        self._app, self._status = app, status
        self._tell, self._note, self._report = tell, note, report
        self._timer: Timer | None = None
        self._told = False
        """Whether it was said that a recording has a problem."""
        self._recorded: Path | None = None
        """The last recording that was made."""
        self.export: Export | None = None
        """What is being exported."""

    # Recording

    def toggle_recording(self) -> None:
        """Start a recording, or end the one that goes on."""
        if self._app.session.recording:
            self._stop()
        else:
            self.record("")

    def record(self, asked: str) -> str:
        """Start a recording where a person asked for; what is wrong with that, if anything."""
        recording = self._app.session.recording
        if recording:
            return f"{_short(recording.path)} is being recorded; {self._app.key_for('record')} stops it"
        return self._write(asked, "", self._start)

    def _start(self, path: Path, replace: bool) -> None:
        recording = self._app.session.record(path, replace=replace)
        self._told = False
        key = self._app.key_for("record") or "/record"
        self._tell(f"Recording to {_short(recording.path)}; {key} stops it.", READ)
        self._look()

    def _stop(self) -> None:
        recording = self._app.session.recording
        try:
            path = self._app.session.stop_recording()
        except DllmError as error:
            self._report(error)
        else:
            if path and recording:
                self._recorded = path
                key = self._app.key_for("export") or "/export"
                self._note(f"Recorded {_clock(recording.seconds)} to {_short(path)}; {key} exports it.")
            else:
                self._note("Nothing was said, so nothing was recorded.")
        self._look()

    # The last answer

    def save_demo(self, asked: str) -> str:
        """Save the last answer as a demo where a person asked for; what is wrong with that, if anything."""
        title = [turn.text for turn in self._app.session.turns if turn.role == "user"][-1:]
        return self._write(asked, "".join(title), self._save)

    def _save(self, path: Path, replace: bool) -> None:
        """Beside the interface: a long chat takes a while to read."""

        def save() -> None:
            try:
                with self._app.session.trace() as archive:
                    demos.save_last_answer(archive, path, replace=replace)
            except DllmError as error:
                self._app.call_from_thread(self._report, error)
            else:
                self._app.call_from_thread(self._note, f"Saved the last answer to {_short(path)}.")

        self._app.run_worker(save, thread=True, exit_on_error=False)

    def _write(self, asked: str, title: str, write: Callable[[Path, bool], None]) -> str:
        """Write a trace, and ask first where a file is there; what is wrong, if anything."""
        try:
            path = demos.place(asked, title=title)
            kind = path.suffix.lower().removeprefix(".")
            if kind in FORMATS and kind != "jsonl":
                return f"that is written as a trace, .jsonl; /export makes a .{kind}"
        except DllmError as error:
            return f"{error.message} {error.hint}"
        self._unless_there(path, lambda replace: self._try(partial(write, path, replace)))
        return ""

    def _try(self, act: Callable[[], None]) -> None:
        try:
            act()
        except DllmError as error:
            self._report(error)

    def _unless_there(self, path: Path, then: Callable[[bool], None]) -> None:
        """Go on; where a file is there already, only if it may be replaced."""
        if not path.is_file():
            then(False)
            return
        from dllm_tui.tui.screens.confirm import Confirm

        self._app.push_screen(
            Confirm(f"{_short(path)} exists already. Replace it?", yes="replace"),
            lambda yes: then(True) if yes else None,
        )

    # Export

    def ask_what(self) -> None:
        """Ask what is to be exported, or show how far that is."""
        from dllm_tui.tui.screens.export import ExportDialog, Exporting

        marks = self._app.pen().marks
        if self.export:
            self._app.push_screen(Exporting(self.export, marks))
            return
        sources = [(ANSWER, "the last answer"), (CHAT, "the whole chat")]
        if self._recorded:
            sources.insert(0, (str(self._recorded), f"the recording {self._recorded.name}"))
        size = (self._app.size.width, self._app.size.height)
        self._app.push_screen(ExportDialog(sources, self._place, size, marks), self._wished)

    def export_to(self, asked: str) -> str:
        """Export the whole chat to a path; what is wrong with that, if anything."""
        if self.export:
            return "an export goes on; one at a time"
        try:
            path = demos.place(asked, suffix="")
            format_of(path)
        except DllmError as error:
            return f"{error.message} {error.hint}"
        self._begin(CHAT, Order(out=path, theme=self._app.theme))
        return ""

    def _place(self, ending: str) -> Path:
        title = self._app.session.title or "chat"
        try:
            here = Path.cwd()
        except OSError:  # it was removed
            here = Path.home()
        return demos.place("", title=title, suffix=f".{ending}", folder=here)

    def _wished(self, wish: "Wish | None") -> None:
        if wish is None:
            return
        try:
            path = demos.place(wish.out, title=self._app.session.title or "chat", suffix="")
            format_of(path)
        except DllmError as error:
            self._report(error)
            return
        self._begin(
            wish.source,
            Order(
                out=path,
                last_answer=wish.source == ANSWER,
                size=wish.size,
                theme=self._app.theme,
                idle=wish.idle,
            ),
        )

    def _begin(self, what: str, order: Order) -> None:
        source: Source = (lambda: Path(what)) if what not in {ANSWER, CHAT} else self._app.session.source

        def begin(replace: bool) -> None:
            from dllm_tui.tui.screens.export import Exporting

            self.export = Export(source, msgspec.structs.replace(order, replace=replace))
            self._app.push_screen(Exporting(self.export, self._app.pen().marks))
            self._look()

        self._unless_there(order.out, begin)

    @property
    def doing(self) -> str:
        """What would be lost if the app ended now, in a sentence; empty where nothing would."""
        return "An export goes on; it would be given up." if self.export else ""

    def leave(self) -> None:
        """The app ends: so does what is being exported."""
        if self.export:
            self.export.cancel()
            self.export.wait(2.0)

    # What goes on

    def _look(self) -> None:
        """Show what goes on, and go on looking as long as anything does."""
        recording, export, status = self._app.session.recording, self.export, self._status
        status.recording = _clock(recording.seconds) if recording else ""
        if recording and recording.problem and not self._told:
            self._told = True
            self._stop()
            return
        status.exporting = export.done if export and export.state == "running" else None
        if export and export.state != "running":
            self.export = None
            self._ended(export)
        if self._timer is None:
            self._timer = self._app.set_interval(TICK, self._look)
        if self._app.session.recording or self.export:
            self._timer.resume()
        else:
            self._timer.pause()

    def _ended(self, export: Export) -> None:
        out = _short(export.order.out)
        if export.state == "made":
            length = f", {export.seconds:.1f} s" if export.seconds else ""
            self._note(f"Exported {out}: {export.size / 1024:,.0f} KiB{length}.")
        elif export.state == "cancelled":
            self._note("The export was cancelled; nothing is left of it.")
        else:
            self._report(export.problem)


def _clock(seconds: float) -> str:
    minutes, seconds = divmod(int(seconds), 60)
    return f"{minutes}:{seconds:02}"


def _short(path: Path) -> str:
    """A path as people write it."""
    with suppress(ValueError, RuntimeError):
        return str(Path("~") / path.relative_to(Path.home()))
    return str(path)
