"""The figures of a program: what it measures of itself and reports. One table: a field of `Figures` is a figure.

Everything that handles figures one by one reads this table: the body of a report, what a report changes, the fields of
`status.progress` (`make crds` writes them), the metrics and their page.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, fields, replace
from decimal import Decimal
from fractions import Fraction
from typing import Any, Final

from .document import DocumentError, camel_case

MAX_NUMBER: Final = 32  # characters of a number; status would cut a longer one, and a cut number is another number
MAX_COUNT: Final = 2**53 - 1  # larger whole numbers are not exact everywhere
NUMBER, LOSS, SHARE, BYTES = "Number", "Loss", "Share", "Bytes"  # kinds of figures

_DECIMAL: Final = re.compile(r"[+-]?(?:[0-9]{1,30}(?:\.[0-9]{0,30})?|\.[0-9]{1,30})(?:[eE][+-]?[0-9]{1,4})?")
_NOT_FINITE: Final = {"nan": "nan", "inf": "inf", "+inf": "inf", "-inf": "-inf", "infinity": "inf", "-infinity": "-inf"}


@dataclass(frozen=True)
class Row:
    """What is to know of a figure.

    `kind`: NUMBER is a decimal string, LOSS the same or nan, inf, -inf, SHARE a decimal string from 0 to 1, BYTES a
    whole number. `is_pace`: it describes the newest steps, so a report without it clears it, and so does a program that
    does not train; any other figure stays until there is a newer one. `metric`: the name without `holdfast_job_`.
    `text`: what it is, for status and for the page of metrics.
    """

    name: str
    kind: str
    is_pace: bool
    metric: str
    text: str

    @property
    def wire_name(self) -> str:
        """Its name in a report and in status: `samples_per_second` is `samplesPerSecond`."""
        return camel_case(self.name)


def _figure(kind: str, metric: str, text: str, *, is_pace: bool = False) -> Any:
    return field(default=None, metadata={"kind": kind, "is_pace": is_pace, "metric": metric, "text": text})


@dataclass(frozen=True)
class Figures:
    """The figures of one report. None: not known."""

    loss: str | None = _figure(
        LOSS, "training_loss", "Newest training loss that the program reported; NaN or Inf if it is not finite"
    )
    samples_per_second: str | None = _figure(
        NUMBER, "samples_per_second", "Samples a second that the program reported", is_pace=True
    )
    seconds_per_step: str | None = _figure(
        NUMBER, "step_seconds", "Seconds per step at the current pace, while the job trains", is_pace=True
    )
    data_wait: str | None = _figure(
        SHARE, "data_wait_ratio", "Share of a step's time that the program waits for data, 0 to 1; of rank 0",
        is_pace=True,
    )  # fmt: skip
    peak_memory: int | None = _figure(
        BYTES, "peak_memory_bytes", "Most memory of an accelerator that the program's tensors had at one time, "
        "without caches; of the rank that had most",
    )  # fmt: skip
    save_cost: str | None = _figure(
        NUMBER, "save_cost_seconds", "Seconds of training that a save costs; the median of the newest ones"
    )

    def after(self, before: Figures) -> Figures:
        """These figures, and those of `before` that they do not replace or clear."""
        kept = {row.name: getattr(before, row.name) for row in ROWS if not row.is_pace and self._lacks(row)}
        return replace(self, **kept)

    def at_rest(self) -> Figures:
        """These figures without those of a pace: the program does not train."""
        return replace(self, **{row.name: None for row in ROWS if row.is_pace})

    def encode(self) -> dict[str, str | int]:
        """Name on the wire -> value, of the figures that are known."""
        return {row.wire_name: getattr(self, row.name) for row in ROWS if not self._lacks(row)}

    def _lacks(self, row: Row) -> bool:
        return getattr(self, row.name) is None


UNKNOWN: Final = Figures()
ROWS: Final = tuple(Row(one.name, **one.metadata) for one in fields(Figures))


def decode(body: Any, place: str = "figures") -> Figures:
    """The figures of a report. A name that is not known is ignored: a newer program may report to an older operator.

    Raises DocumentError, which names the figure below `place`, and what is allowed.
    """
    if not isinstance(body, Mapping):
        raise DocumentError(place, body, "an object of figures")
    given = {row: body[row.wire_name] for row in ROWS if body.get(row.wire_name) is not None}
    return Figures(**{row.name: _checked(row, value, f"{place}.{row.wire_name}") for row, value in given.items()})


def readable(body: Any) -> Figures:
    """The figures of a body that anybody may have written: what `decode` would refuse is not known."""
    found = UNKNOWN
    for row in ROWS if isinstance(body, Mapping) else ():
        with suppress(ValueError):
            found = replace(found, **{row.name: getattr(decode({row.wire_name: body.get(row.wire_name)}), row.name)})
    return found


def _checked(row: Row, value: Any, place: str) -> Any:
    try:
        return _CHECKS[row.kind](value)
    except ValueError as error:
        raise DocumentError(place, value, str(error)) from error


def decimal(text: Any) -> str:
    """`text` if it is a decimal number. ValueError says what is allowed, as those below do."""
    if isinstance(text, str) and len(text) <= MAX_NUMBER and _DECIMAL.fullmatch(text):
        return text
    raise ValueError(f"a decimal number such as 2.113 or 1e-3, of at most {MAX_NUMBER} characters")


def loss(text: Any) -> str:
    """`text` if it is a decimal number, or nan, inf or -inf in their usual spellings. Raises ValueError."""
    return _NOT_FINITE.get(text.lower() if isinstance(text, str) else "") or decimal(text)


def share(text: Any) -> str:
    """`text` if it is a decimal number from 0 to 1. Raises ValueError."""
    if not 0 <= Fraction(decimal(text)) <= 1:
        raise ValueError("a decimal number from 0 to 1")
    return str(text)


def count(value: Any) -> int:
    """`value` if it is a whole number from 0 to MAX_COUNT. Raises ValueError."""
    if type(value) is not int or not 0 <= value <= MAX_COUNT:
        raise ValueError(f"a whole number from 0 to {MAX_COUNT}")
    return value


_CHECKS: Final[Mapping[str, Callable[[Any], Any]]] = {NUMBER: decimal, LOSS: loss, SHARE: share, BYTES: count}


def number_text(number: float) -> str:
    """A number as a report has it: a decimal string with 6 digits, or nan, inf, -inf."""
    short = f"{number:.6g}"
    if not math.isfinite(number):
        return short
    plain = f"{Decimal(short):f}"
    return plain if len(plain) <= MAX_NUMBER else short  # with an exponent only if it is too long otherwise
