"""The Deadline rule is never late: hundreds of drawn jobs of 6 h to 21 d, and every course of Spot for short ones."""

from dataclasses import replace
from itertools import product

import pytest
from tests.model import promise

from holdfast.core.capacity.deadline import deadline
from holdfast_cli.simulate.traces import Trace
from holdfast_research.economy import Setting, playback, run

FIRST, JOBS = 1, 240
WORK = 8 * 3600.0


# Breaks if any market, made up or hostile, makes a job late.
@pytest.mark.thorough
def test_no_job_is_late():
    outcomes = {seed: promise.hold(promise.draw(seed))[0] for seed in range(FIRST, FIRST + JOBS)}
    late = [seed for seed, outcome in outcomes.items() if outcome.missed]
    assert not late, f"late: seeds {late}; run each with python -m tests.model.promise --jobs 1 --seed SEED"
    assert sum(outcome.interruptions for outcome in outcomes.values()) > 10 * JOBS, "the markets are hostile"


# Breaks if what decisions make of the rule is late: an attempt that waits, a back-off, a node that is given back.
@pytest.mark.parametrize("jobs", [30, pytest.param(150, marks=pytest.mark.thorough)])
def test_no_job_is_late_in_the_virtual_cluster(jobs):
    late, interruptions = [], 0
    for seed in range(FIRST, FIRST + jobs):
        case = promise.draw(seed)
        load = case.setting.work / case.setting.deadline
        deadline_at = max(WORK / load, WORK + (case.setting.worst or 0.0))
        outcome, _ = promise.decided(replace(case, setting=replace(case.setting, work=WORK, deadline=deadline_at)))
        interruptions += outcome.interruptions
        late += [seed] if outcome.missed else []
    assert not late, f"late: seeds {late}"
    assert interruptions > 3 * jobs, "the markets are hostile"


# Breaks if the drawn jobs get so easy that the test above could not fail.
@pytest.mark.parametrize("hidden", [{"at_risk": 0.0}, {"worst": 0.0, "typical": 0.0}])
def test_a_rule_that_is_told_less_than_the_worst_is_late(hidden):
    def late(seed):
        case = promise.draw(seed)
        return promise.hold(replace(case, setting=replace(case.setting, **hidden)))[0].missed

    assert any(late(seed) for seed in range(FIRST, FIRST + 60))


# Breaks if the jobs no longer cover what they are meant to.
def test_what_is_drawn():
    cases = [promise.draw(seed) for seed in range(FIRST, FIRST + JOBS)]
    works = [case.setting.work / 3600 for case in cases]
    loads = [case.setting.work / case.setting.deadline for case in cases]
    ratios = [float(case.setting.dedicated_price) for case in cases]
    for values, low, high in ((works, 6, 504), (loads, 0.6, 0.95), (ratios, 1.3, 5)):
        reach = high - low
        assert low <= min(values) < low + reach / 5
        assert high - reach / 5 < max(values) <= high
    assert {case.setting.lost for case in cases} == {0.0, 600.0}
    assert {len(case.markets) for case in cases} == {1, 2, 3, 4}
    assert len({case.kind for case in cases}) == 6


@pytest.mark.parametrize("lost", [0.0, 600.0])
@pytest.mark.parametrize(
    ("steps", "changeover"),
    [
        *product((7, 9), (0.0, 500.0, 600.0)),
        (9, 1200.0),
        *(pytest.param(11, changeover, marks=pytest.mark.thorough) for changeover in (0.0, 500.0, 600.0, 1200.0)),
    ],
)
def test_every_course_of_spot(steps, changeover, lost):
    """An hour of work, and each of the ways in which Spot can be up or out in the steps until the deadline."""
    setting = Setting(3600.0, steps * 600.0, changeover, lost=lost)
    for course in product((0, 1), repeat=steps):
        outcome = run(deadline, [playback(Trace("course", 600, bytes(course)))], setting)
        assert not outcome.missed, course


def test_traces_that_were_recorded_are_among_the_markets():
    case = promise.draw(6, [Trace("zone", 600, bytes([1, 0] * 50))])
    assert case.kind == "recorded"
    assert not promise.hold(case)[0].missed


def test_the_program_says_what_was_late_and_how_to_run_it(capsys, monkeypatch):
    assert promise.main(["--jobs", "7"]) == 0
    assert "all                                        7               0" in capsys.readouterr().out
    lazy = lambda case: (replace(promise.run(case.rule, case.markets, case.setting), late=1.0), -1.0)  # noqa: E731
    monkeypatch.setattr(promise, "hold", lazy)
    assert promise.main(["--jobs", "1", "--seed", "3"]) == 1
    assert "late: python -m tests.model.promise --jobs 1 --seed 3\n" in capsys.readouterr().out
