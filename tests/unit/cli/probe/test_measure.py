"""What a probe measured, from a status and from a series."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest

from holdfast.api.names import API_VERSION, JOB_KIND
from holdfast.api.objects import TrainingJob
from holdfast.api.profile import Tier
from holdfast_cli.probe.manifests import Probe
from holdfast_cli.probe.measure import (
    Outcome,
    Pace,
    Result,
    ending,
    has_waited_in_vain,
    judge,
    limits_in_words,
    newest,
    pace_of_rows,
    pace_of_status,
    samples_of_rows,
    scaling,
)
from holdfast_protocol.figures import UNKNOWN
from holdfast_train.series.rows import Row

AT = datetime(2027, 1, 1, tzinfo=UTC)
TIER = Tier(name="spot", kind="Spot", accelerator="nvidia.com/gpu", price_per_node_hour=Decimal("3.6"))
PROBE = Probe(TIER, 1, {})
WORDS = limits_in_words(timedelta(minutes=2), timedelta(minutes=30))
RUN: dict[str, Any] = {
    "number": 1,
    "tier": "spot",
    "kind": "Completed",
    "reason": "Exited",
    "raisedAt": "2027-01-01T00:00:00Z",
    "scheduledAt": "2027-01-01T00:00:07Z",
    "firstStepAt": "2027-01-01T00:00:30Z",
    "firstStep": 1,
    "lastStep": 60,
    "lastStepAt": "2027-01-01T00:01:29Z",
    "endedAt": "2027-01-01T00:01:30Z",
}
DONE: dict[str, Any] = {"phase": "Completed", "attempt": 1, "progress": {"step": 60}, "history": [RUN]}


def job(**status: Any) -> TrainingJob:
    return TrainingJob.parse(
        {
            "apiVersion": API_VERSION,
            "kind": JOB_KIND,
            "metadata": {"name": "vit"},
            "spec": {
                "trainer": {"image": "train:1"},
                "capacity": {"tiers": [{"name": "spot", "kind": "CPU"}]},
                "checkpoint": {"storage": {"s3": {"bucket": "runs", "prefix": "vit"}}},
            },
            "status": status,
        }
    )


def rows(*seconds: float, samples: float = 0.0) -> list[Row]:
    """A row after each step; `seconds` is how long the steps after the first took."""
    found, at = [Row(1, 1000.0, {})], 1000.0
    for step, took in enumerate(seconds, 2):
        at += took
        found.append(Row(step, at, {"samplesPerSecond": samples} if samples else {}))
    return found


def median_of(some: list[Row]) -> float:
    found = pace_of_rows(some)
    assert found is not None
    assert found.kind == "median"
    return found.seconds


def measured(accelerators: int, seconds: float, samples: float | None = None) -> Result:
    pace = Pace(seconds, "median")
    return Result("spot", accelerators, 1, None, Outcome.MEASURED, pace=pace, samples_per_second=samples)


# Breaks if slow steps at the start, or one that saves, count.
def test_the_pace_is_the_median_of_the_last_half() -> None:
    assert median_of(rows(*[9.0] * 15, *[2.0] * 7, 30.0, *[2.0] * 8)) == pytest.approx(2.0)


def test_rows_of_only_some_steps_count_by_step() -> None:
    some = [row for row in rows(*[0.5] * 60) if row.step % 3 == 0]
    assert median_of(some) == pytest.approx(0.5)


# Breaks if steps of a few milliseconds are timed one by one, by a clock that has milliseconds.
@pytest.mark.parametrize("seconds", [0.0034, 0.0503, 0.2], ids=str)
def test_short_steps_are_timed_together(seconds: float) -> None:
    exact = rows(*[seconds] * 59)
    rounded = [Row(row.step, round(row.at, 3), {}) for row in exact]
    assert median_of(rounded) == pytest.approx(seconds, rel=0.015)


@pytest.mark.parametrize("few", [[], rows(), rows(*[1.0] * 8), rows(*[0.0] * 30)], ids=["no", "one", "few", "no-time"])
def test_too_few_rows_have_no_pace(few: list[Row]) -> None:
    assert pace_of_rows(few) is None


def test_samples_are_those_of_the_last_half() -> None:
    assert samples_of_rows(rows(*[1.0] * 30, samples=64.0)) == 64.0
    assert samples_of_rows(rows(*[1.0] * 30)) is None


def test_without_a_series_the_pace_is_the_mean_of_the_status() -> None:
    assert pace_of_status(job(**DONE).status) == Pace(1.0, "mean")
    assert pace_of_status(job().status) is None


def test_times_costs_and_known_figures_are_taken_from_the_status() -> None:
    seen = {"peakMemory": 5 << 30, "dataWait": "0.41", "samplesPerSecond": "120.5"}
    known = newest(UNKNOWN, {"status": {"progress": {**seen, "loss": "1", "eta": None}}})
    assert newest(known, {"status": {"progress": {}}}) == known, "of a program that has ended"
    found = judge(PROBE, job(**DONE), known, Outcome.MEASURED, WORDS)
    assert (found.acquire, found.start) == (timedelta(seconds=7), timedelta(seconds=23))
    assert (found.peak_memory, found.data_wait, found.samples_per_second) == (5 << 30, 0.41, 120.5)
    assert (found.steps, found.message) == (60, "")
    assert measured(1, 2.0).cost_of_million_steps is None
    priced = Result("spot", 1, 2, Decimal("3.6"), Outcome.MEASURED, pace=Pace(0.5, "mean"), samples_per_second=100.0)
    assert priced.cost_of_million_steps == Decimal(1000)
    assert float(priced.cost_of_million_samples or 0) == pytest.approx(20.0)


# Breaks if a status of another version, or a hostile one, ends the command.
@pytest.mark.parametrize(
    "progress",
    [
        {},
        {"peakMemory": "5", "dataWait": 0.4},
        {"peakMemory": -1, "dataWait": "nan"},
        {"dataWait": "7", "samplesPerSecond": 3},
        [],
        "x",
        None,
    ],
    ids=str,
)
def test_odd_figures_are_not_known(progress: Any) -> None:
    found = judge(PROBE, job(**DONE), newest(UNKNOWN, {"status": {"progress": progress}}), Outcome.MEASURED, WORDS)
    assert (found.peak_memory, found.data_wait, found.samples_per_second) == (None, None, None)


FAILURE = {**RUN, "kind": "Failure", "reason": "ExitCode", "message": "exit code 1\nCUDA out of memory"}
LATE = {"type": "Failed", "status": "True", "reason": "DeadlineExceeded", "lastTransitionTime": "2027-01-01T00:00:00Z"}
NO_NODE = {key: value for key, value in RUN.items() if key not in ("scheduledAt", "firstStepAt")}


@pytest.mark.parametrize(
    ("status", "wanted"),
    [
        ({}, None),
        ({"phase": "Running", "progress": {"step": 59}}, None),
        ({"phase": "Running", "progress": {"step": 60}}, Outcome.MEASURED),
        (DONE, Outcome.MEASURED),
        ({"phase": "Failed"}, Outcome.FAILED),
        ({"phase": "Recovering", "history": [FAILURE]}, Outcome.FAILED),
        ({"phase": "Recovering", "history": [{**RUN, "kind": "Interruption"}]}, None),
        ({"phase": "Failed", "conditions": [LATE], "history": [RUN]}, Outcome.NOT_DONE),
        ({"phase": "Failed", "conditions": [LATE], "history": [NO_NODE]}, Outcome.NO_NODE),
    ],
    ids=["new", "on", "all-steps", "done", "failed", "program", "lost", "late", "late-without-node"],
)
def test_how_a_probe_ends(status: dict[str, Any], wanted: Outcome | None) -> None:
    assert ending(job(**status), 60) is wanted


def test_waiting_in_vain_is_for_a_node_or_for_an_operator() -> None:
    assert has_waited_in_vain(job()) is Outcome.NOT_SEEN
    assert has_waited_in_vain(job(phase="Acquiring", attempt=1)) is Outcome.NO_NODE
    assert has_waited_in_vain(job(**DONE)) is None


@pytest.mark.parametrize(
    ("outcome", "status", "words"),
    [
        (
            Outcome.NO_NODE,
            {"decision": {"action": "Wait", "message": "quota is used up", "at": "2027-01-01T00:00:00Z"}},
            "no node within 2m: quota is used up",
        ),
        (Outcome.NOT_SEEN, {}, "no operator has looked at the job within 2m"),
        (Outcome.FAILED, {"history": [FAILURE]}, "ExitCode: exit code 1\nCUDA out of memory"),
        (Outcome.FAILED, {}, "the job failed"),
        (Outcome.NOT_DONE, {"progress": {"step": 12}}, "not done within 30m: 12 steps"),
        (Outcome.GONE, {}, "deleted by somebody else"),
    ],
    ids=["node", "operator", "program", "unknown", "late", "gone"],
)
def test_what_went_wrong_is_said(outcome: Outcome, status: dict[str, Any], words: str) -> None:
    assert words in judge(PROBE, job(**status), UNKNOWN, outcome, WORDS).message


# Breaks if twice as many accelerators that do the same steps with twice the samples count as no gain.
def test_scaling_is_by_samples_if_they_are_known() -> None:
    (by_samples,) = scaling([measured(4, 1.1, 360.0), measured(1, 1.0, 100.0)])
    assert (by_samples.base, by_samples.accelerators, by_samples.by) == (1, 4, "samples")
    assert by_samples.speedup == 3.6
    assert by_samples.efficiency == pytest.approx(0.9)
    (by_steps,) = scaling([measured(1, 1.0), measured(2, 0.625)])
    assert (by_steps.speedup, by_steps.efficiency, by_steps.by) == (1.6, 0.8, "steps")


def test_nothing_is_compared_with_a_probe_that_failed() -> None:
    failed = Result("spot", 1, 1, None, Outcome.FAILED)
    assert scaling([failed, measured(4, 1.0)]) == []
    assert scaling([measured(1, 1.0)]) == []
