from typing import Any

from tests.support.fakes import T0, raw_job

from holdfast.api.objects import TrainingJob
from holdfast.serve.metrics import JobCollector, Metrics


def job(**status: Any) -> TrainingJob:
    raw = raw_job(**status)
    raw["spec"]["goal"] = {"steps": 200}
    return TrainingJob.parse(raw)


def scrape(*jobs: TrainingJob) -> list[str]:
    metrics = Metrics()
    metrics.registry.register(JobCollector(lambda: jobs, lambda: T0))
    return metrics.scrape().decode().splitlines()


def test_the_figures_of_a_job() -> None:
    lines = scrape(
        job(
            phase="Running",
            attempt=3,
            progress={"step": 50, "loss": "2.5", "updatedAt": "2026-11-21T11:59:00Z"},
            checkpoint={"step": 40, "uri": "s3://b/p", "committedAt": "2026-11-21T11:58:00Z"},
            restarts={"losses": 2, "failures": 1},
            ledger={
                "stepsLost": 9,
                "secondsLost": "1m5s",
                "spent": "12.5",
                "savedVersusDedicated": "-3.25",
                "goodput": "0.9",
                "recovery": {"acquire": "1m5s"},
            },
        )
    )
    where = 'job="a",namespace="ns"'
    for line in (
        f'holdfast_job_phase{{{where},phase="Running"}} 1.0',
        f'holdfast_job_phase{{{where},phase="Failed"}} 0.0',
        f"holdfast_job_step{{{where}}} 50.0",
        f"holdfast_job_goal_steps{{{where}}} 200.0",
        f"holdfast_job_loss{{{where}}} 2.5",
        f"holdfast_job_percent_ratio{{{where}}} 0.25",
        f"holdfast_job_attempt{{{where}}} 3.0",
        f"holdfast_job_checkpoint_age_seconds{{{where}}} 120.0",
        f"holdfast_job_losses_total{{{where}}} 2.0",
        f"holdfast_job_failures_total{{{where}}} 1.0",
        f"holdfast_job_seconds_lost_total{{{where}}} 65.0",
        f"holdfast_job_steps_lost_total{{{where}}} 9.0",
        f"holdfast_job_spent_total{{{where}}} 12.5",
        f"holdfast_job_saved{{{where}}} -3.25",
        f"holdfast_job_goodput_ratio{{{where}}} 0.9",
        f'holdfast_job_recovery_seconds_total{{{where},part="acquire"}} 65.0',
        f'holdfast_job_recovery_seconds_total{{{where},part="replay"}} 0.0',
    ):
        assert line in lines


def test_series_vanish_with_the_job_and_absent_figures_are_absent() -> None:
    assert not any(line.startswith("holdfast_job_") for line in scrape())
    assert not any(line.startswith("holdfast_job_loss{") for line in scrape(job()))


def test_a_loss_that_is_not_a_number_is_shown_as_such() -> None:
    lines = scrape(job(progress={"step": 1, "loss": "nan"}))
    assert 'holdfast_job_loss{job="a",namespace="ns"} NaN' in lines


def test_a_figure_that_cannot_be_read_is_left_out_and_spoils_no_other_job() -> None:
    lines = scrape(
        job(progress={"step": 1, "loss": "2." + "1" * 40, "updatedAt": "2026-11-21T11:59:00Z"}),
        TrainingJob.parse(raw_job("b", "u2", progress={"step": 2, "loss": "3.5"})),
    )
    assert 'holdfast_job_step{job="a",namespace="ns"} 1.0' in lines
    assert not any(line.startswith('holdfast_job_loss{job="a"') for line in lines)
    assert 'holdfast_job_loss{job="b",namespace="ns"} 3.5' in lines


def test_the_operators_own_series() -> None:
    metrics = Metrics()
    metrics.observe_pass("applied", 0.01, ("notice: taint", "notice: taint"))
    metrics.observe_call("patch", "pods", 409, 0.1)
    metrics.observe_order("drain", 0.002)
    metrics.gauge("queue_depth", "x", lambda: 4)
    text = metrics.scrape().decode()
    for line in (
        'holdfast_reconcile_total{result="applied"} 1.0',
        'holdfast_decisions_total{rule="notice"} 2.0',
        'holdfast_api_requests_total{code="409",resource="pods",verb="patch"} 1.0',
        'holdfast_orders_delivered_total{type="drain"} 1.0',
        "holdfast_queue_depth 4.0",
    ):
        assert line in text
    assert "_created" not in text
