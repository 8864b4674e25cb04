"""`holdfast package` from the command line, against an API server with scripted answers and a storage in a folder."""

import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.support.http.scripted_api_server import FakeApi, fake_api
from tests.support.manifests.observed_jobs import raw_job
from typer.testing import CliRunner, Result

from holdfast_cli.errors import ExitCode
from holdfast_cli.main import app
from holdfast_cli.packages import command, waiting
from holdfast_train.storage.folder import FolderStorage
from holdfast_train.storage.retrying import RetryingStorage

JOBS = "/apis/holdfast.dev/v1alpha1/namespaces/demo/trainingjobs"
MADE = f"{JOBS}/job-package"
ARGS = ("package", "job", "--problem", "train:problem")
PLACE = "s3://runs/demo/job/packages/job-000000000240"
CHECKPOINT = "s3://runs/demo/job/manifests/000000000240-a3-x.json"
SUM = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"  # of abc
DOCUMENT = {
    "from": {"step": 240, "manifest": CHECKPOINT},
    "variants": {
        "onnx": {
            "model": "onnx/model.onnx",
            "files": {"onnx/model.onnx": {"bytes": 3, "sha256": SUM}},
            "tested": {"passed": True, "largest": "2e-07"},
        }
    },
}


class Cluster:
    """One job, and the job that packages it: `phases` are what it shows, one look after the other."""

    def __init__(self, api: FakeApi) -> None:
        self.api = api
        self.there: dict[str, Any] | None = None
        self.phases = ["Running", "Completed"]
        self.history: list[dict[str, Any]] = []
        api.answers = {
            ("GET", f"{JOBS}/job"): raw_job(),
            ("POST", JOBS): self._create,
            ("GET", MADE): self._look,
            ("DELETE", MADE): self._delete,
        }

    def _create(self, body: dict[str, Any] | None) -> dict[str, Any]:
        assert body is not None
        self.there = {**body, "metadata": {**body["metadata"], "uid": "new"}}
        return self.there

    def _look(self, _: Any) -> dict[str, Any]:
        if self.there is None:
            return {"kind": "Status", "code": 404, "reason": "NotFound", "message": "not found"}
        phase = self.phases.pop(0) if len(self.phases) > 1 else self.phases[0]
        status = {"phase": phase, "progress": {"step": 2, "steps": 9}, "tier": "cpu", "node": "n1"}
        return {**self.there, "status": {**status, "history": self.history}}

    def _delete(self, _: Any) -> dict[str, Any]:
        self.there = None
        return {}

    def asked(self, method: str) -> list[Any]:
        return [body for kind, _, body in self.api.requests if kind == method]


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    with fake_api() as server:
        monkeypatch.setenv("KUBECONFIG", str(server.kubeconfig(tmp_path / "config")))
        monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
        monkeypatch.setattr(waiting, "LOOK_EVERY", 0.01)
        yield Cluster(server)


@pytest.fixture
def stored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FolderStorage:
    """The storage that the package is read from."""
    (tmp_path / "s3").mkdir()
    storage = FolderStorage(tmp_path / "s3" / "package")

    async def opened(*_: Any) -> RetryingStorage:
        return RetryingStorage(storage)

    monkeypatch.setattr(command, "_storage", opened)
    return storage


def put(storage: FolderStorage, **more: Any) -> None:
    storage.put("onnx/model.onnx", b"abc")
    storage.put("package.json", json.dumps({**DOCUMENT, **more}).encode())


def holdfast(*args: str) -> Result:
    return CliRunner().invoke(app, list(args))


def test_print_creates_nothing(cluster: Cluster) -> None:
    convert = ("--convert", "tflite=to {pt2} {out}", "--run", "tflite=run {file}")
    result = holdfast(
        *ARGS, "--print", "--fix", "batch=1", "--variant", "onnx", "--name", "ema", "--cpu", "2", *convert
    )
    assert result.exit_code == 0, result.output
    trainer = yaml.safe_load(result.stdout)["spec"]["trainer"]
    assert trainer["command"] == [
        "holdfast-train", "package", CHECKPOINT, PLACE, "--problem=train:problem",
        "--name=ema", "--variant=onnx", "--fix=batch=1", "--convert=tflite=to {pt2} {out}", "--run=tflite=run {file}",
    ]  # fmt: skip
    assert trainer["resources"]["cpu"] == "2"
    assert json.loads(holdfast(*ARGS, "--print", "-o", "json").stdout)["metadata"]["name"] == "job-package"
    assert cluster.asked("POST") == []


# Breaks if the job is left behind, or if what is in the package is not said.
def test_the_package_is_waited_for_and_its_job_deleted(cluster: Cluster, stored: FolderStorage) -> None:
    put(stored)
    result = holdfast(*ARGS)
    assert result.exit_code == 0, result.output
    assert "job-package: step 2 of 9 on cpu, node n1" in result.stderr
    place, step, head, _, row = result.stdout.splitlines()
    assert (place, step) == (PLACE, "step 240")
    assert head.split() == ["VARIANT", "FILE", "SIZE", "DIFFERENCE", "AGREEMENT", "SCORE", "RESULT"]
    assert row.split() == ["onnx", "onnx/model.onnx", "3", "B", "2e-07", "-", "-", "accepted"]
    assert len(cluster.asked("DELETE")) == 1


def test_an_interruption_is_said_and_a_job_may_be_kept(cluster: Cluster, stored: FolderStorage) -> None:
    put(stored)
    cluster.history = [copy.deepcopy(raw_job()["status"]["history"][0])]
    result = holdfast(*ARGS, "--keep", "-o", "json")
    assert "attempt 1 ended: " in result.stderr
    assert json.loads(result.stdout)["address"] == PLACE
    assert cluster.asked("DELETE") == []


def test_to_a_folder_here(cluster: Cluster, stored: FolderStorage, tmp_path: Path) -> None:
    put(stored)
    result = holdfast(*ARGS, "--to", str(tmp_path / "here"))
    assert result.exit_code == 0, result.output
    assert (tmp_path / "here" / "onnx" / "model.onnx").read_bytes() == b"abc"
    assert "exists already" in holdfast(*ARGS, "--to", str(tmp_path / "here")).output


# Breaks if the command believes a completed job without looking for the package in the storage.
def test_a_job_that_completed_without_a_package(cluster: Cluster, stored: FolderStorage) -> None:
    result = holdfast(*ARGS)
    assert result.exit_code == ExitCode.NOT_FOUND
    assert "has no package.json, although job-package completed" in result.output
    assert cluster.asked("DELETE") == []


def test_a_variant_that_did_not_pass(cluster: Cluster, stored: FolderStorage) -> None:
    put(stored, failed={"onnx-int8": "accuracy is 0.4"})
    cluster.phases = ["Running", "Failed"]
    result = holdfast(*ARGS)
    assert result.exit_code == ExitCode.FAILED
    *_, row, why = result.stdout.splitlines()
    assert row.split() == ["onnx-int8", *"-----", "refused"]
    assert why == "onnx-int8 did not pass: accuracy is 0.4"


# Breaks if package.json, which may be a stranger's, drives the terminal, or has a number that no size can be.
def test_what_a_package_says_is_shown_as_text(cluster: Cluster, stored: FolderStorage) -> None:
    files = {"onnx/model.onnx": {"bytes": 10**4000}}
    evil = {"onnx\x1b[2J": {"files": files, "tested": {"passed": True, "largest": "0\nok"}}}
    put(stored, variants=evil, **{"from": {"step": 10**4000, "manifest": CHECKPOINT}})
    result = holdfast(*ARGS)
    assert result.exit_code == ExitCode.OK, result.output
    assert "step 0\n" in result.stdout
    assert "\x1b" not in result.stdout
    assert result.stdout.splitlines()[-1].split() == ["onnx?[2J", "-", "0", "B", "0", "ok", "-", "-", "accepted"]


# Breaks if a package of another checkpoint passes for the one that could not be made, or the logs are deleted.
def test_a_job_that_failed_stays(cluster: Cluster, stored: FolderStorage) -> None:
    cluster.phases = ["Failed"]
    cluster.history = [{**copy.deepcopy(raw_job()["status"]["history"][0]), "message": "no module named train"}]
    assert "job-package failed: no module named train" in holdfast(*ARGS).output
    cluster.there = None
    put(stored, **{"from": {"step": 1, "manifest": "s3://runs/demo/job/manifests/other.json"}}, failed={"pt2": "x"})
    assert "job-package failed: no module named train" in holdfast(*ARGS).output
    assert cluster.asked("DELETE") == []


def test_one_that_runs_is_not_replaced_and_one_that_is_over_is(cluster: Cluster) -> None:
    assert "created; holdfast watch job-package -n demo" in holdfast(*ARGS, "--no-wait").stderr
    cluster.phases = ["Running"]
    result = holdfast(*ARGS, "--no-wait")
    assert result.exit_code == ExitCode.FAILED
    assert "job-package makes a package already" in result.stderr
    cluster.phases = ["Failed"]
    assert holdfast(*ARGS, "--no-wait").exit_code == 0
    assert cluster.asked("DELETE") == [{"preconditions": {"uid": "new"}}]
    assert len(cluster.asked("POST")) == 2


# Breaks if a training that happens to have this name is deleted, with its history, because it is over.
def test_a_training_of_that_name_stays(cluster: Cluster) -> None:
    training = copy.deepcopy(raw_job())
    training["metadata"]["name"] = "job-package"
    training["status"]["phase"] = "Completed"
    cluster.api.answers["GET", MADE] = training
    result = holdfast(*ARGS)
    assert result.exit_code == ExitCode.FAILED
    assert "TrainingJob job-package exists, and does not make a package" in result.stderr
    assert cluster.asked("DELETE") == []


def test_no_outcome_in_time(cluster: Cluster) -> None:
    cluster.phases = ["Running"]
    assert "job-package is not over within 1 s; it goes on" in holdfast(*ARGS, "--timeout", "1").output


def changed(cluster: Cluster, **spec: Any) -> dict[str, Any]:
    raw = copy.deepcopy(raw_job())
    raw["spec"] |= spec
    cluster.api.answers["GET", f"{JOBS}/job"] = raw
    return raw


def test_what_cannot_be_packaged(cluster: Cluster, tmp_path: Path) -> None:
    assert "needs the wait" in holdfast(*ARGS, "--no-wait", "--to", str(tmp_path / "x")).output
    assert "lost with the pod; allowed: s3://, or a path" in holdfast(*ARGS, "--to", "file:///tmp/x").output
    assert "is not an address" in holdfast(*ARGS, "--to", "s3:///x").output
    changed(cluster)["status"].pop("checkpoint")
    assert holdfast(*ARGS).exit_code == ExitCode.NOT_FOUND
    claim = {"storage": {"volumeClaim": {"name": "runs", "path": "job"}}}
    changed(cluster, checkpoint=claim)
    assert "only pods can mount" in holdfast(*ARGS, "--to", str(tmp_path / "x")).output
    assert "only pods can mount" in holdfast(*ARGS, "--step", "5").output
    changed(cluster, checkpoint={**claim, "folder": "/outputs"})
    assert "saves files with checkpoint.folder" in holdfast(*ARGS).output
    assert holdfast("package", "other", "--problem", "a:b").exit_code == ExitCode.NOT_FOUND
    changed(cluster)
    assert "spec.trainer.resources.cpu" in holdfast(*ARGS, "--cpu", "many").output
    assert cluster.asked("POST") == []
