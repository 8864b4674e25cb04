"""What is said of a job that makes a package."""

import copy
from typing import Any

import pytest
from tests.support.manifests.observed_jobs import raw_job

from holdfast.api.objects import TrainingJob
from holdfast_cli.packages.waiting import doing, why_failed


def job(**status: Any) -> TrainingJob:
    return TrainingJob.parse({**copy.deepcopy(raw_job()), "status": status})


# Breaks if a person cannot see why nothing happens.
@pytest.mark.parametrize(
    ("status", "said"),
    [
        ({}, "job: the operator has not seen it yet"),
        ({"phase": "Acquiring", "reason": "no node of tier cpu"}, "job: Acquiring: no node of tier cpu"),
        ({"phase": "Starting", "tier": "cpu", "node": "n1"}, "job: Starting on cpu, node n1"),
        (
            {"phase": "Running", "tier": "cpu", "node": "n1", "progress": {"step": 3, "steps": 9}},
            "job: step 3 of 9 on cpu, node n1",
        ),
    ],
    ids=["new", "acquiring", "starting", "running"],
)
def test_what_it_does(status: dict[str, Any], said: str) -> None:
    assert doing(job(**status)) == said


def test_why_it_failed() -> None:
    assert why_failed(job(phase="Failed", reason="ExitCode")) == "ExitCode"
    assert why_failed(job(phase="Failed")) == "the reason is not known"
