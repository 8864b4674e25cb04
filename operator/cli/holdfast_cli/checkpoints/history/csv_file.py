"""The history of a training as CSV: a line a row, a column a metric."""

import csv
from datetime import UTC, datetime
from typing import TextIO

from holdfast_train.series.history import History


def names(found: History) -> list[str]:
    """The names of all metrics, the loss first."""
    every = {name for part in found.parts for row in part.rows for name in row.values}
    return sorted(every, key=lambda name: (name != "loss", name))


def write(found: History, to: TextIO) -> int:
    """Write all rows, and return their number. `lost` is 1 for a row whose step was trained again."""
    columns = names(found)
    lines = csv.writer(to, lineterminator="\n")
    lines.writerow(["attempt", "step", "time", "lost", *columns])
    for part in found.parts:
        for row in part.rows:
            at = datetime.fromtimestamp(row.at, UTC).isoformat(timespec="milliseconds")
            values = (row.values.get(name, "") for name in columns)
            lines.writerow([part.attempt, row.step, at, int(part.is_lost(row.step)), *values])
    return sum(len(part.rows) for part in found.parts)
