"""The form of a segment: its key, its first line, and a line a row, in gzip.

The first line is an object: whose rows these are. Each further line is `[step, unix milliseconds, {name: value}]`. A
NaN is the text "nan", and an infinity is "inf" or "-inf": strict JSON has no such numbers.
"""

import gzip
import json
import re
import time
import uuid
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from holdfast_train.environment import Identity
from holdfast_train.errors import CheckpointCorruptError, CheckpointVersionError
from holdfast_train.format.codec import decoded, encoded
from holdfast_train.series.rows import MOST_MILLIS, MOST_NAMES, MOST_STEP, Row, is_name, number_of, stored_number

FOLDER: Final = "series/"
MOST_ROWS: Final = 2_000
MOST_BYTES: Final = 4 << 20  # of a segment that is read
MOST_TEXT: Final = 16 << 20  # of its content: a few bytes of gzip can become gigabytes
VERSION: Final = 1
_KEY: Final = re.compile(r"series/([0-9]{12}|[1-9][0-9]{12,14})-a([1-9][0-9]{0,8})-([0-9a-f]{1,32})\.jsonl\.gz")


@dataclass(frozen=True)
class Header:
    """Whose rows a segment has: those of one Run, `run`, of an attempt of a job.

    `begun`: when the Run began, in unix seconds. `resumed`: the step of the checkpoint from which it went on, None if
    it began at step 0. `previous`: the key of the segment that the same Run wrote before, None for the first one.
    """

    job_uid: str
    attempt: int
    run: str
    begun: float
    resumed: int | None
    previous: str | None = None

    @classmethod
    def new(cls, writer: Identity, resumed: int | None) -> "Header":
        """Of a Run of `writer` that begins now."""
        return cls(writer.job_uid, writer.attempt, uuid.uuid4().hex[:12], time.time(), resumed)


@dataclass(frozen=True)
class Segment:
    """A segment that was read."""

    key: str
    header: Header
    rows: Sequence[Row]


def new_key(first_step: int, attempt: int) -> str:
    """A key that was never used before."""
    return f"{FOLDER}{first_step:012d}-a{attempt}-{uuid.uuid4().hex[:12]}.jsonl.gz"


def attempt_of(key: str) -> int | None:
    """The attempt that wrote the segment at `key`, None if `key` is not that of a segment."""
    found = _KEY.fullmatch(key)
    return None if found is None else int(found[2])


def encode(header: Header, rows: Sequence[Row]) -> bytes:
    """The bytes of a segment."""
    lines: list[Any] = [{"v": VERSION, **encoded(header)}]
    for row in rows:
        lines.append([row.step, round(row.at * 1000), {name: stored_number(v) for name, v in row.values.items()}])
    text = "".join(json.dumps(line, separators=(",", ":"), allow_nan=False) + "\n" for line in lines)
    return gzip.compress(text.encode(), mtime=0)


def first_step_of(key: str) -> int:
    """The first step of the segment with the name `key`; 0 if it is not such a name."""
    found = _KEY.fullmatch(key)
    return 0 if found is None else int(found[1])


def decode(key: str, data: bytes) -> Segment:
    """The segment at `key` with the bytes `data`.

    CheckpointCorruptError if it is damaged or too large; CheckpointVersionError if another version wrote it.
    """
    try:
        first, *others = _unpacked(data).splitlines()
        header = _header(key, _json(first))
        rows = _rows(others)
    except CheckpointVersionError as error:
        raise CheckpointVersionError(f"{key}: {error}") from error
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError, zlib.error) as error:
        raise CheckpointCorruptError(f"{key} is damaged: {error}") from error
    return Segment(key, header, rows)


def _unpacked(data: bytes) -> bytes:
    """The content of one gzip member. ValueError if it is too large or incomplete."""
    if len(data) > MOST_BYTES:
        raise ValueError(f"it has {len(data)} bytes; allowed: {MOST_BYTES}")
    unpacker = zlib.decompressobj(wbits=16 + zlib.MAX_WBITS)  # checks the length and the sum at its end
    text = unpacker.decompress(data, MOST_TEXT)
    if unpacker.unconsumed_tail:
        raise ValueError(f"its content has more than {MOST_TEXT} bytes")
    if not unpacker.eof:
        raise ValueError("it ends too early")
    if unpacker.unused_data:
        raise ValueError("more bytes follow its end")
    return text


def _json(line: bytes) -> Any:
    def refuse(word: str) -> None:
        raise ValueError(f"{word} is not JSON")

    return json.loads(line, parse_constant=refuse)


def _header(key: str, found: dict[str, Any]) -> Header:
    version = found.pop("v", None)
    if type(version) is not int:
        raise ValueError("it states no version")
    if version != VERSION:
        raise CheckpointVersionError(f"version {version} of the history; this holdfast-train reads version {VERSION}")
    header = decoded(Header, found)
    whole = (*filter(None, [header.resumed]), header.attempt)
    if not all(type(number) is int and 0 <= number <= MOST_STEP for number in whole):
        raise ValueError("its first line has a number that is not a step or an attempt")
    texts = (header.job_uid, header.run, header.previous or "")
    if not all(isinstance(text, str) and len(text) <= 128 for text in texts):
        raise ValueError("its first line has a text that is not a name")
    if not 0 <= number_of(header.begun) * 1000 <= MOST_MILLIS:
        raise ValueError("its first line has no time")
    if header.attempt != attempt_of(key):
        raise ValueError(f"it is of attempt {header.attempt}")
    return header


def _rows(lines: Sequence[bytes]) -> Sequence[Row]:
    if not 0 < len(lines) <= MOST_ROWS:
        raise ValueError(f"it has {len(lines)} rows; allowed: 1 to {MOST_ROWS}")
    return [_row(_json(line)) for line in lines]


def _row(found: Any) -> Row:
    step, millis, values = found
    for number, most in ((step, MOST_STEP), (millis, MOST_MILLIS)):
        if type(number) is not int or not 0 <= number <= most:
            raise ValueError(f"{str(number)[:40]} is not a step or a time")
    if not isinstance(values, dict) or len(values) > MOST_NAMES:
        raise ValueError(f"a row has more than {MOST_NAMES} values, or none")
    for name in values:
        if not is_name(name):
            raise ValueError(f"{str(name)[:40]!r} is not a name")
    return Row(step, millis / 1000, {name: number_of(value) for name, value in values.items()})
