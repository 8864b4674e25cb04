"""What the API server refuses, and in which words."""

from typing import Any

import pytest
from tests.integration.api.conftest import Server
from tests.support.cluster.local_cluster import apply
from tests.support.manifests.bad_manifests import BAD
from tests.support.manifests.good_manifests import GOOD, REMOVED, TIER, Bad, changed

from holdfast.api.names import API_VERSION, JOB_PLURAL, PROFILE_PLURAL
from holdfast.api.review import review
from holdfast.runtime.errors import ApiError

pytestmark = pytest.mark.cluster

DRY_RUN = {"dryRun": "All", "fieldValidation": "Strict"}
DEFAULT = f"/apis/{API_VERSION}/namespaces/default/{JOB_PLURAL}"
PROFILES = f"/apis/{API_VERSION}/{PROFILE_PLURAL}"


@pytest.fixture(scope="module")
def refusals(server: Server) -> dict[str, Any]:
    """What the server says to each bad manifest."""
    requests = [
        ("POST", PROFILES if bad.profile else DEFAULT, {"body": bad.manifest(), "params": DRY_RUN}) for bad in BAD
    ]
    return dict(zip((bad.name for bad in BAD), server.ask_all(requests, refused=True), strict=True))


def test_the_table_is_long_enough_and_names_each_mistake_once() -> None:
    assert len({bad.name for bad in BAD}) == len(BAD) >= 40


@pytest.mark.parametrize("bad", BAD, ids=lambda bad: bad.name)
def test_a_bad_manifest_is_refused_with_field_value_and_what_is_allowed(bad: Bad, refusals: dict[str, Any]) -> None:
    answer = refusals[bad.name]
    assert isinstance(answer, str), "the API server accepted it"
    for part in (bad.field, bad.value, bad.allowed):
        assert part in answer


# Values next to a bound, and odd forms: the server and Python must agree on each of them.
BORDER: tuple[dict[str, Any], ...] = (
    {"metadata/name": "j" * 40},
    {"metadata/name": "1"},
    {"spec/trainer/data": [{"from": "s3://datasets/a", "to": "/data"}]},
    {"spec/trainer/data": [{"from": "s3://datasets/a", "to": "/data/a"}, {"from": "s3://sets/a/b", "to": "/data/ab"}]},
    {"spec/trainer/data": [{"from": "s3://datasets/a", "to": "/holdfaster", "s3": {}}]},
    {"spec/checkpoint/gracePeriod": "1s"},
    {"spec/checkpoint/gracePeriod": "1h"},
    {"spec/checkpoint/gracePeriod": "3600000ms"},
    {"spec/checkpoint/gracePeriod": "3600001ms"},
    {"spec/checkpoint/gracePeriod": "0d1h"},
    {"spec/checkpoint/gracePeriod": "1d"},
    {"spec/activeDeadline": "3650d"},
    {"spec/activeDeadline": "3649d23h59m60s"},
    {"spec/activeDeadline": "3650d1us"},
    {"spec/activeDeadline": "90d12h"},
    {"spec/checkpoint/every": "7d"},
    {"spec/checkpoint/every": "6d24h1ms"},
    {"spec/checkpoint/every": "auto"},
    {"spec/checkpoint/every": "auto ", "spec/checkpoint/maxLostWork": "1s"},
    {"spec/checkpoint/every": "auto", "spec/checkpoint/maxLostWork": "1s"},
    {"spec/checkpoint/every": "auto", "spec/checkpoint/maxLostWork": "999ms"},
    {"spec/checkpoint/every": "5 steps", "spec/checkpoint/maxLostWork": "7d"},
    {"spec/checkpoint/every": "5 steps", "spec/checkpoint/maxLostWork": "7d1ms"},
    {"spec/checkpoint/maxLostWork": "10m"},
    {"spec/progress": {"patterns": ["tqdm", "lightning", '{{"step": {step}}}', "step {step}/{total}*loss={loss}"]}},
    {"spec/progress": {"patterns": ["{step}"] * 9}},
    {"spec/progress": {"patterns": ["{step}{total}"]}},
    {"spec/progress": {"patterns": ["{steps}"]}},
    {"spec/progress": {"patterns": ["step"]}},
    {"spec/progress": {"patterns": ["{step}\n"]}},
    {"spec/progress": {"patterns": ["{step" + "}" * 252]}},
    {"spec/checkpoint/uploadRate": "1M"},
    {"spec/checkpoint/uploadRate": 1000000},
    {"spec/checkpoint/uploadRate": 999999},
    {"spec/checkpoint/uploadRate": "976562500n"},
    {"spec/checkpoint/uploadRate": "0"},
    {"spec/checkpoint/maxLostWork": "9m59s999ms"},
    {"spec/checkpoint/every": "1d1us", "spec/checkpoint/maxLostWork": "24h"},
    {"spec/checkpoint/every": "1d1us", "spec/checkpoint/maxLostWork": "24h1us"},
    {"spec/checkpoint/every": "47h59m60s", "spec/checkpoint/maxLostWork": "2d"},
    {"spec/checkpoint/every": "48h1us", "spec/checkpoint/maxLostWork": "2d"},
    {"spec/checkpoint/every": "1500ms", "spec/checkpoint/maxLostWork": "1s500ms"},
    {"spec/checkpoint/keep": {"best": {"metric": "eval/top-1.acc", "mode": "Max"}}},
    {"spec/checkpoint/keep": {"best": {"metric": "m" * 63, "mode": "Max", "count": 1000}}},
    {"spec/checkpoint/keep": {"best": {"metric": "m" * 64, "mode": "Max"}}},
    {"spec/checkpoint/keep": {"best": {"metric": "loss/", "mode": "Max"}}},
    {"spec/checkpoint/keep": {"best": {"metric": "loss"}}},
    {"spec/checkpoint/keep": {"best": {}}},
    {"spec/checkpoint/every": "1 step"},
    {"spec/checkpoint/every": "999999999 steps"},
    {"spec/checkpoint/every": "1000000000 steps"},
    {"spec/ttlAfterFinished": "0s"},
    {"spec/trainer/resources": {"cpu": 0, "memory": "1"}},
    {"spec/trainer/resources": {"memory": 2**53 - 1}},
    {"spec/trainer/resources": {"memory": 2**53}},
    {"spec/trainer/resources": {"cpu": "0.000", "memory": "1"}},
    {"spec/trainer/resources": {"cpu": "100n", "memory": "1E"}},
    {"spec/trainer/resources": {"cpu": ".5", "memory": "1e3"}},
    {"spec/trainer/resources": {"cpu": "5.", "memory": "+1Gi"}},
    {"spec/trainer/volumes": [{"name": "a", "mountPath": "/holdfastly", "emptyDir": {}}]},
    {"spec/trainer/volumes": [{"name": "a", "mountPath": "/root/.cache", "emptyDir": {"sizeLimit": 1}}]},
    {"spec/trainer/env": [{"name": "HOLDFAST", "value": ""}]},
    {"spec/trainer/env": [{"name": "A"}]},
    {"spec/trainer/envFrom": [{"prefix": "", "secretRef": {"name": "a"}}]},
    {"spec/trainer/image": "bild:größe"},
    {"spec/trainer/command": []},
    {"spec/trainer/acceleratorsPerNode": 0, "spec/capacity/tiers/0/accelerator": REMOVED},
    {"spec/capacity/tiers": [{"name": "cpu", "kind": "CPU"}]},
    {"spec/capacity": {"profile": "default"}},
    {"spec/capacity": {"profile": "default", "tiers": []}},
    {"spec/capacity/tiers/0/pricePerNodeHour": 3},
    {"spec/capacity/tiers/0/pricePerNodeHour": 999_999_999_999},
    {"spec/capacity/tiers/0/pricePerNodeHour": 1_000_000_000_000},
    {"spec/capacity/tiers/0/pricePerNodeHour": "0.000001"},
    {"spec/capacity/tiers/0/pricePerNodeHour": "0.0000001"},
    {"spec/capacity/tiers/0/nodeSelector": {"a/b": ""}},
    {"spec/capacity/tiers/0/nodeSelector": {"A/b": ""}},
    {"spec/capacity/tiers/0/tolerations": [{"key": "a", "operator": "Exists"}, {"key": "node-role.example/x"}]},
    {"spec/trainer/volumes": [{"name": "a", "mountPath": "/dev/shm", "emptyDir": {"medium": "Memory"}}]},
    {"spec/trainer/volumes": [{"name": "a", "mountPath": "/devices", "emptyDir": {}}]},
    {"spec/trainer/securityContext": {"readOnlyRootFilesystem": True}},
    {"spec/checkpoint/resume": "s3://runs/vision/vit/manifests/000000000500-a1-x.json"},
    {"spec/checkpoint/resume": "file:///mnt/a"},
    {"spec/checkpoint/resume": {"from": "file:///mnt/a", "only": ["model", "_ema2"]}},
    {"spec/checkpoint/resume": {"from": "file:///mnt/a", "only": ["a.b"]}},
    {"spec/checkpoint/resume": {"only": ["model"]}},
    {"spec/checkpoint/resume": {}},
    {"spec/checkpoint/resume": True},
    {"spec/checkpoint/resume": ["s3://runs/a"]},
    {"spec/checkpoint/storage/s3/endpoint": "http://[::1]:9000"},
    {"spec/checkpoint/storage/s3/endpoint": "http://127.0.0.1:9000/s3"},
    {"spec/checkpoint/storage/s3/prefix": ".hidden/a=b"},
    {"spec/checkpoint/storage/s3/prefix": "a/..b"},
    {"spec/goal": {"steps": 2**53 - 1}},
    {"spec/capacity/deadline": "2000-01-01T00:00:00Z"},  # is over, and accepted
    {"spec/capacity/deadline": "2999-12-31T23:59:59.999999999-23:59"},
    {"spec/capacity/deadline": "1999-12-31T23:59:59Z"},
    {"spec/capacity/deadline": "2027-01-31t00:00:00z"},
    {"spec/capacity/deadline": "2027-01-31T24:00:00Z"},
    {"spec/capacity/deadline": "2027-01-31T23:59:60Z"},
    {"spec/capacity/deadline": "2027-01-31T00:00:00+24:00"},
    {"spec/capacity/deadline": "2027-01-31 00:00:00Z"},
    {"spec/capacity/budget": 0},
    {"spec/capacity/budget": "999999999999.999999"},
    {"spec/capacity/budget": 1_000_000_000_000},
    {"spec/capacity/maxOverlap": "1m"},
    {"spec/capacity/maxOverlap": "59s"},
    {"spec/capacity/maxOverlap": "24h"},
    {"spec/capacity/maxOverlap": "24h1ms"},
    {"spec/goal": {"steps": 2**53}},
)


def test_the_server_and_python_agree_on_every_border(server: Server) -> None:
    manifests = [changed(GOOD, change) for change in BORDER]
    answers = server.ask_all(
        [("POST", DEFAULT, {"body": manifest, "params": DRY_RUN}) for manifest in manifests], refused=True
    )
    disagreed = [
        (change, answer if isinstance(answer, str) else "accepted", [problem.line for problem in review(manifest)])
        for change, manifest, answer in zip(BORDER, manifests, answers, strict=True)
        if isinstance(answer, str) != bool(review(manifest))
    ]
    assert not disagreed


SUSPENDED = changed(GOOD, {"spec/suspend": True})
OTHER_IMAGE = {"spec/trainer/image": "registry.example/train:2"}
OTHER_STORAGE = {"spec/checkpoint/storage/s3/prefix": "vision/other"}


@pytest.mark.parametrize(
    ("change", "field", "words"),
    [
        (OTHER_IMAGE, "spec.trainer", "got another trainer (image registry.example/train:2)"),
        ({"spec/trainer/args": ["--lr=1"]}, "spec.trainer", "trainer must not change while the job runs"),
        (OTHER_STORAGE, "spec.checkpoint.storage", "checkpoint.storage must not change while the job runs"),
    ],
)
def test_what_runs_is_fixed_while_the_job_runs(
    server: Server, namespace: str, change: dict[str, Any], field: str, words: str
) -> None:
    apply(server.cluster, GOOD, namespace=namespace)
    with pytest.raises(ApiError) as caught:
        _change(server, namespace, changed(GOOD, change))
    assert field in caught.value.message
    assert words in caught.value.message


@pytest.mark.parametrize("change", [OTHER_IMAGE, OTHER_STORAGE], ids=["trainer", "storage"])
def test_what_runs_may_change_in_suspension(server: Server, namespace: str, change: dict[str, Any]) -> None:
    apply(server.cluster, GOOD, namespace=namespace)
    _change(server, namespace, SUSPENDED)
    _change(server, namespace, changed(SUSPENDED, change))
    _change(server, namespace, changed(GOOD, change))


@pytest.mark.parametrize(
    "change",
    [
        {"spec/capacity/tiers": [TIER, {"name": "cpu", "kind": "CPU"}]},
        {"spec/capacity": {"profile": "default"}},
        {"spec/goal": {"steps": 9}},
        {"spec/checkpoint/every": "5m"},
        {"spec/checkpoint/every": "auto", "spec/checkpoint/maxLostWork": "5m"},
        {"spec/checkpoint/keep/best": {"metric": "loss", "mode": "Min"}},
        {"spec/failure": {"maxFailures": 0}},
        {"spec/activeDeadline": "90d"},
        {"spec/capacity/policy": "Deadline", "spec/capacity/deadline": "2027-01-31T00:00:00Z"},
        {"spec/capacity/policy": "Cheapest"},
        {"spec/capacity/budget": "5000"},
        {"spec/capacity/returnPolicy": "Never"},
        {"spec/capacity/maxOverlap": "5m"},
    ],
    ids=[
        "tiers",
        "profile",
        "goal",
        "every",
        "loss",
        "best",
        "failure",
        "active",
        "deadline",
        "policy",
        "budget",
        "return",
        "overlap",
    ],
)
def test_the_rest_may_change_at_any_time(server: Server, namespace: str, change: dict[str, Any]) -> None:
    apply(server.cluster, GOOD, namespace=namespace)
    _change(server, namespace, changed(GOOD, change))


def _change(server: Server, namespace: str, manifest: dict[str, Any]) -> None:
    """Put the manifest in the place of the stored job."""
    path = f"/apis/{API_VERSION}/namespaces/{namespace}/{JOB_PLURAL}/good"
    version = server.ask("GET", path)["metadata"]["resourceVersion"]
    body = changed(manifest, {"metadata/resourceVersion": version})
    server.ask("PUT", path, body=body, params={"fieldValidation": "Strict"})
