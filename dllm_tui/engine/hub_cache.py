"""What the hub's cache on this machine holds: told by its files alone, with few imports."""

import json
import shutil
from pathlib import Path

from huggingface_hub import constants

from dllm_tui.errors import StoreError


def kept() -> dict[str, Path]:
    """The snapshot of every model whose weights are all there, by hub id."""
    ids = [_id(folder) for folder in sorted(_cache().glob("models--*--*"))]
    found = {name: snapshot(name) for name in ids}
    return {name: folder for name, folder in found.items() if folder}


def snapshot(name: str) -> Path | None:
    """The snapshot of a model's main revision, if its weights are all there.

    Args:
        name: hub id.
    """
    try:
        commit = (_folder(name) / "refs" / "main").read_text().strip()
    except (OSError, ValueError):
        return None
    folder = _folder(name) / "snapshots" / commit
    return folder if is_complete(folder) else None


def is_complete(folder: Path) -> bool:
    """Whether a snapshot's weights are all there: its fetch was not interrupted, nor for its config alone."""
    index = folder / "model.safetensors.index.json"
    if not index.exists():
        return any(folder.glob("*.safetensors"))
    try:
        shards = set(json.loads(index.read_bytes())["weight_map"].values())
        return all((folder / str(shard)).exists() for shard in shards)
    except (OSError, ValueError, KeyError, AttributeError, TypeError):
        return False


def remove(name: str) -> int | None:
    """Delete all that was fetched of a model, what an interrupted fetch left included.

    Args:
        name: hub id.

    Returns:
        Bytes that were freed; ``None`` where nothing was there.

    Raises:
        StoreError: it can't be deleted.
    """
    folder = _folder(name)
    try:
        if not folder.is_dir():
            return None
        size = sum(file.stat().st_size for file in (folder / "blobs").glob("*") if file.is_file())
        shutil.rmtree(folder)
    except OSError as error:
        raise StoreError(f"{folder} can't be deleted: {error.strerror or error}.") from error
    shutil.rmtree(_cache() / ".locks" / folder.name, ignore_errors=True)
    return size


def _cache() -> Path:
    return Path(constants.HF_HUB_CACHE)


def _folder(name: str) -> Path:
    return _cache() / f"models--{name.replace('/', '--')}"


def _id(folder: Path) -> str:
    return folder.name.removeprefix("models--").replace("--", "/")
