"""JSON, JSON lines, CSV, and other text."""

import csv
import json
from collections.abc import Callable
from typing import Final

from holdfast_cli.rehearse.compare.reading.pickled_values import numbers_in
from holdfast_cli.rehearse.compare.reading.source import Source
from holdfast_cli.rehearse.compare.reading.values import (
    LONG_LIST,
    MOST_VALUES,
    Contents,
    Pairs,
    UnreadableError,
    check_nodes,
    flatten,
)

MOST_BYTES: Final = 16 << 20  # of a text; a longer one is compared as bytes
_MOST_FIELDS: Final = 1000  # of a row


def read_text(source: Source) -> Contents:
    """The values of a text. UnreadableError if it is not UTF-8, has a zero byte, or is too long; OSError."""
    if source.size > MOST_BYTES:
        raise UnreadableError(f"it has {source.size:,} bytes; a text of more than {MOST_BYTES:,} is compared as bytes")
    data = source.read(0, source.size)
    if b"\0" in data:
        raise UnreadableError("it is not a text")
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        raise UnreadableError("it is not a text") from error
    forms: tuple[Callable[[str], Contents | None], ...] = (_document, _lines_of_json, _table)
    for form in forms:
        if (found := form(text)) is not None:
            return found
    return _lines(text)


def _parsed(text: str) -> object:
    check_nodes(text.count(",") + text.count("[") + text.count("{"))
    return json.loads(text, object_pairs_hook=Pairs)


def _document(text: str) -> Contents | None:
    if text.lstrip()[:1] not in ("{", "["):
        return None
    try:
        tree = _parsed(text)
    except (ValueError, RecursionError):
        return None
    values, note = flatten(tree, _shorter)
    return Contents("JSON", values, note=note)


def _shorter(node: object) -> object:
    return numbers_in(node) or node if isinstance(node, list) and len(node) >= LONG_LIST else node


def _lines_of_json(text: str) -> Contents | None:
    lines = [line for line in text.split("\n") if line.strip()]
    if not lines or not all(line.lstrip()[:1] in ("{", "[") for line in lines):
        return None
    try:
        check_nodes(len(lines) + text.count(",") + text.count("[") + text.count("{"))
        rows = [_parsed(line) for line in lines]
    except (ValueError, RecursionError):
        return None
    values, note = flatten(rows, _shorter)
    return Contents("JSON lines", values, note=note)


def _table(text: str) -> Contents | None:
    """A table whose first row names its columns, and that has a number somewhere below."""
    head = text.partition("\n")[0]
    mark = next((mark for mark in (",", "\t", ";") if mark in head), None)
    if mark is None or text.count("\n") * head.count(mark) > MOST_VALUES:
        return None
    try:
        names, *rows = csv.reader(text.splitlines(), delimiter=mark, strict=True)
    except (csv.Error, ValueError):
        return None
    if not rows or len(names) > _MOST_FIELDS or any(len(row) != len(names) for row in rows):
        return None
    fields = [[_number(field) for field in row] for row in rows]
    if any(isinstance(_number(name), float) for name in names) or not any(
        isinstance(field, float) for row in fields for field in row
    ):
        return None
    values, note = flatten([Pairs(list(zip(names, row, strict=True))) for row in fields])
    return Contents("CSV", values, note=note)


def _number(field: str) -> float | str:
    try:
        return float(field) if field.isascii() and "_" not in field else field
    except ValueError:
        return field


def _lines(text: str) -> Contents:
    lines = text.split("\n")
    lines = lines[:-1] if lines[-1] == "" else lines
    values, note = flatten(lines) if lines else ({}, "")
    return Contents("text", {f"line {number}": value for number, value in enumerate(values.values(), 1)}, note)
