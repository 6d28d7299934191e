"""What every app of this program shares: themes, plainness, the clipboard, and a readable end."""

import asyncio
import codecs
import os
import signal
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from queue import Queue
from typing import IO, Any

from rich.segment import Segments
from rich.text import Text
from textual.app import App
from textual.drivers import linux_driver
from textual.drivers._writer_thread import WriterThread

from dllm_tui import theming
from dllm_tui.settings import Settings
from dllm_tui.tui import cells, clipboard
from dllm_tui.tui.lens import Lens
from dllm_tui.tui.palette import Palette
from dllm_tui.tui.pasting import PasteParser
from dllm_tui.tui.pen import Pen
from dllm_tui.tui.shape import Shape
from dllm_tui.tui.stderr import guarded
from dllm_tui.tui.themes import textual_theme

REMOTE_FPS = 15
"""Frames a second over SSH, unless a person asked for other than the default."""
WAITING = 3
"""Frames that may wait for a slow terminal. Textual lets thirty wait, over a slow line for minutes: what a
person does would be heard and seen behind all of them."""
WATCH_SECONDS = 2.0
"""Between two looks at the user's theme files."""
ENDING = (signal.SIGTERM, signal.SIGHUP)
"""Signals that ask for an end, or tell that the terminal is gone."""
STOPPING = (signal.SIGTSTP, signal.SIGCONT)
"""Signals of Ctrl+Z and ``fg``."""


class BaseApp(App[None], inherit_bindings=False):
    """An app in the user's theme.

    Args:
        settings: how it looks and behaves.
        themes_dir: the user's own themes, read again when a file changes.
        environment: variables that say what terminal this is.
    """

    TITLE = "dllm-chat"
    CSS_PATH = "app.tcss"
    ENABLE_COMMAND_PALETTE = False

    def __init__(
        self,
        settings: Settings,
        *,
        themes_dir: Path | None = None,
        environment: Mapping[str, str] = os.environ,
    ) -> None:
        # the base's constructor reads the style sheet, with our variables
        self.themes = theming.load(themes_dir)
        colourless = "NO_COLOR" in environment  # Textual takes it out of os.environ
        # the filter for the terminal's own colours drops all of them; the other would make greys
        super().__init__(ansi_color=True if colourless else None)
        self.settings = settings
        self.plain = settings.plain
        self.colourless = colourless or settings.plain
        self.crash = ""
        """The traceback of the fault that ended the app, if one did."""
        self.lens = Lens.CONFIDENCE
        """What the colours on canvases tell."""
        self.shape = Shape.TEXT
        """What canvases are drawn as."""
        self._themes_dir = themes_dir
        self._themes_seen = theming.snapshot(themes_dir) if themes_dir else {}
        self._environment = environment
        self._register_themes()
        self.theme = settings.theme if settings.theme in self.themes.themes else theming.DEFAULT

    def on_mount(self) -> None:
        """Take the settings that need a running app."""
        if self.plain or not self.settings.animation:
            self.animation_level = "none"
        self.set_class(self.plain, "-plain")
        if self._themes_dir is not None:
            self.set_interval(WATCH_SECONDS, self._watch_themes)

    @property
    def fps(self) -> int:
        """Frames a second that are drawn while something goes on."""
        fps = self.settings.fps
        remote = self._environment.get("SSH_TTY") or self._environment.get("SSH_CONNECTION")
        return min(fps, REMOTE_FPS) if remote and fps == Settings().fps else fps

    # -- themes

    def get_theme_variable_defaults(self) -> dict[str, str]:
        """Our variables, for style sheets that are read before a theme is in force."""
        return textual_theme(self.themes.themes[theming.DEFAULT]).variables

    @property
    def _colours(self) -> theming.Theme:
        return self.themes.themes.get(self.theme) or self.themes.themes[theming.DEFAULT]

    def palette(self) -> Palette:
        """What canvases are drawn with, in the theme in force."""
        theme = self._colours
        few = self.colourless or theme.ansi
        glyphs = cells.ASCII if self.plain else cells.COLOURLESS if few else cells.UNICODE
        palette = Palette.of(theme, plain=self.colourless, glyphs=glyphs)
        return replace(palette, lens=self.lens, shape=self.shape)

    def pen(self) -> Pen:
        """What everything else is drawn with."""
        return Pen.of(self._colours, plain=self.plain, colourless=self.colourless)

    def use_theme(self, name: str) -> None:
        """Put a theme in force; an unknown name takes the default."""
        self.theme = name if name in self.themes.themes else theming.DEFAULT
        self.theme_changed()

    def theme_changed(self) -> None:
        """A theme was put in force, or its file has changed."""

    def load_themes(self) -> None:
        """Read the user's themes again."""
        self.themes = theming.load(self._themes_dir)
        self._register_themes()

    def _register_themes(self) -> None:
        for theme in self.themes.themes.values():
            self.register_theme(textual_theme(theme))

    def _watch_themes(self) -> None:
        """Show a theme of the user's while it is edited."""
        assert self._themes_dir is not None
        seen = theming.snapshot(self._themes_dir)
        if not theming.changed(self._themes_seen, seen):
            return
        self._themes_seen = seen
        self.load_themes()
        self.themes_broken(self.themes.problems)
        if self.theme in self.themes.themes:
            self.refresh_css(animate=False)
            self.theme_changed()

    def themes_broken(self, problems: Sequence[str]) -> None:
        """Say what is wrong with theme files that have changed."""
        if problems:
            self.notify("\n".join(problems), severity="warning", markup=False)

    def notify(self, message: str, **how: Any) -> None:
        """Show a notice; what it quotes from files and people can't steer the terminal."""
        super().notify(cells.clean(message), **how)

    # -- clipboard

    def copy_to_clipboard(self, text: str) -> None:
        """Copy by the terminal (through tmux too), and by a tool of the desktop where there is one."""
        self._clipboard = text
        sequence = clipboard.osc52(text, self._environment)
        if self._driver and sequence:
            self._driver.write(sequence)
        self.run_worker(lambda: clipboard.desktop(text, self._environment), thread=True, exit_on_error=False)

    # -- the end

    def _fatal_error(self) -> None:
        """In place of a traceback with local variables, which may hold what people typed: a few words."""
        self.crash = traceback.format_exc()
        self.bell()
        last = self.crash.strip().splitlines()[-1]
        text = Text(f"dllm-chat met a fault of its own and had to stop: {cells.clean(last)}")
        self._exit_renderables.append(Segments(self.console.render(text, self.console.options)))
        self._close_messages_no_wait()


def run(app: BaseApp, log: Path) -> int:
    """Run an app on the terminal.

    Args:
        app: what to run.
        log: takes what native libraries write on descriptor 2 meanwhile, and the details of a fault.

    Returns:
        The exit code: 0; 128 and its number where a signal ended it; or 1 where a fault did, then stderr
        says so, and where the details are.
    """
    with guarded(log):
        asyncio.run(_until_the_end(app))
        if app.crash:
            try:
                with log.open("a", encoding="utf-8") as file:
                    file.write(app.crash)
                print(f"The chat so far is kept. Details are in {log}.", file=sys.stderr)
            except OSError:
                print(app.crash, file=sys.stderr)
    return 1 if app.crash else app.return_code or 0


class _Writer(WriterThread):
    """Lets few frames wait, and takes what is written to a terminal that is gone.

    Textual's own ends there, and whoever writes on waits for ever: a terminal that goes away continues a
    stopped program, which then writes a greeting.
    """

    def __init__(self, file: IO[str]) -> None:
        super().__init__(file)
        self._queue = Queue(WAITING)

    def run(self) -> None:
        try:
            super().run()
        except OSError:
            while self._queue.get() is not None:
                pass


def _forgiving(encoding: str) -> Callable[[], codecs.IncrementalDecoder]:
    """A decoder of what a terminal sends, for which a byte that is no UTF-8 is no end of all input."""
    return partial(codecs.getincrementaldecoder(encoding), errors="replace")


async def _until_the_end(app: BaseApp) -> None:
    """Run an app; a signal that asks for an end has it leave as people do, with the terminal as it was."""
    linux_driver.WriterThread = _Writer
    linux_driver.XTermParser = PasteParser
    linux_driver.getincrementaldecoder = _forgiving
    loop = asyncio.get_running_loop()

    def leave(number: int) -> None:
        loop.remove_signal_handler(number)  # a second one ends even an app that hangs
        app.exit(return_code=128 + number)

    for number in ENDING:
        loop.add_signal_handler(number, leave, number)
    try:
        await app.run_async(mouse=app.settings.mouse)
    finally:
        for number in STOPPING:  # the driver's handlers would take up the terminal that was given back
            signal.signal(number, signal.SIG_DFL)
