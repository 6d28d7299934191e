"""Writes ``dllm_tui/trace/schema.json`` from the structs of the events: python -m tests.trace.schema

msgspec knows types and ranges; what each field means comes from the words under it in the source.
"""

import ast
import inspect
import json
import re
from pathlib import Path
from typing import Any

import msgspec

from dllm_tui import events, trace

FILE = Path(trace.__file__).with_name("schema.json")


def generate() -> dict[str, Any]:
    """The schema of one line of a trace."""
    schema = msgspec.json.schema(events.AnyEvent)
    schema.pop("discriminator")  # OpenAPI's, not JSON Schema's
    kinds = schema.pop("$defs")
    words = _words()
    for name, kind in kinds.items():
        for field, about in kind.get("properties", {}).items():
            if text := words.get((name, field)):
                about["description"] = text
        kind["description"] = _plain(kind["description"])
    version = kinds["Header"]["properties"]["schema"]
    version.update(minimum=1, maximum=events.SCHEMA_VERSION)
    kinds["Pieces"]["properties"]["pieces"]["propertyNames"] = {"pattern": "^[0-9]+$"}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"One line of a dllm-chat trace, schema {events.SCHEMA_VERSION}",
        "description": "What lines mean together (order, references) is in docs/trace.md.",
        **schema,
        "$defs": kinds,
    }


def text() -> str:
    """The file's content."""
    return json.dumps(generate(), indent=2, ensure_ascii=False) + "\n"


def _words() -> dict[tuple[str, str], str]:
    """The string under each annotated field, by class and field."""
    found = {}
    for kind in ast.parse(inspect.getsource(events)).body:
        if isinstance(kind, ast.ClassDef):
            for field, under in zip(kind.body, kind.body[1:], strict=False):
                match field, under:
                    case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(
                        value=ast.Constant(value=str(said))
                    ):
                        found[kind.name, name] = _plain(said)
                    case _:
                        pass
    return found


def _plain(said: str) -> str:
    said = re.sub(r":\w+:`~?(?:[\w.]*\.)?(\w+)`", r"`\1`", inspect.cleandoc(said))
    return said.replace("``", "`")


if __name__ == "__main__":
    FILE.write_text(text(), encoding="utf-8")
