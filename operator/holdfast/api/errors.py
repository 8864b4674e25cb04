"""Errors of the API, and the base of every error that Holdfast raises on purpose.

    HoldfastError
    ├── ScalarError     a duration, amount, quantity or time is not written as it must be (also a ValueError)
    ├── RuleError       fields that do not go together (also a ValueError)
    ├── SpecError       an object from outside holds something that it must not; names the field
    └── SchemaError     a model cannot be expressed as a structural schema: a mistake in Holdfast itself

Other packages hang their own errors under HoldfastError, each in its own errors.py.
"""

from collections.abc import Iterable
from dataclasses import dataclass

__all__ = ["Bare", "HoldfastError", "RuleError", "ScalarError", "SchemaError", "SpecError", "Violation"]

_SHOWN = 120  # characters of a bad value that a message repeats


class HoldfastError(Exception):
    """Base of every error that Holdfast raises on purpose. Its text is for people."""


class ScalarError(HoldfastError, ValueError):
    """A scalar is not written as it must be."""

    def __init__(self, value: object, allowed: str) -> None:
        self.value = value
        self.allowed = allowed
        super().__init__(f"{shown(value)}: {allowed}")


class Bare(str):
    """What was found, in words rather than as a value: shown without quotes."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Violation:
    """One broken rule. `field` is relative to the object that holds the rule, "" for that object itself."""

    field: str
    got: str
    allowed: str


class RuleError(HoldfastError, ValueError):
    """Fields that do not go together. `violations` holds every broken rule of one object."""

    def __init__(self, violations: Iterable[Violation]) -> None:
        self.violations = tuple(violations)
        super().__init__("; ".join(f"{v.allowed}; got {v.got}" for v in self.violations))


class SpecError(HoldfastError):
    """A field holds what it must not.

    `field` is a path as kubectl prints it (spec.trainer.env[3].name), `value` what was found, `allowed` what may stand
    there and `hint` what to do about it. `others` holds the further problems of the same object: `problems` is all of
    them, in the order of the object.
    """

    def __init__(
        self, field: str, value: object, allowed: str, hint: str = "", others: "Iterable[SpecError]" = ()
    ) -> None:
        self.field = field
        self.value = value
        self.allowed = allowed
        self.hint = hint
        self.problems: tuple[SpecError, ...] = (self, *others)
        super().__init__("\n".join(problem.line for problem in self.problems))

    @property
    def line(self) -> str:
        """This problem alone, on one line."""
        found = "" if self.value is None else f"{shown(self.value)}: "
        hint = f" ({self.hint})" if self.hint else ""
        return f"{self.field or 'object'}: {found}{self.allowed}{hint}"


class SchemaError(HoldfastError):
    """A model cannot be expressed as a structural schema. Raised when CRDs are generated, never at run time."""


def shown(value: object) -> str:
    """A value as a message repeats it: strings in quotes, long values cut."""
    text = f'"{value}"' if isinstance(value, str) and not isinstance(value, Bare) else str(value)
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 1]}…"
