"""Parsing pods: which fields count, and that unusual objects do not fail."""

import pytest
from tests.support.decisions.snapshots import at

from holdfast.api.scalars import format_time
from holdfast.core.observe.pods import ContainerView, PodView

LABELS = {
    "holdfast.dev/job": "vit",
    "holdfast.dev/job-uid": "u-job",
    "holdfast.dev/attempt": "3",
    "holdfast.dev/rank": "0",
}


OWNER = {"uid": "u-job", "kind": "TrainingJob", "name": "vit", "controller": True}


def raw(labels=None, spec=None, status=None, **meta):
    labels = LABELS if labels is None else labels
    return {
        "metadata": {
            "name": "vit-3-0",
            "namespace": "vision",
            "uid": "u-3",
            "labels": labels,
            "ownerReferences": [OWNER],
            **meta,
        },
        "spec": spec or {},
        "status": status or {},
    }


def state(name, **what):
    return {"name": name, "state": what}


def test_a_fresh_pod():
    view = PodView.parse(raw(finalizers=["holdfast.dev/end-recorded"]))
    assert (view.attempt, view.rank, view.job_uid, view.phase, view.node) == (3, 0, "u-job", "Pending", None)
    assert view.finalized
    assert not view.ended


@pytest.mark.parametrize(
    "labels",
    [{}, {**LABELS, "holdfast.dev/attempt": "x"}, {**LABELS, "holdfast.dev/rank": "-1"},
     {**LABELS, "holdfast.dev/job": ""}],
)  # fmt: skip
def test_a_pod_that_is_not_ours(labels):
    assert PodView.parse(raw(labels)) is None


@pytest.mark.parametrize(("told", "outlives"), [(None, False), ("1", False), ("4", True), ("", False), ("x", False)])
def test_a_pod_of_several_nodes_outlives_attempts(told, outlives):
    """Breaks if a pod that a later attempt took over counts as gone once the record of its own attempt is dropped."""
    env = [{"name": "HOLDFAST_RANK", "value": "0"}, {"name": "HOLDFAST_NODES", "value": told}]
    containers = [{"name": "other"}, {"name": "trainer", "env": env if told is not None else env[:1]}]
    assert PodView.parse(raw(spec={"containers": containers})).outlives is outlives


@pytest.mark.parametrize("number", ["1000000000000", "٣", "03"])
def test_a_number_that_no_attempt_has(number):
    """Such a label would be the newest attempt for ever, or is not a number."""
    assert PodView.parse(raw({**LABELS, "holdfast.dev/attempt": number}, name=f"vit-{number}-0")) is None


@pytest.mark.parametrize(
    "meta",
    [
        {"name": "vit-3-0-copy"},
        {"ownerReferences": [{**OWNER, "uid": "u-other"}]},
        {"ownerReferences": [{**OWNER, "kind": "Job"}]},
        {"ownerReferences": [{**OWNER, "controller": False}]},
    ],
)
def test_a_copy_of_a_pod_is_not_ours(meta):
    assert PodView.parse(raw(**meta)) is None


def test_a_pod_that_outlives_its_job_belongs_to_none():
    """`kubectl delete --cascade=orphan` removes the owner; Holdfast's finalizer must still be removed in the end."""
    assert PodView.parse(raw(ownerReferences=[])).job_uid == ""


def test_the_phase_is_final_or_the_trainer_has_ended():
    sidecar = state("istio-proxy", running={"startedAt": format_time(at(0))})
    done = state("trainer", terminated={"exitCode": 0, "finishedAt": format_time(at(0))})
    assert PodView.parse(raw(status={"phase": "Running", "containerStatuses": [sidecar, done]})).ended
    assert not PodView.parse(raw(status={"phase": "Running", "containerStatuses": [sidecar]})).ended
    assert PodView.parse(raw(status={"phase": "Failed"})).ended


def test_a_pod_is_calm_until_it_ends_or_has_to_go():
    assert PodView.parse(raw(status={"phase": "Running"})).calm
    assert not PodView.parse(raw(status={"phase": "Failed"})).calm
    assert not PodView.parse(raw(deletionTimestamp=format_time(at(9)))).calm
    taken = [{"type": "DisruptionTarget", "status": "True", "reason": "DeletionByTaintManager"}]
    assert not PodView.parse(raw(status={"phase": "Running", "conditions": taken})).calm


def test_conditions():
    conditions = [
        {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/4 nodes"},
        {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler", "message": "m"},
    ]
    view = PodView.parse(raw(status={"conditions": conditions, "nominatedNodeName": "n1"}))
    assert (view.unscheduled_reason, view.unscheduled_message) == ("Unschedulable", "0/4 nodes")
    assert (view.disruption, view.disruption_message, view.nominated) == ("PreemptionByScheduler", "m", True)
    conditions[1]["status"] = "False"
    assert PodView.parse(raw(status={"conditions": conditions})).disruption == ""


def test_accelerators_that_the_trainer_asks_for():
    wanted = {"requests": {"cpu": "4", "nvidia.com/gpu": "8", "example.com/odd": "1k"}}
    containers = [{"name": "proxy", "resources": {"requests": {"amd.com/gpu": "1"}}}]
    trainer = {"name": "trainer", "resources": wanted}
    assert PodView.parse(raw(spec={"containers": [*containers, trainer]})).devices == {"nvidia.com/gpu": 8}
    assert PodView.parse(raw(spec={"containers": containers})).devices == {}
    assert PodView.parse(raw(spec={"containers": [{"name": "trainer"}]})).devices == {}


def test_containers():
    assert ContainerView.parse(state("trainer")).waiting == "ContainerCreating"
    waiting = ContainerView.parse(state("trainer", waiting={"reason": "ErrImagePull", "message": "no"}))
    assert (waiting.waiting, waiting.message, waiting.ended) == ("ErrImagePull", "no", False)
    ended = ContainerView.parse(state("trainer", terminated={"exitCode": 137, "reason": "OOMKilled"}))
    assert (ended.ended, ended.exit_code, ended.reason, ended.running) == (True, 137, "OOMKilled", False)
    never = {"exitCode": 128, "reason": "StartError", "startedAt": "1970-01-01T00:00:00Z"}
    assert ContainerView.parse(state("trainer", terminated=never)).started_at is None


@pytest.mark.parametrize(
    ("sidecar", "runs"), [(None, False), ({"running": {}}, True), ({"terminated": {"exitCode": 0}}, False)]
)
def test_containers_of_other_makers(sidecar, runs):
    """Breaks if a pod whose injected container never ends is kept, and holds its node."""
    others = [state("istio-proxy", **sidecar)] if sidecar else []
    view = PodView.parse(raw(status={"containerStatuses": [state("trainer", terminated={"exitCode": 0}), *others]}))
    assert (view.ended, view.others_run) == (True, runs)
