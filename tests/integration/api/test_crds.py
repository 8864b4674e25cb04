"""The CRDs on a real API server: installed, explained, filled in, and readable across versions."""

import copy
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.integration.api.conftest import ROOT, Server
from tests.support.cluster.local_cluster import apply, get
from tests.support.manifests.good_manifests import GOOD, GOOD_PROFILE, changed
from tests.support.waiting import wait_for

from holdfast.api import crds
from holdfast.api.model import merge_patch
from holdfast.api.names import API_VERSION, JOB_PLURAL
from holdfast.api.objects import TrainingJob
from holdfast.api.profile import CapacityProfileStatus
from holdfast.api.review import is_ours
from holdfast.api.status import Phase, Progress, TrainingJobStatus
from holdfast_cli.check.manifests import read
from holdfast_local.errors import LocalError

pytestmark = pytest.mark.cluster


def _job_path(namespace: str, name: str = "", sub: str = "") -> str:
    return "/".join(filter(None, (f"/apis/{API_VERSION}/namespaces/{namespace}/{JOB_PLURAL}", name, sub)))


def test_the_crds_are_established_and_structural(server: Server) -> None:
    for manifest in crds.manifests():
        name = manifest["metadata"]["name"]
        found = server.ask("GET", f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{name}")
        conditions = {c["type"]: c["status"] for c in found["status"]["conditions"]}
        assert conditions["Established"] == conditions["NamesAccepted"] == "True"
        assert conditions.get("NonStructuralSchema", "False") == "False"


def test_the_server_stores_the_schema_as_it_was_written(server: Server) -> None:
    """Breaks if the converter writes what the server drops or normalises: every upgrade would show a change."""
    for manifest in crds.manifests():
        path = f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{manifest['metadata']['name']}"
        assert server.ask("GET", path)["spec"]["versions"][0]["schema"] == manifest["spec"]["versions"][0]["schema"]


@pytest.mark.parametrize(
    ("field", "words"),
    [
        ("trainingjob", "through preemptions"),
        ("trainingjob.spec.capacity.tiers.acquireTimeout", "before the next tier is tried"),
        ("tj.spec.trainer.env.valueFrom.secretKeyRef.key", "Key in the Secret or ConfigMap"),
        ("trainingjob.status.restarts.interruptions", "Attempts that ended by a preemption"),
        ("trainingjob.spec.capacity.deadline", "DeadlineAtRisk says whether the job will miss it"),
        ("trainingjob.status.tiers.start", "to the first step"),
        ("capprof.spec.tiers.runtimeClassName", "RuntimeClass of the pods"),
        ("capprof.status.tiers.acquire.worst", "The longest of all measured durations"),
    ],
)
def test_fields_are_explained(server: Server, field: str, words: str) -> None:
    assert words in " ".join(server.cluster.kubectl("explain", field).split())


def test_good_manifests_are_accepted_and_filled_in(server: Server, namespace: str) -> None:
    apply(server.cluster, GOOD, namespace=namespace)
    spec = get(server.cluster, "trainingjob/good", namespace)["spec"]
    assert spec["trainer"]["acceleratorsPerNode"] == 1
    assert spec["checkpoint"]["every"] == "10m"
    assert spec["checkpoint"]["gracePeriod"] == "1m40s"
    assert spec["checkpoint"]["keep"] == {"last": 3, "logs": True}
    assert spec["checkpoint"]["storage"]["s3"]["region"] == "us-east-1"
    limits = {"maxFailures": 3, "maxFruitless": 20, "window": "1d"}
    actions = {"nonFinite": "Rollback", "slowRanks": {"action": "Tell", "window": "5m"}, "stallTimeout": "Auto"}
    assert spec["failure"] == {**limits, **actions, "silentNode": "Auto"}
    assert spec["capacity"]["policy"] == "Ordered"
    assert spec["suspend"] is False


def test_the_server_and_python_fill_in_the_same(server: Server, namespace: str) -> None:
    apply(server.cluster, GOOD, namespace=namespace)
    stored = get(server.cluster, "trainingjob/good", namespace)
    assert TrainingJob.parse(stored).spec == TrainingJob.parse(GOOD).spec


def test_what_holdfast_writes_is_accepted(server: Server, namespace: str) -> None:
    written = TrainingJob.parse(GOOD).to_object()
    body = {**written, "metadata": {"name": "written"}}
    server.ask("POST", _job_path(namespace), body=body, params={"fieldValidation": "Strict"})


def test_a_profile_is_accepted(server: Server) -> None:
    body, path = GOOD_PROFILE, f"/apis/{API_VERSION}/capacityprofiles"
    server.ask("POST", path, body=body, params={"fieldValidation": "Strict", "dryRun": "All"})


@pytest.mark.parametrize("example", sorted((ROOT / "examples").glob("*.yaml")), ids=lambda path: path.name)
def test_examples_are_accepted(server: Server, namespace: str, example: Path) -> None:
    """Only what is Holdfast's: the rest of an example may need what this namespace has not."""
    for manifest in filter(is_ours, read(example)):
        manifest["metadata"].pop("namespace", None)
        server.cluster.kubectl(
            "create", "--validate=strict", "--dry-run=server", "-n", namespace, "-f", "-", stdin=json.dumps(manifest)
        )


def test_unknown_fields_are_refused_by_kubectl_too(server: Server, namespace: str) -> None:
    text = json.dumps(changed(GOOD, {"spec/trainer/comand": ["x"]}))
    with pytest.raises(LocalError, match=r"unknown field .*spec\.trainer\.comand"):
        server.cluster.kubectl("create", "--validate=strict", "-n", namespace, "-f", "-", stdin=text)


def test_columns_show_the_status(server: Server, namespace: str) -> None:
    apply(server.cluster, GOOD, namespace=namespace)
    status = TrainingJobStatus(
        phase=Phase.RUNNING, tier="spot", ready_nodes="3/4", reason="training",
        progress=Progress(step=48210, percent="48.2", loss="2.113"),
    )  # fmt: skip
    server.ask("PATCH", _job_path(namespace, "good", "status"), body={"status": status.to_object()})
    header, row = server.cluster.kubectl("get", "tj", "-n", namespace).splitlines()
    assert header.split() == [
        "NAME",
        "PHASE",
        "TIER",
        "NODES",
        "STEP",
        "PERCENT",
        "ETA",
        "COST",
        "EXPECTED",
        "SAVINGS",
        "SLACK",
        "INTERRUPTIONS",
        "AGE",
    ]
    assert row.split()[:6] == ["good", "Running", "spot", "3/4", "48210", "48.2"]
    wide = server.cluster.kubectl("get", "training", "-n", namespace, "-o", "wide")
    assert "LOSS" in wide
    assert "2.113" in wide


def test_columns_of_a_profile_show_which_tiers_are_up(server: Server) -> None:
    apply(server.cluster, GOOD_PROFILE)
    status = CapacityProfileStatus(up="spot, cpu", out="v100", seen_at=datetime.now(UTC) - timedelta(hours=3))
    path = f"/apis/{API_VERSION}/capacityprofiles/good/status"
    server.ask("PATCH", path, body={"status": status.to_object()}, params={"fieldValidation": "Strict"})
    header, row = server.cluster.kubectl("get", "capprof", "-o", "wide").splitlines()
    server.cluster.kubectl("delete", "capprof", "good")
    assert header.split() == ["NAME", "FIRST", "AGE", "UP", "OUT", "SEEN"]
    assert row.split()[:2] == ["good", "spot"]
    assert row.split()[3:] == ["spot,", "cpu", "v100", "3h"]


def test_a_full_status_comes_back_as_it_was(server: Server, namespace: str) -> None:
    """Breaks if the status schema is narrower than the model: the operator could not write its own memory."""
    apply(server.cluster, GOOD, namespace=namespace)
    status = TrainingJobStatus.model_validate(FULL_STATUS)
    path = _job_path(namespace, "good", "status")
    server.ask("PATCH", path, body={"status": status.to_object()}, params={"fieldValidation": "Strict"})
    stored = get(server.cluster, "trainingjob/good", namespace)
    assert stored["status"] == status.to_object()
    assert TrainingJob.parse(stored).status == status


def test_a_patch_preserves_fields_of_a_newer_version(server: Server, namespace: str) -> None:
    """An operator of today works on objects of a CRD of tomorrow, and takes nothing away."""
    newer = copy.deepcopy(crds.manifests()[0])
    schema = newer["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]
    for part in ("spec", "status"):
        schema[part]["properties"]["fromTheFuture"] = {"type": "string", "maxLength": 9}
    apply(server.cluster, newer)
    job = changed(GOOD, {"spec/fromTheFuture": "a"})
    path = _job_path(namespace, "good", "status")

    def stored() -> bool:
        # The new schema is served some moments after it was accepted.
        server.ask("PATCH", path, body={"status": {"fromTheFuture": "b"}})
        return bool(server.ask("GET", path)["status"].get("fromTheFuture"))

    apply(server.cluster, GOOD, namespace=namespace)
    wait_for(stored, 30, "the newer schema to be served")
    apply(server.cluster, job, namespace=namespace)

    before = TrainingJob.parse(server.ask("GET", path))
    after = before.status.model_copy(update={"attempt": 4, "tier": "spot"})
    server.ask("PATCH", path, body={"status": merge_patch(before.status, after)})

    found = server.ask("GET", path)
    assert (found["spec"]["fromTheFuture"], found["status"]["fromTheFuture"]) == ("a", "b")
    assert TrainingJob.parse(found).status == after


_AT = "2026-11-21T09:00:00.123456Z"
FULL_STATUS: dict[str, Any] = {
    "observedGeneration": 2,
    "phase": "Migrating",
    "conditions": [
        {"type": "Suspended", "status": "False", "reason": "Running", "message": "m" * 4096, "lastTransitionTime": _AT}
    ],
    "attempt": 3,
    "current": {
        "number": 3,
        "state": "Draining",
        "tier": {
            "name": "spot",
            "kind": "Spot",
            "accelerator": "nvidia.com/gpu",
            "nodeSelector": {"a": "b"},
            "tolerations": [{"key": "a", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 30}],
            "pricePerNodeHour": "3.060000",
            "acquireTimeout": "5m",
            "priorityClassName": "low",
            "schedulerName": "packs",
            "extraResources": {"rdma/hca": "1"},
        },
        "raisedAt": _AT,
        "pods": [{"rank": 0, "uid": "u", "node": "n", "nodeUid": "v"}],
        "fenced": True,
        "drain": {"order": 1, "reason": "SpotNotice", "at": _AT, "deadline": _AT, "kind": "Interruption"},
        "avoidNodes": ["n"],
        "acquireDeadline": _AT,
    },
    "tier": "spot",
    "node": "n",
    "reason": "saves and leaves",
    "decision": {"action": "Run", "message": "cheapest", "at": _AT},
    "progress": {"step": 5, "steps": 10, "percent": "50.0", "eta": _AT, "loss": "2.113", "samplesPerSecond": "12.5"},
    "checkpoint": {"step": 5, "uri": "s3://runs/a/manifests/5.json", "bytes": 2**40, "committedAt": _AT},
    "restarts": {"interruptions": 2, "infrastructure": 0, "failures": 0},
    "failedAt": [_AT],
    "ledger": {"foldedThrough": 0, "attempts": 2, "stepsLost": 7, "secondsLost": "1m2s345ms678us"},
    "history": [
        {
            "number": number,
            "tier": "spot",
            "kind": "Interruption",
            "reason": "SpotNotice",
            "raisedAt": _AT,
            "endedAt": _AT,
            "secondsLost": "12s",
        }
        for number in (1, 2)
    ],
    "requests": {"checkpoint": "1", "move": "2", "orders": 1},
    "startedAt": _AT,
    "suspendedFor": "0s",
}
