"""Fewer rows that still show the same curve: the minimum, the mean and the maximum of buckets."""

import math
from collections.abc import Sequence

from holdfast_train.series.rows import Row

SHOWN = 3  # rows of a bucket


def thin(rows: Sequence[Row], most: int) -> Sequence[Row]:
    """At most `most` of `rows`, which have ascending steps. The first and the last row stay as they are.

    The rows between them are divided into buckets of equal size. A bucket gives three rows: for each name its minimum
    and its maximum, in the order in which they came, and between these the mean. So no extreme value is lost if `most`
    is 5 or more. A NaN makes a mean NaN. ValueError if `most` is less than 2.
    """
    if most < 2:
        raise ValueError(f"most is {most}; allowed: 2 and more")
    if len(rows) <= most:
        return rows
    inner, buckets = rows[1:-1], (most - 2) // SHOWN
    found = [rows[0]]
    for number in range(buckets):
        bucket = inner[number * len(inner) // buckets : (number + 1) * len(inner) // buckets]
        found += bucket if len(bucket) <= SHOWN else _summary(bucket)
    return [*found, rows[-1]]


def _summary(bucket: Sequence[Row]) -> tuple[Row, Row, Row]:
    """Three rows for a bucket of more."""
    early: dict[str, float] = {}
    middle: dict[str, float] = {}
    late: dict[str, float] = {}
    columns: dict[str, list[float]] = {}
    for row in bucket:
        for name, value in row.values.items():
            columns.setdefault(name, []).append(value)
    for name, values in columns.items():
        numbers = [value for value in values if not math.isnan(value)] or values
        low, high = min(numbers), max(numbers)
        early[name], late[name] = (low, high) if values.index(low) <= values.index(high) else (high, low)
        middle[name] = _mean(values)
    first, between, last = bucket[0], bucket[len(bucket) // 2], bucket[-1]
    return (
        Row(first.step, first.at, early),
        Row(between.step, between.at, middle),
        Row(last.step, last.at, late),
    )


def _mean(values: Sequence[float]) -> float:
    """The mean. It does not overflow if the values are finite."""
    total = math.fsum(values) if all(map(math.isfinite, values)) and max(map(abs, values)) < 1e300 else None
    return total / len(values) if total is not None else sum(value / len(values) for value in values)
