"""Documents: frozen dataclasses that are JSON on their way between operator and pod.

A field says once what it may hold: `steps: int | None = whole(least=1)`. Its name in JSON is in camelCase. The rules of
every document:

- A field that a reader does not know is ignored: it is of a newer writer.
- A field that is missing, or null, has its default: it is of an older writer, or not set.
- A field that cannot be read is refused: DocumentError names it, and says what was found and what is allowed.
"""

from __future__ import annotations

import dataclasses
import json
import math
import re
from collections.abc import Callable, Mapping
from datetime import datetime
from functools import cache
from typing import Any, TypeVar

EXACT = 2**53 - 1  # the largest whole number that every reader of JSON keeps exactly
TEXT = 4096  # characters of a text, unless its field says another limit
SHOWN = 100  # characters of a value in an error
REQUIRED = dataclasses.MISSING  # as a default: the field must be there

_HALF = re.compile("[\ud800-\udfff]")

T = TypeVar("T")
Kind = Callable[[Any, str], Any]
"""Takes a decoded value and the place of its field. Returns what the field holds, or raises DocumentError."""


class DocumentError(ValueError):
    """A field cannot be read."""

    def __init__(self, place: str, value: object, allowed: str) -> None:
        found = repr(value)
        found = found if len(found) <= SHOWN else f"{found[:SHOWN]}..."
        super().__init__(f"{place or 'the document'} is {found}; allowed: {allowed}")


def _field(kind: Kind, default: Any, name: str | None = None) -> Any:
    return dataclasses.field(default=default, metadata={"kind": kind, "name": name})


def version(newest: int, *, name: str | None = None) -> Any:
    """The version of the document; 1 if it is missing. A reader refuses one that it does not know."""

    def kind(value: Any, place: str) -> int:
        if _count(value, place, 1) > newest:
            update = "use an operator and an image whose versions fit together (docs/reference/protocol.md)"
            raise DocumentError(place, value, f"at most {newest}: {update}")
        return int(value)

    return _field(kind, newest, name)


def text(default: Any = None, *, least: int = 1, most: int = TEXT, form: str = "", name: str | None = None) -> Any:
    """A text of `least` to `most` characters that fits the regular expression `form`, if there is one."""

    def kind(value: Any, place: str) -> str:
        if not _is_text(value, least, most) or (form and not re.fullmatch(form, value)):
            like = f" like {form}" if form else ""
            raise DocumentError(place, value, f"a text of {least} to {most} characters{like}")
        return str(value)

    return _field(kind, default, name)


def whole(default: Any = None, *, least: int = 0, most: int = EXACT) -> Any:
    """A whole number from `least` to `most`."""

    return _field(lambda value, place: _count(value, place, least, most), default)


def _count(value: Any, place: str, least: int = 0, most: int = EXACT) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        raise DocumentError(place, value, f"a whole number from {least} to {most}")
    return value


def seconds(default: Any = None, *, above: float = -1.0) -> Any:
    """A number of seconds: at least 0, and more than `above`."""

    def kind(value: Any, place: str) -> float:
        is_number = isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) <= EXACT
        if not is_number or not math.isfinite(value) or value < 0 or value <= above:
            raise DocumentError(place, value, f"a number of seconds {'above 0' if above >= 0 else 'of at least 0'}")
        return float(value)

    return _field(kind, default)


def flag(default: Any = False) -> Any:
    """True or false."""

    def kind(value: Any, place: str) -> bool:
        if not isinstance(value, bool):
            raise DocumentError(place, value, "true or false")
        return value

    return _field(kind, default)


def choice(default: Any, *others: str) -> Any:
    """One of these texts. REQUIRED as default: one of `others`."""
    allowed = others if default is REQUIRED else (default, *others)

    def kind(value: Any, place: str) -> str:
        if not isinstance(value, str) or value not in allowed:
            raise DocumentError(place, value, f"{', '.join(allowed[:-1])} or {allowed[-1]}")
        return value

    return _field(kind, default)


def texts(*, most: int, characters: int = TEXT, lines: bool = False, form: str = "") -> Any:
    """A list of at most `most` texts that fit the regular expression `form`, if there is one; with `lines`, empty ones
    too.
    """

    def is_good(one: object) -> bool:
        return _is_text(one, int(not lines), characters) and (not form or bool(re.fullmatch(form, str(one))))

    def kind(value: Any, place: str) -> tuple[str, ...]:
        if not isinstance(value, list) or len(value) > most or not all(map(is_good, value)):
            allowed = f"a list of at most {most} texts of at most {characters} characters"
            raise DocumentError(place, value, f"{allowed} like {form}" if form else allowed)
        return tuple(value)

    return _field(kind, ())


def _is_text(value: object, least: int, most: int) -> bool:
    """True for a text of this length. Half of a character (a lone surrogate) is none: UTF-8 cannot hold it."""
    return isinstance(value, str) and least <= len(value) <= most and not _HALF.search(value)


def readable(text: str) -> str:
    """The text without halves of characters, which no document may have: an argument or a path may have some."""
    return text.encode("utf-8", "replace").decode()


def checked(read: Callable[[Any], Any], default: Any = None) -> Any:
    """What `read` makes of the value. It raises ValueError with words on what is allowed."""
    return _field(lambda value, place: _read(read, value, place), default)


def _read(read: Callable[[Any], Any], value: Any, place: str) -> Any:
    try:
        return read(value)
    except ValueError as error:
        raise DocumentError(place, value, str(error)) from error


def made(read: Callable[[Any, str], Any], default: Any = None) -> Any:
    """What `read` makes of the value and its place. It raises DocumentError."""
    return _field(read, default)


def named(read: Callable[[Any], Any], *, most: int, name: re.Pattern[str]) -> Any:
    """An object of at most `most` fields with names like `name`; `read` as in `checked`, for each value."""

    def kind(value: Any, place: str) -> dict[str, Any]:
        is_object = isinstance(value, dict) and len(value) <= most
        if not is_object or not all(isinstance(one, str) and name.fullmatch(one) for one in value):
            raise DocumentError(place, value, f"an object of at most {most} fields with names like {name.pattern}")
        return {one: _read(read, found, f"{place}.{one}") for one, found in value.items()}

    return dataclasses.field(default_factory=dict, metadata={"kind": kind, "name": None})


def moment(default: Any = None) -> Any:
    """A time in ISO 8601 with its zone, as a text. It is within the years 1 to 9999 in UTC too."""

    def read(value: Any) -> str:
        if not isinstance(value, str) or len(value) > SHOWN or not _is_moment(value):
            raise ValueError("a time with its zone, such as 2026-11-21T12:00:00+00:00")
        return value

    return checked(read, default)


def _is_moment(text: str) -> bool:
    try:
        found = datetime.fromisoformat(text.replace("Z", "+00:00"))
        offset = found.utcoffset()
        return offset is not None and bool(found.replace(tzinfo=None) - offset)
    except (OverflowError, ValueError):
        return False


def counts(*, most: int, characters: int) -> dict[str, Any]:
    """Metadata of a field with an object of at most `most` whole numbers. Its default is a new, empty one."""

    def kind(value: Any, place: str) -> dict[str, int]:
        is_object = isinstance(value, dict) and len(value) <= most
        if not is_object or not all(_is_text(one, 0, characters) for one in value):
            raise DocumentError(place, value, f"an object of at most {most} fields of {characters} characters")
        return {name: _count(number, f"{place}.{name}") for name, number in value.items()}

    return {"kind": kind, "name": None}


def part(of: type, default: Any = None) -> Any:
    """A document inside this one."""
    return _field(lambda value, place: decode(of, value, place), default)


def parts(of: type, *, most: int) -> Any:
    """A list of at most `most` documents."""

    def kind(value: Any, place: str) -> tuple[Any, ...]:
        if not isinstance(value, list) or len(value) > most:
            raise DocumentError(place, value, f"a list of at most {most} objects")
        return tuple(decode(of, one, f"{place}[{number}]") for number, one in enumerate(value))

    return _field(kind, ())


def camel_case(name: str) -> str:
    """`upload_rate` -> `uploadRate`, `pod_uid` -> `podUID`."""
    first, *others = name.split("_")
    return first + "".join("UID" if word == "uid" else word.capitalize() for word in others)


def name_of(field: dataclasses.Field[Any]) -> str:
    """The name of a field in JSON."""
    return field.metadata.get("name") or camel_case(field.name)


def decode(of: type[T], value: object, place: str = "") -> T:
    """The document of the class `of` in decoded JSON. DocumentError, which names the field below `place`."""
    if not isinstance(value, Mapping):
        raise DocumentError(place, value, "an object")
    found: dict[str, Any] = {}
    for field, name in _layout(of):  # type: ignore[arg-type]  # a class is hashable
        at = f"{place}.{name}" if place else name
        if value.get(name) is not None:
            found[field.name] = field.metadata["kind"](value[name], at)
        elif field.name == "version":
            found[field.name] = 1
        elif field.default is REQUIRED and field.default_factory is REQUIRED:
            raise DocumentError(at, None, "a value; the field must be set")
    return of(**found)


@cache
def _layout(of: Any) -> tuple[tuple[dataclasses.Field[Any], str], ...]:
    """The fields with their names. The version first: in another one, any other field may have another form."""
    found = sorted(dataclasses.fields(of), key=lambda one: one.name != "version")
    return tuple((field, name_of(field)) for field in found)


def encode(document: Any) -> dict[str, Any]:
    """The document as JSON's types. A field that is None is left out; every other one is there."""
    found = ((name_of(field), getattr(document, field.name)) for field in dataclasses.fields(document))
    return {name: _plain(value) for name, value in found if value is not None}


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value):
        return encode(value)
    return [_plain(one) for one in value] if isinstance(value, (tuple, list)) else value


def to_text(document: Any) -> str:
    """The document as one line of JSON without a `$`: Kubernetes would expand `$(NAME)` and `$$` in a variable."""
    return json.dumps(encode(document), separators=(",", ":")).replace("$", "\\u0024")


def read_json(content: str | bytes, place: str = "") -> Any:
    """Decoded JSON. DocumentError if there is none, or if it is nested too deeply."""
    try:
        return json.loads(content)
    except (ValueError, RecursionError) as error:
        raise DocumentError(place, content, f"JSON ({error})") from error
