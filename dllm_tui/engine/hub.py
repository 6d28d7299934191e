"""Checkpoints from the Hugging Face hub: files that are data and no others, resumed where they broke off."""

import errno
import io
import shutil
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from huggingface_hub import constants, errors, hf_hub_download, snapshot_download
from tqdm import tqdm

from dllm_tui.errors import StoreError

WANTED = ["*.safetensors", "*.json", "*.jinja", "merges.txt"]
UNWANTED = ["*/*", "consolidated*"]
"""Folders of a repository hold adapters, or the same weights in another form."""

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

    def config(self) -> Path:
        """The directory with the repository's ``config.json`` alone, to judge by before the rest is fetched.

        Raises:
            StoreError: it can't be fetched, or isn't there.
        """
        with self._explained():
            return Path(hf_hub_download(self.id, "config.json", **self._options())).parent

    def tokenizer(self) -> Path:
        """The directory with the repository's tokenizer.

        Raises:
            StoreError: a file can't be fetched.
        """
        with self._explained():
            options: dict[str, Any] = self._options()
            return Path(snapshot_download(self.id, allow_patterns=["*.json", "merges.txt"], **options))

    def fetch(self, progress: Progress | None = None) -> Path:
        """The directory with everything that is needed.

        Raises:
            StoreError: a file can't be fetched, or the disk can't hold them all.
        """
        options: dict[str, Any] = self._options()
        options |= {"allow_patterns": WANTED, "ignore_patterns": UNWANTED}
        with self._explained():
            if self.offline or constants.HF_HUB_OFFLINE:
                return Path(snapshot_download(self.id, **options))
            listed: Any = snapshot_download(self.id, dry_run=True, **options)
            missing = sum(file.file_size for file in listed if file.will_download)
            self._check_room(missing)
            return Path(snapshot_download(self.id, tqdm_class=_bar(self.id, missing, progress), **options))

    def _options(self) -> dict[str, Any]:
        return {"revision": self.revision, "token": self.token, "local_files_only": self.offline}

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
        except (errors.LocalEntryNotFoundError, errors.OfflineModeIsEnabled) as error:
            raise StoreError(
                f"{self.id} is not complete on this machine, and the hub can't be reached.",
                "Connect to the network once; what was fetched before is kept.",
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


def _bar(name: str, size: int, progress: Progress | None) -> Any:
    """A progress bar class that draws nothing and tells ``progress``.

    Args:
        name: what is fetched, for people.
        size: bytes to fetch.
        progress: is told.
    """

    class Bar(tqdm[Any]):
        def __init__(self, *args: Any, **options: Any) -> None:
            options.pop("name", None)
            super().__init__(*args, **{**options, "file": io.StringIO()})

        def update(self, n: float | None = 1) -> bool | None:
            changed = super().update(n)
            if progress and self.unit == "B" and size:
                progress(f"fetching {name} ({size / 1e9:.1f} GB)", min(1.0, self.n / size))
            return changed

    return Bar
