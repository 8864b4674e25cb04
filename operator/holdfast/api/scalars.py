"""Scalars of the API: durations, times, money, quantities. They are parsed exactly, never through float."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from itertools import pairwise
from typing import Annotated, Any, Final

from pydantic import AfterValidator, Field, GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, core_schema

from holdfast.api.errors import ScalarError
from holdfast.api.rules import cel_string

_MICROSECONDS: Final = {
    "d": 86_400_000_000,
    "h": 3_600_000_000,
    "m": 60_000_000,
    "s": 1_000_000,
    "ms": 1_000,
    "us": 1,
}
# The digits are bounded so that no sum overflows CEL's 64-bit nanoseconds.
DURATION_PARTS: Final = "([0-9]{1,4}d)?([0-9]{1,6}h)?([0-9]{1,7}m)?([0-9]{1,9}s)?([0-9]{1,9}ms)?([0-9]{1,9}us)?"
DURATION_PATTERN: Final = f"^{DURATION_PARTS}$"
DURATION_LENGTH: Final = 48
_DURATION: Final = re.compile(DURATION_PARTS)
_PART: Final = re.compile("([0-9]+)([a-z]+)")
_DURATION_WORDS: Final = (
    "must be a duration of whole parts, largest first: d, h, m, s, ms, such as 90d, 1h30m, 100s or 250ms"
)
LONGEST: Final = timedelta(days=3650)


def parse_duration(text: object) -> timedelta:
    """`1h30m` -> timedelta, exact. Raises ScalarError unless the text has whole parts, largest first."""
    if not isinstance(text, str):
        raise ScalarError(text, _DURATION_WORDS)
    return _parse_duration(text)


@lru_cache(maxsize=1024)  # jobs use few different durations and are read at every change
def _parse_duration(text: str) -> timedelta:
    if not 0 < len(text) <= DURATION_LENGTH or not _DURATION.fullmatch(text):
        raise ScalarError(text, _DURATION_WORDS)
    return timedelta(microseconds=sum(int(digits) * _MICROSECONDS[unit] for digits, unit in _PART.findall(text)))


def format_duration(value: timedelta) -> str:
    """The canonical short form: `1h30m`, `90d`, `0s`. Raises ScalarError for a negative duration, which has no form."""
    rest = (value.days * 86_400 + value.seconds) * 1_000_000 + value.microseconds
    if rest < 0:
        raise ScalarError(value, "a duration that is not negative")
    text = ""
    for unit, size in _MICROSECONDS.items():
        count, rest = divmod(rest, size)
        if count:
            text += f"{count}{unit}"
    return text or "0s"


@dataclass(frozen=True, slots=True)
class DurationBounds:
    """Marks a timedelta as a duration of the API between two bounds, both included."""

    minimum: str = "0s"
    maximum: str = format_duration(LONGEST)

    @property
    def allowed(self) -> str:
        return f"must be between {self.minimum} and {self.maximum}"

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        low, high, allowed = parse_duration(self.minimum), parse_duration(self.maximum), self.allowed

        def validate(value: object) -> timedelta:
            duration = value if isinstance(value, timedelta) else parse_duration(value)
            if not low <= duration <= high:
                raise ScalarError(value if isinstance(value, str) else duration, allowed)
            return duration

        return core_schema.no_info_plain_validator_function(validate, serialization=_as_text(format_duration))

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        fragment: JsonSchemaValue = {
            "type": "string",
            "pattern": DURATION_PATTERN,
            "minLength": 2,
            "maxLength": DURATION_LENGTH,
        }
        if self != DurationBounds():
            fragment["x-kubernetes-validations"] = [duration_rule(self.minimum, self.maximum, self.allowed)]
        return fragment


def duration_rule(minimum: str, maximum: str, allowed: str, unless: str = "") -> dict[str, str]:
    """The CEL rule for bounds in whole seconds.

    CEL's durations have no days, so the rule removes them first. `split`, and text made from numbers, would cost more
    than the API server allows.
    """
    days = "(self.contains('d') ? int(self.substring(0, self.indexOf('d'))) * 86400 : 0)"
    rest = "duration('0s' + self.substring(self.indexOf('d') + 1))"
    low, high = (parse_duration(bound) // timedelta(seconds=1) for bound in (minimum, maximum))
    rounded_up = f"({rest} + duration('999999us')).getSeconds()"
    return {
        "rule": f"{unless}({days} + {rest}.getSeconds() >= {low} && {days} + {rounded_up} <= {high})",
        "message": allowed,
        "messageExpression": f"{cel_string(allowed + '; got ')} + self",
    }


Duration = Annotated[timedelta, DurationBounds()]
"""A duration of at most ten years."""


# Times

_TIME_WORDS: Final = "must be a time in RFC 3339 with a time zone, such as 2027-01-31T00:00:00Z"
_TIME: Final = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt][0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,9})?([Zz]|[+-][0-9]{2}:[0-9]{2})"
)


def parse_time(value: object) -> datetime:
    """RFC 3339 text -> a UTC datetime, exact to the microsecond. ScalarError if it is not a time or has no zone."""
    if isinstance(value, str):
        if not _TIME.fullmatch(value):
            raise ScalarError(value, _TIME_WORDS)
        try:
            value = datetime.fromisoformat(value.upper())
        except ValueError as error:
            raise ScalarError(value, _TIME_WORDS) from error
    if not isinstance(value, datetime) or value.tzinfo is None:
        raise ScalarError(value, _TIME_WORDS)
    try:
        return value if value.tzinfo is UTC else value.astimezone(UTC)
    except OverflowError as error:  # year 1 or 9999, and UTC is in another year
        raise ScalarError(value, _TIME_WORDS) from error


def format_time(value: datetime) -> str:
    """`2026-11-21T09:00:00.123456Z`: always UTC, six digits or (whole seconds) none. Equal times, equal text."""
    timespec = "microseconds" if value.microsecond else "seconds"
    return f"{value.astimezone(UTC).replace(tzinfo=None).isoformat(timespec=timespec)}Z"


def say_time(value: datetime) -> str:
    """`2026-11-21T09:00:00Z`: for sentences, always UTC and whole seconds."""
    return format_time(value.replace(microsecond=0))


# The API server accepts years and zones that Python's datetime cannot represent: times that people write are bounded.
MOMENT_PATTERN: Final = (
    r"^2[0-9]{3}-[0-9]{2}-[0-9]{2}[Tt][0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,9})?"
    r"([Zz]|[+-]([01][0-9]|2[0-3]):[0-5][0-9])$"
)


@dataclass(frozen=True, slots=True)
class _TimeType:
    pattern: str = ""

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_plain_validator_function(self._parse, serialization=_as_text(format_time))

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        return {"type": "string", "format": "date-time"} | ({"pattern": self.pattern} if self.pattern else {})

    def _parse(self, value: object) -> datetime:
        if self.pattern and isinstance(value, str) and not re.fullmatch(self.pattern[1:-1], value):
            raise ScalarError(value, _TIME_WORDS)
        return parse_time(value)


Time = Annotated[datetime, _TimeType()]
"""A point in time: with a zone, UTC, exact to the microsecond."""
Moment = Annotated[datetime, _TimeType(MOMENT_PATTERN)]
"""A point in time that people write: in the years 2000 to 2999."""


# Money

MONEY_PATTERN: Final = r"^[0-9]{1,12}(\.[0-9]{1,6})?$"
_MONEY: Final = re.compile(MONEY_PATTERN[1:-1])
MONEY_MAXIMUM: Final = 999_999_999_999
_MONEY_WORDS: Final = (
    'must be a decimal string such as "3.06": not negative, with at most 12 digits before the point and 6 after it'
)


def parse_money(value: object) -> Decimal:
    """`"3.06"` or 3 -> Decimal, exact. Raises ScalarError for floats, NaN, exponents, signs and underscores."""
    if isinstance(value, Decimal):
        value = format(value, "f") if value.is_finite() else str(value)
    elif isinstance(value, int) and not isinstance(value, bool):
        value = str(value)
    if not isinstance(value, str) or not _MONEY.fullmatch(value):
        raise ScalarError(value, _MONEY_WORDS)
    return Decimal(value)


@dataclass(frozen=True, slots=True)
class _MoneyType:
    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_plain_validator_function(
            parse_money, serialization=_as_text(lambda value: format(value, "f"))
        )

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        return {
            "x-kubernetes-int-or-string": True,
            "pattern": MONEY_PATTERN,
            "maxLength": 19,
            "minimum": 0,
            "maximum": MONEY_MAXIMUM,
        }


Money = Annotated[Decimal, _MoneyType()]
"""An amount of money; the currency is the platform's."""
Hours = Annotated[Decimal, _MoneyType()]
"""A number of hours, in the same form as money."""


# Quantities

_SUFFIX: Final = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY: Final = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_NUMBER: Final = r"([0-9]{1,18}(\.[0-9]{0,9})?|\.[0-9]{1,9})"
_UNIT: Final = "([eE][+-]?[0-9]{1,2}|[KMGTPE]i|[numkMGTPE])?"
QUANTITY_PATTERN: Final = rf"^\+?{_NUMBER}{_UNIT}$"
_QUANTITY: Final = re.compile(QUANTITY_PATTERN[1:-1])
_QUANTITY_WORDS: Final = "must be a quantity, not negative, such as 500m, 16, 1.5Gi or 2e3"
_QUANTITY_LENGTH: Final = 32
EXACT: Final = 2**53 - 1  # the API server keeps bounds as floats, so no bound may be larger


def quantity_value(quantity: object) -> Fraction:
    """The exact value of a quantity: `500m` -> 1/2, `1Ki` -> 1024, 16 -> 16. ScalarError if it is not a quantity."""
    match = _QUANTITY.fullmatch(text) if len(text := _quantity_text(quantity)) <= _QUANTITY_LENGTH else None
    if match is None:
        raise ScalarError(quantity, _QUANTITY_WORDS)
    number, unit = Fraction(match[1].removesuffix(".")), match[3] or ""
    if unit in _BINARY:
        return number * (1 << _BINARY[unit])
    # "E" alone is a suffix (exa), followed by digits it is an exponent.
    power = _SUFFIX[unit] if unit in _SUFFIX else int(unit[1:])
    scale: int = 10 ** abs(power)
    return number * scale if power >= 0 else number / scale


def _quantity_text(value: object) -> str:
    """The text of a quantity: YAML and JSON also write it as an integer."""
    text = str(value) if isinstance(value, int) and not isinstance(value, bool) and value <= EXACT else value
    if not isinstance(text, str):
        raise ScalarError(value, _QUANTITY_WORDS)
    return text


def _quantity(value: object) -> str:
    quantity_value(value)
    return _quantity_text(value)


@dataclass(frozen=True, slots=True)
class QuantityType:
    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_plain_validator_function(_quantity)

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        return {
            "x-kubernetes-int-or-string": True,
            "pattern": QUANTITY_PATTERN,
            "maxLength": _QUANTITY_LENGTH,
            "minimum": 0,
            "maximum": EXACT,
        }


Quantity = Annotated[str, QuantityType()]
"""A resource quantity, kept as written; `quantity_value` returns its exact value."""


# Plain scalars with bounds

Flag = Annotated[bool, Field(strict=True)]
Count = Annotated[int, Field(strict=True, ge=0, le=2**31 - 1)]
Step = Annotated[int, Field(strict=True, ge=0, le=EXACT)]


@dataclass(frozen=True, slots=True)
class Clip:
    """Marks text that Holdfast writes: text longer than `length` characters is cut, never refused.

    Writing cuts it again, because `model_copy` does not validate: a long message must never make a status invalid.
    """

    length: int

    def __call__(self, value: str) -> str:
        return value if len(value) <= self.length else f"{value[: self.length - 1]}…"

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_after_validator_function(
            self, core_schema.str_schema(), serialization=_as_text(self)
        )

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        return {"type": "string", "maxLength": self.length}


def _as_text(function: Any) -> core_schema.SerSchema:
    return core_schema.plain_serializer_function_ser_schema(
        function, return_schema=core_schema.str_schema(), when_used="json-unless-none"
    )


# Sets of ranks: short texts, so that the status of a job with 1,024 nodes stays small

RANKS_LENGTH: Final = 8192  # characters: 1,024 ranks, each on its own
RANKS_PATTERN: Final = "^[0-9]{1,4}(-[0-9]{1,4})?(,[0-9]{1,4}(-[0-9]{1,4})?)*$"
_RANKS: Final = re.compile(RANKS_PATTERN)


def parse_ranks(text: str) -> tuple[int, ...]:
    """The ranks, ascending. Raises ScalarError unless the text is like 0-6,8, with ranks in ascending order."""
    found: list[int] = []
    if _RANKS.fullmatch(text):
        for part in text.split(","):
            first, _, last = part.partition("-")
            found += range(int(first), int(last or first) + 1)
    if not found or any(later <= earlier for earlier, later in pairwise(found)):
        raise ScalarError(text, "must be ranks and ranges of ranks in ascending order, such as 0-6,8")
    return tuple(found)


def format_ranks(ranks: Iterable[int]) -> str:
    """The shortest text of these ranks; empty for none."""
    spans: list[list[int]] = []
    for rank in sorted(set(ranks)):
        if spans and rank == spans[-1][1] + 1:
            spans[-1][1] = rank
        else:
            spans.append([rank, rank])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in spans)


def _check_ranks(text: str) -> str:
    parse_ranks(text)
    return text


RankSet = Annotated[str, Field(max_length=RANKS_LENGTH, pattern=RANKS_PATTERN), AfterValidator(_check_ranks)]
"""Ranks such as 0-6,8."""
