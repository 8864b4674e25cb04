"""`Row`: what was measured at one step. The limits of names and of what is stored."""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from holdfast_protocol.report import MAX_METRICS, METRIC_NAME

MOST_NAMES: Final = 2 + MAX_METRICS  # of one job: the loss, samplesPerSecond, and the metrics of a report
MOST_STEP: Final = 10**15
MOST_MILLIS: Final = 10**14  # the year 5138
_WORDS: Final = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}  # JSON has no such numbers


@dataclass(frozen=True)
class Row:
    """`values` by name after `step`, at `at` (unix seconds). NaN and infinities are possible."""

    step: int
    at: float
    values: Mapping[str, float]


def is_name(text: Any) -> bool:
    """True if `text` can be the name of a measured value."""
    return isinstance(text, str) and METRIC_NAME.fullmatch(text) is not None


def name_of(text: str) -> str:
    """A name for `text`: other characters become `_`."""
    found = re.sub(r"[^A-Za-z0-9_./@-]", "_", str(text))[:64]
    return found if is_name(found) else f"_{found}"[:64]


def stored_number(value: float) -> float | int | str:
    """`value` with six significant digits, for JSON: a NaN or an infinity is a text."""
    if not math.isfinite(value):
        return "nan" if math.isnan(value) else "inf" if value > 0 else "-inf"
    short = float(f"{value:.6g}")
    return int(short) if short.is_integer() and abs(short) < 1e6 else short


def number_of(stored: object) -> float:
    """The number that `stored_number` gave. ValueError if `stored` is not one."""
    if isinstance(stored, str) and stored in _WORDS:
        return _WORDS[stored]
    if isinstance(stored, int | float) and not isinstance(stored, bool):
        return float(stored)
    raise ValueError(f"{str(stored)[:40]!r} is not a number")
