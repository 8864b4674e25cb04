"""Traces in the steps of a study."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast_cli.simulate.traces import Trace
from holdfast_research.steps import at_gap, longest_step

SAMPLES = st.lists(st.integers(0, 1), max_size=60).map(bytes)


@given(SAMPLES, st.sampled_from([600, 300, 200, 1]))
def test_a_finer_trace_is_the_same(up, gap):
    coarse = Trace("zone", 600, up)
    fine = at_gap(coarse, gap)
    assert all(fine.is_up(second // gap) == coarse.is_up(second // 600) for second in range(0, 600 * len(up), 100))


@given(SAMPLES)
def test_where_the_gap_does_not_divide_a_change_comes_at_the_next_step(up):
    trace = Trace("zone", 195, up)
    found = at_gap(trace, 60)
    assert len(found) == len(up) * 195 // 60
    assert all(found.is_up(step) == trace.is_up(step * 60 // 195) for step in range(len(found)))


@pytest.mark.parametrize("gap", [0, 601])
def test_a_gap_that_is_too_long_is_refused(gap):
    with pytest.raises(ValueError, match=f"gap must be 1 s to the 600 s of the trace; got {gap}"):
        at_gap(Trace("zone", 600, b"\1"), gap)


@pytest.mark.parametrize(("gap", "step"), [(600, 600), (60, 60), (195, 60), (90, 60), (45, 30), (7, 6), (1, 1)])
def test_the_longest_step_misses_no_spell(gap, step):
    assert longest_step(Trace("zone", gap, b"\1")) == step
