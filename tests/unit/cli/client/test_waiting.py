"""What a program waits for, and what ends the wait."""

from pathlib import Path
from typing import Any

import pytest
from tests.support.http.scripted_api_server import FakeApi, fake_api, listing
from tests.support.manifests.observed_jobs import UID, raw_job

from holdfast import Client, HoldfastError, Job, JobFailedError, JobGoneError, WaitTimeoutError
from holdfast.api.errors import ExitCode
from holdfast.api.objects import TrainingJob
from holdfast_cli.client.waiting import Goal
from holdfast_cli.errors import CliError

JOBS = "/apis/holdfast.dev/v1alpha1/namespaces/demo/trainingjobs"
FAILED = {
    "phase": "Failed",
    "reason": "TooManyFailures",
    "conditions": [
        {
            "type": "Failed",
            "status": "True",
            "reason": "TooManyFailures",
            "message": "3 failures, the last one with exit code 1",
            "lastTransitionTime": "2026-11-21T09:01:00Z",
        }
    ],
}


def a_job(**status: Any) -> dict[str, Any]:
    return {**raw_job(), "status": {"phase": "Running", **status}}


def changed(version: int, **status: Any) -> dict[str, Any]:
    raw = a_job(**status)
    return {"type": "MODIFIED", "object": {**raw, "metadata": {**raw["metadata"], "resourceVersion": str(version)}}}


def served(api: FakeApi, *events: dict[str, Any], first: dict[str, Any] | None = None) -> None:
    """The job as it is first, and what a watch says after it."""
    found = first or a_job()
    api.answers["GET", f"{JOBS}/job"] = found
    api.answers["GET", JOBS] = listing(found)
    api.watches[JOBS] = [list(events)]


def the_job(api: FakeApi, tmp_path: Path) -> Job:
    return Client(kubeconfig=api.kubeconfig(tmp_path / "config")).get("job")


@pytest.fixture(autouse=True)
def outside_a_pod(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)


# Breaks if a wait does not see a change of the job, or gives an old status.
def test_a_phase_is_waited_for(tmp_path: Path) -> None:
    with fake_api() as api:
        served(api, changed(2, progress={"step": 7}), changed(3, phase="Completed", progress={"step": 9}))
        assert the_job(api, tmp_path).wait().progress.step == 9


# Breaks if several phases, or a condition of the program's own, cannot be waited for.
@pytest.mark.parametrize("until", [("Failed", "Migrating"), lambda status: status.progress.step == 7])
def test_one_of_several_phases_or_a_condition(tmp_path: Path, until: Any) -> None:
    with fake_api() as api:
        served(api, changed(2, phase="Migrating", progress={"step": 7}))
        found = the_job(api, tmp_path).wait(until, timeout=60)
        assert (found.phase, found.progress.step) == ("Migrating", 7)


# Breaks if a program waits for ever for a job that has failed, or is not told why it has.
def test_a_job_that_fails_ends_the_wait(tmp_path: Path) -> None:
    with fake_api() as api:
        served(api, changed(2, **FAILED))
        with pytest.raises(JobFailedError, match="has failed: TooManyFailures: 3 failures, the last") as raised:
            the_job(api, tmp_path).wait(timeout=60)
        assert isinstance(raised.value, HoldfastError)
        assert raised.value.exit_code is ExitCode.FAILED


# Breaks if a program waits for ever for a phase that the job has behind it.
def test_a_job_that_is_over_never_runs() -> None:
    job = TrainingJob.parse(a_job(phase="Completed"))
    with pytest.raises(JobFailedError, match="job is Completed; Running or Suspended cannot come any more"):
        Goal(("Running", "Suspended")).judge(job)
    assert Goal("Failed").judge(TrainingJob.parse(a_job(**FAILED))) is not None
    assert Goal("Failed").judge(TrainingJob.parse(a_job())) is None


# Breaks if a deleted job is waited for, or if a new job of its name is taken for it.
@pytest.mark.parametrize("is_new", [False, True])
def test_a_job_that_is_deleted_ends_the_wait(tmp_path: Path, is_new: bool) -> None:
    with fake_api() as api:
        later = a_job(phase="Completed")
        later = {**later, "metadata": {**later["metadata"], "uid": UID.replace("1", "2")}}
        events = [{"type": "DELETED", "object": changed(2)["object"]}, {"type": "ADDED", "object": later}]
        served(api, *events[: 1 + is_new])
        job = the_job(api, tmp_path)
        with pytest.raises(JobGoneError, match=r"demo/job was deleted; it was Running") as raised:
            job.wait(timeout=60)
        assert raised.value.exit_code is ExitCode.NOT_FOUND
        api.answers["GET", f"{JOBS}/job"] = later
        with pytest.raises(JobGoneError, match="another job has its name"):
            _ = job.status


# Breaks if a wait does not end in time, or does not say what the job does now.
def test_time_is_up(tmp_path: Path) -> None:
    with fake_api() as api:
        served(api, first=a_job(phase="Acquiring", reason="NoCapacity"))
        job = the_job(api, tmp_path)
        with pytest.raises(WaitTimeoutError, match=r"job is Acquiring \(NoCapacity\) after 0.5 s; waited for Comp"):
            job.wait(timeout=0.5)
        with pytest.raises(TimeoutError):  # also as every program expects it
            job.wait(timeout=0.1)


# Breaks if an error of a program's own condition is hidden, or taken for the end of the time.
def test_a_condition_that_raises(tmp_path: Path) -> None:
    def asks(_: object) -> bool:
        raise TimeoutError("mine")

    with fake_api() as api:
        served(api)
        with pytest.raises(TimeoutError, match=r"^mine$") as raised:
            the_job(api, tmp_path).wait(asks, timeout=60)
        assert not isinstance(raised.value, HoldfastError)


# Breaks if a misspelled phase is waited for until the job is over.
@pytest.mark.parametrize("until", ["running", ("Running", "Ended"), ()])
def test_a_phase_that_does_not_exist(until: Any) -> None:
    with pytest.raises(CliError, match="phases are: Suspended, Acquiring") as raised:
        Goal(until)
    assert raised.value.exit_code is ExitCode.USAGE
