"""The base of every error that Holdfast raises on purpose, and the errors of the API.

Every other room has its errors in its own errors.py, or beside the only code that raises them.
"""

import traceback
from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum

_SHOWN = 120  # characters of a bad value that a message repeats


class ExitCode(IntEnum):
    """Exit codes of `holdfast` and `holdfast-operator`. docs/reference/exit-codes.md says what they mean."""

    OK = 0
    FAILED = 1
    USAGE = 2
    NO_ANSWER = 3
    NOT_FOUND = 4
    FORBIDDEN = 5
    INTERRUPTED = 130


class HoldfastError(Exception):
    """Base of every error that Holdfast raises on purpose. Its text is for people.

    `exit_code` is that of a command that ends with this error.
    """

    exit_code = ExitCode.FAILED

    def _render_traceback_(self) -> list[str]:
        """Called by a notebook: the lines of its own cells that led here, without those of libraries, and the error."""
        frames = traceback.walk_tb(self.__traceback__)
        own = traceback.StackSummary.extract(one for one in frames if one[0].f_globals.get("__name__") == "__main__")
        cells = [f"line {frame.lineno}: {frame.line}" for frame in own]
        return [*cells, f"{type(self).__name__}: {self}", *getattr(self, "__notes__", ())]


class ScalarError(HoldfastError, ValueError):
    """A scalar has a wrong form. `allowed` says in words what is allowed."""

    def __init__(self, value: object, allowed: str) -> None:
        self.value = value
        self.allowed = allowed
        super().__init__(f"{shown(value)}: {allowed}")


class Unquoted(str):
    """Words that describe what was found: messages show them without quotes, unlike a value."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Violation:
    """One broken rule. `field` is relative to the object that has the rule, "" for that object itself."""

    field: str
    got: str
    allowed: str


class RuleError(HoldfastError, ValueError):
    """Fields contradict each other. `violations` has every broken rule of one object."""

    def __init__(self, violations: Iterable[Violation]) -> None:
        self.violations = tuple(violations)
        super().__init__("; ".join(f"{v.allowed}; got {v.got}" for v in self.violations))


class SpecError(HoldfastError):
    """A field is not valid.

    `field` is its path as kubectl prints it (spec.trainer.env[3].name), `value` is what was found, `allowed` says what
    is allowed, `hint` what to do. `others` are more problems of the same object; `problems` has all of them, in the
    order of the object.
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
        """Only this problem, on one line."""
        found = "" if self.value is None else f"{shown(self.value)}: "
        hint = f" ({self.hint})" if self.hint else ""
        return f"{self.field or 'object'}: {found}{self.allowed}{hint}"


class SchemaError(HoldfastError):
    """A model does not fit a structural schema. Raised when CRDs are generated, never at run time."""


def shown(value: object) -> str:
    """The text of a value in a message: strings in quotes, long values cut."""
    text = f'"{value}"' if isinstance(value, str) and not isinstance(value, Unquoted) else str(value)
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 1]}…"
