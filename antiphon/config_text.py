"""Walks the settings and writes them out, each with its value, default and description."""

import dataclasses
import inspect
import json
import re
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import yaml
from pydantic import BaseModel, SecretStr

_MASK = "**********"
_WIDTH = 92


@dataclass(frozen=True, slots=True)
class Knob:
    """Is one setting, or a section of them.

    Attributes:
        path: dotted.
        value: as it stands; secrets are masked.
        default: as delivered.
        description: what it does and what it costs.
        is_section: its own settings follow; `value` and `default` are None.
    """

    path: str
    value: Any
    default: Any
    description: str
    is_section: bool = False


def knobs(settings: Any) -> Iterator[Knob]:
    """Yields every setting of a tree of pydantic models and dataclasses, in order."""
    return (knob for knob in _walk(settings, type(settings)(), "") if not knob.is_section)


def as_yaml(settings: Any) -> str:
    """Writes a tree as YAML that `--config` reads back, but for the masked secrets."""
    lines: list[str] = []
    for knob in _walk(settings, type(settings)(), ""):
        indent = "  " * knob.path.count(".")
        name = knob.path.rpartition(".")[2]
        if knob.is_section:
            lines += ["", *_comment(knob.description, indent), f"{indent}{name}:"]
            continue
        lines += _comment(f"{knob.description} Default: {json.dumps(knob.default)}.", indent)
        body = yaml.safe_dump({name: knob.value}, sort_keys=False, allow_unicode=True)
        lines += [indent + line for line in body.splitlines()]
    return "\n".join(lines).lstrip("\n") + "\n"


def plain(value: Any) -> Any:
    """Turns a value into what JSON and YAML can hold, with secrets masked."""
    match value:
        case SecretStr():
            return _MASK
        case dict():
            return {str(name): plain(item) for name, item in value.items()}
        case list() | tuple():
            return [plain(item) for item in value]
        case StrEnum():
            return str(value)
        case None | bool() | int() | float() | str():
            return value
    if _is_section(value):
        return {name: plain(getattr(value, name)) for name in _descriptions(type(value))}
    return str(value)


def _walk(settings: Any, default: Any, prefix: str) -> Iterator[Knob]:
    for name, description in _descriptions(type(settings)).items():
        path, value, delivered = prefix + name, getattr(settings, name), getattr(default, name)
        if not _is_section(value):
            yield Knob(path, plain(value), plain(delivered), description)
            continue
        yield Knob(path, None, None, description, is_section=True)
        same_kind = type(delivered) is type(value)
        yield from _walk(value, delivered if same_kind else type(value)(), f"{path}.")


def _is_section(value: Any) -> bool:
    return isinstance(value, BaseModel) or (
        dataclasses.is_dataclass(value) and not isinstance(value, type)
    )


def _descriptions(kind: type) -> dict[str, str]:
    """Returns what is said of each field: by pydantic, or by the dataclass's docstring."""
    if issubclass(kind, BaseModel):
        return {name: field.description or "" for name, field in kind.model_fields.items()}
    assert dataclasses.is_dataclass(kind), "a section is one or the other"
    said = _attributes(inspect.getdoc(kind) or "")
    return {field.name: said.get(field.name, "") for field in dataclasses.fields(kind)}


def _attributes(docstring: str) -> dict[str, str]:
    """Reads the Attributes section of a Google style docstring: `name, name: text`."""
    _, _, section = docstring.partition("Attributes:\n")
    said: dict[str, str] = {}
    for entry in re.split(r"\n(?= {4}\S)", "\n" + section):
        names, colon, text = entry.strip().partition(": ")
        if colon:
            sentence = " ".join(text.split())
            said |= {name: sentence[:1].upper() + sentence[1:] for name in names.split(", ")}
    return said


def _comment(text: str, indent: str) -> list[str]:
    return textwrap.wrap(
        text, _WIDTH, initial_indent=f"{indent}# ", subsequent_indent=f"{indent}# "
    )
