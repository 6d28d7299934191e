"""Checkpoints from the Hugging Face hub: files that are data and no others, resumed where they broke off."""

import errno
import io
import shutil
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

from huggingface_hub import constants, errors, get_session, hf_hub_download, snapshot_download
from tqdm import tqdm

from dllm_tui.engine.hub_cache import is_complete
from dllm_tui.errors import StoreError
from dllm_tui.families.catalogue import refuse_nowhere

WANTED = ["*.safetensors", "*.json", "*.jinja", "merges.txt"]
UNWANTED = ["*/*", "consolidated*"]
"""Folders of a repository hold adapters, or the same weights in another form."""

REACH_SECONDS = 10

Progress: TypeAlias = Callable[[str, float], None]
"""Gets what is being done, for people, and how much of it is done, 0 … 1. May raise, to stop."""


@dataclass(frozen=True)
class Repository:
    """A model's repository on the hub, at one revision.

    ``token`` defaults to the one that the ``hf`` command keeps; ``offline`` reads what is on disk already.
    """

    id: str
    """``organisation/name``."""
    revision: str | None = None
    token: str | None = None
    offline: bool = False

    @classmethod
    def named(cls, name: str, token: str | None = None, *, offline: bool = False) -> "Repository":
        """The repository of ``organisation/name``, or ``organisation/name@revision``.

        Raises:
            StoreError: that is no such name.
        """
        refuse_nowhere(name)
        repository, _, revision = name.partition("@")
        return cls(repository, revision or None, token, offline)

    def config(self) -> Path:
        """The directory with the repository's ``config.json`` alone, to judge by before the rest is fetched.

        Raises:
            StoreError: it can't be fetched, or isn't there.
        """
        return self._local_first(partial(hf_hub_download, self.id, "config.json")).parent

    def tokenizer(self) -> Path:
        """The directory with the repository's tokenizer.

        Raises:
            StoreError: a file can't be fetched.
        """
        files = ["*.json", "merges.txt"]
        return self._local_first(partial(snapshot_download, self.id, allow_patterns=files))

    def fetch(self, progress: Progress | None = None, *, newest: bool = False) -> Path:
        """The directory with everything that is needed.

        Args:
            progress: is told how far it is; may raise, to stop.
            newest: look for a newer state of the repository, if the hub answers; otherwise what is complete
                on this machine is taken as it is, without a look at the network.

        Raises:
            StoreError: a file can't be fetched, or the disk can't hold them all.
        """

        def download(**how: Any) -> str:
            wanted: dict[str, Any] = {"allow_patterns": WANTED, "ignore_patterns": UNWANTED, **how}
            if how["local_files_only"]:
                return _checked(snapshot_download(self.id, **wanted))
            listed: Any = snapshot_download(self.id, dry_run=True, **wanted)
            missing = sum(file.file_size for file in listed if file.will_download)
            self._check_room(missing)
            return snapshot_download(self.id, tqdm_class=_bar(self.id, missing, progress), **wanted)

        return self._local_first(download, newest=newest)

    def _local_first(self, download: Callable[..., str], *, newest: bool = False) -> Path:
        """What is complete in the hub's cache on this machine, else what ``download`` brings.

        Args:
            download: gets revision, token and whether to stay on this machine; gives a path.
            newest: go to the hub first, if it answers.

        Raises:
            StoreError: the download failed.
        """
        how: dict[str, Any] = {"revision": self.revision, "token": self.token}
        with self._explained():
            if not (newest and not self.offline and _reachable()):
                try:
                    return Path(download(**how, local_files_only=True))
                except errors.LocalEntryNotFoundError:
                    if self.offline:
                        raise
            _reach()
            return Path(download(**how, local_files_only=False))

    def _check_room(self, size: int) -> None:
        cache = Path(constants.HF_HUB_CACHE)
        existing = next(path for path in (cache, *cache.parents) if path.exists())
        free = shutil.disk_usage(existing).free
        if size > free:
            raise StoreError(
                f"{self.id} needs {size / 1e9:.1f} GB more, and {free / 1e9:.1f} GB are free in {existing}.",
                "Make room, or let HF_HOME name a directory on another disk.",
            )

    @contextmanager
    def _explained(self) -> Generator[None]:
        """Turn the library's failures into ours."""
        try:
            yield
        except errors.GatedRepoError as error:
            raise StoreError(
                f"{self.id} is open only to those who accepted its licence.",
                "Accept it on the model's page, then run `hf auth login` or set HF_TOKEN.",
            ) from error
        except errors.RepositoryNotFoundError as error:
            raise StoreError(
                f"The hub has no model {self.id!r}, or not for you.",
                "Check the name; a private model needs `hf auth login` or HF_TOKEN.",
            ) from error
        except errors.RevisionNotFoundError as error:
            raise StoreError(f"{self.id} has no revision {self.revision!r}.") from error
        except (errors.LocalEntryNotFoundError, errors.OfflineModeIsEnabled, errors.DryRunError) as error:
            offline = self.offline or constants.HF_HUB_OFFLINE
            raise StoreError(
                f"{self.id} is not complete on this machine, and the hub "
                + ("may not be asked: this is offline mode." if offline else "can't be reached."),
                "Unset HF_HUB_OFFLINE to fetch it."
                if constants.HF_HUB_OFFLINE
                else "Connect to the network once; what was fetched before is kept.",
            ) from error
        except errors.EntryNotFoundError as error:
            raise StoreError(f"{self.id} has no config.json: it is no model that can be loaded.") from error
        except errors.HFValidationError as error:
            raise StoreError(
                f"{self.id!r} is neither a directory nor a hub id.", "A hub id is organisation/name."
            ) from error
        except (OSError, errors.HTTPError) as error:
            full = isinstance(error, OSError) and error.errno == errno.ENOSPC
            raise StoreError(
                f"{self.id} can't be fetched: {error}.",
                "Make room on the disk." if full else "Try again; what was fetched is kept.",
            ) from error


def _reach() -> None:
    """See whether the hub answers at all; the library would try for half a minute.

    Raises:
        LocalEntryNotFoundError: it doesn't.
    """
    try:
        get_session().head(constants.ENDPOINT, timeout=REACH_SECONDS)
    except (OSError, errors.HTTPError) as error:
        raise errors.LocalEntryNotFoundError(str(error)) from error


def _reachable() -> bool:
    """Whether the hub answers."""
    try:
        _reach()
    except (errors.LocalEntryNotFoundError, errors.OfflineModeIsEnabled):
        return False
    return True


def _checked(snapshot: str) -> str:
    """The snapshot's path, if its weights are all there.

    Raises:
        LocalEntryNotFoundError: they are not: its fetch was interrupted, or only its config was asked for.
    """
    if not is_complete(Path(snapshot)):
        raise errors.LocalEntryNotFoundError(f"the snapshot in {snapshot} is incomplete")
    return snapshot


def _bar(name: str, size: int, progress: Progress | None) -> Any:
    """A progress bar class that draws nothing and tells ``progress``.

    Args:
        name: what is fetched, for people.
        size: bytes to fetch.
        progress: is told.
    """
    base: Any = tqdm  # a generic class for the type checker only

    class Bar(base):
        def __init__(self, *args: Any, **options: Any) -> None:
            options.pop("name", None)
            super().__init__(*args, **{**options, "file": io.StringIO()})

        def update(self, n: float | None = 1) -> bool | None:
            changed = super().update(n)
            if progress and self.unit == "B" and size:
                progress(f"fetching {name} ({size / 1e9:.1f} GB)", min(1.0, self.n / size))
            return changed

    return Bar
