"""Links in a checkpoint's directory may not lead out of it. No torch here."""

from pathlib import Path

from dllm_tui.errors import CheckpointError


def refuse_escape(path: Path, said: str = "") -> None:
    """Refuse a file of a checkpoint that is a link to somewhere else.

    In the hub's cache a snapshot's files are links into the repository's own folder, two levels up.

    Args:
        path: the file, in the checkpoint's directory.
        said: what is known of the file, for the message.

    Raises:
        CheckpointError: it lies elsewhere.
    """
    root = path.parent.resolve()
    if root.parent.name == "snapshots":
        root = root.parent.parent
    if not path.resolve().is_relative_to(root):
        raise CheckpointError(
            f"{path.name} is a link that leads out of {path.parent}{said}.",
            "Only files in the checkpoint's own directory are read. Copy the file there.",
        )
