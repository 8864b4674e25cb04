"""Between dataclasses and JSON, one spelling for everything that is stored: `job_uid` is `jobUID`.

Records, manifests and fragments use this codec. It changes the names of dataclass fields only, never keys of mappings:
those belong to the program that is trained.
"""

import types
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from functools import cache
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

from holdfast_protocol.document import camel_case
from holdfast_train.format.names import CheckpointName

T = TypeVar("T")


def encoded(value: object) -> Any:
    """One level of `value` for JSON: an object of a dataclass's fields, the text of a checkpoint's name.

    For the `default` of json.dumps, which converts the levels below. dataclasses.asdict copies all levels, which takes
    longer than writing the JSON of a large manifest. TypeError if JSON has no such value.
    """
    if isinstance(value, CheckpointName):
        return str(value)
    if not is_dataclass(value) or isinstance(value, type):
        raise TypeError(f"JSON has no {type(value).__name__}")
    content = vars(value)
    return {stored: content[name] for name, stored, _ in _layout(type(value))}


def decoded(kind: type[T], body: Mapping[str, Any]) -> T:
    """The dataclass `kind` whose encoded form is `body`. KeyError or TypeError if a field is missing or unknown,
    ValueError if a value is not a checkpoint's name."""
    untyped: Any = kind
    layout = _layout(untyped)
    if unknown := body.keys() - {stored for _, stored, _ in layout}:
        raise KeyError(f"unknown field {min(unknown)}")
    return kind(**{name: convert(body[stored]) for name, stored, convert in layout})


@cache
def _layout(kind: type) -> tuple[tuple[str, str, Callable[[Any], Any]], ...]:
    """Of each field of the dataclass `kind`: its name, its stored name, and the function that decodes its value."""
    hints = get_type_hints(kind)
    return tuple((field.name, camel_case(field.name), _decoder(hints[field.name])) for field in fields(kind))


def _decoder(hint: Any) -> Callable[[Any], Any]:
    """Dataclasses, checkpoint names, and tuples or optional values of these are decoded; other values stay."""
    if hint is CheckpointName:
        return _name
    if is_dataclass(hint):
        return lambda body: decoded(hint, body)  # type: ignore[arg-type]
    arguments = get_args(hint)
    if get_origin(hint) is tuple:
        convert = _decoder(arguments[0])
        return lambda items: tuple(convert(item) for item in items)
    if get_origin(hint) in (Union, types.UnionType) and len(arguments) == 2 and arguments[1] is type(None):
        convert = _decoder(arguments[0])
        return lambda value: None if value is None else convert(value)
    return lambda value: value


def _name(text: str) -> CheckpointName:
    found = CheckpointName.parse(text)
    if found is None:
        raise ValueError(f"{text!r} is not the name of a checkpoint")
    return found
