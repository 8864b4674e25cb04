"""Rules about fields that must go together: declared once, checked twice.

A rule holds the CEL text that the API server evaluates and the same rule as a Python predicate, which `holdfast check
--offline` and every reader use. tests/integration/api proves with one table of bad manifests that the two agree.
"""

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from holdfast.api.errors import Violation


@dataclass(frozen=True, slots=True)
class Rule:
    """What must hold for one object.

    `allowed` says what is allowed, in words; `cel` and `holds` say it to the API server and to Python; `got_cel` and
    `got` say what was found instead. `field` is the path, as CEL writes it (`.volumes`), of the field to blame, "" for
    the object itself. `got_cel` is empty where the text would cost more than the API server allows. A rule whose CEL
    needs the object as it was (`oldSelf`) has no `holds`: only the API server knows.
    """

    allowed: str
    cel: str
    holds: Callable[[Any], bool] | None
    got_cel: str = ""
    got: Callable[[Any], str] | None = None
    field: str = ""

    def broken_by(self, value: Any) -> Violation | None:
        """The violation, or None if the rule holds."""
        if self.holds is None or self.holds(value):
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
    """Exactly one of `fields` (camelCase) is set."""
    return _count(fields, "exactly one of", "== 1", lambda count: count == 1)


def at_most_one(*fields: str) -> Rule:
    """At most one of `fields` (camelCase) is set."""
    return _count(fields, "at most one of", "<= 1", lambda count: count <= 1)


def _count(fields: tuple[str, ...], how_many: str, comparison: str, fits: Callable[[int], bool]) -> Rule:
    attributes = [(name, snake(name)) for name in fields]

    def given(value: Any) -> list[str]:
        return [name for name, attribute in attributes if getattr(value, attribute) not in (None, ())]

    # Plain sums and ternaries: lists of text and `join` would cost more than the API server allows.
    count = " + ".join(f"(has(self.{name}) ? 1 : 0)" for name in fields)
    names = " + ".join(f"(has(self.{name}) ? {cel_string(f' {name}')} : '')" for name in fields)
    return Rule(
        allowed=f"{how_many} {', '.join(fields[:-1])} and {fields[-1]} must be set",
        cel=f"{count} {comparison}",
        holds=lambda value: fits(len(given(value))),
        got_cel=f"({count} == 0 ? 'none' : 'these:' + {names})",
        got=lambda value: " ".join(["these:", *given(value)]) if given(value) else "none",
    )


def snake(name: str) -> str:
    """The Python name of a camelCase field. (pydantic's own turns s3 into s_3.)"""
    return re.sub("[A-Z]", lambda letter: f"_{letter[0].lower()}", name)


def cel_string(text: str) -> str:
    """A CEL string literal."""
    return json.dumps(text, ensure_ascii=False)


def validations(rules: tuple[Rule, ...]) -> Mapping[str, object]:
    """The schema fragment for `rules`, empty if there are none."""
    return {"x-kubernetes-validations": [rule.to_schema() for rule in rules]} if rules else {}
