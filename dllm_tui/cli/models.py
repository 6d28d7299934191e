"""``dllm-chat models``: which models there are, how they decode, fetching and removing them."""

import json
import os
import signal
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dllm_tui import settings, store
from dllm_tui.cli.console import note, printable, progress
from dllm_tui.errors import CheckpointError, DllmError
from dllm_tui.families import smol
from dllm_tui.families.family import Attention, Family, Noise, Revision
from dllm_tui.knobs import KNOBS, POLICIES
from dllm_tui.settings import Settings

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

    from dllm_tui.cli.facts import Facts
    from dllm_tui.cli.machine import Machine
    from dllm_tui.families.catalogue import Entry
    from dllm_tui.tui.choice import Choice

WIDE = 112
"""Columns from which a checkpoint has one line; below, it has two."""

JSON_LIMIT = 16 << 20
"""Longest config that is read."""

_REMOVE_HINT = "Give `smol` or a hub id like organisation/name; directories and files are yours to delete."

_ATTENTION = {
    Attention.FULL: "every position sees every other; nothing can be cached exactly",
    Attention.BLOCK_CAUSAL: "a position sees its block and all before it; finished blocks are cached exactly",
    Attention.REORDERED: "causal over what is committed, masks last; committed tokens are cached exactly",
    Attention.ENCODER_CANVAS: "a causal encoder is read by a canvas whose cells all see each other",
}
_NOISE = {
    Noise.ABSORBING: "an undecided cell holds a mask",
    Noise.UNIFORM: "an undecided cell holds any token: every cell may change in every step",
}
_REVISION = {
    Revision.MONOTONE: "a committed token stays",
    Revision.EDIT: "a committed token may be replaced",
    Revision.INSERT_DELETE: "committed tokens may be replaced, inserted and deleted",
    Revision.RENOISE: "a cell may fall back to noise",
}


def status() -> str:
    """Whether the default model is here, for people."""
    base = smol.BASE
    return (
        f"on this machine, {base.size / 1e6:.0f} MB"
        if base.kept
        else f"{base.wheel_size / 1e6:.0f} MB to fetch"
    )


def choices(chosen: Settings) -> "list[Choice]":
    """What the app's model picker offers; any other name can be typed there."""
    from dllm_tui.cli.facts import survey
    from dllm_tui.tui.choice import Choice

    machine = _machine(chosen)
    known = [Choice(facts.entry.id, facts.entry.id, about=_about(facts)) for facts in survey(machine)]
    others = [
        Choice(name, name, about=f"on disk  {family.title}  {family.attention}  {family.licence}")
        for name, family in _others().items()
    ]
    return known + others


def _about(facts: "Facts") -> str:
    entry = facts.entry
    use = [] if entry.use == "chat" else [f"for {entry.use}"]
    block = "whole canvas" if facts.block == "all" else f"block {facts.block}"
    parts = [facts.state, entry.size, facts.memory, *use, block, entry.family.attention, entry.licence]
    return "  ".join(parts)


def list_models(*, as_json: bool = False) -> None:
    """Print families and known checkpoints: what each needs, and how it stands on this machine."""
    from dllm_tui.cli.facts import survey

    machine = _machine(settings.load())
    surveyed = survey(machine)
    best = next(facts.entry for facts in surveyed if facts.recommended)
    others = _others()
    if as_json:
        table = {
            "machine": {"device": machine.name, "memory": machine.memory},
            "recommended": best.id,
            "models": [_entry_fields(facts) for facts in surveyed],
            "others_on_disk": [{"id": name, "family": family.name} for name, family in others.items()],
        }
        print(json.dumps(table, indent=2))
        return
    _print_table(machine, surveyed, others)


def _print_table(machine: "Machine", surveyed: "list[Facts]", others: dict[str, Family]) -> None:
    from rich.text import Text

    console = _console()
    wide = console.width >= WIDE
    lines = [_machine_line(machine)]
    width = max(len(facts.entry.id) for facts in surveyed)
    if wide:
        titles = f"  {'':{width}}  {'weights':16}  {'memory':>8}  {'block':>5}  here"
        lines += [Text(), Text(titles, "dim")]
    groups: dict[tuple[str, str], list[Facts]] = {}
    for facts in surveyed:
        groups.setdefault((facts.entry.family.name, facts.entry.licence), []).append(facts)
    for group in groups.values():
        lines += [Text(), _title(group[0].entry)]
        for facts in group:
            lines += [_wide_line(facts, width)] if wide else _narrow_lines(facts)
    if others:
        lines += [Text(), Text("Others on disk", "bold")]
        lines += [Text(f"  {printable(name)}  ({family.title})") for name, family in others.items()]
    lines += [
        Text(),
        Text("Any other checkpoint of these families loads by hub id, directory or GGUF file.", "dim"),
    ]
    for line in lines:
        console.print(line)


def _machine_line(machine: "Machine") -> "Text":
    from rich.text import Text

    return Text(
        f"This machine has {_gigabytes(machine.memory)} for a model, on {machine.name} in {machine.dtype}."
    )


def _title(entry: "Entry") -> "Text":
    from rich.text import Text

    family = entry.family
    return Text.assemble((family.title, "bold"), (f"  {family.attention} attention, {entry.licence}", "dim"))


def _wide_line(facts: "Facts", width: int) -> "Text":
    from rich.text import Text

    entry = facts.entry
    return Text.assemble(
        f"  {entry.id:{width}}  {entry.size:16}  {facts.memory:>8}  {facts.block:>5}  ",
        (facts.state, _style(facts)),
    )


def _narrow_lines(facts: "Facts") -> "list[Text]":
    from rich.text import Text

    measures = f"      {facts.entry.size}, {facts.memory}, block {facts.block}: "
    return [Text(f"  {facts.entry.id}"), Text.assemble((measures, "dim"), (facts.state, _style(facts)))]


def _style(facts: "Facts") -> str:
    if facts.recommended:
        return "bold cyan"
    return "dim" if facts.missing else "green" if facts.kept else ""


def show(name: str, *, as_json: bool = False) -> None:
    """Print how a model decodes, and how it stands on this machine.

    Raises:
        DllmError: no model, or of no family that is known here.
    """
    from dllm_tui.cli.facts import block_of, facts_of
    from dllm_tui.families.catalogue import find

    entry = find(name)
    family = entry.family if entry else _family(name)
    machine = _machine(settings.load())
    facts = facts_of(entry, machine) if entry else None
    changed = {
        knob: value for knob, value in family.defaults.to_dict().items() if value != KNOBS[knob].default
    }
    if as_json:
        said: dict[str, Any] = {
            **(_entry_fields(facts) if facts else _family_fields(family)),
            "explanation": family.explanation,
            "notice": family.notice,
            "noise": family.noise,
            "shift": family.shift,
            "revision": family.revision,
            "defaults": family.defaults.to_dict(),
            "policies": family.policies,
            "lacks": family.fixed_knobs,
        }
        print(json.dumps(said, indent=2))
        return
    block = facts.block if facts else block_of(family)
    rows: list[tuple[str, str]] = []
    if entry:
        rows += [("weights", entry.size + _USES[entry.use]), ("memory", _fit(entry, machine))]
        rows += [("on disk", _where(entry))]
    rows += [
        ("attention", f"{family.attention}: {_ATTENTION[family.attention]}"),
        ("block", "the whole canvas at once" if block == "all" else f"{block} cells"),
        ("noise", _NOISE[family.noise]),
        ("tokens", _REVISION[family.revision]),
    ]
    if family.shift:
        rows += [("shift", "a token is read one place before its own")]
    defaults = ", ".join(f"{knob} {value}" for knob, value in changed.items())
    rows += [
        ("defaults", defaults or "as in --help"),
        ("licence", entry.licence if entry else family.licence),
    ]
    _print_shown(name if not entry else entry.id, family, rows)


_USES = {"chat": "", "code": ", for code", "text": ", continues a text: it was not trained to chat"}


def _print_shown(name: str, family: Family, rows: list[tuple[str, str]]) -> None:
    from rich.padding import Padding
    from rich.table import Table
    from rich.text import Text

    console = _console()
    console.print(Text.assemble((printable(name), "bold"), f"  {family.title}"))
    console.print()
    console.print(Text(family.explanation))
    if family.notice:
        console.print()
        console.print(Text(family.notice, "yellow"))
    parts = [("", rows), ("policies", [(policy, POLICIES[policy]) for policy in family.policies])]
    if family.fixed_knobs:
        parts.append(("knobs that it doesn't have", list(family.fixed_knobs.items())))
    for title, pairs in parts:
        console.print()
        if title:
            console.print(Text(title, "bold"))
        grid = Table.grid(padding=(0, 2))
        grid.add_column(min_width=10, no_wrap=True, style="dim")
        grid.add_column()
        for label, text in pairs:
            grid.add_row(Text(label), Text(printable(text)))
        console.print(Padding(grid, (0, 0, 0, 2)))


def _fit(entry: "Entry", machine: "Machine") -> str:
    from dllm_tui.families.catalogue import shortfall

    width = machine.bytes_per_weight
    return shortfall(entry, machine.room(entry), width, fast=machine.fast) or (
        f"{_gigabytes(machine.needs(entry))} of the {_gigabytes(machine.room(entry))} on {machine.name}"
    )


def shortage(name: str, chosen: Settings) -> str:
    """What this machine lacks for a model of the catalogue, and what it could hold; else empty."""
    from dllm_tui.families.catalogue import find

    entry = find(name)
    if entry is None or entry.family is smol.FAMILY:
        return ""
    machine = _machine(chosen)
    return _fit(entry, machine) if machine.missing(entry) else ""


def _where(entry: "Entry") -> str:
    from dllm_tui.engine import hub_cache

    if entry.family is smol.FAMILY:
        return f"{smol.BASE.path} ({status()})"
    return str(hub_cache.snapshot(entry.id) or f"no; dllm-chat models pull {entry.id} fetches it")


def _entry_fields(facts: "Facts") -> dict[str, Any]:
    entry = facts.entry
    return {
        "id": entry.id,
        **_family_fields(entry.family),
        "licence": entry.licence,
        "billions": entry.parameters,
        "active_billions": entry.active,
        "block": facts.block,
        "use": entry.use,
        "memory": facts.needed,
        "missing": facts.missing,
        "fits": not facts.missing,
        "on_disk": facts.kept,
        "recommended": facts.recommended,
    }


def _family_fields(family: Family) -> dict[str, Any]:
    from dllm_tui.cli.facts import block_of

    return {
        "family": family.name,
        "title": family.title,
        "attention": family.attention,
        "licence": family.licence,
        "block": block_of(family),
    }


def pull(name: str) -> None:
    """Fetch a model, so that it is there without a network; print where it is.

    Raises:
        DllmError: it can't be fetched, or no model of that name is known.
    """
    from dllm_tui.families.catalogue import find

    entry = find(name)
    name = entry.id if entry else name
    if name == "smol":
        with progress() as told:
            path = store.fetch(smol.BASE, told)
    elif Path(name).expanduser().exists():
        raise DllmError(f"{name} is on this machine already.", f"Use it with --model {name}.")
    else:
        from dllm_tui.engine.hub import Repository

        family = entry.family if entry else _family(name)  # an unknown one is refused before its weights
        if family.notice:
            note(family.notice)
        machine = _machine(settings.load())
        if entry and machine.missing(entry):
            note(_fit(entry, machine))
        with progress() as told, _left_at_once():
            path = Repository.named(name).fetch(told, newest=True)
    print(path)


@contextmanager
def _left_at_once() -> Generator[None]:
    """Let Ctrl+C end the program: the hub's threads would first finish the files that they fetch.

    What is on disk is taken up by the next fetch.
    """

    def leave(*_: object) -> None:
        if sys.stderr.isatty():
            os.write(sys.stderr.fileno(), b"\x1b[?25h\n")  # the bar has hidden the cursor
        os._exit(130)

    before = signal.signal(signal.SIGINT, leave)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


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
    from dllm_tui.engine import hub_cache
    from dllm_tui.families.catalogue import find

    entry = find(name)
    name = entry.id if entry else name
    freed = hub_cache.remove(name)
    if freed is None:
        raise DllmError(f"{name} is not on this machine.", _REMOVE_HINT)
    note(f"removed {name}, {freed / 1e6:.0f} MB")


def _family(name: str) -> Family:
    """The family of a name that the catalogue doesn't have."""
    from dllm_tui.families import layout_for, layout_for_gguf
    from dllm_tui.families.catalogue import FAMILIES

    if name in FAMILIES:
        return FAMILIES[name]
    path = Path(name).expanduser()
    if path.suffix == ".gguf":
        from dllm_tui.engine.gguf import GGUF

        return layout_for_gguf(GGUF(path).architecture, path.name).family
    if smol.is_adapter(path):
        return smol.family_of(path)
    from dllm_tui.families.layout import Config

    if path.exists():
        folder, name = path, path.resolve().name
    else:
        from dllm_tui.engine.hub import Repository

        repository = Repository.named(name)
        folder, name = repository.config(), repository.id
    config = Config(_fields(folder))
    return layout_for(config, name).settled(config, name)


def _others() -> dict[str, Family]:
    """Models on disk that the catalogue doesn't have, of families that are known; by hub id."""
    from dllm_tui.engine import hub_cache
    from dllm_tui.families.catalogue import find

    others = {name: _family_in(folder, name) for name, folder in hub_cache.kept().items() if not find(name)}
    return {name: family for name, family in others.items() if family}


def _family_in(folder: Path, name: str) -> Family | None:
    """The family of a model in the hub's cache, if it is of one that is known."""
    from dllm_tui.families import layout_for
    from dllm_tui.families.layout import Config

    try:
        config = Config(_fields(folder))
        return layout_for(config, name).settled(config, name)
    except CheckpointError:
        return None


def _fields(folder: Path) -> dict[str, Any]:
    """A checkpoint's config, read without what loads its weights: that needs torch."""
    from dllm_tui.engine.links import refuse_escape

    path = folder / "config.json"
    refuse_escape(path)
    try:
        if path.stat().st_size > JSON_LIMIT:
            raise CheckpointError(f"{path} is larger than {JSON_LIMIT >> 20} MB.")
        fields = json.loads(path.read_bytes())
    except OSError as error:
        raise CheckpointError(
            f"{path} can't be read: {error.strerror}.", "Name a directory with config.json in it."
        ) from error
    except (ValueError, RecursionError):
        raise CheckpointError(f"{path} is not valid JSON.", "Get the file again.") from None
    if not isinstance(fields, dict):
        raise CheckpointError(f"{path} is not a table of fields.", "Get the file again.")
    return fields


def _machine(chosen: Settings) -> "Machine":
    from dllm_tui.cli.machine import this_machine

    return this_machine(chosen.device, chosen.dtype)


def _console() -> "Console":
    """Where tables go: as wide as the terminal, and wide enough for whole lines where there is none."""
    from rich.console import Console

    class Table(Console):
        def on_broken_pipe(self) -> None:
            raise BrokenPipeError  # as print does, where Rich ends the process as failed

    console = Table(highlight=False)
    if not sys.stdout.isatty() and "COLUMNS" not in os.environ:
        console.width = WIDE
    return console


def _gigabytes(size: int) -> str:
    return f"{size / 1e9:.1f} GB"
