"""The canonical form of a part of a spec: the same for all spellings of the same wish.

The order of a list that is a map does not count, nor does a field at its default, nor how a quantity or a duration is
written. So an operator that knows more fields computes the same form for a spec that does not use them.
"""

from collections.abc import Iterator
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any, get_args

from pydantic.fields import FieldInfo

from holdfast.api.model import Model
from holdfast.api.rules import KeyedBy, snake_case
from holdfast.api.scalars import QuantityType, format_duration, format_time, quantity_value

Json = Any  # what json.dumps takes


def canonical(model: Model) -> dict[str, Json]:
    """The canonical form of a model, as plain JSON values by the Python names of its fields."""
    found: dict[str, Json] = {}
    for name, field in type(model).model_fields.items():
        value, marks = getattr(model, name), tuple(_marks(field))
        if (form := _form(value, marks)) != _form(field.get_default(call_default_factory=True), marks):
            found[name] = form
    return found


def _marks(field: FieldInfo) -> Iterator[object]:
    """What marks the values of a field: its own metadata, and those of an optional value or of the items of a list."""
    yield from field.metadata
    for part in get_args(field.annotation):
        yield from getattr(part, "__metadata__", ())


def _form(value: Any, marks: tuple[object, ...]) -> Json:
    if isinstance(value, Model):
        return canonical(value)
    if isinstance(value, tuple):
        key = next((mark.key for mark in marks if isinstance(mark, KeyedBy)), None)
        items = value if key is None else sorted(value, key=lambda item: str(getattr(item, snake_case(key))))
        return [_form(item, marks) for item in items]
    if isinstance(value, dict):
        return {name: _form(item, marks) for name, item in value.items()}
    if isinstance(value, str) and any(isinstance(mark, QuantityType) for mark in marks):
        return str(quantity_value(value))
    if isinstance(value, timedelta):
        return format_duration(value)
    if isinstance(value, datetime):
        return format_time(value)
    if isinstance(value, Decimal):
        return str(value.normalize())
    return value
