"""``dllm-chat models``: which models there are, how they decode, fetching and removing them."""

from pathlib import Path
from typing import TYPE_CHECKING

from dllm_tui import store
from dllm_tui.cli.console import note, progress
from dllm_tui.errors import DllmError
from dllm_tui.families import LAYOUTS, smol
from dllm_tui.families.family import Family
from dllm_tui.knobs import KNOBS, POLICIES

if TYPE_CHECKING:
    from dllm_tui.tui.choice import Choice

_REMOVE_HINT = "Give `smol` or a hub id like organisation/name; directories and files are yours to delete."


def status() -> str:
    """Whether the default model is here, for people."""
    base = smol.BASE
    return (
        f"on this machine, {base.size / 1e6:.0f} MB"
        if base.kept
        else f"{base.wheel_size / 1e6:.0f} MB to fetch"
    )


def choices() -> "list[Choice]":
    """What the app's model picker offers; any other name can be typed there."""
    from dllm_tui.tui.choice import Choice

    return [Choice("smol", smol.FAMILY.title, status())]


def list_models() -> None:
    """Print the catalogue, and the families whose checkpoints load by hub id, directory or file."""
    print(f"smol  {smol.FAMILY.title}, {smol.FAMILY.licence} ({status()})")
    print("\nCheckpoints of these families load by hub id, directory or GGUF file:")
    families = {layout.family.name: layout.family for layout in LAYOUTS}
    width = max(len(family.title) for family in families.values())
    for family in families.values():
        print(f"  {family.title:{width}}  {family.attention}, {family.licence}")


def show(name: str) -> None:
    """Print how a model decodes.

    Raises:
        DllmError: no model, or of no family that is known here.
    """
    family = _family(name)
    changed = {
        knob: value for knob, value in family.defaults.to_dict().items() if value != KNOBS[knob].default
    }
    print(f"{family.title}  ({family.licence})\n")
    print(family.explanation)
    if family.notice:
        print(f"\n{family.notice}")
    print(f"\nattention   {family.attention}, shift {family.shift}, {family.noise} noise, {family.revision}")
    print(
        "defaults    " + (", ".join(f"{knob} {value}" for knob, value in changed.items()) or "as in --help")
    )
    print("policies")
    for policy in family.policies:
        print(f"  {policy:12}{POLICIES[policy]}")
    if family.fixed_knobs:
        print("knobs that it doesn't have")
        for knob, reason in family.fixed_knobs.items():
            print(f"  {knob:16}{reason}")
    if name == "smol":
        print(f"\nfile        {smol.BASE.path} ({status()})")


def pull(name: str) -> None:
    """Fetch a model, so that it is there without a network; print where it is.

    Raises:
        DllmError: it can't be fetched, or no model of that name is known.
    """
    if name == "smol":
        with progress() as told:
            path = store.fetch(smol.BASE, told)
    elif Path(name).expanduser().exists():
        raise DllmError(f"{name} is on this machine already.", f"Use it with --model {name}.")
    else:
        from dllm_tui.engine.hub import Repository

        _family(name)  # an unknown one is refused before its weights are fetched
        with progress() as told:
            path = Repository(name).fetch(told)
    print(path)


def remove(name: str) -> None:
    """Delete what was fetched of a model.

    Raises:
        DllmError: nothing was, or it can't be deleted.
    """
    if name == "smol":
        if not store.remove(smol.BASE):
            raise DllmError("smol is not on this machine.")
        note(f"removed {smol.BASE.path}")
        return
    from huggingface_hub import scan_cache_dir
    from huggingface_hub.errors import CacheNotFound

    try:
        cache = scan_cache_dir()
    except CacheNotFound:
        raise DllmError(f"{name} is not on this machine.", _REMOVE_HINT) from None
    kept = [repository for repository in cache.repos if repository.repo_id == name]
    if not kept:
        raise DllmError(f"{name} is not on this machine.", _REMOVE_HINT)
    revisions = [revision.commit_hash for repository in kept for revision in repository.revisions]
    plan = cache.delete_revisions(*revisions)
    plan.execute()
    note(f"removed {name}, {plan.expected_freed_size / 1e6:.0f} MB")


def _family(name: str) -> Family:
    if name == "smol":
        return smol.FAMILY
    from dllm_tui.families import layout_for, layout_for_gguf

    path = Path(name).expanduser()
    if path.suffix == ".gguf":
        from dllm_tui.engine.gguf import GGUF

        return layout_for_gguf(GGUF(path).architecture, path.name).family
    from dllm_tui.engine.checkpoint import Directory
    from dllm_tui.engine.hub import Repository

    directory = path if path.exists() else Repository(name).config()
    return layout_for(Directory(directory).config, name).family
