"""A run in the place of a job that has its name, against an API server with scripted answers."""

import asyncio
import copy
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.http.scripted_api_server import FakeApi, failure, fake_api, listing
from tests.support.manifests.observed_jobs import RUNNING, UID, raw_job

from holdfast.api.objects import TrainingJob
from holdfast.runtime.errors import ApiError
from holdfast_cli.cluster.connect import Target, connect
from holdfast_cli.errors import CliError
from holdfast_cli.run import submit

JOB = "/apis/holdfast.dev/v1alpha1/namespaces/demo/trainingjobs/job"
PODS = "/api/v1/namespaces/demo/pods"
JOBS = "/apis/holdfast.dev/v1alpha1/namespaces/demo/trainingjobs"
AT_REST: dict[str, Any] = {**RUNNING, "phase": "Suspended", "current": None, "observedGeneration": 2}


@pytest.fixture
def api(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeApi]:
    """A server with one running job, which is of generation 2 once it is suspended."""
    monkeypatch.setattr(submit, "LOOK_EVERY", 0.01)
    with fake_api() as server:
        monkeypatch.setenv("KUBECONFIG", str(server.kubeconfig(tmp_path / "config")))
        monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
        server.answers["GET", JOB] = raw_job()
        server.answers["PATCH", JOB] = lambda _: of_generation(2)
        yield server


def of_generation(number: int, status: dict[str, Any] | None = None) -> dict[str, Any]:
    found = raw_job(status=status or RUNNING, suspend=True)
    found["metadata"]["generation"] = number
    return found


def wanted() -> dict[str, Any]:
    found = raw_job()
    spec = {**copy.deepcopy(found["spec"]), "trainer": {"image": "registry.example/train:2", "command": ["x"]}}
    spec["trainer"]["code"] = {"sha256": "ab" * 32}
    metadata = {"name": "job", "namespace": "demo"}
    return {"apiVersion": found["apiVersion"], "kind": found["kind"], "metadata": metadata, "spec": spec}


async def go_on(manifest: dict[str, Any] | None = None) -> None:
    async with connect(Target(None, "demo")) as client:
        await submit.go_on(client, TrainingJob.parse(raw_job()), manifest or wanted())


def methods(api: FakeApi) -> list[str]:
    return [method for method, _, _ in api.requests if method != "GET"]


def one_after_the_other(*answers: dict[str, Any]) -> Callable[[Any], dict[str, Any]]:
    left = [*answers]
    return lambda _: left.pop(0) if len(left) > 1 else left[0]


# Breaks if the program of a job is changed while an attempt of it runs: phase Suspended may be of an earlier edit.
async def test_the_spec_is_changed_when_the_operator_has_suspended_the_job(api: FakeApi) -> None:
    early = of_generation(2, {**AT_REST, "observedGeneration": 1})
    api.answers["GET", JOB] = one_after_the_other(early, early, of_generation(2, AT_REST))
    written = list[Any]()
    api.answers["PATCH", JOB] = lambda body: written.append(body) or of_generation(2)
    await go_on()
    assert len([method for method, _, _ in api.requests if method == "GET"]) == 3
    tried, suspended, changed = written
    new = wanted()["spec"]
    new["trainer"]["code"]["dependencies"] = None  # those of the program before are not kept
    assert tried["spec"] == {**new, "suspend": True}
    assert suspended == {"spec": {"suspend": True}}
    assert changed == {"metadata": {"uid": UID}, "spec": {**new, "suspend": False}}


# Breaks if a job is suspended for a program that the cluster does not take.
async def test_what_is_refused_stops_nothing(api: FakeApi) -> None:
    api.answers["PATCH", JOB] = failure(400, "BadRequest", 'unknown field "spec.trainer.code"')
    with pytest.raises(CliError, match="is older than this command"):
        await go_on()
    assert methods(api) == ["PATCH"]


# Breaks if what a person has written into the job is lost with a run that does not say it.
def test_what_a_run_does_not_say_stays() -> None:
    old = {"failure": {"maxFailures": 9}, "trainer": {"image": "a", "volumes": [1]}, "goal": {"steps": 5}}
    assert submit.overlaid(old, {"trainer": {"image": "b"}, "goal": {}}) == {
        "failure": {"maxFailures": 9},
        "trainer": {"image": "b", "volumes": [1]},
        "goal": {"steps": 5},
    }


# Breaks if a new spec is written into a job that can never train again.
async def test_a_job_that_completes_meanwhile(api: FakeApi) -> None:
    api.answers["GET", JOB] = of_generation(2, {**AT_REST, "phase": "Completed"})
    with pytest.raises(CliError, match="no training is left to go on with"):
        await go_on()
    assert methods(api) == ["PATCH", "PATCH", "PATCH"]


# Breaks if a job stays suspended because the command was interrupted.
async def test_a_job_goes_on_if_the_command_is_interrupted(api: FakeApi) -> None:
    written = list[Any]()
    api.answers["PATCH", JOB] = lambda body: written.append(body) or of_generation(2)
    api.answers["GET", JOB] = of_generation(2)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.1):
            await go_on()
    assert written[-1] == {"metadata": {"uid": UID}, "spec": {"suspend": False}}


# Breaks if a job is deleted for a new one that the cluster does not take.
async def test_nothing_is_deleted_for_a_job_that_is_refused(api: FakeApi) -> None:
    api.answers["POST", JOBS] = failure(422, "Invalid", "spec.trainer.image: too long")
    async with connect(Target(None, "demo")) as client:
        with pytest.raises(ApiError, match="too long"):
            await submit.begin_anew(client, TrainingJob.parse(raw_job()), wanted())
    assert methods(api) == ["POST"]


# Breaks if two runs of one name at once end in words that nobody understands.
async def test_two_runs_of_one_name(api: FakeApi) -> None:
    api.answers["POST", JOBS] = failure(409, "AlreadyExists", "already exists")
    async with connect(Target(None, "demo")) as client:
        with pytest.raises(CliError, match="a job job exists"):
            await submit.create(client, wanted())


async def test_a_job_that_is_deleted_meanwhile(api: FakeApi) -> None:
    api.answers["GET", JOB] = failure(404, "NotFound", "not found")
    with pytest.raises(CliError, match="was deleted meanwhile"):
        await go_on()


# Breaks if a job that fails while it is suspended keeps its name, and nothing trains.
async def test_a_job_that_fails_meanwhile_is_made_anew(api: FakeApi) -> None:
    failed = of_generation(2, {**AT_REST, "phase": "Failed"})
    api.answers["GET", JOB] = one_after_the_other(failed, failure(404, "NotFound", "not found"))
    api.answers["DELETE", JOB] = {}
    api.answers["GET", PODS] = listing()
    api.answers["POST", JOBS] = wanted()
    await go_on()
    assert methods(api) == ["PATCH", "PATCH", "POST", "DELETE", "POST"]
    # Breaks if the new job begins while pods of the old one still save.
    assert [(method, path) for method, path, _ in api.requests][-2:] == [("GET", PODS), ("POST", JOBS)]


# Breaks if "go on" begins at step 0, because the run names another storage than the job has.
def test_another_storage_has_no_checkpoints_to_go_on_with() -> None:
    manifest = wanted()
    submit.check_goes_on(TrainingJob.parse(raw_job()), manifest)
    manifest["spec"]["checkpoint"]["storage"]["s3"]["prefix"] = "other/demo/job"
    with pytest.raises(CliError, match="has its checkpoints in s3://runs/demo/job, and this run would look"):
        submit.check_goes_on(TrainingJob.parse(raw_job()), manifest)
