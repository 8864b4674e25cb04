"""Messages of errors."""

from holdfast.api.errors import (
    HoldfastError,
    RuleError,
    ScalarError,
    SchemaError,
    SpecError,
    Unquoted,
    Violation,
    shown,
)


def test_every_error_has_one_base() -> None:
    assert all(issubclass(error, HoldfastError) for error in (RuleError, ScalarError, SchemaError, SpecError))
    assert issubclass(ScalarError, ValueError)
    assert issubclass(RuleError, ValueError)


def test_a_spec_error_says_field_value_allowed_and_hint() -> None:
    error = SpecError("spec.goal.steps", 0, "must be at least 1", "leave it out")
    assert str(error) == "spec.goal.steps: 0: must be at least 1 (leave it out)"
    assert str(SpecError("", None, "required")) == "object: required"
    assert error.problems == (error,)


def test_a_spec_error_holds_the_others_too() -> None:
    other = SpecError("b", "x", "must not")
    error = SpecError("a", Unquoted("none"), "required", others=[other])
    assert str(error) == 'a: none: required\nb: "x": must not'
    assert error.problems == (error, other)


def test_rules_and_scalars_say_what_is_allowed() -> None:
    assert str(ScalarError("x", "a number")) == '"x": a number'
    assert str(RuleError([Violation("a", "b", "one"), Violation("", "c", "two")])) == "one; got b; two; got c"


def test_long_values_are_cut() -> None:
    assert len(shown("x" * 999)) == 120
