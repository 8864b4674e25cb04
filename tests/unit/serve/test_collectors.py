"""Series that are made from jobs at every scrape."""

import asyncio
from typing import Any

import pytest
from prometheus_client import CollectorRegistry
from tests.support.operator.fake_api_server import T0, raw_job

from holdfast.api.knowledge import MAX_TIERS
from holdfast.api.objects import TrainingJob
from holdfast.serve.exposition import Exposition

WHERE = 'job_name="a",job_namespace="ns"'


def job(**status: Any) -> TrainingJob:
    raw = raw_job(**status)
    raw["spec"]["goal"] = {"steps": 200}
    return TrainingJob.parse(raw)


def scrape(*jobs: TrainingJob) -> list[str]:
    page = asyncio.run(Exposition(CollectorRegistry(), lambda: jobs, lambda: T0).page())
    return [line for line in page.decode().splitlines() if not line.startswith("#")]


def test_the_figures_of_a_job() -> None:
    lines = scrape(
        job(
            phase="Running",
            phaseSince="2026-11-21T11:30:00Z",
            attempt=3,
            progress={"step": 50, "loss": "2.5", "secondsPerStep": "0.25", "updatedAt": "2026-11-21T11:59:00Z"},
            checkpoint={"step": 40, "uri": "s3://b/p", "committedAt": "2026-11-21T11:58:00Z"},
            restarts={"interruptions": 2, "failures": 1},
            ledger={
                "stepsLost": 9,
                "secondsLost": "1m5s",
                "savedVersusDedicated": "-3.25",
                "goodput": "0.9",
                "recovery": {"acquire": "1m5s"},
            },
        )
    )
    for line in (
        f'holdfast_job_phase{{{WHERE},phase="Running"}} 1.0',
        f"holdfast_job_phase_since_timestamp_seconds{{{WHERE}}} {T0.timestamp() - 1800}",
        f"holdfast_job_step{{{WHERE}}} 50.0",
        f"holdfast_job_step_seconds{{{WHERE}}} 0.25",
        f"holdfast_job_goal_steps{{{WHERE}}} 200.0",
        f"holdfast_job_training_loss{{{WHERE}}} 2.5",
        f"holdfast_job_progress_ratio{{{WHERE}}} 0.25",
        f"holdfast_job_attempt{{{WHERE}}} 3.0",
        f"holdfast_job_checkpoint_timestamp_seconds{{{WHERE}}} {T0.timestamp() - 120}",
        f"holdfast_job_checkpoint_step{{{WHERE}}} 40.0",
        f"holdfast_job_interruptions_total{{{WHERE}}} 2.0",
        f"holdfast_job_failures_total{{{WHERE}}} 1.0",
        f"holdfast_job_lost_seconds_total{{{WHERE}}} 65.0",
        f"holdfast_job_lost_steps_total{{{WHERE}}} 9.0",
        f"holdfast_job_cost_saved{{{WHERE}}} -3.25",
        f"holdfast_job_goodput_ratio{{{WHERE}}} 0.9",
    ):
        assert line in lines


# Breaks if a job that saves all the time looks like one without a checkpoint, or like one that hangs, because nothing
# of it says a step.
def test_a_job_without_steps_has_the_metrics_of_its_checkpoints() -> None:
    saved = {"uri": "s3://b/p", "bytes": 9, "committedAt": "2026-11-21T11:58:00Z"}
    lines = scrape(job(phase="Running", progress={"updatedAt": "2026-11-21T11:59:00Z"}, checkpoint=saved))
    assert f"holdfast_job_checkpoint_timestamp_seconds{{{WHERE}}} {T0.timestamp() - 120}" in lines
    assert f"holdfast_job_checkpoint_bytes{{{WHERE}}} 9.0" in lines
    assert not any(line.startswith(("holdfast_job_checkpoint_step", "holdfast_job_step{")) for line in lines)


def test_a_program_with_a_run_that_has_trained_no_step_is_at_step_0() -> None:
    """Breaks if the alert for a training that stands still cannot see one that hangs in its first step."""
    lines = scrape(job(progress={"updatedAt": "2026-11-21T11:59:00Z"}, fencedProgram="known"))
    assert f"holdfast_job_step{{{WHERE}}} 0.0" in lines


def test_metrics_of_the_program() -> None:
    metrics = [{"name": "accuracy", "value": "0.9"}, {"name": "top5", "value": "nan"}, {"name": "odd", "value": "?"}]
    lines = [line for line in scrape(job(progress={"step": 1, "metrics": metrics})) if "training_metric" in line]
    assert lines == [
        f'holdfast_job_training_metric{{{WHERE},name="accuracy"}} 0.9',
        f'holdfast_job_training_metric{{{WHERE},name="top5"}} NaN',
    ]


def test_steps_that_nobody_counted_are_not_0() -> None:
    lines = scrape(job(ledger={"secondsLost": "1m5s", "uncountedRestarts": 1, "recovery": {"acquire": "1m5s"}}))
    assert f"holdfast_job_lost_seconds_total{{{WHERE}}} 65.0" in lines
    assert not any("lost_steps" in line for line in lines)


def test_series_vanish_with_the_job_and_absent_figures_are_absent() -> None:
    assert scrape() == []
    assert not any(line.startswith("holdfast_job_training_loss{") for line in scrape(job()))


def test_a_loss_that_is_not_a_number_is_shown_as_such() -> None:
    lines = scrape(job(progress={"step": 1, "loss": "nan"}))
    assert f"holdfast_job_training_loss{{{WHERE}}} NaN" in lines
    assert f"holdfast_job_training_loss_finite{{{WHERE}}} 0.0" in lines
    assert f"holdfast_job_training_loss_finite{{{WHERE}}} 1.0" in scrape(job(progress={"step": 1, "loss": "2"}))


def test_a_figure_that_cannot_be_read_is_left_out_and_spoils_no_other_job() -> None:
    lines = scrape(
        job(progress={"step": 1, "loss": "2." + "1" * 40, "updatedAt": "2026-11-21T11:59:00Z"}),
        TrainingJob.parse(raw_job("b", "u2", progress={"step": 2, "loss": "3.5"})),
    )
    assert 'holdfast_job_step{job_name="a",job_namespace="ns"} 1.0' in lines
    assert not any(line.startswith('holdfast_job_training_loss{job_name="a"') for line in lines)
    assert 'holdfast_job_training_loss{job_name="b",job_namespace="ns"} 3.5' in lines


def spending(**changes: Any) -> TrainingJob:
    """A job that had Spot twice, and has had a dedicated node for half an hour."""
    tier = {"name": "v100", "kind": "Dedicated", "pricePerNodeHour": "3.06"}
    times = {"raisedAt": "2026-11-21T11:20:00Z", "scheduledAt": "2026-11-21T11:30:00Z"}
    raw = raw_job(
        attempt=3,
        phase="Running",
        current={"number": 3, "state": "Running", "tier": tier, **times},
        ledger={
            "attempts": 2,
            "byTier": [{"tier": "spot", "kind": "Spot", "attempts": 2, "nodeHours": "10", "spent": "10.2"}],
            "spent": "10.9",
        },
        **changes.pop("status", {}),
    )
    raw["spec"]["capacity"] |= changes
    return TrainingJob.parse(raw)


# Breaks if what is spent stands still while an attempt runs, or the whole is not the sum of its parts.
def test_money_and_attempts_by_tier_up_to_now() -> None:
    lines = scrape(spending())
    for line in (
        f'holdfast_job_tier_cost{{{WHERE},tier="spot",tier_kind="Spot"}} 10.2',
        f'holdfast_job_tier_cost{{{WHERE},tier="v100",tier_kind="Dedicated"}} 1.53',
        f"holdfast_job_cost_per_hour{{{WHERE}}} 3.06",
    ):
        assert line in lines
    (spent,) = (float(line.rpartition(" ")[2]) for line in lines if line.startswith("holdfast_job_cost{"))
    assert spent == pytest.approx(11.73)


def test_an_attempt_that_waits_for_a_node_costs_nothing() -> None:
    waiting = spending()
    current = waiting.status.current
    assert current is not None
    current = current.model_copy(update={"scheduled_at": None})
    lines = scrape(waiting.model_copy(update={"status": waiting.status.model_copy(update={"current": current})}))
    assert not any("v100" in line for line in lines if "_info" not in line)
    assert f"holdfast_job_cost_per_hour{{{WHERE}}} 0.0" in lines


# Breaks if a job whose grid is edited again and again makes series without end.
def test_tiers_of_a_job_are_bounded() -> None:
    many = [{"tier": f"t{number}", "kind": "Spot", "attempts": 1} for number in range(MAX_TIERS - 1)]
    many.append({"tier": "(others)", "kind": "Spot", "attempts": 9})
    tier = {"name": "new", "kind": "Spot"}
    times = {"raisedAt": "2026-11-21T11:20:00Z", "scheduledAt": "2026-11-21T11:30:00Z"}
    current = {"number": 3, "state": "Running", "tier": tier, **times}
    lines = [line for line in scrape(job(ledger={"byTier": many}, current=current)) if "_tier_cost" in line]
    assert len(lines) == MAX_TIERS
    assert f'holdfast_job_tier_cost{{{WHERE},tier="(others)",tier_kind="Spot"}} 0.0' in lines


def test_what_is_to_be_expected() -> None:
    status = {"forecast": {"cost": "41.25", "slack": "1h30m"}}
    lines = scrape(spending(policy="Deadline", deadline="2026-11-22T12:00:00Z", budget="60", status=status))
    for line in (
        f"holdfast_job_cost_expected{{{WHERE}}} 41.25",
        f"holdfast_job_cost_budget{{{WHERE}}} 60.0",
        f"holdfast_job_slack_seconds{{{WHERE}}} 5400.0",
        f"holdfast_job_late_seconds{{{WHERE}}} 0.0",
    ):
        assert line in lines
    (deadline,) = (line for line in lines if line.startswith("holdfast_job_deadline_timestamp_seconds"))
    assert float(deadline.rpartition(" ")[2]) == T0.timestamp() + 86_400
    late = scrape(job(forecast={"slack": "0s", "late": "20m"}))
    assert f"holdfast_job_late_seconds{{{WHERE}}} 1200.0" in late
    nothing = scrape(job())
    for name in ("cost_expected", "cost_budget", "deadline_timestamp_seconds", "slack_seconds", "late_seconds"):
        assert not any(line.startswith(f"holdfast_job_{name}{{") for line in nothing)


# Breaks if a screen shows hours of slack that a job has waited away, or less than it has while it trains.
@pytest.mark.parametrize(
    ("phase", "left"), [("Running", 5400.0), ("Acquiring", 3600.0), ("Recovering", 3600.0), ("Migrating", 5400.0)]
)
def test_slack_runs_out_while_a_job_waits(phase: str, left: float) -> None:
    lines = scrape(job(phase=phase, forecast={"slack": "1h30m", "at": "2026-11-21T11:30:00Z"}))
    assert f"holdfast_job_slack_seconds{{{WHERE}}} {left}" in lines
    lines = scrape(job(phase=phase, forecast={"slack": "5m", "at": "2026-11-21T11:30:00Z"}))
    assert f"holdfast_job_slack_seconds{{{WHERE}}} {300.0 if left > 4000 else 0.0}" in lines


# Breaks if an alert fires for a condition that is Unknown, or if each new condition makes series.
def test_conditions_that_alerts_ask_for() -> None:
    at = "2026-11-21T11:00:00Z"
    conditions = [
        {"type": kind, "status": status, "reason": "Why", "lastTransitionTime": at}
        for kind, status in (("DeadlineAtRisk", "True"), ("BudgetAtRisk", "False"), ("PolicyFallback", "Unknown"),
                             ("CheckpointFailing", "True"), ("Progressing", "True"))
    ]  # fmt: skip
    lines = [line for line in scrape(job(conditions=conditions)) if line.startswith("holdfast_job_condition")]
    assert sorted(lines) == [
        f'holdfast_job_condition{{condition="BudgetAtRisk",{WHERE}}} 0.0',
        f'holdfast_job_condition{{condition="CheckpointFailing",{WHERE}}} 1.0',
        f'holdfast_job_condition{{condition="DeadlineAtRisk",{WHERE}}} 1.0',
    ]


def test_where_the_newest_attempt_runs() -> None:
    (line,) = (line for line in scrape(spending(policy="Cheapest")) if line.startswith("holdfast_job_info"))
    assert line == (
        'holdfast_job_info{accelerator="",attempt="3",job_name="a",job_namespace="ns",node_name="",policy="Cheapest",'
        'tier="v100",tier_kind="Dedicated"} 1.0'
    )
    (none,) = (line for line in scrape(job()) if line.startswith("holdfast_job_info"))
    assert 'attempt="0"' in none and 'tier=""' in none
