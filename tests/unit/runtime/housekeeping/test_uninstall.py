"""Uninstalling takes our finalizer off every pod, or says what is left and how to go on."""

import asyncio
from typing import Any

import pytest
from tests.support.operator.fake_api_server import Clock, FakeClient, raw_pod

from holdfast.api import names
from holdfast.api.rbac import LEASE, SERVING_SECRET
from holdfast.runtime.apiserver import paths
from holdfast.runtime.errors import ApiError, ReleaseError
from holdfast.runtime.housekeeping.uninstall import PARALLEL, release_all

PODS = "/api/v1/namespaces/ns/pods"
FORBIDDEN, BUSY = ApiError(403, "Forbidden", "no"), ApiError(503, "Busy", "later")


class Slow(FakeClient):
    """An API server that answers each patch of a pod after 20 ms of a clock; `at_once`: most patches at one time."""

    def __init__(self, clock: Clock) -> None:
        super().__init__()
        self.clock = clock
        self.at_once = self._now = 0

    async def request(self, method: str, path: str, **more: Any) -> dict[str, Any]:
        if method != "PATCH":
            return await super().request(method, path, **more)
        self._now += 1
        self.at_once = max(self.at_once, self._now)
        await asyncio.sleep(0)  # the others begin
        self.clock.tick(0.02 / self._now)
        try:
            return await super().request(method, path, **more)
        finally:
            self._now -= 1


def filled(client: FakeClient, count: int) -> FakeClient:
    for number in range(count):
        client.put(f"{PODS}/p{number}-1-0", raw_pod(f"p{number}-1-0", f"u{number}", job=f"p{number}"))
    return client


def kept(client: FakeClient) -> list[str]:
    """The names of the pods that still have our finalizer."""
    pods = [raw["metadata"] for path, raw in client.objects.items() if path.startswith(PODS)]
    return [meta["name"] for meta in pods if names.POD_FINALIZER in meta["finalizers"]]


def release(client: FakeClient, clock: Clock | None = None, **more: Any) -> int:
    """Run it with a clock that a pause moves on."""
    clock = clock or Clock()

    async def pause(seconds: float) -> None:
        clock.tick(seconds)

    return asyncio.run(release_all(client, "system", clock=clock, sleep=pause, **more))


def test_every_pod_loses_our_finalizer_and_keeps_the_others() -> None:
    client = FakeClient()
    client.put(f"{PODS}/a-1-0", raw_pod())
    client.put(f"{PODS}/b-1-0", raw_pod("b-1-0", "p2", finalizers=["x/y", names.POD_FINALIZER]))
    client.put(f"{PODS}/c-1-0", raw_pod("c-1-0", "p3", finalizers=["x/y"]))
    assert release(client) == 2
    left = {path.rpartition("/")[2]: raw["metadata"]["finalizers"] for path, raw in client.objects.items()}
    assert left == {"a-1-0": [], "b-1-0": ["x/y"], "c-1-0": ["x/y"]}


def test_many_pods_are_released_at_the_same_time_and_not_too_many() -> None:
    """Breaks if pods are released one after the other, so that 10,000 take minutes, or all at once."""
    slow = Slow(Clock())
    assert release(filled(slow, 500), slow.clock) == 500
    assert slow.at_once == PARALLEL
    assert kept(slow) == []


def test_a_pod_that_may_not_be_released_does_not_stop_the_others() -> None:
    client = filled(FakeClient(), 3)
    client.put(lease := paths.lease("system", LEASE), {"metadata": {}})
    client.on("PATCH", "p1-1-0", *[FORBIDDEN] * 9)
    with pytest.raises(ReleaseError) as caught:
        release(client)
    assert kept(client) == ["p1-1-0"]
    assert lease not in client.objects
    assert caught.value.exit_code == 1, "the Job of the chart does not run again after this exit code"
    assert f"{caught.value}" == (
        "released 2 pods; 1 pods keep Holdfast's finalizer and cannot be deleted: ns/p1-1-0; the last error: 403 "
        "Forbidden: no; go on with: holdfast-operator release --namespace system"
    )
    assert len(client.sent("PATCH")) == 4, "what may not be done is not tried again and again"


@pytest.mark.parametrize("error", [BUSY, ApiError(429, "TooManyRequests", "", 2.0), ApiError(0, "Unreachable", "")])
def test_trouble_that_passes_is_tried_again(error: ApiError) -> None:
    client = filled(FakeClient(), 3)
    client.on("PATCH", "p1-1-0", *[error] * 3)
    client.on("LIST", "pods", error, ApiError(410, "Expired", "the list is too old"))
    client.on("DELETE", "leases", error)
    assert release(client) == 3
    assert kept(client) == []


def test_when_the_time_is_over_it_says_what_is_left() -> None:
    """Breaks if an uninstallation with many pods ends without a word about those that it has not come to."""
    clock = Clock()
    slow = filled(Slow(clock), 400)
    with pytest.raises(ReleaseError) as caught:
        release(slow, clock, deadline=0.1)
    left, text = kept(slow), f"{caught.value}"
    assert 0 < len(left) < 400
    assert f"released {400 - len(left)} pods; {len(left)} pods keep Holdfast's finalizer" in text
    assert f" and {len(left) - 5} more; the time was over; go on with: " in text
    assert release(slow, clock) == len(left), "it can go on"


def test_trouble_that_does_not_pass_in_time() -> None:
    client, clock = filled(FakeClient(), 1), Clock()
    client.on("PATCH", "p0-1-0", *[BUSY] * 900)
    begun = clock()
    with pytest.raises(ReleaseError, match=r"1 pods keep .* the last error: 503 Busy: later"):
        release(client, clock, deadline=240)
    assert 225 <= clock() - begun < 241
    assert len(client.sent("PATCH")) < 30, "the pauses grow"


def test_what_only_an_operator_uses_is_deleted_and_may_be_gone_already() -> None:
    """Breaks if an uninstallation leaves a held Lease or a private key."""
    client = FakeClient()
    left = "/api/v1/namespaces/system/secrets/another"
    for path in (paths.lease("system", LEASE), paths.core("system", "secrets", SERVING_SECRET), left):
        client.put(path, {"metadata": {}})
    for _ in range(2):
        assert release(client) == 0
        assert list(client.objects) == [left]


def test_a_right_that_is_missing_is_an_error() -> None:
    client = filled(FakeClient(), 1)
    client.on("DELETE", "leases", *[FORBIDDEN] * 9)
    with pytest.raises(ReleaseError, match="released 1 pods; the last error: 403 Forbidden"):
        release(client)
