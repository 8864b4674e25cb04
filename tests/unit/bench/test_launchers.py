"""Simulated launchers against the real endpoint: they follow orders as the launcher in a pod does."""

import base64
import ipaddress
import json
import ssl
from collections.abc import AsyncIterator, Callable
from datetime import timedelta

import pytest
from tests.bench.launchers import Launcher, Link, address_of, begin, end
from tests.bench.waiting import until
from tests.support.operator.fake_api_server import Clock

from holdfast.api.attempt import World
from holdfast.core.decision import WorldOrder
from holdfast.serve.auth import Authenticator, Identity
from holdfast.serve.certs import make_ca, make_serving, server_context
from holdfast.serve.members import MemberBook
from holdfast.serve.orders import OrderBoard
from holdfast.serve.progress_endpoint import ProgressServer, Standing
from holdfast.serve.reports import ReportBook
from holdfast_protocol.verdict import Verdict

UIDS = ("p0", "p1")
WORLD = World(address="10.0.0.1", port=30002)


def pod(rank: int) -> dict[str, object]:
    labels = {"holdfast.dev/job": "a", "holdfast.dev/rank": str(rank)}
    return {"metadata": {"namespace": "ns", "uid": UIDS[rank], "labels": labels}}


def token(uid: str) -> str:
    claims = json.dumps({"aud": ["holdfast"], "kubernetes.io": {"pod": {"uid": uid}}}).encode()
    return f"{uid}.{base64.urlsafe_b64encode(claims).decode().rstrip('=')}.s"


class Site:
    """The endpoint, the book that its orders come from, and two launchers."""

    def __init__(self) -> None:
        clock = Clock()
        self.book = MemberBook(lambda job, urgent: None)
        self.server = ProgressServer(
            auth=Authenticator(self.review),
            book=ReportBook(lambda job, urgent: None, timedelta(seconds=15)),
            board=OrderBoard(clock.now, clock),
            members=self.book,
            membership=lambda namespace, job, uid, attempt: Standing.MEMBER,
            leading=lambda: True,
            now=clock.now,
        )
        self.launchers: list[Launcher] = []

    async def review(self, shown: str) -> Identity:
        return Identity("ns", shown.partition(".")[0])

    async def start(self) -> None:
        ca = make_ca()
        port = await self.server.start("127.0.0.1", 0, server_context(make_serving(ca, ["127.0.0.1"])))
        trust = ssl.create_default_context(cadata=ca.certificate)
        for rank, uid in enumerate(UIDS):
            link = Link(f"https://127.0.0.1:{port}", trust, address_of(rank), token(uid))
            self.launchers.append(Launcher(pod(rank), link, address_of(rank)))

    def order(self, attempt: int, world: World | None) -> None:
        self.book.replace("u-a", (WorldOrder(attempt, world, None, {uid: rank for rank, uid in enumerate(UIDS)}),))

    async def until(self, what: str, is_so: Callable[[], bool]) -> None:
        async def check() -> bool:
            return is_so()

        await until(check, 10, what, every=0.01)


@pytest.fixture
async def site() -> AsyncIterator[Site]:
    site = Site()
    await site.start()
    yield site
    await end(site.launchers)
    await site.server.stop()


def test_each_launcher_has_an_address_of_its_own() -> None:
    """Breaks if two share one, or one is outside of the machine: the endpoint bounds connections by address."""
    found = [ipaddress.ip_address(address_of(number)) for number in range(70_000)]
    assert len(set(found)) == len(found)
    assert all(one.is_loopback for one in found)


async def test_launchers_start_and_regroup_as_they_are_told(site: Site) -> None:
    """Breaks if an order is not followed, or if a launcher that is held back says that it is ready."""
    one, two = site.launchers
    site.order(1, None)
    await begin(site.launchers)
    await site.until("both to wait", lambda: site.book.waiting == 2)
    assert not one.runs
    site.order(1, WORLD)
    await site.until("both to run", lambda: one.runs and two.runs)
    two.hold.clear()
    site.order(2, None)
    await site.until("both to regroup", lambda: bool(one.regrouped_at and two.regrouped_at))
    await site.until("the first to be ready", lambda: site.book.of(UIDS)["p0"].ready)
    assert not site.book.of(UIDS)["p1"].ready
    two.hold.set()
    await site.until("the second to be ready", lambda: site.book.of(UIDS)["p1"].ready)
    site.order(2, WORLD)
    await site.until("both to run again", lambda: 2 in one.started and 2 in two.started)
    assert one.refused + two.refused == 0


async def test_a_program_that_fails_is_told_at_once(site: Site) -> None:
    """Breaks if the verdict waits until the long poll is over."""
    site.order(1, WORLD)
    await begin(site.launchers)
    await site.until("both to run", lambda: all(one.runs for one in site.launchers))
    await site.launchers[0].fail({"outcome": "failed", "reason": "UserException"})
    await site.until("the verdict", lambda: site.book.of(UIDS)["p0"].verdict == Verdict("failed", "UserException"))
