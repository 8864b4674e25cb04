"""Which outputs are good enough."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from holdfast_model.package import Score
from holdfast_model.package.folder import open_package
from holdfast_model.package.loader import load
from holdfast_model.package.package_tests import read_tests, run_tests
from holdfast_model.package.variant_tests import Assessment, Bar, compare, judge

X = np.arange(6, dtype=np.float32).reshape(2, 3)


def test_the_difference_is_over_the_largest_output() -> None:
    wanted = {"y": np.array([[1.0, 10.0]], np.float32)}
    made = {"y": np.array([[1.5, 10.0]], np.float32)}
    assert compare(made, wanted) == (pytest.approx(0.05), [1.0])


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_what_is_not_a_number_is_never_right(bad: float) -> None:
    assert compare({"y": np.array([1.0, bad])}, {"y": np.array([1.0, 2.0])})[0] == np.inf


def test_a_mask_of_infinities_is_right_where_torch_has_it() -> None:
    wanted = {"y": np.array([1.0, -np.inf], np.float32)}
    assert compare(wanted, wanted)[0] == 0


@pytest.mark.parametrize(
    ("bar", "scored", "why"),
    [
        (Bar(1e-4), 0.0, "outputs differ by 0.5 of the largest one; allowed: 0.0001"),
        (Bar(1.0), 0.0, ""),
        (Bar(None), 0.0, ""),  # the largest entry of each row is at the same place
        (Bar(None, Score("accuracy", lambda _: 0.0, 0.01), 0.8), 0.795, ""),
        (Bar(None, Score("accuracy", lambda _: 0.0, 0.01), 0.8), 0.78, "accuracy is 0.7800, and 0.8000 in torch"),
        (Bar(None, Score("accuracy", lambda _: 0.0, 0.01), 0.8), float("nan"), "accuracy is nan"),
        (Bar(None, Score("-nats", lambda _: 0.0, 0.01), -1.83), -3.49, "-nats is -3.4900, and -1.8300 in torch"),
    ],
)
def test_what_a_variant_has_to_reach(make: Callable[..., Path], bar: Bar, scored: float, why: str) -> None:
    if bar.score:
        bar = Bar(bar.tolerance, Score(bar.score.name, lambda _: scored, bar.score.max_drop), bar.reference)
    tested = judge(lambda: load(make()), [{"x": X}], [{"y": 4 * X}], bar)
    assert (tested.passed, tested.why[: len(why)]) == (not why, why)


def test_a_model_that_cannot_be_opened_has_failed(make: Callable[..., Path]) -> None:
    tested = judge(lambda: load(make(operator="NoSuchOperator")), [], [], Bar(None))
    assert not tested.passed
    assert "NoSuchOperator" in tested.why


# Breaks if a package that was copied is believed instead of run.
def test_a_package_is_tested_again_where_it_is_used(make: Callable[..., Path]) -> None:
    folder = make()
    inputs, outputs = read_tests(open_package(folder))
    assert (inputs[0].keys(), outputs[0].keys()) == ({"x"}, {"y"})
    good = run_tests(folder)["onnx"]
    assert isinstance(good, Assessment)
    assert (good.passed, good.largest) == (True, 0.0)
    wrong = run_tests(make(operator="Mul"))["onnx"]
    assert isinstance(wrong, Assessment)
    assert not wrong.passed
    assert "outputs differ" in wrong.why


# Breaks if a score that fails with one variant ends the whole package, or lets the variant pass.
def test_a_score_that_fails_fails_the_variant(make: Callable[..., Path]) -> None:
    bar = Bar(None, Score("accuracy", lambda _: float({}["a"]), 0.01), 0.8)
    tested = judge(lambda: load(make()), [{"x": X}], [{"y": 2 * X}], bar)
    assert not tested.passed
    assert "the score accuracy raised an error" in tested.why
    assert "KeyError" in tested.why
