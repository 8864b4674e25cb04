"""A job that asks for a feature whose gate is off, and the operator that turns the gate on."""

import json
from collections.abc import Callable
from typing import Any

from tests.support.cluster.gangs import Gang
from tests.support.cluster.training_jobs import submit
from tests.support.operator.operator_process import OperatorProcess
from tests.support.waiting import wait_for

from holdfast_local.cluster import Cluster

TIER = {"name": "spot", "kind": "Spot", "acquireTimeout": "5m", "nodeSelector": {"test/pool": "none"}}


def told(gang: Gang, pod: str) -> dict[str, Any]:
    """The settings that Holdfast gives the pod of rank 0."""
    (trainer,) = gang.by_name()[pod]["spec"]["containers"]
    return dict(json.loads(next(one["value"] for one in trainer["env"] if one["name"] == "HOLDFAST_SETTINGS")))


def feature_off(status: dict[str, Any]) -> dict[str, str]:
    """The condition FeatureOff, without its times; empty without it."""
    return next((one for one in status.get("conditions", []) if one["type"] == "FeatureOff"), {})


def test_a_gate_that_is_off_is_told_until_it_is_turned_on(
    cluster: Cluster, namespace: str, lone_operator: Callable[..., OperatorProcess]
) -> None:
    """Breaks if a job runs without what it asks for and nobody says so, or if the gate changes nothing in its pods."""
    trainer = {"nodes": 2, "acceleratorsPerNode": 0, "resources": {"cpu": "100m", "memory": "256Mi"}}

    def ask(name: str) -> Gang:
        job = submit(cluster, namespace, [TIER], ["true"], name, trainer=trainer, checkpoint={"peers": True})
        return Gang(cluster, namespace, job.name, job.manifest)

    off = lone_operator().start()
    without = ask("early")
    status = without.wait("FeatureOff", lambda status: feature_off(status).get("status") == "True", 30)
    assert feature_off(status)["reason"] == "PeerCopies"
    assert "featureGates.PeerCopies" in feature_off(status)["message"]
    wait_for(lambda: "early-1-0" in without.by_name(), 30, "the pod")
    assert not told(without, "early-1-0")["peers"]
    off.bury()
    lone_operator(feature_gates="PeerCopies=true").start()
    without.wait("the condition to pass", lambda status: feature_off(status).get("status") == "False", 30)
    given = ask("late")
    wait_for(lambda: "late-1-0" in given.by_name(), 30, "the pod")
    assert told(given, "late-1-0")["peers"]
    assert not feature_off(given.status())
