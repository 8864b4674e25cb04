"""The state of a job on one line."""

from datetime import UTC, datetime

from tests.support.manifests.observed_jobs import RUNNING, raw_job, running_job

from holdfast.api.objects import TrainingJob
from holdfast_cli.jobs.state_line import state_line

NOW = datetime(2026, 11, 21, 9, 3, tzinfo=UTC)


# Breaks if a part that is known is missing.
def test_all_parts() -> None:
    current = {**RUNNING["current"], "nodes": 4, "pods": []}
    found = running_job({"current": current, "restarts": {"interruptions": 1200}})
    assert state_line(found, NOW).plain == (
        "Running · dedicated · 4 nodes · step 250 / 1,000 (25.0%) · ETA 2m00s · 12.35 spent · 1,200 interruptions"
    )


# Breaks if a job of which little is known shows empty parts, or a budget is shown only once money is spent.
def test_unknown_parts_are_left_out() -> None:
    new = TrainingJob.parse(raw_job(status={}, goal={"time": "3h"}))
    assert state_line(new, NOW).plain == "New"
    tiers = raw_job()["spec"]["capacity"]["tiers"]
    waits = TrainingJob.parse(raw_job(status={"phase": "Acquiring"}, capacity={"tiers": tiers, "budget": "50"}))
    assert state_line(waits, NOW).plain == "Acquiring · step 0 / 1,000 (0.0%) · 0.00 of 50.00 spent"


# Breaks if a job that is over is shown with a time that is left, or on nodes that it does not have any more.
def test_a_job_that_is_over() -> None:
    over = running_job({"phase": "Failed", "current": None})
    assert state_line(over, NOW).plain == "Failed · step 250 / 1,000 (25.0%) · 12.35 spent · 1 interruption"
