"""The benchmark's numbers: ranks, ratios, verdicts."""

import pytest
from tests.bench.goals import BY_KEY, Measured
from tests.bench.stats import Sample


def test_ranks_are_values_that_were_measured() -> None:
    assert Sample.of([3.0, 1.0, 2.0]) == Sample(3, 2.0, 3.0, 3.0)
    assert Sample.of([float(n) for n in range(1, 101)]).p99 == 99.0
    with pytest.raises(ValueError, match="nothing was measured"):
        Sample.of([])


def test_a_ratio_above_one_is_better_either_way() -> None:
    assert BY_KEY["one"].ratio(Measured("one", 0.010, 10.0)) == pytest.approx(1000)
    assert BY_KEY["one"].ratio(Measured("one", 0.030)) == pytest.approx(0.5)  # no Job in this run: the peer
    assert BY_KEY["create"].ratio(Measured("create", 50.0, 100.0)) == pytest.approx(0.5)
    assert BY_KEY["notice"].ratio(Measured("notice", 0.1)) is None


@pytest.mark.parametrize(
    ("value", "job", "limit", "met"),
    [(90.0, 80.0, 200.0, True), (70.0, 80.0, 75.0, True), (70.0, 80.0, 200.0, False)],
)
def test_creation_has_to_beat_job_or_come_near_the_limit(value: float, job: float, limit: float, met: bool) -> None:
    assert BY_KEY["create"].check(Measured("create", value, job, limit)) is met
