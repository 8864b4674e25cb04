"""The endpoint over plain HTTP; TLS and real tokens are tested against the real API server."""

import base64
import json
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import pytest
from aiohttp.test_utils import TestClient, TestServer
from tests.support.operator.fake_api_server import Clock

from holdfast.core.decision import Order
from holdfast.runtime.errors import ApiError
from holdfast.serve.auth import Authenticator, Identity
from holdfast.serve.body import MAX_BODY
from holdfast.serve.members import MemberBook
from holdfast.serve.orders import OrderBoard
from holdfast.serve.progress_endpoint import ProgressServer, Standing
from holdfast.serve.reports import ReportBook

URL = "/v1/namespaces/ns/jobs/a"
GOOD = {"attempt": 1, "podUID": "p1", "state": "training", "step": 3, "mood": "fine"}
CLAIMS = json.dumps({"aud": ["holdfast"], "kubernetes.io": {"pod": {"uid": "p1"}}}).encode()
FOR_US = f".{base64.urlsafe_b64encode(CLAIMS).decode()}.s"
TOKENS = {"one": Identity("ns", "p1"), "two": Identity("ns", "p2"), "far": Identity("other", "p1")}


class Site:
    def __init__(self) -> None:
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
        ("one", URL, {**GOOD, "loss": "many"}, 400),
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


async def test_orders_by_long_poll(site: Site) -> None:
    assert await site.orders("podUID=p1&attempt=1&after=0&wait=0.01") == (200, {"orders": []})
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


STATUS_URL = "/apis/trainer.kubeflow.org/v1alpha1/namespaces/ns/trainjobs/a/status?attempt=1"


def trainjob(**metrics: object) -> dict[str, Any]:
    told = [{"name": name, "value": str(value)} for name, value in metrics.items()]
    return {"trainerStatus": {"lastUpdatedTime": "2026-11-22T17:20:24Z", "metrics": told}, "more": 1}


async def relay(site: Site, body: Any, token: str | None = "one", url: str = STATUS_URL) -> tuple[int, Any]:
    headers = {"Authorization": f"Bearer {token}{FOR_US}"} if token else {}
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    async with site.client.post(url, data=data, headers=headers) as answer:
        return answer.status, await answer.json()


# Breaks if the answer is not the status as it was sent, which the protocol requires.
async def test_a_status_of_kubeflows_protocol_is_a_report(site: Site) -> None:
    body = trainjob(current_step=7, total_steps=60, loss=2.5)
    assert await relay(site, body) == (200, body)
    report = site.book.of(["p1"])["p1"]
    assert (report.step, report.steps, report.loss, report.relayed) == (7, 60, "2.5", True)
    assert await relay(site, {}) == (200, {})
    assert site.book.received == 1


# Breaks if the relayed figures of a program that uses the library count beside those of the library.
async def test_reports_of_the_library_count_more(site: Site) -> None:
    await relay(site, trainjob(current_step=7))
    assert (await site.post({**GOOD, "step": 3}))[0] == 200
    assert (await relay(site, trainjob(current_step=9)))[0] == 200
    report = site.book.of(["p1"])["p1"]
    assert (report.step, report.first_step, report.relayed) == (3, 3, False)


@pytest.mark.parametrize(
    ("token", "url", "body", "expected"),
    [
        (None, STATUS_URL, {}, 403),
        ("wrong", STATUS_URL, {}, 403),
        ("two", STATUS_URL, {}, 403),
        ("far", STATUS_URL, {}, 403),
        ("down", STATUS_URL, {}, 503),
        ("one", STATUS_URL.replace("trainjobs/a", "trainjobs/b"), {}, 403),
        ("one", STATUS_URL.replace("attempt=1", "attempt=2"), {}, 403),
        ("one", STATUS_URL.partition("?")[0], {}, 422),
        ("one", STATUS_URL.replace("attempt=1", "attempt=one"), {}, 422),
        ("one", STATUS_URL, b"{", 422),
        ("one", STATUS_URL, b"[" * 60_000, 422),
        ("one", STATUS_URL, {"trainerStatus": {}}, 422),
        ("one", STATUS_URL, b" " * (MAX_BODY + 1), 413),
    ],
)
async def test_refusals_of_a_status(site: Site, token: str | None, url: str, body: Any, expected: int) -> None:
    status, answer = await relay(site, body, token, url)
    assert (status, answer["code"], answer["status"]) == (expected, expected, "Failure")
    assert len(site.book) == 0


# Breaks if the two routes have a rate each: one pod could then send twice as much.
async def test_both_routes_share_one_rate(site: Site) -> None:
    statuses = [(await relay(site, trainjob(current_step=1)))[0] for _ in range(1000)]
    assert (statuses.count(200), statuses.count(429)) == (40, 960)
    assert (await site.post())[0] == 429
