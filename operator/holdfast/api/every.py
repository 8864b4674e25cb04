"""The save interval of a job as people write it, and CEL that compares it with other durations."""

import re
from datetime import timedelta
from typing import Any, ClassVar, Final

from pydantic import GetJsonSchemaHandler, model_serializer, model_validator
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from holdfast.api.errors import ScalarError
from holdfast.api.model import Model
from holdfast.api.scalars import DURATION_LENGTH, DURATION_PARTS, duration_rule, format_duration, parse_duration

_STEPS: Final = re.compile("([1-9][0-9]{0,8}) steps?")
_EVERY_WORDS: Final = "must be auto, a number of steps or a duration between 1s and 7d, such as 500 steps or 10m"
AUTO: Final = "auto"


class Every(Model):
    """How often to save: `auto`, `500 steps` or `10m`. Exactly one of the three fields is set. A string in the API."""

    steps: int | None = None
    period: timedelta | None = None
    auto: bool = False

    shortest: ClassVar[timedelta] = timedelta(seconds=1)
    longest: ClassVar[timedelta] = timedelta(days=7)

    @model_validator(mode="before")
    @classmethod
    def _parse(cls, value: Any) -> Any:
        if isinstance(value, dict | cls):
            return value
        if value == AUTO:
            return {"auto": True}
        if isinstance(value, str) and (match := _STEPS.fullmatch(value)):
            return {"steps": int(match[1])}
        try:
            period = parse_duration(value)
        except ScalarError:
            raise ScalarError(value, _EVERY_WORDS) from None
        if not cls.shortest <= period <= cls.longest:
            raise ScalarError(value, _EVERY_WORDS)
        return {"period": period}

    @model_validator(mode="after")
    def _bounds(self) -> "Every":
        good_steps = self.steps is not None and self.steps > 0
        good_period = self.period is not None and self.shortest <= self.period <= self.longest
        given = (self.steps is not None) + (self.period is not None) + self.auto
        if given != 1 or not (good_steps or good_period or self.auto):
            raise ScalarError(self.steps if self.period is None else str(self.period), _EVERY_WORDS)
        return self

    @model_serializer
    def _text(self) -> str:
        return str(self)

    def __str__(self) -> str:
        if self.period is not None:
            return format_duration(self.period)
        return AUTO if self.auto else f"{self.steps} steps"

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        return {
            "type": "string",
            "pattern": f"^({AUTO}|[1-9][0-9]{{0,8}} steps?|{DURATION_PARTS})$",
            "minLength": 2,
            "maxLength": DURATION_LENGTH,
            "x-kubernetes-validations": [duration_rule("1s", "7d", _EVERY_WORDS, unless=f"{no_period('self')} || ")],
        }


def no_period(text: str) -> str:
    """CEL that is true if the CEL expression `text` is a save interval that is not a duration."""
    return f"{text} == '{AUTO}' || {text}.contains('step')"


def cel_instant(text: str) -> str:
    """CEL for the time that is a duration after the epoch, so that two durations compare exactly.

    The CEL expression `text` must be a valid duration. CEL has no days and cannot multiply durations, but it makes
    times of whole seconds.
    """
    days = f"({text}.contains('d') ? int({text}.substring(0, {text}.indexOf('d'))) * 86400 : 0)"
    return f"(timestamp({days}) + duration('0s' + {text}.substring({text}.indexOf('d') + 1)))"
