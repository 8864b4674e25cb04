"""Files of Parquet with a column of labels, as data sets of Hugging Face have them. Needs pyarrow."""

import contextlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from holdfast_model.census.errors import DataSetError
from holdfast_model.census.manifest import Columns, choose, text_of
from holdfast_model.census.sample import Sample, Seen, Source

ROWS: Final = 256
"""Rows in memory at once."""
SHARD: Final = re.compile(r"([A-Za-z]+)-\d{5}-of-\d{5}(-[0-9a-f]+)?")
"""`train-00000-of-00012`: the split is the first word."""
CONTENTS: Final = ("image", "img", "picture", "audio", "bytes", "content")
"""Columns with the contents of a sample: bytes, or an object with `bytes`."""


def parquet_source(files: Sequence[Path], columns: Columns) -> Source:
    """`files`: read one after another."""
    return Source("Parquet", lambda seen: (sample for file in files for sample in _samples(file, columns, seen)))


def _samples(path: Path, columns: Columns, seen: Seen) -> Iterator[Sample]:
    import pyarrow  # noqa: PLC0415 - an extra
    from pyarrow import parquet  # noqa: PLC0415

    try:
        with parquet.ParquetFile(path) as file:
            schema = file.schema_arrow
            label, split, name = choose(path, columns, schema.names)
            shard = SHARD.fullmatch(path.stem)
            made = _Rows(
                label, split, name, _content(schema), class_names(schema.metadata, label), shard[1] if shard else ""
            )
            number = 0
            for batch in file.iter_batches(batch_size=ROWS, columns=made.wanted()):
                found = {column: batch.column(column).to_pylist() for column in made.wanted()}
                for row in range(batch.num_rows):
                    number += 1
                    yield made.sample({column: found[column][row] for column in found}, f"{path.name} row {number}")
    except (pyarrow.ArrowException, OSError) as error:
        raise DataSetError(f"{path} cannot be read as Parquet: {str(error).splitlines()[0]}") from error


@dataclass(frozen=True)
class _Rows:
    """Columns of a file, and what becomes of their values."""

    label: str
    split: str | None
    name: str | None
    content: str | None
    classes: Sequence[str]
    shard: str

    def wanted(self) -> list[str]:
        named = (self.label, self.split, self.name, self.content)
        return [column for column in dict.fromkeys(named) if column]

    def sample(self, row: Mapping[str, Any], place: str) -> Sample:
        value = row[self.label]
        known = type(value) is int and 0 <= value < len(self.classes)
        held = row[self.content] if self.content else None
        if isinstance(held, dict):
            held = held.get("bytes")
        said = row[self.name] if self.name and self.name != self.content else None
        return Sample(
            text_of(row[self.split]) if self.split else self.shard,
            self.classes[value] if known else "" if value == -1 else text_of(value),  # -1: no label, at Hugging Face
            text_of(said) if isinstance(said, str) and said else place,
            content=held if isinstance(held, bytes) else None,
        )


def _content(schema: Any) -> str | None:
    from pyarrow import types  # noqa: PLC0415 - an extra

    for name in schema.names:
        kind = schema.field(name).type
        if types.is_struct(kind) and kind.get_field_index("bytes") >= 0 and name.lower() in CONTENTS:
            return str(name)
        if (types.is_binary(kind) or types.is_large_binary(kind)) and name.lower() in CONTENTS:
            return str(name)
    return None


def class_names(metadata: Mapping[bytes, bytes] | None, label: str) -> list[str]:
    """Names of numbered classes, which the library `datasets` writes into the file; empty if there are none."""
    with contextlib.suppress(ValueError, TypeError, LookupError, AttributeError):
        found = json.loads((metadata or {})[b"huggingface"])["info"]["features"][label]["names"]
        if isinstance(found, list) and all(isinstance(one, str) for one in found):
            return found
    return []
