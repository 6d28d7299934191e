"""Chat templates: Jinja from a checkpoint, filled in a sandbox as transformers fills it."""

import json
from collections.abc import Callable
from datetime import datetime
from typing import Any, NoReturn

import jinja2
from jinja2 import nodes
from jinja2.ext import Extension, loopcontrols
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.utils import Namespace

from dllm_tui.errors import CheckpointError

Render = Callable[[list[dict[str, str]], dict[str, str]], str]
"""(messages, named tokens) → text up to where the answer begins."""


class _Generation(Extension):
    """``{% generation %}`` marks what the assistant said, for training; here it only passes its body on."""

    tags = {"generation"}  # noqa: RUF012 (jinja2 declares it so)

    def parse(self, parser: Any) -> list[nodes.Node]:
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


class _PublicNamespace(Namespace):
    """``namespace()`` without names that begin with an underscore, which could reach Python's internals."""

    def __init__(self, **names: Any) -> None:
        super().__init__()
        for name, value in names.items():
            self[name] = value

    def __setitem__(self, name: str, value: Any) -> None:
        if name.startswith("_"):
            raise jinja2.TemplateError(f"the name {name!r} isn't allowed in a namespace")
        super().__setitem__(name, value)


def _raise(message: str) -> NoReturn:
    raise jinja2.TemplateError(message)


def _to_dict(**items: Any) -> dict[str, Any]:
    return items


def _strftime_now(form: str) -> str:
    return datetime.now().strftime(form)


def _to_json(value: Any, indent: int | None = None, **options: Any) -> str:
    return json.dumps(value, ensure_ascii=False, indent=indent, **options)


def compile_template(template: str, name: str) -> Render:
    """A function that fills a chat template as transformers does, in a sandbox.

    Args:
        template: Jinja source from a checkpoint; it is not trusted.
        name: of the model, for messages.

    Returns:
        The filling function; it raises ``CheckpointError`` where the template fails or refuses.

    Raises:
        CheckpointError: the template is not valid Jinja.
    """
    environment: Any = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[_Generation, loopcontrols]
    )
    environment.filters["tojson"] = _to_json
    environment.globals = {
        "range": environment.globals["range"],
        "dict": _to_dict,
        "namespace": _PublicNamespace,
        "raise_exception": _raise,
        "strftime_now": _strftime_now,
    }
    try:
        compiled = environment.from_string(template)
    except jinja2.TemplateError as error:
        raise CheckpointError(
            f"The chat template of {name} is broken: {error}.", "Get the model's files again."
        ) from error

    def render(messages: list[dict[str, str]], named_tokens: dict[str, str]) -> str:
        try:
            return compiled.render(messages=messages, add_generation_prompt=True, tools=None, **named_tokens)
        except Exception as error:  # whatever it is, it came from the template
            raise CheckpointError(
                f"The chat template of {name} can't take this conversation: {error}.",
                "Some models know no system message, or want user and assistant to take turns.",
            ) from error

    return render
