"""Nodes that come, go, die silently, and come back; the agent's own death."""

import json
import os
import signal
import ssl
import urllib.error
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest
from tests.support.cluster.agent_pods import (
    alive,
    container,
    order,
    pod,
    run,
    status,
    until_dead,
    until_gone,
    until_logged,
    until_phase,
)
from tests.support.cluster.local_cluster import delete, exists, get
from tests.support.waiting import wait_for

from holdfast_local.cluster import Cluster

pytestmark = pytest.mark.cluster

_STUBBORN = "trap '' TERM; echo pid=$$; while :; do sleep 0.05; done"
_SAVES = "trap 'sleep 0.2; printf saved > /dev/termination-log; exit 0' TERM; echo pid=$$; while :; do sleep 0.05; done"


@pytest.fixture
def node(cluster: Cluster) -> Iterator[str]:
    """A node that is up again after the test."""
    yield "spot-2"
    answer = order(cluster, op="restore", node="spot-2")
    assert answer["ok"], answer
    wait_for(lambda: _ready(cluster, "spot-2") == "True", 20, "spot-2 to be ready again")


def _ready(cluster: Cluster, node: str) -> str:
    conditions = get(cluster, f"node/{node}")["status"]["conditions"]
    return next(str(one["status"]) for one in conditions if one["type"] == "Ready")


def _pid(log: str) -> int:
    return int(log.partition("pid=")[2].split()[0])


def _started(cluster: Cluster, namespace: str, name: str, script: str, node: str, **spec: Any) -> int:
    run(cluster, namespace, pod(name, container(script), nodeName=node, **spec))
    return _pid(until_logged(cluster, namespace, name, "pid="))


def test_a_node_registers_with_what_it_has(cluster: Cluster) -> None:
    """Would break: the scheduler finds no place."""
    node = get(cluster, "node/spot-1")
    assert node["status"]["capacity"]["nvidia.com/gpu"] == "1"
    assert node["metadata"]["labels"]["holdfast.dev/tier"] == "spot"
    lease = get(cluster, "lease/spot-1", "kube-node-lease")
    assert lease["metadata"]["ownerReferences"][0]["uid"] == node["metadata"]["uid"]

    def renewed() -> bool:
        return bool(get(cluster, "lease/spot-1", "kube-node-lease")["spec"]["renewTime"] != lease["spec"]["renewTime"])

    wait_for(renewed, 10, "the lease to be renewed")


def test_labels_that_people_add_count(cluster: Cluster, namespace: str) -> None:
    """Would break: a pod that the scheduler places by a new label is refused by the node."""
    cluster.kubectl("label", "node", "cpu-1", "example.com/rack=7")
    try:
        run(cluster, namespace, pod("a", container("true"), nodeSelector={"example.com/rack": "7"}))
        until_phase(cluster, namespace, "a", "Succeeded")
    finally:
        cluster.kubectl("label", "node", "cpu-1", "example.com/rack-")


def test_reclaim_as_a_cloud_does_it(cluster: Cluster, namespace: str, node: str) -> None:
    """Would break: the whole point of Holdfast goes untested."""
    saves = _started(cluster, namespace, "saves", _SAVES, node)
    stubborn = _started(cluster, namespace, "stubborn", _STUBBORN, node)
    answer = order(cluster, op="reclaim", node=node, noticeSeconds=1.0, killAfterSeconds=1.5)
    assert answer["ok"], answer
    taints = get(cluster, f"node/{node}")["spec"]["taints"]
    notice = next(one for one in taints if one["key"] == "aws-node-termination-handler/spot-itn")
    assert (notice["effect"], notice["value"]) == ("NoSchedule", answer["event"])
    assert alive(saves)
    assert alive(stubborn)
    again = order(cluster, op="reclaim", node=node)
    assert not again["ok"]
    assert "reclaiming" in again["error"]
    seen = until_phase(cluster, namespace, "saves", "Succeeded")
    assert seen["containerStatuses"][0]["state"]["terminated"]["message"] == "saved"
    wait_for(lambda: not exists(cluster, f"node/{node}"), 15, "the Node object to go")
    until_dead(saves, stubborn)
    assert "terminated" not in json.dumps(status(cluster, namespace, "stubborn")["containerStatuses"])


def test_a_restored_node_is_fresh(cluster: Cluster, namespace: str, node: str) -> None:
    """Would break: a node that comes back still carries its notice, or pods it lost seem to run."""
    before = get(cluster, f"node/{node}")["metadata"]["uid"]
    _started(cluster, namespace, "a", _STUBBORN, node)
    assert order(cluster, op="reclaim", node=node, noticeSeconds=0, killAfterSeconds=0)["ok"]
    wait_for(lambda: not exists(cluster, f"node/{node}"), 15, "the Node object to go")
    assert order(cluster, op="restore", node=node) == {"ok": True, "changed": True}
    after = get(cluster, f"node/{node}")
    assert after["metadata"]["uid"] != before
    assert not any("termination" in taint["key"] for taint in after["spec"].get("taints", []))
    lost = until_phase(cluster, namespace, "a", "Failed")
    ended = lost["containerStatuses"][0]["state"]["terminated"]
    assert (ended["exitCode"], ended["reason"]) == (255, "Unknown")
    run(cluster, namespace, pod("b", container("echo works"), nodeName=node))
    until_phase(cluster, namespace, "b", "Succeeded")
    assert order(cluster, op="restore", node=node) == {"ok": True, "changed": False}


def test_a_crash_is_silent(cluster: Cluster, namespace: str, node: str) -> None:
    """Would break: the operator learns of a crash by a report that no dead node can send."""
    pid = _started(cluster, namespace, "a", _STUBBORN, node)
    assert order(cluster, op="crash", node=node) == {"ok": True, "changed": True}
    until_dead(pid)
    wait_for(lambda: _ready(cluster, node) == "Unknown", 20, "the node to be NotReady")
    assert status(cluster, namespace, "a")["phase"] == "Running"
    assert "running" in status(cluster, namespace, "a")["containerStatuses"][0]["state"]
    assert order(cluster, op="crash", node=node) == {"ok": True, "changed": False}


def test_a_silent_node_leaves_a_zombie(cluster: Cluster, namespace: str, node: str) -> None:
    """Would break: tests of the fence have no second writer."""
    pid = _started(cluster, namespace, "a", _STUBBORN, node)
    assert order(cluster, op="silence", node=node)["ok"]
    wait_for(lambda: _ready(cluster, node) == "Unknown", 20, "the node to be NotReady")
    assert alive(pid)
    assert order(cluster, op="restore", node=node)["ok"]
    until_dead(pid)
    until_phase(cluster, namespace, "a", "Failed")


def test_a_silent_node_that_heals_reports_what_happened(cluster: Cluster, namespace: str, node: str) -> None:
    """Would break: a kubelet that is back keeps deleted pods, or says nothing of pods that ended."""
    ends = "trap 'exit 3' USR1; echo pid=$$; while :; do sleep 0.05; done"
    ended, deleted = (_started(cluster, namespace, name, ends, node) for name in ("ended", "deleted"))
    assert order(cluster, op="silence", node=node) == {"ok": True, "changed": True}
    os.kill(ended, signal.SIGUSR1)
    until_dead(ended)
    cluster.kubectl("delete", "pod", "deleted", "-n", namespace, "--grace-period=0", "--force")
    until_gone(cluster, namespace, "deleted")
    assert status(cluster, namespace, "ended")["phase"] == "Running"
    assert alive(deleted)
    assert order(cluster, op="heal", node=node) == {"ok": True, "changed": True}
    seen = until_phase(cluster, namespace, "ended", "Failed")
    assert seen["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 3
    until_dead(deleted)


def test_a_node_without_a_network_of_its_own_is_not_cut_off(cluster: Cluster) -> None:
    """Would break: a partition that cuts nothing."""
    answer = order(cluster, op="partition", node="spot-1")
    assert not answer["ok"]
    assert "holdfast local up --network isolated" in answer["error"]
    assert "needs root and the program `ip`" in answer["error"]


def test_orders_that_make_no_sense_are_refused(cluster: Cluster) -> None:
    """Would break: a typing error in a demo that nobody sees."""
    assert "the nodes are" in order(cluster, op="crash", node="nope")["error"]
    assert "noticeSeconds" in order(cluster, op="reclaim", node="spot-1", noticeSeconds=-1)["error"]
    assert not order(cluster, op="explode")["ok"]
    assert order(cluster, op="status")["nodes"]["spot-1"]["state"] == "up"


def test_the_agent_is_killed_and_started_again(cluster: Cluster, namespace: str) -> None:
    """Would break: processes nobody watches, and pods that run for ever in the API."""
    pid = _started(cluster, namespace, "a", _STUBBORN, "cpu-1")
    cluster.kill_component("agent")
    assert alive(pid)
    cluster.start_component("agent")
    seen = until_phase(cluster, namespace, "a", "Failed")
    ended = seen["containerStatuses"][0]["state"]["terminated"]
    assert (ended["exitCode"], ended["reason"], "reason" in seen) == (255, "Unknown", False), "as after a reboot"
    assert not alive(pid)
    delete(cluster, "pod/a", namespace)
    until_gone(cluster, namespace, "a")


def test_the_api_server_is_away(cluster: Cluster, namespace: str) -> None:
    """Would break: an end that happens while the API server is down is never reported."""
    pid = _started(cluster, namespace, "a", "trap 'exit 3' USR1; echo pid=$$; while :; do sleep 0.05; done", "cpu-1")
    cluster.kill_component("kube-apiserver")
    os.kill(pid, signal.SIGUSR1)
    until_dead(pid)
    cluster.start_component("kube-apiserver")
    seen = until_phase(cluster, namespace, "a", "Failed")
    assert seen["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 3
    wait_for(lambda: _ready(cluster, "cpu-1") == "True", 20, "the node to be ready")


def test_the_kubelet_port_wants_a_certificate(cluster: Cluster) -> None:
    """Would break: logs that every process of the machine can read."""
    port = get(cluster, "node/cpu-1")["status"]["daemonEndpoints"]["kubeletEndpoint"]["Port"]
    context = ssl.create_default_context(cafile=str(cluster.ca_cert))
    with pytest.raises((urllib.error.URLError, ConnectionError)):
        urllib.request.urlopen(f"https://127.0.0.1:{port}/healthz", context=context, timeout=5)
