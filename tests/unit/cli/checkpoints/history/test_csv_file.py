"""The history as CSV."""

import csv
import io
import math

from holdfast_cli.checkpoints.history import csv_file
from holdfast_train.series.history import History, Part
from holdfast_train.series.rows import Row


# Breaks if a lost row looks kept, if a column moves, or if a missing value becomes a number.
def test_rows_become_lines() -> None:
    first = Part(1, [Row(1, 0.5, {"loss": 2.0}), Row(2, 1.0, {"loss": math.nan, "accuracy": 0.5})], 1)
    second = Part(2, [Row(2, 2.0, {"accuracy": math.inf})], 2)
    out = io.StringIO()
    assert csv_file.write(History([first, second, Part(3, [Row(1, 3.0, {})], None)], []), out) == 4
    assert list(csv.reader(io.StringIO(out.getvalue()))) == [
        ["attempt", "step", "time", "lost", "loss", "accuracy"],
        ["1", "1", "1970-01-01T00:00:00.500+00:00", "0", "2.0", ""],
        ["1", "2", "1970-01-01T00:00:01.000+00:00", "1", "nan", "0.5"],
        ["2", "2", "1970-01-01T00:00:02.000+00:00", "0", "", "inf"],
        ["3", "1", "1970-01-01T00:00:03.000+00:00", "1", "", ""],
    ]
