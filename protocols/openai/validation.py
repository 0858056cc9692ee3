"""Reading what a client sent: JSON and fields, with refusals in the wire's own words."""

import json
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn, TypeVar

from pydantic import BaseModel, ValidationError

MAX_SHOWN = 120
"""Characters of a client's own text that a message repeats."""

MAX_DEPTH = 64
"""Levels of nesting taken. Real events have six; a tool's schema may add some twenty."""

_MISSING = frozenset({"missing", "union_tag_not_found"})
_NAMED_BY_TAG = frozenset({"union_tag_not_found", "union_tag_invalid"})

ModelT = TypeVar("ModelT", bound=BaseModel)


class Refusal(Exception):
    """Says that a client's event was not taken.

    Args:
        code: OpenAI's error code.
        message: one sentence for the developer of the client.
        param: dotted path of the offending field.
    """

    def __init__(self, code: str, message: str, param: str | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.param = param


def parse_object(text: str) -> dict[str, Any]:
    """Reads a JSON object.

    Raises:
        Refusal: not JSON, not an object, NaN or Infinity, or nested too deeply.
    """
    try:
        value = json.loads(text, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise Refusal("invalid_value", f"The frame is not valid JSON: {short(error)}") from error
    if not isinstance(value, dict):
        raise Refusal("invalid_type", "The frame must hold a JSON object.")
    if _deeper_than(value, MAX_DEPTH):
        raise Refusal("invalid_value", f"The frame is nested more than {MAX_DEPTH} levels deep.")
    return value


def validated(model: type[ModelT], data: Mapping[str, Any], prefix: str = "") -> ModelT:
    """Checks `data` against a wire class, types strictly.

    Raises:
        Refusal: the first thing that is wrong, with its path after `prefix`.
    """
    try:
        return model.model_validate(data, strict=True)
    except ValidationError as error:
        raise _refusal(error, data, prefix) from error


def short(text: object) -> str:
    """Returns what a client sent, cut to a length that suits a message."""
    shown = str(text)
    return shown if len(shown) <= MAX_SHOWN else shown[: MAX_SHOWN - 3] + "..."


def _refusal(error: ValidationError, data: Mapping[str, Any], prefix: str) -> Refusal:
    first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    kind = first["type"]
    path = _path(first["loc"], data, missing=kind == "missing")
    if kind in _NAMED_BY_TAG:
        path = [*path, "type"]
    param = short(".".join(([prefix] if prefix else []) + path)) or None
    if kind in _MISSING:
        return Refusal(
            "missing_required_parameter", f"Missing required parameter: '{param}'.", param
        )
    if kind == "extra_forbidden":
        return Refusal("unknown_parameter", f"Unknown parameter: '{param}'.", param)
    code = "invalid_type" if kind.endswith("_type") else "invalid_value"
    return Refusal(code, f"Invalid value for '{param}': {short(first['msg'])}.", param)


def _path(loc: Sequence[int | str], data: object, *, missing: bool) -> list[str]:
    """Returns the path in the client's own data: pydantic adds the names of union members."""
    path: list[str] = []
    here: object = data
    for depth, step in enumerate(loc):
        in_object = isinstance(here, Mapping) and step in here
        in_list = isinstance(here, list) and isinstance(step, int) and step < len(here)
        if in_object or in_list:
            path.append(str(step))
            here = here[step]  # type: ignore[index]  # one of the two holds it
        elif missing and depth == len(loc) - 1:
            path.append(str(step))
    return path


def _deeper_than(value: object, levels: int) -> bool:
    if isinstance(value, dict):
        return levels == 0 or any(_deeper_than(part, levels - 1) for part in value.values())
    if isinstance(value, list):
        return levels == 0 or any(_deeper_than(part, levels - 1) for part in value)
    return False


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")
