"""Figures of three runs, step by step."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.rehearsed import losses

from holdfast_cli.rehearse.compare.figures import compare_figures, is_time
from holdfast_cli.rehearse.compare.findings import Figure, Standing

Run = dict[int, dict[str, float]]


def only(*runs: Run) -> Figure:
    (found,) = compare_figures(*runs)
    return found


# Breaks if the first step that differs, the last equal one, or the end is another one.
def test_the_first_difference() -> None:
    found = only(losses(), losses(), losses(wrong={31: 0.5, 60: 1.0}))
    assert found.standing is Standing.DIFFERS
    assert found.first == (31, 1 / 31, 0.5)
    assert found.final == (60, 1 / 60, 1.0)
    assert (found.last_equal, found.steps, len(found.wrong)) == (30, 60, 2)
    assert found.absolute == 1 - 1 / 60


# Breaks if what the undisturbed runs do not agree on is a difference, or if its size is not compared with theirs.
@pytest.mark.parametrize(("add", "is_near"), [(3e-6, True), (1e-3, False)])
def test_own_noise(add: float, is_near: bool) -> None:
    found = only(losses(), losses(add=1e-6), losses(add=add))
    assert (found.standing, found.is_near, found.first_noise) == (Standing.NOISE, is_near, 1)


# Breaks if a step that the rehearsed run lacks is not missing, or if one that an undisturbed run lacks is.
def test_missing_steps() -> None:
    rehearsed = losses()
    del rehearsed[31], rehearsed[32]
    found = only(losses(), losses(), rehearsed)
    assert (found.standing, found.missing) == (Standing.MISSING, (31, 32))
    assert only(losses(), losses(59), losses(59)).standing is Standing.EQUAL
    found = only(losses(), losses(), losses(61))
    assert (found.standing, found.extra) == (Standing.EQUAL, (61,))


# Breaks if a step that a sample lacks counts as a difference, or if a figure that is gone does not, or a wrong value.
def test_steps_that_a_sample_lacks() -> None:
    def sampled(rehearsed: Run) -> Figure:
        (found,) = compare_figures(losses(), losses(), rehearsed, is_sampled=True)
        return found

    some = {step: values for step, values in losses().items() if step % 3}
    assert (sampled(some).standing, sampled(some).missing, sampled(some).steps) == (Standing.EQUAL, (), 40)
    assert sampled({}).standing is Standing.MISSING
    assert sampled(some | losses(wrong={32: 0.5})).first == (32, 1 / 32, 0.5)


# Breaks if NaN differs from itself, or is equal to a number.
def test_nan() -> None:
    nan = losses(wrong={5: math.nan})
    assert only(nan, nan, nan).standing is Standing.EQUAL
    assert only(losses(), losses(), nan).first == (5, 1 / 5, pytest.approx(math.nan, nan_ok=True))


@pytest.mark.parametrize(
    ("name", "is_measured"),
    [("samplesPerSecond", True), ("train_samples_per_second", True), ("peakMemory", True), ("train/step_time", True),
     ("loss", False), ("learning_rate", False), ("eval_timeliness", False), ("grad_norm", False)],
)  # fmt: skip
# Breaks if a rate is taken for a result of the training, or the other way round.
def test_times_and_rates(name: str, is_measured: bool) -> None:
    assert is_time(name) is is_measured
    found = only({1: {name: 1.0}}, {1: {name: 2.0}}, {1: {name: 30.0}})
    assert (found.standing, found.is_measured) == (Standing.NOISE, is_measured)


# Breaks if a word in the name of a figure hides a difference although the undisturbed runs agree on the figure.
def test_a_name_hides_nothing() -> None:
    assert only({1: {"time": 1.0}}, {1: {"time": 1.0}}, {1: {"time": 2.0}}).standing is Standing.DIFFERS


RUNS = st.dictionaries(
    st.integers(0, 6), st.dictionaries(st.sampled_from(["loss", "b"]), st.floats(), max_size=2), max_size=7
)


@given(RUNS, RUNS, RUNS)
# Breaks if any runs raise, or if a run differs from itself.
def test_any_runs(a: Run, b: Run, c: Run) -> None:
    compare_figures(a, b, c)
    assert not [figure for figure in compare_figures(a, a, a) if figure.standing is not Standing.EQUAL]
    for figure in compare_figures(a, c, c):  # what an undisturbed run has too is not blamed
        assert figure.standing is not Standing.DIFFERS
