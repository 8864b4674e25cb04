"""The screen of `holdfast describe` for each state of a job."""

from datetime import UTC, datetime
from typing import Any

import pytest
from rich.console import Console
from tests.support.manifests.observed_jobs import RUNNING, running_job

from holdfast.api.scalars import parse_time
from holdfast_cli.cluster.job_api import Line
from holdfast_cli.jobs import describe

NOW = datetime(2026, 11, 21, 9, 3, tzinfo=UTC)


def shown(changes: dict[str, Any] | None = None, **spec: Any) -> str:
    console = Console(width=160, force_terminal=False)
    events = [Line("e1", NOW, warning=True, reason="Notice", message="it will be long " * 20)]
    with console.capture() as captured:
        describe.show(console, running_job(changes, **spec), events, NOW)
    return captured.get()


@pytest.mark.parametrize(
    "wanted",
    ["demo/job", "Run (1m00s ago): attempt 3 runs on dedicated-1", "attempt 2, UserException:", "ValueError: bad batch",
     "File train.py, line 7", "SpotInterruption", "1 interruption (0 of them infrastructure), 1 of 3 allowed failures",
     "7 steps done twice, 9.0s without training", "Progressing", "the step grows", "The job trains."],
)  # fmt: skip
def test_it_says(wanted: str) -> None:
    assert wanted in shown()


def test_a_gap_that_lasts_counts_as_time_without_training() -> None:
    """Breaks if a job that has not trained for minutes is said to have lost 0 seconds."""
    record = {
        "number": 2, "tier": "spot", "kind": "Interruption", "reason": "NodeGone", "raisedAt": "2026-11-21T08:50:00Z",
        "endedAt": "2026-11-21T08:59:00Z", "firstStep": 1, "lastStep": 120, "lastStepAt": "2026-11-21T08:58:30Z",
    }  # fmt: skip
    waits = {"number": 3, "state": "Intended", "tier": RUNNING["current"]["tier"], "raisedAt": "2026-11-21T08:59:00Z"}
    seconds = (NOW - parse_time("2026-11-21T08:58:30Z")).total_seconds() + 9
    text = " ".join(shown({"history": [record], "current": waits}).split())
    assert f"{seconds:.1f}s without training so far" in text
    trains = {**waits, "state": "Running", "firstStep": 121}
    assert "9.0s without training" in " ".join(shown({"history": [record], "current": trains}).split())


def test_metrics_are_told() -> None:
    metrics = [{"name": "accuracy", "value": "0.9"}, {"name": "[bold]", "value": "nan"}]
    said = shown({"progress": {**RUNNING["progress"], "metrics": metrics}})
    assert "metrics   accuracy 0.9   [bold] nan" in said
    assert "metrics" not in shown()


def test_the_runs_in_trackers_are_told() -> None:
    mlflow, wandb = "https://mlflow.example/#/experiments/0/runs/1", "https://wandb.ai/me/faces/runs/u-1"
    runs = [{"tracker": "mlflow", "url": mlflow}, {"tracker": "wandb", "url": wandb}]
    lines = [line.strip() for line in shown({"tracking": runs}).splitlines()]
    assert {f"mlflow    {mlflow}", f"wandb     {wandb}"} <= set(lines)
    assert "wandb" not in shown()


def test_a_folder_says_what_the_next_start_puts_back() -> None:
    folder = {**running_job().spec.checkpoint.model_dump(by_alias=True, exclude_unset=True), "folder": "/outputs"}
    assert "start     the next start puts back all of /outputs, 37.2 MiB" in shown(checkpoint=folder)
    over = {"phase": "Completed", "current": None}
    assert "the next start" not in shown() + shown(over, checkpoint=folder) + shown({"checkpoint": None})


def test_events_are_not_cut() -> None:
    assert shown().replace("\n", " ").count("it will") == 20


def test_what_happens_next_is_what_the_operator_says() -> None:
    assert "The job waits for x." in shown({"next": "The job waits for x."})
    assert "has not read the job yet" in shown({"next": None})


def test_a_job_that_will_be_deleted_says_when() -> None:
    over = {"phase": "Completed", "current": None, "finishedAt": "2026-11-21T09:02:00Z"}
    assert "The object is deleted at 2026-11-21 10:02" in shown(over, ttlAfterFinished="1h")


def test_a_job_without_failures_has_no_last_words() -> None:
    assert "LAST WORDS" not in shown({"history": RUNNING["history"][:1]})


# Breaks if a program without the library is said to have lost no step, or to have no checkpoint.
def test_what_is_not_known_of_a_program_without_the_library_is_not_told() -> None:
    record = {
        "number": 2, "tier": "spot", "kind": "Interruption", "reason": "NodeGone", "raisedAt": "2026-11-21T09:00:00Z",
        "endedAt": "2026-11-21T09:01:00Z", "firstStep": 1, "lastStep": 120, "secondsLost": "40s",
    }  # fmt: skip
    ledger = {**RUNNING["ledger"], "uncountedRestarts": 1, "stepsLost": 0, "goodput": None, "secondsLost": "40s"}
    text = " ".join(shown({"checkpoint": None, "ledger": ledger, "history": [record]}).split())
    assert "not known to Holdfast" in text
    assert "steps done twice are not known, 40.0s without training" in text
    assert " 40.0s " in text
    assert not any(word in text for word in ("0 steps", "goodput", "of training done twice", "none yet"))


# Breaks if a program that tells no steps is said to have done none of them twice.
def test_a_program_that_tells_no_steps() -> None:
    ledger = {**RUNNING["ledger"], "stepsLost": 0, "goodput": None, "byTier": []}
    assert "0 steps done twice" not in shown({"checkpoint": None, "ledger": ledger})
    assert "0 steps done twice" in shown({"checkpoint": None, "ledger": ledger, "fenced_program": "known"})


# Breaks if a job whose next attempt has not made a step yet is said to have done no step twice.
def test_what_the_last_interruption_costs_is_not_known_before_the_first_step_after_it() -> None:
    record = {
        "number": 2, "tier": "spot", "kind": "Interruption", "reason": "NodeGone", "raisedAt": "2026-11-21T09:00:00Z",
        "endedAt": "2026-11-21T09:01:00Z", "firstStep": 1, "lastStep": 120,
    }  # fmt: skip
    assert "7 steps done twice before the last interruption, " in shown({"history": [record]})
    assert "7 steps done twice, " in shown({"history": [{**record, "secondsLost": "40s"}]})
    assert "7 steps done twice, " in shown({"history": [{**record, "kind": "Completed"}]})
