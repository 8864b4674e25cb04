"""What an operator reads about a pod that does not start, and that the pod's certificate comes back."""

from typing import Any

import pytest
from tests.support.operator.fake_api_server import Clock, FakeClient

from holdfast.core.decision import InspectPod
from holdfast.core.observe.start_trouble import Inspection, StartTrouble
from holdfast.runtime.apiserver.gated_writer import GatedWriter
from holdfast.runtime.apiserver.leadership_gate import LeadershipGate
from holdfast.runtime.endpoint.ca_configmap import CaConfigMap
from holdfast.runtime.errors import ApiError
from holdfast.runtime.housekeeping.pod_inspection import PodInspector
from holdfast.runtime.informer.cache import Key
from holdfast.serve.token_bucket import TokenBucket

KEY, POD = Key("ns", "a"), InspectPod("a-1-0", "p1")
CA = "/api/v1/namespaces/ns/configmaps/holdfast-ca"


class Bench:
    def __init__(self) -> None:
        self.clock, self.client = Clock(), FakeClient()
        gate = LeadershipGate(self.clock)
        gate.keep_open(float("inf"))
        writer = GatedWriter(self.client, gate, TokenBucket(1e6, 1e6, self.clock))
        self.ca = CaConfigMap(writer, "CERT", self.clock)
        self.inspector = PodInspector(writer, self.ca, self.clock.now)

    async def found(self, *events: dict[str, Any]) -> Inspection:
        self.client.on("GET", "events", {"items": list(events)})
        await self.inspector.inspect(KEY, POD)
        return self.inspector.of(["p1", "p2"])["p1"]


@pytest.fixture
def bench() -> Bench:
    return Bench()


def event(reason: str = "FailedMount", message: str = "no", **times: Any) -> dict[str, Any]:
    return {"reason": reason, "message": message, **times}


async def test_the_newest_warning_says_what_the_pod_waits_for(bench: Bench) -> None:
    old = event("FailedScheduling", lastTimestamp="2026-11-21T11:00:00Z")
    new = event(message="no volume", series={"lastObservedTime": "2026-11-21T11:59:00.5Z"})
    older = event("FailedCreatePodSandBox", eventTime="2026-11-21T11:58:00Z")
    found = await bench.found(old, new, older)
    assert found == Inspection(bench.clock.now(), StartTrouble("FailedMount", "pod a-1-0 cannot start: no volume"))


async def test_a_pod_without_warnings_is_not_in_trouble(bench: Bench) -> None:
    assert (await bench.found()).trouble is None


async def test_a_reason_that_is_not_a_word_is_not_taken(bench: Bench) -> None:
    found = await bench.found(event("<b>two words</b>", "x" * 9000))
    assert found.trouble is not None
    assert found.trouble.reason == "Warning"
    assert len(found.trouble.message) < 1100


async def test_the_certificate_comes_back_before_the_warnings_are_read(bench: Bench) -> None:
    await bench.ca.ensure("ns")
    del bench.client.objects[CA]
    await bench.found()
    assert bench.client.objects[CA]["data"] == {"ca.crt": "CERT"}


async def test_an_error_is_logged_and_the_pod_counts_as_inspected(bench: Bench) -> None:
    """Otherwise a job would be inspected without a pause while the API server refuses."""
    bench.client.on("GET", "configmaps", ApiError(403, "Forbidden", "no"))
    await bench.inspector.inspect(KEY, POD)
    assert bench.inspector.of(["p1"]) == {"p1": Inspection(bench.clock.now())}


async def test_pods_that_are_gone_are_forgotten(bench: Bench) -> None:
    await bench.found()
    bench.inspector.keep_only({"p2"})
    assert bench.inspector.of(["p1"]) == {}
