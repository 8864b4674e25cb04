"""Recorded Spot availability: one sample for each step of `gap` seconds.

Two formats are read:

    JSON  {"metadata": {"gap_seconds": 600}, "data": [1, 1, 0, ...]}, as github.com/skypilot-org/spot-traces publishes
          it (Wu et al., "Can't Be Late", NSDI'24)
    CSV   one interval `start,end` in which Spot was up per line, in seconds or as RFC 3339 times, in order and without
          overlap; a first line `start,end` is a heading, lines that start with # are comments
"""

import csv
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

from holdfast.api.errors import shown
from holdfast_cli.simulate.errors import TraceError

MAX_BYTES = 32 * 1024 * 1024
MAX_STEPS = 4_000_000
MAX_GAP = 86_400

_UP, _DOWN = b"\x01", b"\x00"


@dataclass(frozen=True, slots=True)
class Trace:
    """Spot availability: `up[i]` is 1 or 0 for the `gap` seconds from i * gap on. After its end, Spot is down.

    Raises ValueError for a gap that is not 1 to MAX_GAP seconds, and for samples other than 0 and 1.
    """

    name: str
    gap: int
    up: bytes

    def __post_init__(self) -> None:
        if not 1 <= self.gap <= MAX_GAP:
            raise ValueError(f"gap must be 1 to {MAX_GAP} seconds; got {self.gap}")
        if self.up.strip(_UP + _DOWN):
            raise ValueError("samples must be 0 or 1")

    def __len__(self) -> int:
        return len(self.up)

    def is_up(self, step: int) -> bool:
        """True if Spot is up in this step."""
        return 0 <= step < len(self.up) and self.up[step] == 1

    def next_change(self, step: int) -> int:
        """The first step after `step` with another state; the trace's length if there is none. A scan of memory."""
        found = self.up.find(_DOWN if self.is_up(step) else _UP, step)
        return len(self.up) if found < 0 else found


def read_trace(path: Path, gap: int = 600, ending: str | None = None) -> Trace:
    """Read a trace. The ending of its name, or `ending`, is the format: .json or .csv.

    `gap` is for CSV; a JSON file contains its own. Raises TraceError.
    """
    readers = {".json": lambda text: _from_json(path, text), ".csv": lambda text: _from_csv(path, text, gap)}
    reader = readers.get(ending or path.suffix.lower())
    if reader is None:
        raise TraceError(path, "", "the name of a trace must end in .json or .csv")
    try:
        with path.open("rb") as file:
            raw = file.read(MAX_BYTES + 1)
        if len(raw) > MAX_BYTES:
            raise TraceError(path, "", f"a trace may have {MAX_BYTES} bytes at most")
        text = raw.decode("utf-8-sig")
    except OSError as error:
        raise TraceError(path, "", error.strerror or str(error)) from error
    except UnicodeDecodeError as error:
        raise TraceError(path, f"byte {error.start}", "must be UTF-8") from error
    return reader(text)


def read_traces(paths: Iterable[Path], gap: int = 600, ending: str | None = None) -> tuple[Trace, ...]:
    """Read these traces, and those in these folders in the order of their names; `ending` as in read_trace.

    Raises TraceError.
    """
    return tuple(read_trace(file, gap, ending) for path in paths for file in _files(path))


def _files(path: Path) -> list[Path]:
    if not path.is_dir():
        return [path]
    files = sorted(file for file in path.iterdir() if file.suffix.lower() in (".json", ".csv"))
    if not files:
        raise TraceError(path, "", "there is no .json or .csv in this folder")
    return files


def _from_json(path: Path, text: str) -> Trace:
    try:
        found = json.loads(text)
    except json.JSONDecodeError as error:
        raise TraceError(path, f"line {error.lineno} column {error.colno}", f"is not JSON: {error.msg}") from error
    except (ValueError, RecursionError) as error:  # a number of too many digits, or nested too deep
        raise TraceError(path, "", "is not JSON that can be read") from error
    metadata = found.get("metadata") if isinstance(found, dict) else None
    gap = metadata.get("gap_seconds") if isinstance(metadata, dict) else None
    if type(gap) is float and gap.is_integer():
        gap = int(gap)
    if type(gap) is not int or not 1 <= gap <= MAX_GAP:
        raise TraceError(path, "metadata.gap_seconds", f"must be a whole number from 1 to {MAX_GAP}; got {shown(gap)}")
    return Trace(path.stem, gap, _samples(path, found.get("data")))


def _samples(path: Path, data: Any) -> bytes:
    if not isinstance(data, list) or not data:
        raise TraceError(path, "data", "must be a list of 0 and 1 that is not empty")
    if len(data) > MAX_STEPS:
        raise TraceError(path, "data", f"may have {MAX_STEPS} samples at most; got {len(data)}")
    for index, sample in enumerate(data):
        if type(sample) is not int or sample not in (0, 1):
            raise TraceError(path, f"data[{index}]", f"must be 0 or 1; got {shown(sample)}")
    return bytes(data)


def _from_csv(path: Path, text: str, gap: int) -> Trace:
    if not 1 <= gap <= MAX_GAP:
        raise ValueError(f"gap must be 1 to {MAX_GAP} seconds; got {gap}")
    intervals = list(_intervals(path, text))
    if not intervals:
        raise TraceError(path, "", "must have at least one line start,end")
    for (line, _, end), (after, start, _) in pairwise(intervals):
        if start < end:
            raise TraceError(path, f"line {after}", f"must not start before the end of line {line}")
    origin = intervals[0][1]
    steps = int((intervals[-1][2] - origin) // gap)
    if not 1 <= steps <= MAX_STEPS:
        raise TraceError(path, "", f"must span 1 to {MAX_STEPS} steps of {gap} s; it spans {steps}")
    return Trace(path.stem, gap, _covered(((start - origin, end - origin) for _, start, end in intervals), steps, gap))


def _covered(intervals: Iterable[tuple[float, float]], steps: int, gap: int) -> bytes:
    """Samples: a step is up if Spot was up for all of it. Intervals that touch are joined."""
    up = bytearray(steps)
    joined: list[list[float]] = []
    for start, end in intervals:
        if joined and joined[-1][1] == start:
            joined[-1][1] = end
        else:
            joined.append([start, end])
    for start, end in joined:
        first, last = int(-(-start // gap)), int(end // gap)
        if last > first:
            up[first:last] = _UP * (last - first)
    return bytes(up)


def _intervals(path: Path, text: str) -> Iterator[tuple[int, float, float]]:
    """Line number, start and end in seconds of every interval."""
    reader = csv.reader(text.splitlines(), strict=True)
    try:
        for row in reader:
            line = reader.line_num
            cells = [cell.strip() for cell in row]
            if not any(cells) or cells[0].startswith("#") or (line == 1 and cells == ["start", "end"]):
                continue
            if len(cells) != 2:
                raise TraceError(path, f"line {line}", f"must be start,end; got {len(cells)} values")
            start, end = (_seconds(path, line, cell) for cell in cells)
            if not start < end:
                raise TraceError(path, f"line {line}", f"start must be before end; got {shown(','.join(cells))}")
            yield line, start, end
    except csv.Error as error:
        raise TraceError(path, f"line {reader.line_num}", f"is not CSV: {error}") from error


def _seconds(path: Path, line: int, cell: str) -> float:
    """Seconds since any origin, from a number or from a time with its offset."""
    allowed = "must be seconds, or a time such as 2022-10-26T00:00:00Z"
    try:
        number = float(cell)
    except ValueError:
        try:
            at = datetime.fromisoformat(cell)
        except ValueError:
            at = None
        if at is None or at.tzinfo is None:
            raise TraceError(path, f"line {line}", f"{allowed}; got {shown(cell)}") from None
        return at.timestamp()
    if not abs(number) < 1e12:  # also not a number, and infinity
        raise TraceError(path, f"line {line}", f"{allowed}; got {shown(cell)}")
    return number
