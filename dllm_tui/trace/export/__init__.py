"""What a trace can become: films, stills, and the conversation as text.

Whoever shows frames makes a :class:`~dllm_tui.trace.frames.Film` of them; what is written from it depends on
nothing else: the same film gives the same bytes.
"""

import contextlib
import errno
import os
import secrets
from collections.abc import Generator, Iterable
from pathlib import Path

import msgspec

from dllm_tui import paths
from dllm_tui.errors import ExportError
from dllm_tui.events import AnyEvent, Done, encode
from dllm_tui.trace import chats
from dllm_tui.trace.archive import Archive
from dllm_tui.trace.export import text
from dllm_tui.trace.frames import Film


class Format(msgspec.Struct, frozen=True):
    """A kind of file that can be written."""

    about: str
    film: bool = False
    """Shows the session as it went."""
    still: bool = False
    """Shows a single step."""


FORMATS = {
    "cast": Format("asciicast, for asciinema and its player", film=True),
    "gif": Format("animated picture that plays everywhere", film=True),
    "svg": Format("vector picture, animated without script; or a still", film=True, still=True),
    "html": Format("page with a player in it, needs no network", film=True),
    "mp4": Format("video; needs ffmpeg", film=True),
    "png": Format("still picture of a step", still=True),
    "md": Format("the conversation as Markdown"),
    "txt": Format("the conversation as plain text"),
    "jsonl": Format("a trace of its own, without date and machine"),
}
"""By the suffix of the file."""


def format_of(path: Path) -> str:
    """The format that a file name asks for.

    Raises:
        ExportError: none that there is.
    """
    name = path.suffix.lower().removeprefix(".")
    if name not in FORMATS:
        known = ", ".join("." + suffix for suffix in FORMATS)
        raise ExportError(f"{path}: the name doesn't say what to make.", f"End it in one of {known}.")
    return name


def write_film(film: Film, path: Path, *, force: bool = False, fps: int = 25, cast_version: int = 2) -> None:
    """Write a film in the format of its file's name.

    Args:
        film: what is written.
        path: where; a file that is there is left alone unless ``force`` is set.
        force: replace a file that is there.
        fps: frames a second of the film (used by MP4, which shows all of them).
        cast_version: 2 or 3, for asciicasts.

    Raises:
        ExportError: the file is there already or can't be written.
    """
    name = format_of(path)
    with _to_the_end(film), fresh(path, force=force) as temporary:
        if name == "gif":
            from dllm_tui.trace.export import gif

            with temporary.open("wb") as binary:
                gif.write(film, binary)
        elif name == "mp4":
            from dllm_tui.trace.export import mp4

            mp4.write(film, temporary, fps)
        else:
            with temporary.open("w", encoding="utf-8", newline="\n") as out:
                match name:
                    case "cast":
                        from dllm_tui.trace.export import cast

                        out.writelines(cast.lines(film, cast_version))
                    case "svg":
                        from dllm_tui.trace.export import svg

                        svg.write(film, out)
                    case "html":
                        from dllm_tui.trace.export import html

                        html.write(film, out)
                    case _:
                        raise ExportError(f"{path}: this format shows no film.")


def write_still(film: Film, path: Path, *, force: bool = False) -> None:
    """Write the last frame of a film as a picture.

    Raises:
        ExportError: the file is there already or can't be written.
    """
    name = format_of(path)
    with _to_the_end(film):
        frame = list(film.shots)[-1].frame
    with fresh(path, force=force) as temporary:
        if name == "png":
            from dllm_tui.trace.export import raster

            temporary.write_bytes(raster.still(frame, film.background))
        else:
            from dllm_tui.trace.export import svg

            with temporary.open("w", encoding="utf-8", newline="\n") as out:
                svg.write_still(film, frame, out)


def write_text(archive: Archive, path: Path, *, force: bool = False) -> None:
    """Write the conversation of a trace, as it stands at its end.

    Raises:
        ExportError: there is no conversation, or the file is there already or can't be written.
    """
    turns = archive.turns_at(len(archive))
    if not turns:
        raise ExportError(f"{archive.path}: there is no conversation in it.")
    model = archive.header_at(len(archive)).model
    who = model.id if model else ""
    cut_off = chats.interrupted(turns, archive.runs.get(max(archive.runs, default=-1), ()))
    ends = [archive.runs[turn.run][-1] for turn in turns if turn.run is not None]
    done = {end.run: end for end in (*ends, *cut_off) if isinstance(end, Done)}
    turns += cut_off[:1]
    if format_of(path) == "md":
        title = next((chats.title(turn.text) for turn in turns if turn.role == "user"), "") or "Conversation"
        written = text.markdown(turns, done, title=title, model=who)
    else:
        written = text.plain(turns, done, model=who)
    with fresh(path, force=force) as temporary:
        temporary.write_text(written, encoding="utf-8", newline="\n")


def write_trace(
    events: Iterable[AnyEvent], path: Path, *, force: bool = False, private: bool = False
) -> None:
    """Write events as a trace.

    Args:
        events: what is written.
        path: where; a file that is there is left alone unless ``force`` is set.
        force: replace a file that is there.
        private: for the user's eyes alone, in a folder that is made if need be.

    Raises:
        ExportError: the file is there already or can't be written.
    """
    with fresh(path, force=force, private=private) as temporary, temporary.open("wb") as out:
        out.writelines(encode(event) + b"\n" for event in events)


@contextlib.contextmanager
def _to_the_end(film: Film) -> Generator[None]:
    """Whatever happens, nothing of a film is rendered after this: what renders it stops at once."""
    try:
        yield
    finally:
        if isinstance(film.shots, Generator):
            film.shots.close()


@contextlib.contextmanager
def fresh(path: Path, *, force: bool, private: bool = False) -> Generator[Path]:
    """A file to write into that takes its place when all went well; otherwise nothing is left of it.

    It may be read by whoever the user's umask lets: it is made to be shown, unless it is ``private``.

    Raises:
        ExportError: a file is there and ``force`` isn't set, or it can't be written.
    """
    if not force and path.exists():
        raise ExportError(f"{path} exists already.", "Take another name, or --force to replace it.")
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        if private:
            paths.private(path.parent)
        os.close(os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600 if private else 0o666))
        yield temporary
        with temporary.open("rb") as file:
            os.fsync(file.fileno())
        temporary.replace(path)
    except OSError as error:
        hint = "Make room, or write it elsewhere." if error.errno in {errno.ENOSPC, errno.EDQUOT} else ""
        raise ExportError(f"{path}: can't be written: {error.strerror or error}", hint) from None
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink()
