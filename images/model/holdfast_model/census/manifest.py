"""A list of samples as CSV, TSV or JSONL: one row each, with columns for the label, the split and the file."""

import csv
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from holdfast_model.census.errors import DataSetError
from holdfast_model.census.sample import Sample, Seen, Source

LABELS: Final = ("label", "labels", "class", "category", "target", "class_name", "classname", "y")
SPLITS: Final = ("split", "subset", "fold", "partition", "set")
FILES: Final = ("file", "path", "filename", "file_name", "filepath", "file_path", "image", "image_path", "name")
MOST_LINE: Final = 1 << 22
"""Characters of one line."""
MOST_TEXT: Final = 200
"""Characters of a label; a longer one is a text, and not the name of a class."""


@dataclass(frozen=True)
class Columns:
    """Names of columns; None: those that are usual."""

    label: str | None = None
    split: str | None = None
    file: str | None = None


def manifest_source(path: Path, columns: Columns) -> Source:
    """Files are below the folder of the manifest, if their paths are relative."""
    kind = (
        "JSONL" if path.suffix.lower() in (".jsonl", ".ndjson") else "TSV" if path.suffix.lower() == ".tsv" else "CSV"
    )
    return Source(f"manifest ({kind})", lambda seen: _samples(path, columns, kind, seen))


def choose(place: Path, asked: Columns, there: Sequence[str]) -> tuple[str, str | None, str | None]:
    """The columns of label, split and file. DataSetError if there is no label."""
    lower = {name.lower(): name for name in reversed(there)}

    def one(what: str, named: str | None, usual: Sequence[str]) -> str | None:
        if named is not None and named not in there:
            raise DataSetError(f"{place} has no column {named!r} for --{what}; it has: {_listed(there)}")
        return named or next((lower[name] for name in usual if name in lower), None)

    label = one("label", asked.label, LABELS)
    if label is None:
        raise DataSetError(f"{place} has no column of labels; name one with --label; it has: {_listed(there)}")
    return label, one("split", asked.split, SPLITS), one("file", asked.file, FILES)


def _listed(names: Sequence[str]) -> str:
    return ", ".join(repr(str(name)[:60]) for name in names[:30]) + (" and more" if len(names) > 30 else "")


def text_of(value: object) -> str:
    """A label or split as text; empty if there is none. A whole number that became 3.0 is 3 again."""
    if value is None or value != value:  # noqa: PLR0124 - NaN
        return ""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return " ".join(str(value).split())[:MOST_TEXT]


def _samples(path: Path, columns: Columns, kind: str, seen: Seen) -> Iterator[Sample]:
    rows = _json_rows(path) if kind == "JSONL" else _csv_rows(path, "\t" if kind == "TSV" else ",")
    chosen: tuple[str, str | None, str | None] | None = None
    for number, row in rows:
        chosen = chosen or choose(path, columns, list(row))
        label, split, file = chosen
        named = text_of(row.get(file)) if file else ""
        local = path.parent / named if named and "://" not in named else None
        if named and local is None:
            seen.add("remote", named)
        yield Sample(text_of(row.get(split)) if split else "", text_of(row.get(label)), named or f"row {number}", local)


def _csv_rows(path: Path, separator: str) -> Iterator[tuple[int, Mapping[str, Any]]]:
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            rows = csv.DictReader(file, delimiter=separator, restkey="", restval="")
            yield from enumerate(rows, start=1)
    except (csv.Error, UnicodeDecodeError) as error:
        raise DataSetError(f"{path} cannot be read as text with one sample in each line: {error}") from error


def _json_rows(path: Path) -> Iterator[tuple[int, Mapping[str, Any]]]:
    number = 0
    try:
        with path.open(encoding="utf-8-sig") as file:
            while line := file.readline(MOST_LINE):
                number += 1
                if len(line) == MOST_LINE:
                    raise DataSetError(f"{path} line {number} has over {MOST_LINE:,} characters")
                if not line.strip():
                    continue
                row = json.loads(line)
                if not isinstance(row, dict):
                    raise DataSetError(f"{path} line {number} is not an object; allowed: one object in each line")
                yield number, row
    except (ValueError, RecursionError) as error:
        raise DataSetError(f"{path} line {number + 1 if number == 0 else number} is not JSON: {error}") from error
