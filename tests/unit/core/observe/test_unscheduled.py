"""What the scheduler's words about a waiting pod mean."""

import pytest
from tests.support.decisions.snapshots import FULL, pending

from holdfast.core.observe.unscheduled import Shortage, find_shortage

NODE, ROOM, OTHER = Shortage.NODE, Shortage.ROOM, Shortage.OTHER
UNMATCHED = "node(s) didn't match Pod's node affinity/selector"


@pytest.mark.parametrize(
    ("message", "shortage"),
    [
        (FULL, ROOM),
        (f"0/5 nodes are available: 1 Insufficient nvidia.com/gpu, 4 {UNMATCHED}. preemption: 0/5 ...", ROOM),
        (f"0/5 nodes are available: 2 Too many pods, 3 {UNMATCHED}.", ROOM),
        (f"0/3 nodes are available: 1 node(s) were unschedulable, 2 {UNMATCHED}", ROOM),
        (f"0/3 nodes are available: 1 node(s) had untolerated taint {{a.io/b: c}}, 2 {UNMATCHED}. preemption: x", ROOM),
        (f"0/3 nodes are available: 3 {UNMATCHED}. preemption: 0/3 nodes are available.", NODE),
        ("no nodes available to schedule pods", NODE),
        # Of the pod itself
        ('0/3 nodes are available: persistentvolumeclaim "data" not found. preemption: ...', OTHER),
        ("0/3 nodes are available: pod has unbound immediate PersistentVolumeClaims. not found", OTHER),
        (f"0/3 nodes are available: 1 node(s) had volume node affinity conflict, 2 {UNMATCHED}.", OTHER),
        ("0/3 nodes are available: 3 node(s) didn't match pod anti-affinity rules.", OTHER),
        ("0/3 nodes are available: 3 node(s) didn't match pod topology spread constraints.", OTHER),
        (f"0/3 nodes are available: 1 node(s) exceed max volume count, 1 Insufficient cpu, 1 {UNMATCHED}.", OTHER),
        ("all nodes are unavailable: 2 node(s) resource fit failed", OTHER),  # another scheduler
        ("", OTHER),
    ],
)
def test_what_the_scheduler_says(message, shortage):
    assert find_shortage(pending(unscheduled_message=message)) is shortage


@pytest.mark.parametrize(
    ("lacks", "shortage"),
    [
        ("3 Insufficient cpu", OTHER),
        ("2 Insufficient cpu, 1 Insufficient memory", OTHER),
        ("2 Insufficient cpu, 1 Insufficient nvidia.com/gpu", ROOM),
        ("2 Insufficient cpu, 1 node(s) were unschedulable", ROOM),
    ],
)
def test_nodes_that_lack_cpu_say_nothing_about_their_accelerators(lacks, shortage):
    waits = pending(unscheduled_message=f"0/3 nodes are available: {lacks}. preemption: no")
    assert find_shortage(waits, "nvidia.com/gpu") is shortage
    assert find_shortage(waits) is ROOM


@pytest.mark.parametrize("reason", ["SchedulingGated", "SchedulerError", ""])
def test_only_a_scheduler_that_found_no_node_speaks_of_capacity(reason):
    assert find_shortage(pending(unscheduled_reason=reason)) is OTHER


def test_a_pod_that_does_not_exist_lacks_no_node():
    assert find_shortage(None) is OTHER
