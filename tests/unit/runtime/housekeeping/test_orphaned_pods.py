from datetime import timedelta
from typing import Any

import pytest
from tests.support.operator.fake_api_server import T0, raw_node, raw_pod

from holdfast.core.observe.nodes import ClusterView, NodeView
from holdfast.core.observe.pods import PodView
from holdfast.runtime.housekeeping.orphaned_pods import OVERDUE, is_releasable

CLUSTER = ClusterView([NodeView.parse(raw_node("n1"))])
DELETED = "2026-11-21T12:00:00Z"


@pytest.mark.parametrize(
    ("more", "later", "expected"),
    [
        ({"phase": "Running", "node": "n1"}, 0, False),  # garbage collection has not come yet
        ({"phase": "Running", "node": "n1", "deleted": DELETED}, 0, False),  # may be saving
        ({"phase": "Succeeded", "node": "n1"}, 0, True),
        ({"phase": "Failed", "node": "n1", "deleted": DELETED}, 0, True),
        ({"deleted": DELETED}, 0, True),  # never had a node
        ({}, 0, False),
        ({"phase": "Running", "node": "gone", "deleted": DELETED}, 0, True),
        ({"phase": "Running", "node": "gone"}, 0, False),
        ({"phase": "Pending", "node": "n1", "deleted": DELETED}, 1, False),
        ({"phase": "Pending", "node": "n1", "deleted": DELETED}, 60, True),  # its containers never started
        ({"phase": "Succeeded", "finalizers": []}, 0, False),
    ],
)
def test_when_an_orphan_may_go(more: dict[str, Any], later: int, expected: bool) -> None:
    pod = PodView.parse(raw_pod(**more))
    assert pod
    assert is_releasable(pod, CLUSTER, T0 + timedelta(seconds=later)) is expected
    assert timedelta(0) < OVERDUE


@pytest.mark.parametrize(("grace", "ready", "expected"), [(0, False, True), (0, True, False), (30, False, False)])
def test_a_pod_deleted_by_force_on_a_silent_node_may_go(grace: int, ready: bool, expected: bool) -> None:
    raw = raw_pod(phase="Running", node="n1", deleted=DELETED)
    raw["metadata"]["deletionGracePeriodSeconds"] = grace
    raw["status"]["containerStatuses"] = [{"name": "trainer", "state": {"running": {}}}]
    pod = PodView.parse(raw)
    assert pod
    cluster = ClusterView([NodeView.parse(raw_node("n1", ready=ready))])
    assert is_releasable(pod, cluster, T0) is expected
