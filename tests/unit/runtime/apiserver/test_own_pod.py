from typing import Any

import pytest
from tests.support.operator.fake_api_server import Clock, FakeClient

from holdfast.api import names
from holdfast.runtime.apiserver.gated_writer import GatedWriter
from holdfast.runtime.apiserver.leadership_gate import LeadershipGate
from holdfast.runtime.apiserver.own_pod import PATIENCE, OwnPod
from holdfast.runtime.errors import ApiError, UnreachableError
from holdfast.serve.token_bucket import TokenBucket

LEADER = {names.LABEL_LEADER: "true"}
DOWN = ApiError(0, "Unreachable", "x")


class Site:
    """Two operators, `one` and `two`; this process is `one`."""

    def __init__(self, *, name: str | None = "one", leading: bool = True) -> None:
        self.clock, self.client = Clock(), FakeClient()
        gate = LeadershipGate(self.clock)
        if leading:
            gate.keep_open(float("inf"))
        writer = GatedWriter(self.client, gate, TokenBucket(1e6, 1e6, self.clock))
        self.pod = OwnPod(self.client, writer, namespace="ns", name=name, clock=self.clock)
        self.put("one")
        self.put("two")

    def put(self, name: str, *, ready: bool = True, labels: dict[str, str] | None = None, deleted: str = "") -> None:
        meta: dict[str, Any] = {"name": name, "labels": {**names.OPERATOR_LABELS, **(labels or {})}}
        if deleted:
            meta["deletionTimestamp"] = deleted
        status = {"conditions": [{"type": "Ready", "status": "True" if ready else "False"}]}
        self.client.put(f"/api/v1/namespaces/ns/pods/{name}", {"metadata": meta, "status": status})

    def leaders(self) -> list[str]:
        return [raw["metadata"]["name"] for raw in self.client.objects.values()
                if raw["metadata"]["labels"].get(names.LABEL_LEADER) == "true"]  # fmt: skip


async def test_the_leader_takes_the_label_from_the_leader_before_it() -> None:
    site = Site()
    site.put("two", labels=LEADER)
    await site.pod.serve()
    assert site.leaders() == ["one"]


async def test_a_label_that_is_missing_is_written_again_and_one_that_is_there_is_not() -> None:
    site = Site()
    await site.pod.serve()
    written = len(site.client.sent("PATCH"))
    await site.pod.look()
    assert len(site.client.sent("PATCH")) == written
    site.put("one")
    await site.pod.look()
    assert site.leaders() == ["one"]


async def test_a_label_that_cannot_be_written_is_written_at_the_next_look() -> None:
    site = Site()
    site.client.on("PATCH", "pods/one", DOWN)
    await site.pod.serve()
    assert site.leaders() == []
    await site.pod.look()
    assert site.leaders() == ["one"]


async def test_a_leader_that_leaves_gives_the_label_back() -> None:
    site = Site()
    await site.pod.serve()
    await site.pod.leave()
    assert site.leaders() == []


async def test_a_follower_changes_no_label() -> None:
    site = Site(leading=False)
    site.put("two", labels=LEADER)
    await site.pod.look()
    await site.pod.leave()
    assert site.client.sent("PATCH") == []


@pytest.mark.parametrize("lost", [{"ready": False}, {"deleted": "2026-11-21T12:00:00Z"}, None])
async def test_a_leader_that_is_unreachable_ends(lost: dict[str, Any] | None) -> None:
    """Breaks if a leader whose node lost its kubelet keeps the lease while no report reaches it."""
    site = Site()
    if lost is None:
        del site.client.objects["/api/v1/namespaces/ns/pods/one"]
    else:
        site.put("one", **lost)
    await site.pod.look()
    site.clock.tick(PATIENCE - 1)
    await site.pod.look()
    assert site.pod.is_reachable
    site.clock.tick(1)
    with pytest.raises(UnreachableError, match="pod one has not been ready for 30s and another operator is ready"):
        await site.pod.run()


async def test_a_leader_stays_if_no_other_replica_can_replace_it() -> None:
    site = Site()
    site.put("one", ready=False)
    site.put("two", ready=False)
    await site.pod.look()
    site.clock.tick(10 * PATIENCE)
    await site.pod.look()
    assert site.pod.is_reachable


async def test_being_ready_in_between_starts_the_time_anew() -> None:
    site = Site()
    for ready in (False, True, False):
        site.put("one", ready=ready)
        await site.pod.look()
        site.clock.tick(PATIENCE - 1)
    assert site.pod.is_reachable


async def test_an_api_server_that_does_not_answer_says_nothing_about_the_pod() -> None:
    site = Site()
    site.client.on("LIST", "pods", *[DOWN] * 3)
    for _ in range(3):
        await site.pod.look()
        site.clock.tick(PATIENCE)
    assert site.pod.is_reachable


async def test_an_operator_outside_a_pod_asks_nothing() -> None:
    site = Site(name=None)
    await site.pod.serve()
    await site.pod.leave()
    assert site.client.calls == []
