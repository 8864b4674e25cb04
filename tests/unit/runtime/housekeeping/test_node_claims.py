"""When Karpenter ends a node stands on its NodeClaim, as Karpenter v1 writes it."""

from typing import Any

import pytest
from tests.support.operator.fake_api_server import FakeClient, raw_job, raw_node, raw_pod

from holdfast.api.scalars import parse_time
from holdfast.runtime.errors import ApiError
from holdfast.runtime.housekeeping.node_claims import NodeClaims
from holdfast.runtime.informer.cache import Cache, Key
from holdfast.runtime.informer.work_queue import WorkQueue

CLAIM = "/apis/karpenter.sh/v1/nodeclaims/default-x7k2p"
END = "2026-11-21T12:30:00Z"
OWNER = {"apiVersion": "karpenter.sh/v1", "kind": "NodeClaim", "name": "default-x7k2p", "blockOwnerDeletion": True}
DISRUPTED = {"key": "karpenter.sh/disrupted", "effect": "NoSchedule"}


def karpenter_node(version: int = 5, *, leaves: bool = True, labels: dict[str, str] | None = None) -> dict[str, Any]:
    raw = raw_node("n1", "u-n1", version, taints=[DISRUPTED] if leaves else [], labels=labels or {})
    raw["metadata"]["ownerReferences"] = [OWNER]
    return raw


def node_claim(end: str | None = END) -> dict[str, Any]:
    annotations = {"karpenter.sh/nodeclaim-termination-timestamp": end} if end else {}
    return {
        "metadata": {"name": "default-x7k2p", "annotations": annotations},
        "spec": {"terminationGracePeriod": "30m"},
    }


class Bench:
    def __init__(self, node: dict[str, Any]) -> None:
        self.client, self.cache, self.queue = FakeClient(), Cache(), WorkQueue[Key]()
        self.cache.put("jobs", raw_job())
        self.cache.put("pods", raw_pod(node="n1", phase="Running"))
        self.cache.put("nodes", node)
        self.claims = NodeClaims(self.client, self.cache, self.queue)

    @property
    def end(self) -> str | None:
        found = self.cache.cluster.nodes["n1"].termination_at
        return END if found == parse_time(END) else None


async def test_the_end_is_read_once_the_node_leaves_and_wakes_its_jobs() -> None:
    """Breaks if a notice of half an hour counts as one of two minutes."""
    bench = Bench(karpenter_node(leaves=False))
    bench.client.on("GET", CLAIM, node_claim())
    await bench.claims.look()
    assert bench.client.sent("GET") == []
    bench.cache.put("nodes", karpenter_node(6))
    await bench.claims.look()
    assert bench.end == END
    assert len(bench.queue) == 1
    bench.cache.put("nodes", karpenter_node(7, labels={"a": "b"}))
    assert bench.end == END, "the Node does not say it, and a change of the Node does not take it back"


async def test_a_claim_without_a_grace_says_nothing_and_one_that_takes_it_back_counts() -> None:
    bench = Bench(karpenter_node())
    bench.client.on("GET", CLAIM, node_claim(None), node_claim(), node_claim(None))
    ends = []
    for _ in range(3):
        await bench.claims.look()
        ends.append(bench.end)
    assert ends == [None, END, None]


@pytest.mark.parametrize(("status", "said"), [(403, 1), (404, 0), (503, 0)])
async def test_without_the_right_it_is_said_once(status: int, said: int, caplog: pytest.LogCaptureFixture) -> None:
    bench = Bench(karpenter_node())
    bench.client.on("GET", CLAIM, *[ApiError(status, "Why", "no")] * 2)
    await bench.claims.look()
    await bench.claims.look()
    assert (bench.end, caplog.text.count("cannot read NodeClaims")) == (None, said)
