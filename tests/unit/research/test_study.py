"""Many jobs on many traces, under several policies."""

from dataclasses import replace
from datetime import timedelta
from decimal import Decimal

import pytest

from holdfast_cli.simulate.traces import Trace
from holdfast_research.errors import StudyError
from holdfast_research.study import POLICIES, RULES, Row, Study, simulate, summarize
from holdfast_research.synthetic import weather

UP = Trace("up", 600, b"\1" * 1000)
STUDY = Study(
    markets=[(weather(1, 2000),), (weather(2, 2000),)],
    policies=list(POLICIES),
    work=timedelta(hours=12),
    loads=(0.6, 0.9),
    windows=2,
)


def rows(study: Study) -> list[Row]:
    return [row for job in simulate(study) for row in job]


def test_every_policy_runs_every_job_and_none_is_late_or_better_than_the_best() -> None:
    found = rows(STUDY)
    assert len(found) == len(STUDY) == 2 * 2 * 2 * len(POLICIES)
    assert not any(row.missed for row in found if row.policy in ("deadline", *RULES))
    assert all(row.missed or row.ratio >= 1 - 1e-4 for row in found), "but for what the ledger rounds"
    starts = {(row.trace, row.load, row.start) for row in found}
    assert len(starts) == 8, "all policies run the same jobs"


def test_the_same_seed_draws_the_same_jobs() -> None:
    study = replace(STUDY, markets=STUDY.markets[:1], loads=(0.6,))
    first = rows(study)
    assert first == rows(study)
    assert {row.start for row in first} != {row.start for row in rows(replace(study, seed=2))}


def test_spot_that_never_goes_costs_its_work_and_one_changeover() -> None:
    study = Study(markets=[(UP,)], policies=["deadline"], work=timedelta(hours=12), loads=(0.6,), windows=1)
    (row,) = rows(study)
    assert row.cost == pytest.approx(12 + 1 / 3, abs=1e-4)
    assert (row.ratio, row.moves) == (pytest.approx(1.0, abs=1e-4), 1)


def test_a_changeover_that_is_not_a_whole_step_makes_steps_smaller() -> None:
    study = replace(STUDY, markets=[(UP,)], changeover=timedelta(minutes=7), policies=["deadline"], windows=1)
    assert study.gap((UP,)) == 60
    assert rows(study)[0].cost == pytest.approx(12 + 7 / 60, abs=1e-4)


def test_a_trace_may_have_steps_that_are_not_whole_minutes() -> None:
    odd = Trace("odd", 195, bytes([1, 1, 1, 0, 0, 0]) * 150 + b"\1" * 600)
    study = replace(STUDY, markets=[(odd,), (odd, UP)], loads=(0.9,), windows=1)
    assert [study.gap(traces) for traces in study.markets] == [60, 60]
    found = rows(study)
    assert len(found) == 2 * len(POLICIES)
    assert not any(row.missed for row in found if row.policy in ("deadline", *RULES))
    assert all(row.missed or row.ratio >= 1 - 1e-4 for row in found)


def test_zones_together_never_raise_the_optimum() -> None:
    one, other = weather(1, 2000), weather(2, 2000)
    apart = replace(STUDY, markets=[(one,)], policies=["greedy"])
    together = replace(apart, markets=[(one, other)])
    assert rows(together)[0].trace == "weather-1+weather-2"
    assert sum(row.omniscient for row in rows(together)) < sum(row.omniscient for row in rows(apart))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"policies": ["cheap"]}, "policies: 'cheap' is not known; known policies: deadline"),
        ({"policies": []}, "policies: at least one is needed"),
        ({"loads": ()}, "loads: a load is"),
        ({"loads": (1.2,)}, "above 0 and at most 1; got 1.2"),
        ({"loads": (0.0,)}, "above 0 and at most 1; got 0"),
        ({"ratio": Decimal(0)}, "ratio: must be above 0; got 0"),
        ({"windows": 0}, "windows: must be 1 or more; got 0"),
        ({"work": timedelta(0)}, "work: must be whole minutes, 1 or more; got 0:00:00"),
        ({"changeover": timedelta(seconds=90)}, "changeover: must be whole minutes, 0 or more; got 0:01:30"),
        ({"lost_work": timedelta(minutes=-1)}, "lost_work: must be whole minutes"),
        ({"work": timedelta(minutes=60, milliseconds=500)}, "work: must be whole minutes"),
        ({"loads": (0.6, 0.99)}, "loads: 0.99 leaves no time for one changeover"),
        ({"work": timedelta(days=3650)}, "work: a job would take"),
        ({"markets": [(Trace("odd", 1, b"\1" * 9),)]}, "work: a job would take 72,000 steps of 1 s"),
    ],
)
def test_an_invalid_study_is_refused(changes: dict[str, object], words: str) -> None:
    with pytest.raises(StudyError) as refused:
        replace(STUDY, **changes)  # type: ignore[arg-type]
    assert words in str(refused.value)


def test_short_traces_are_skipped_and_refused_if_all_are_short() -> None:
    short = Trace("short", 600, b"\1" * 90)  # 15 hours
    study = replace(STUDY, markets=[(short,)], policies=["deadline"])
    assert {row.load for row in rows(study)} == {0.9}
    with pytest.raises(StudyError, match="no trace is long enough"):
        rows(replace(study, loads=(0.6,)))


def test_summaries() -> None:
    row = Row("p", "t", 0, 0.6, cost=1.0, omniscient=1.0, missed=False, moves=3, days=2.0)
    found = [row, replace(row, cost=2.0), replace(row, cost=6.0, load=0.9, missed=True)]
    (whole,) = summarize(found)
    assert (whole.jobs, whole.mean, whole.median, whole.p95, whole.missed) == (3, 3.0, 2.0, 6.0, 1)
    assert whole.moves_per_day == pytest.approx(1.5)
    assert [(one.load, one.jobs) for one in summarize(found, by_load=True)] == [(0.6, 2), (0.9, 1)]


def test_the_terms_in_words() -> None:
    terms = "12h of work, dedicated at 3 times the price of spot, changeovers of 20m"
    assert STUDY.terms == terms
    more = replace(STUDY, lost_work=timedelta(minutes=10), billed=True)
    assert more.terms == f"{terms}, interruptions that cost 10m of work, watching billed"
