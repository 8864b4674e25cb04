"""Rules about several fields, or about all items of a list: declared once, checked in two places.

A rule has the CEL text that the API server evaluates, and the same rule as a Python predicate that `holdfast check
--offline` and every model use. tests/integration/api proves with one table of invalid manifests that the two agree.
"""

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, core_schema

from holdfast.api.errors import ScalarError, Violation


@dataclass(frozen=True, slots=True)
class Rule:
    """A condition that every object of a model must meet.

    `allowed` says in words what is allowed, `cel` in CEL for the API server, `is_met` in Python. `got_cel` and `got`
    say what was found instead; `got_cel` is empty where its CEL would cost more than the API server allows. `field` is
    the path of the invalid field in CEL (`.volumes`), "" for the object itself. A rule whose CEL needs the object
    before the change (`oldSelf`) has no `is_met`: only the API server can evaluate it.
    """

    allowed: str
    cel: str
    is_met: Callable[[Any], bool] | None
    got_cel: str = ""
    got: Callable[[Any], str] | None = None
    field: str = ""

    def broken_by(self, value: Any) -> Violation | None:
        """The violation, None if the rule is met."""
        if self.is_met is None or self.is_met(value):
            return None
        return Violation(
            field=self.field.removeprefix("."), got=self.got(value) if self.got else "", allowed=self.allowed
        )

    def to_schema(self) -> dict[str, str]:
        """One entry of `x-kubernetes-validations`."""
        entry = {"rule": self.cel, "message": self.allowed}
        if self.got_cel:
            entry["messageExpression"] = f"{cel_string(self.allowed + '; got ')} + {self.got_cel}"
        if self.field:
            entry["fieldPath"] = self.field
        return entry


def exactly_one(*fields: str) -> Rule:
    """The rule that exactly one of `fields` (camelCase) is set."""
    return _count(fields, "exactly one of", "== 1", lambda count: count == 1)


def at_most_one(*fields: str) -> Rule:
    """The rule that at most one of `fields` (camelCase) is set."""
    return _count(fields, "at most one of", "<= 1", lambda count: count <= 1)


def _count(fields: tuple[str, ...], how_many: str, comparison: str, fits: Callable[[int], bool]) -> Rule:
    attributes = [(name, snake_case(name)) for name in fields]

    def given(value: Any) -> list[str]:
        return [name for name, attribute in attributes if getattr(value, attribute) not in (None, ())]

    # Only sums and ternaries: lists of text and `join` would cost more than the API server allows.
    count = " + ".join(f"(has(self.{name}) ? 1 : 0)" for name in fields)
    names = " + ".join(f"(has(self.{name}) ? {cel_string(f' {name}')} : '')" for name in fields)
    return Rule(
        allowed=f"{how_many} {', '.join(fields[:-1])} and {fields[-1]} must be set",
        cel=f"{count} {comparison}",
        is_met=lambda value: fits(len(given(value))),
        got_cel=f"({count} == 0 ? 'none' : 'these:' + {names})",
        got=lambda value: " ".join(["these:", *given(value)]) if given(value) else "none",
    )


def snake_case(name: str) -> str:
    """The Python name of a camelCase field. (pydantic's function makes s_3 of s3.)"""
    return re.sub("[A-Z]", lambda letter: f"_{letter[0].lower()}", name)


def cel_string(text: str) -> str:
    """A CEL string literal."""
    return json.dumps(text, ensure_ascii=False)


def validations(rules: tuple[Rule, ...]) -> Mapping[str, object]:
    """The schema fragment for `rules`, empty without rules."""
    return {"x-kubernetes-validations": [rule.to_schema() for rule in rules]} if rules else {}


@dataclass(frozen=True, slots=True)
class KeyedBy:
    """Marks a list as a map: no two items have the same `key` (camelCase), so two appliers can each own one item."""

    key: str

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        attribute = snake_case(self.key)

        def validate(items: tuple[Any, ...]) -> tuple[Any, ...]:
            seen: set[Any] = set()
            for item in items:
                value = getattr(item, attribute)
                if value in seen:
                    raise ScalarError(value, f"no two items may have the same {self.key}")
                seen.add(value)
            return items

        return core_schema.no_info_after_validator_function(validate, handler(source))

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        return {
            **handler(schema),
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": [self.key],
        }
