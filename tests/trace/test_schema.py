"""The documented format is the one that is written: schema, page and code say the same."""

import json
import re
from pathlib import Path
from typing import Any, get_args

import msgspec
import pytest
from jsonschema import Draft202012Validator

from dllm_tui.events import AnyEvent, decode, encode
from dllm_tui.trace.reader import read
from tests.trace import sample, schema

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "trace.md").read_text(encoding="utf-8")
SCHEMA = json.loads(schema.FILE.read_text(encoding="utf-8"))
VALIDATOR = Draft202012Validator(SCHEMA)


def test_the_file_is_what_the_code_gives():
    """Write it anew with ``python -m tests.trace.schema``."""
    assert schema.FILE.read_text(encoding="utf-8") == schema.text()
    Draft202012Validator.check_schema(SCHEMA)


def test_every_event_of_a_session_is_valid():
    kinds = set()
    for event in sample.session():
        VALIDATOR.validate(json.loads(encode(event)))
        kinds.add(event.type)
    assert kinds >= {"header", "turn", "run", "block", "pieces", "step", "knobs", "commit", "done"}


def test_every_event_of_a_recorded_run_is_valid():
    """The trace that our own pictures are made from; a model wrote it."""
    lines = (DOCS / "demo.jsonl").read_bytes().splitlines()
    assert len(list(read(DOCS / "demo.jsonl"))) == len(lines) > 50
    for line in lines:
        VALIDATOR.validate(json.loads(line))


@pytest.mark.parametrize(
    "line",
    [
        {"type": "unheard"},
        {"type": "turn", "role": "robot", "text": ""},
        {"type": "turn", "role": "user"},
        {"type": "header", "schema": 3},
        {"type": "step", "phase": "denoise", "nfe": -1, "length": 1},
        {"type": "step", "phase": "denoise", "nfe": 1, "length": 1, "changes": [{"position": 0}]},
        {"type": "pieces", "pieces": {"x": ""}},
        {"type": "done", "reason": "stop", "token_ids": ["a"]},
        [],
    ],
)
def test_what_the_reader_refuses_is_not_valid(line: Any):
    assert not VALIDATOR.is_valid(line)


def test_unknown_fields_are_valid():
    VALIDATOR.validate({"type": "commit", "block": 0, "start": 0, "end": 1, "mood": "fine"})


def test_the_page_names_every_event_and_field():
    table = dict(re.findall(r"^\| `(\w+)` \| [^|]+ \| ([^|]+) \|$", PAGE, re.MULTILINE))
    fields = {name: re.findall(r"`(\w+)`", text) for name, text in table.items()}
    structs = {kind.__struct_config__.tag: list(kind.__struct_fields__) for kind in get_args(AnyEvent)}
    assert {name: sorted(named) for name, named in fields.items()} == {
        str(name): sorted(known) for name, known in structs.items()
    }


def test_the_pages_example_is_a_trace(tmp_path: Path):
    example = re.search(r"```json\n(.*?)```", PAGE, re.DOTALL)
    assert example
    path = tmp_path / "example.jsonl"
    path.write_text(example[1], encoding="utf-8")
    lines = example[1].splitlines()
    assert [json.loads(encode(event)) for event in read(path)] == [
        json.loads(encode(decode(line))) for line in lines
    ]
    for line in lines:
        VALIDATOR.validate(json.loads(line))
        known = json.loads(encode(decode(line)))
        assert json.loads(line).keys() <= known.keys()


def test_what_the_schema_says_of_a_field_comes_from_the_code():
    step = SCHEMA["$defs"]["Step"]["properties"]
    assert step["nfe"]["description"].startswith("Forwards of this run so far")
    assert all(kind["description"] for kind in SCHEMA["$defs"].values())
    assert "``" not in msgspec.json.encode(SCHEMA).decode()
    assert ":class:" not in msgspec.json.encode(SCHEMA).decode()
