"""pydantic's errors as SpecErrors: which field, what was found, what is allowed."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from pydantic import ValidationError

from holdfast.api.errors import RuleError, ScalarError, SpecError, Unquoted

_ALLOWED: Final[Mapping[str, str]] = {
    "missing": "required",
    "model_type": "must be an object",
    "model_attributes_type": "must be an object",
    "dict_type": "must be an object",
    "tuple_type": "must be a list",
    "list_type": "must be a list",
    "string_type": "must be a string",
    "bool_type": "must be true or false",
    "int_type": "must be a whole number",
    "int_parsing": "must be a whole number",
    "float_parsing": "must be a number",
    "literal_error": "must be {expected}",
    "enum": "must be {expected}",
    "too_long": "must have at most {max_length} items",
    "too_short": "must have at least {min_length} items",
    "greater_than_equal": "must be at least {ge}",
    "less_than_equal": "must be at most {le}",
    "greater_than": "must be greater than {gt}",
    "string_too_short": "must have at least {min_length} characters",
    "string_too_long": "must have at most {max_length} characters",
    "string_pattern_mismatch": "must match {pattern}",
}


def spec_error(error: ValidationError) -> SpecError:
    """One SpecError with every problem of `error`, in the order of the object."""
    first, *others = _problems(error)
    return SpecError(first.field, first.value, first.allowed, first.hint, others)


def path(location: tuple[int | str, ...]) -> str:
    """The path of a field as kubectl prints it: ("spec", "env", 3, "name") -> spec.env[3].name."""
    text = ""
    for part in location:
        text += f"[{part}]" if isinstance(part, int) else f".{part}"
    return text.removeprefix(".")


def _problems(error: ValidationError) -> Iterator[SpecError]:
    for detail in error.errors(include_url=False):
        if detail["type"] == "too_short" and len(detail["input"]) >= detail["ctx"]["min_length"]:
            continue  # pydantic counts only the valid items; the invalid ones are named already
        field = path(tuple(part for part in detail["loc"] if part != "[key]"))
        context: Mapping[str, Any] = detail.get("ctx", {})
        cause = context.get("error")
        match cause:
            case RuleError():
                for broken in cause.violations:
                    where = ".".join(filter(None, (field, broken.field)))
                    yield SpecError(where, Unquoted(broken.got), broken.allowed)
            case ScalarError():
                yield SpecError(field, cause.value, cause.allowed)
            case _:
                yield SpecError(field, _found(detail), what_is_allowed(detail))


def what_is_allowed(detail: Mapping[str, Any]) -> str:
    """What one of pydantic's errors says is allowed, in the words of a SpecError."""
    allowed = _ALLOWED.get(detail["type"])
    text = (
        allowed.format(**{name: _plain(value) for name, value in detail.get("ctx", {}).items()})
        if allowed
        else detail["msg"]
    )
    return str(text).removeprefix("Value error, ")


def _plain(bound: object) -> object:
    """1 for 1.0: nobody types a limit with a zero behind the point."""
    return int(bound) if isinstance(bound, float) and bound.is_integer() else bound


def _found(detail: Mapping[str, Any]) -> object:
    """What the field has: None if it is missing, the number of items, or the value."""
    if detail["type"] == "missing":
        return None
    if detail["type"] in ("too_long", "too_short"):
        return Unquoted(f"{len(detail['input'])} items")
    return detail["input"]
