import asyncio
from typing import Any

import pytest
from tests.support.operator.fake_api_server import Clock, FakeClient

from holdfast.runtime.apiserver.leadership_gate import LeadershipGate, NotLeadingError
from holdfast.runtime.apiserver.lease import Elector
from holdfast.runtime.errors import ApiError, LeadershipLostError

PATH = "/apis/coordination.k8s.io/v1/namespaces/ns/leases/holdfast"
UNREACHABLE = ApiError(0, "Unreachable", "no answer")


def candidate(client: FakeClient, clock: Clock, name: str) -> tuple[Elector, LeadershipGate]:
    gate = LeadershipGate(clock)
    elector = Elector(client, gate, namespace="ns", identity=name, duration=15, renew=5, clock=clock)
    return elector, gate


async def test_the_first_one_leads_and_the_second_waits_out_the_duration() -> None:
    client, clock = FakeClient(), Clock()
    one, gate_one = candidate(client, clock, "one")
    two, gate_two = candidate(client, clock, "two")
    assert await one.acquire_once()
    assert gate_one.is_open
    assert not await two.acquire_once()
    clock.tick(14)
    assert not await two.acquire_once()
    clock.tick(1.5)
    assert not gate_one.is_open  # it has stopped before the other starts
    assert await two.acquire_once()
    assert gate_two.is_open
    assert client.objects[PATH]["spec"]["leaseTransitions"] == 1


async def test_a_renewal_starts_the_others_wait_anew() -> None:
    client, clock = FakeClient(), Clock()
    one, _ = candidate(client, clock, "one")
    two, _ = candidate(client, clock, "two")
    await one.acquire_once()
    await two.acquire_once()
    for _ in range(5):
        clock.tick(10)
        await one.renew_once()
        assert not await two.acquire_once()


async def test_the_gate_shuts_by_itself_before_the_lease_is_over() -> None:
    client, clock = FakeClient(), Clock()
    one, gate = candidate(client, clock, "one")
    await one.acquire_once()
    clock.tick(12.1)
    assert not gate.is_open
    with pytest.raises(NotLeadingError):
        gate.check()


async def test_an_unreachable_server_shuts_the_gate_and_an_untouched_lease_opens_it_again() -> None:
    client, clock = FakeClient(), Clock()
    one, gate = candidate(client, clock, "one")
    await one.acquire_once()
    client.on("PUT", PATH, *[UNREACHABLE] * 6)
    for _ in range(6):
        clock.tick(5)
        await one.renew_once()
    assert not gate.is_open
    await one.renew_once()
    assert gate.is_open


async def test_another_holder_ends_the_leadership_for_good() -> None:
    client, clock = FakeClient(), Clock()
    one, gate = candidate(client, clock, "one")
    two, _ = candidate(client, clock, "two")
    await one.acquire_once()
    await two.acquire_once()
    clock.tick(20)
    assert await two.acquire_once()
    with pytest.raises(LeadershipLostError, match="two"):
        await one.renew_once()
    assert not gate.is_open


async def test_a_lost_answer_renews_only_by_a_further_write() -> None:
    client, clock = FakeClient(), Clock()
    one, gate = candidate(client, clock, "one")
    await one.acquire_once()
    client.objects[PATH]["metadata"]["resourceVersion"] = "777"  # our own write, whose answer never came
    clock.tick(5)
    await one.renew_once()
    assert [method for method, *_ in client.calls[-3:]] == ["PUT", "GET", "PUT"]
    assert one.age == 0
    clock.tick(11)
    assert gate.is_open


async def test_a_deleted_lease_ends_the_leadership() -> None:
    client, clock = FakeClient(), Clock()
    one, gate = candidate(client, clock, "one")
    await one.acquire_once()
    del client.objects[PATH]
    with pytest.raises(LeadershipLostError, match="deleted"):
        await one.renew_once()
    assert not gate.is_open


async def test_a_released_lease_is_taken_at_once() -> None:
    client, clock = FakeClient(), Clock()
    one, gate = candidate(client, clock, "one")
    two, _ = candidate(client, clock, "two")
    await one.acquire_once()
    assert not await two.acquire_once()
    await one.release()
    assert not gate.is_open
    assert await two.acquire_once()


async def test_two_that_start_together_do_not_both_lead() -> None:
    client, clock = FakeClient(), Clock()
    one, _ = candidate(client, clock, "one")
    client.on("GET", PATH, ApiError(404, "NotFound", "no lease"))
    client.objects[PATH] = {"metadata": {"resourceVersion": "1"}, "spec": {"holderIdentity": "other"}}
    assert not await one.acquire_once()


async def test_a_follower_that_may_not_compete_reads_the_lease_and_does_not_take_it() -> None:
    client, clock = FakeClient(), Clock()
    gate = LeadershipGate(clock)
    may = False
    one = Elector(client, gate, namespace="ns", identity="one", clock=clock, may_compete=lambda: may)
    assert not await one.acquire_once()
    assert one.contact_age == 0
    may = True
    assert await one.acquire_once()


async def test_contact_ages_while_the_server_is_unreachable() -> None:
    client, clock = FakeClient(), Clock()
    one, _ = candidate(client, clock, "one")
    assert one.contact_age is None
    await one.acquire_once()
    client.on("PUT", PATH, UNREACHABLE)
    clock.tick(5)
    await one.renew_once()
    assert one.contact_age == 5
    await one.renew_once()
    assert one.contact_age == 0


async def test_a_lease_whose_acquisition_was_not_awaited_is_released() -> None:
    """Breaks if an operator that is stopped while it takes the lease leaves it without a leader."""
    client, clock = FakeClient(), Clock()
    one, _ = candidate(client, clock, "one")
    two, _ = candidate(client, clock, "two")

    def cancelled(body: dict[str, Any]) -> Any:
        client.put(PATH, body)
        raise asyncio.CancelledError

    client.on("POST", "leases", cancelled)
    with pytest.raises(asyncio.CancelledError):
        await one.acquire_once()
    await one.release()
    assert await two.acquire_once()


async def test_a_lease_is_released_although_the_answer_to_a_renewal_got_lost() -> None:
    client, clock = FakeClient(), Clock()
    one, _ = candidate(client, clock, "one")
    await one.acquire_once()
    client.objects[PATH]["metadata"]["resourceVersion"] = "777"
    await one.release()
    assert client.objects[PATH]["spec"]["holderIdentity"] == ""


@pytest.mark.parametrize("has_asked", [True, False])
async def test_a_lease_of_another_process_is_not_released(has_asked: bool) -> None:
    client, clock = FakeClient(), Clock()
    one, _ = candidate(client, clock, "one")
    two, _ = candidate(client, clock, "two")

    def stopped(_: dict[str, Any]) -> Any:
        raise asyncio.CancelledError

    if has_asked:  # and it was stopped before the request arrived
        client.on("POST", "leases", stopped)
        with pytest.raises(asyncio.CancelledError):
            await one.acquire_once()
    await two.acquire_once()
    await one.release()
    assert client.objects[PATH]["spec"]["holderIdentity"] == "two"
