"""The endpoint over plain HTTP; TLS and real tokens are tested against the real API server."""

import asyncio
import base64
import json
from collections.abc import AsyncIterator
from datetime import timedelta
from ssl import CERT_NONE, create_default_context
from typing import Any

import pytest
from aiohttp import ClientSession, TCPConnector
from aiohttp.test_utils import TestClient, TestServer
from tests.support.operator.fake_api_server import Clock

from holdfast.core.decision import Order
from holdfast.runtime.errors import ApiError
from holdfast.serve.auth import Authenticator, Identity
from holdfast.serve.certs import make_ca, make_serving, server_context
from holdfast.serve.connections import Bounds
from holdfast.serve.members import MemberBook
from holdfast.serve.orders import OrderBoard
from holdfast.serve.progress_endpoint import BURST, ProgressServer, Standing
from holdfast.serve.reports import ReportBook
from holdfast_protocol.report import MAX_BODY

URL = "/v1/namespaces/ns/jobs/a"
GOOD = {"sender": "Library", "attempt": 1, "podUID": "p1", "state": "training", "step": 3, "mood": "fine"}
CLAIMS = json.dumps({"aud": ["holdfast"], "kubernetes.io": {"pod": {"uid": "p1"}}}).encode()
FOR_US = f".{base64.urlsafe_b64encode(CLAIMS).decode()}.s"
TOKENS = {"one": Identity("ns", "p1"), "two": Identity("ns", "p2"), "far": Identity("other", "p1")}


class Site:
    def __init__(self, **more: Any) -> None:
        self.clock = Clock()
        self.leading = True
        self.standing: Standing | None = None
        self.book = ReportBook(lambda job, urgent: None, timedelta(seconds=15))
        self.board = OrderBoard(self.clock.now, self.clock)
        self.members = MemberBook(lambda job, urgent: None)
        self.server = ProgressServer(
            auth=Authenticator(self.review),
            book=self.book,
            board=self.board,
            members=self.members,
            membership=self.membership,
            leading=lambda: self.leading,
            now=self.clock.now,
            clock=self.clock,
            **more,
        )
        self.client: TestClient[Any, Any]

    async def review(self, token: str) -> Identity | None:
        mark = token.partition(".")[0]
        if mark == "down":
            raise ApiError(0, "Unreachable", "x")
        return TOKENS.get(mark)

    def membership(self, namespace: str, job: str, pod: str, attempt: int | None) -> Standing:
        fits = (namespace, job, pod) == ("ns", "a", "p1") and attempt in (None, 1)
        return self.standing or (Standing.MEMBER if fits else Standing.STRANGER)

    async def post(self, body: Any = GOOD, token: str | None = "one", url: str = URL) -> tuple[int, dict[str, Any]]:
        headers = {"Authorization": f"Bearer {token}{FOR_US}"} if token else {}
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        async with self.client.post(f"{url}/progress", data=data, headers=headers) as answer:
            return answer.status, await answer.json()

    async def orders(self, query: str, token: str = "one") -> tuple[int, dict[str, Any]]:
        headers = {"Authorization": f"Bearer {token}{FOR_US}"}
        async with self.client.get(f"{URL}/orders?{query}", headers=headers) as answer:
            return answer.status, await answer.json()


@pytest.fixture
async def site() -> AsyncIterator[Site]:
    site = Site()
    site.client = TestClient(TestServer(site.server.application()))
    async with site.client:
        yield site


async def test_a_report_is_taken_and_open_orders_come_back(site: Site) -> None:
    site.board.replace("u1", (Order(7, "checkpoint", "p1", None, "asked"),))
    status, answer = await site.post()
    assert status == 200
    assert answer == {
        "version": 1,
        "orders": [{"id": 7, "type": "checkpoint", "secondsLeft": 0.0, "reason": "asked"}],
        "reportEverySeconds": 15.0,
    }
    assert site.book.of(["p1"])["p1"].step == 3
    assert (await site.post({**GOOD, "acknowledged": 7}))[1]["orders"] == []


@pytest.mark.parametrize(
    ("token", "url", "body", "expected"),
    [
        (None, URL, GOOD, 401),
        ("wrong", URL, GOOD, 401),
        ("down", URL, GOOD, 503),
        ("two", URL, GOOD, 403),
        ("far", URL, GOOD, 403),
        ("one", "/v1/namespaces/ns/jobs/b", GOOD, 403),
        ("one", "/v1/namespaces/other/jobs/a", GOOD, 403),
        ("one", URL, {**GOOD, "podUID": "p2"}, 403),
        ("one", URL, {**GOOD, "attempt": 2}, 403),
        ("one", URL, b"{", 400),
        ("one", URL, {**GOOD, "figures": {"loss": "many"}}, 400),
        ("one", URL, b" " * (MAX_BODY + 1), 413),
        (None, URL, b" " * (MAX_BODY + 1), 401),
    ],
)
async def test_refusals(site: Site, token: str | None, url: str, body: Any, expected: int) -> None:
    status, answer = await site.post(body, token, url)
    assert status == expected
    assert answer["error"]
    assert len(site.book) == 0


async def test_only_a_synced_leader_answers(site: Site) -> None:
    site.leading = False
    async with site.client.get(f"{URL}/orders") as answer:
        assert answer.status == 503
        assert answer.headers["Connection"] == "close"  # the next connection may find the leader
    assert (await site.post())[0] == 503
    site.leading, site.standing = True, Standing.UNKNOWN
    assert (await site.post())[0] == 503


async def test_one_pod_cannot_flood(site: Site) -> None:
    statuses = [(await site.post())[0] for _ in range(60)]
    assert statuses.count(200) == 40
    assert statuses.count(429) == 20
    site.clock.tick(1)
    assert (await site.post())[0] == 200


@pytest.mark.parametrize(("token", "path"), [("one", "/orders"), ("nobody", "/orders"), ("one", "/nothing")])
async def test_a_refused_request_keeps_its_connection_and_nothing_else_waiting(token: str, path: str) -> None:
    """Breaks if one pod takes the operator's processor with requests that are refused as fast as it sends them."""
    site = Site(bounds=Bounds(refusal_seconds=3600.0))
    port = await site.server.start("127.0.0.1", 0, server_context(make_serving(make_ca(), ["127.0.0.1"])))
    url, trusting = f"https://127.0.0.1:{port}{URL}", create_default_context()
    trusting.check_hostname, trusting.verify_mode = False, CERT_NONE

    def bearer(mark: str) -> dict[str, str]:
        return {"Authorization": f"Bearer {mark}{FOR_US}"}

    async with ClientSession(connector=TCPConnector(ssl=trusting)) as one, ClientSession() as other:
        for _ in range(int(BURST)):
            async with one.get(f"{url}/orders", headers=bearer("one")) as answer:
                assert answer.status == 200
        refused = asyncio.create_task(one.get(url + path, headers=bearer(token)).__aenter__())
        async with other.get(f"{url}/orders", headers=bearer("wrong"), ssl=trusting) as answer:
            assert answer.status == 401, "without a valid token the answer comes at once, and ends the connection"
        assert not refused.done()
        refused.cancel()
    await site.server.stop()


async def test_orders_by_long_poll(site: Site) -> None:
    assert await site.orders("podUID=p1&attempt=1&after=0&wait=0.01") == (200, {"version": 1, "orders": []})
    site.board.replace("u1", (Order(7, "drain", "p1", site.clock.now() + timedelta(seconds=9), "notice"),))
    status, answer = await site.orders("podUID=p1&attempt=1&after=6&wait=30")
    assert (status, answer["orders"][0]["secondsLeft"]) == (200, 9.0)


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("podUID=p2&attempt=1&after=0&wait=1", 403),
        ("podUID=p1&attempt=2&after=0&wait=1", 403),
        ("podUID=p1&attempt=1&after=x&wait=1", 400),
        ("podUID=p1&attempt=1&after=0&wait=61", 400),
        ("podUID=p1&attempt=1&after=0&wait=nan", 400),
        ("podUID=p1&attempt=1&after=-1&wait=1", 400),
    ],
)
async def test_bad_polls(site: Site, query: str, expected: int) -> None:
    assert (await site.orders(query))[0] == expected


async def test_no_answer_contains_the_token(site: Site) -> None:
    assert "wrong" not in json.dumps((await site.post(token="wrong"))[1])


# Breaks if the relayed figures of a program that uses the library count beside those of the library.
async def test_reports_of_the_library_count_more(site: Site) -> None:
    relayed = {**GOOD, "sender": "Relay"}
    assert (await site.post({**relayed, "step": 7, "figures": {"loss": "2.5"}}))[0] == 200
    report = site.book.of(["p1"])["p1"]
    assert (report.step, report.figures.loss, report.senders) == (7, "2.5", ("Relay",))
    assert (await site.post({**GOOD, "step": 3}))[0] == 200
    assert (await site.post({**relayed, "step": 9}))[0] == 200
    report = site.book.of(["p1"])["p1"]
    assert (report.step, report.first_step, report.senders) == (3, 3, ("Library",))


# Breaks if an order counts as delivered because a program reports that cannot obey it.
async def test_who_knows_no_orders_gets_none(site: Site) -> None:
    site.board.replace("u1", (Order(7, "checkpoint", "p1", None, "asked"),))
    assert (await site.post({**GOOD, "sender": "Relay"}))[1]["orders"] == []
    assert len((await site.post(GOOD))[1]["orders"]) == 1
