"""/metrics over plain HTTP; real tokens and TLS are tested against the real API server."""

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
from aiohttp.test_utils import TestClient, TestServer
from tests.support.operator.fake_api_server import Clock

from holdfast.runtime.errors import ApiError
from holdfast.serve import metrics_endpoint
from holdfast.serve.auth import REVIEW_BURST, ReviewedTokens
from holdfast.serve.metrics_endpoint import BURST, MetricsServer, Reader

Ask = Callable[..., Awaitable[tuple[int, str]]]


class Site:
    def __init__(self) -> None:
        self.clock = Clock()
        self.reviews = 0
        self.pages = 0

    async def review(self, token: str) -> Reader | None:
        self.reviews += 1
        if token == "down":
            raise ApiError(0, "Unreachable", "x")
        known = {"prometheus": Reader("prometheus", may_read=True), "pod": Reader("pod", may_read=False)}
        return known.get(token)

    async def page(self) -> bytes:
        self.pages += 1
        return b"metric 1\n"


@pytest.fixture
async def site() -> Site:
    return Site()


async def client(site: Site, *, auth: bool) -> TestClient[Any, Any]:
    readers = ReviewedTokens(site.review, site.clock) if auth else None
    return TestClient(TestServer(MetricsServer(site.page, readers, site.clock).application()))


@pytest.fixture
async def ask(site: Site) -> AsyncIterator[Ask]:
    http = await client(site, auth=True)

    async def get(token: str | None = None) -> tuple[int, str]:
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        async with http.get("/metrics", headers=headers) as answer:
            return answer.status, await answer.text()

    async with http:
        yield get


@pytest.mark.parametrize(
    ("token", "status", "words"),
    [
        ("prometheus", 200, "metric 1"),
        (None, 401, "send a bearer token"),
        ("forged", 401, "send a bearer token"),
        ("pod", 403, 'user "pod" may not "get" the URL /metrics; bind the user to a ClusterRole that allows it'),
        ("down", 503, "try again"),
    ],
)
async def test_only_users_with_the_right_may_read(
    site: Site, ask: Ask, token: str | None, status: int, words: str
) -> None:
    found, text = await ask(token)
    assert (found, words in text) == (status, True)
    assert site.pages == (status == 200)


async def test_forged_tokens_cost_few_reviews_and_no_page(site: Site, ask: Ask) -> None:
    statuses = [(await ask(f"forged-{number}"))[0] for number in range(100)]
    assert statuses.count(429) == 100 - REVIEW_BURST
    assert site.reviews == REVIEW_BURST
    assert site.pages == 0


async def test_one_reader_cannot_flood(site: Site, ask: Ask) -> None:
    statuses = [(await ask("prometheus"))[0] for _ in range(int(BURST) + 5)]
    assert (statuses.count(200), statuses.count(429)) == (BURST, 5)
    assert site.reviews == 1
    site.clock.tick(1)
    assert (await ask("prometheus"))[0] == 200


async def test_without_authentication_everyone_may_read_at_a_bounded_rate(site: Site) -> None:
    async with await client(site, auth=False) as http:
        statuses = []
        for _ in range(int(BURST) + 1):
            async with http.get(metrics_endpoint.PATH) as answer:
                statuses.append(answer.status)
    assert statuses == [200] * int(BURST) + [429]
    assert site.reviews == 0
