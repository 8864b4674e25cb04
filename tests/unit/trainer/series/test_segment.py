"""Segments: what is written is read, and nothing that is damaged, strange or huge is."""

import gzip
import json
import math
import random

import pytest

from holdfast_train.errors import CheckpointCorruptError, CheckpointVersionError
from holdfast_train.series.rows import Row
from holdfast_train.series.segment import MOST_BYTES, MOST_ROWS, Header, attempt_of, decode, encode, new_key

HEADER = Header(job_uid="uid-1", attempt=3, run="abc", begun=1000.5, resumed=500, previous=None)
KEY = "series/000000000501-a3-0123456789ab.jsonl.gz"
FIRST = json.dumps({"v": 1, "jobUID": "u", "attempt": 3, "run": "r", "begun": 1, "resumed": None, "previous": None})


def packed(*lines: str) -> bytes:
    return gzip.compress("\n".join(lines).encode())


# Breaks if a number that is not finite becomes another one, or stops strict parsers of JSON.
def test_round_trip() -> None:
    values = {"loss": math.nan, "up": math.inf, "down": -math.inf, "accuracy": 0.123456789, "count": 12345678.0}
    data = encode(HEADER, [Row(501, 1700000000.125, values), Row(502, 1700000001.0, {})])
    for line in gzip.decompress(data).decode().splitlines():
        json.loads(line, parse_constant=pytest.fail)
    found = decode(KEY, data)
    assert found.header == HEADER
    assert [(row.step, row.at) for row in found.rows] == [(501, 1700000000.125), (502, 1700000001.0)]
    shown = dict(found.rows[0].values)
    assert math.isnan(shown.pop("loss"))
    assert shown == {"up": math.inf, "down": -math.inf, "accuracy": 0.123457, "count": 12345700.0}


# Breaks if a cut or a changed byte is read as something else, or raises an error that the history does not expect.
def test_damage_is_found() -> None:
    data = encode(HEADER, [Row(501, 1.0, {"loss": 1.0})] * 3)
    draw = random.Random(1)
    for place in draw.sample(range(len(data)), 60):
        with pytest.raises((CheckpointCorruptError, CheckpointVersionError)):
            decode(KEY, data[:place])
        changed = bytearray(data)
        changed[place] ^= 1 << draw.randrange(8)
        try:
            assert (
                decode(KEY, bytes(changed)).rows == decode(KEY, data).rows
            )  # a byte of the gzip header that says nothing
        except (CheckpointCorruptError, CheckpointVersionError) as error:
            assert KEY in str(error)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "too early"),
        (b"not gzip", "damaged"),
        (gzip.compress(b"\0" * (64 << 20)), "content has more than"),
        (b"\0" * (MOST_BYTES + 1), "allowed"),
        (packed(FIRST), "it has 0 rows"),
        (packed(FIRST, *["[1, 1, {}]"] * (MOST_ROWS + 1)), "2001 rows"),
        (packed("[]", "[1, 1, {}]"), "damaged"),
        (packed(FIRST.replace(": 3", ": 4"), "[1, 1, {}]"), "it is of attempt 4"),
        (packed(FIRST.replace('"begun": 1', '"begun": -1'), "[1, 1, {}]"), "no time"),
        (packed(FIRST.replace('"resumed": null', '"resumed": "x"'), "[1, 1, {}]"), "not a step"),
        (packed(FIRST.replace('"run": "r"', '"run": 5'), "[1, 1, {}]"), "not a name"),
        (packed(FIRST, "[1, 1]"), "damaged"),
        (packed(FIRST, "[true, 1, {}]"), "not a step"),
        (packed(FIRST, "[-1, 1, {}]"), "not a step"),
        (packed(FIRST, "[1, 1e400, {}]"), "not a step"),
        (packed(FIRST, "[1, 1, []]"), "values"),
        (packed(FIRST, '[1, 1, {"<b>": 1}]'), "not a name"),
        (packed(FIRST, '[1, 1, {"loss": NaN}]'), "NaN is not JSON"),
        (packed(FIRST, '[1, 1, {"loss": "1"}]'), "not a number"),
        (packed(FIRST, '[1, 1, {"loss": %s}]' % ("9" * 400)), "damaged"),
        (packed(FIRST, "[" * 100_000), "damaged"),
        (packed(FIRST, json.dumps([1, 1, {f"n{n}": 1 for n in range(19)}])), "more than 18"),
        (packed(FIRST, "[1, 1, {}]") + b"more", "more bytes follow"),
    ],
)
def test_strange_content_is_refused(data: bytes, words: str) -> None:
    with pytest.raises(CheckpointCorruptError, match=words):
        decode(KEY, data)


def test_another_version_is_named() -> None:
    with pytest.raises(CheckpointVersionError, match="version 2 of the history"):
        decode(KEY, packed(FIRST.replace('"v": 1', '"v": 2')))


def test_keys() -> None:
    assert new_key(7, 2) != new_key(7, 2)
    assert attempt_of(new_key(7, 2)) == 2
    assert attempt_of(new_key(10**13, 12)) == 12
    assert attempt_of("series/000000000007-a0-ab.jsonl.gz") is None
    assert attempt_of("series/notes.txt") is None
