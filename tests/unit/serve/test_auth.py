import asyncio
import base64
import json
from contextlib import suppress
from itertools import cycle

import pytest
from tests.support.operator.fake_api_server import Clock

from holdfast.runtime.errors import ApiError
from holdfast.serve import auth
from holdfast.serve.auth import (
    Authenticator,
    Identity,
    ReviewedTokens,
    TooManyTokensError,
    UnknownPodError,
    claimed_pod,
    claims_of,
    expiry,
)

POD = Identity("ns", "p1")


def token(exp: float, mark: str = "", pod: str = "p1") -> str:
    claims = {"exp": exp, "mark": mark, "aud": ["holdfast"], "kubernetes.io": {"pod": {"uid": pod}}}
    payload = base64.urlsafe_b64encode(json.dumps(claims).encode()).decode().rstrip("=")
    return f"header.{payload}.signature"


class Reviewer:
    def __init__(self, answer: Identity | None = POD) -> None:
        self.answer = answer
        self.reviews = 0

    async def __call__(self, text: str) -> Identity | None:
        self.reviews += 1
        return self.answer


async def test_a_valid_token_is_reviewed_once_until_it_expires() -> None:
    clock, reviewer = Clock(), Reviewer()
    who = Authenticator(reviewer, clock=clock)
    header = f"Bearer {token(clock() + 100)}"
    for _ in range(3):
        assert await who.identify(header) == POD
    assert reviewer.reviews == 1
    clock.tick(101)
    await who.identify(header)
    assert reviewer.reviews == 2


async def test_a_long_lived_token_is_reviewed_again_after_ten_minutes() -> None:
    clock, reviewer = Clock(), Reviewer()
    who = Authenticator(reviewer, clock=clock)
    header = f"Bearer {token(clock() + 86400)}"
    await who.identify(header)
    clock.tick(auth.VALID_FOR - 1)
    await who.identify(header)
    clock.tick(2)
    await who.identify(header)
    assert reviewer.reviews == 2


async def test_an_invalid_token_is_remembered_for_a_moment() -> None:
    clock, reviewer = Clock(), Reviewer(None)
    who = Authenticator(reviewer, clock=clock)
    header = f"Bearer {token(clock() + 100)}"
    assert await who.identify(header) is None
    assert await who.identify(header) is None
    assert reviewer.reviews == 1
    clock.tick(auth.REFUSED_FOR + 1)
    reviewer.answer = POD
    assert await who.identify(header) == POD


@pytest.mark.parametrize("header", [None, "", "Basic abc", "Bearer", "Bearer  ", f"Bearer {'x' * 20_000}"])
async def test_a_header_without_a_bearer_token_is_never_reviewed(header: str | None) -> None:
    reviewer = Reviewer()
    assert await Authenticator(reviewer).identify(header) is None
    assert reviewer.reviews == 0


async def test_memory_is_bounded_and_contains_no_token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(auth, "REMEMBERED", 10)
    clock = Clock()
    who = Authenticator(Reviewer(), clock=clock)
    for number in range(50):
        await who.identify(f"Bearer {token(clock() + 100, str(number))}")
    assert len(who._tokens._known) == 10
    assert "signature" not in repr(who._tokens._known)


async def test_a_failed_review_is_not_remembered() -> None:
    asked: list[str] = []

    async def broken(text: str) -> Identity | None:
        asked.append(text)
        raise ApiError(0, "Unreachable", "x")

    who = Authenticator(broken)
    for _ in range(2):
        with pytest.raises(ApiError):
            await who.identify(f"Bearer {token(0)}")
    assert len(asked) == 2


@pytest.mark.parametrize("text", ["", "a.b", "a.!!.c", "a.e30.c"])
def test_a_token_that_cannot_be_read_has_no_expiry(text: str) -> None:
    assert expiry(claims_of(text)) == 0.0


def jwt(claims: object) -> str:
    return f"h.{base64.urlsafe_b64encode(json.dumps(claims).encode()).decode().rstrip('=')}.s"


@pytest.mark.parametrize(
    "text",
    ["abc", "a.b", "a.!!.c", "..", jwt({}), jwt({"aud": "other"}), jwt({"aud": ["other"]}), jwt([1]), jwt({"aud": 3})],
)
async def test_a_token_for_another_audience_is_never_reviewed(text: str) -> None:
    reviewer = Reviewer()
    assert await Authenticator(reviewer).identify(f"Bearer {text}") is None
    assert reviewer.reviews == 0


async def test_a_flood_of_invalid_tokens_is_not_reviewed_and_displaces_no_valid_token(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(auth, "REMEMBERED", 3)
    monkeypatch.setattr(auth, "REMEMBERED_REFUSALS", 3)
    clock, reviewer = Clock(), Reviewer()
    who = Authenticator(reviewer, clock=clock)
    good = f"Bearer {token(clock() + 100)}"
    assert await who.identify(good) == POD
    reviewer.answer = None
    for number in range(int(auth.REVIEW_BURST)):
        assert await who.identify(f"Bearer {token(0, str(number))}") is None
    reviews = reviewer.reviews
    with pytest.raises(TooManyTokensError):
        await who.identify(f"Bearer {token(0, 'more')}")
    assert await who.identify(good) == POD
    assert reviewer.reviews == reviews
    clock.tick(1)
    assert await who.identify(f"Bearer {token(0, 'more')}") is None
    assert reviewer.reviews == reviews + 1


async def test_all_pods_may_connect_at_once() -> None:
    clock, reviewer = Clock(), Reviewer()
    who = Authenticator(reviewer, clock=clock)
    for number in range(600):
        assert await who.identify(f"Bearer {token(clock() + 100, pod=str(number))}", "10.0.0.1") == POD


@pytest.mark.parametrize(
    "claims",
    [
        {},
        {"kubernetes.io": 3},
        {"kubernetes.io": {"pod": "p1"}},
        {"kubernetes.io": {"pod": {"uid": 3}}},
    ],
)
def test_a_token_that_names_no_pod_claims_none(claims: dict[str, object]) -> None:
    assert claimed_pod(claims) == ""


async def test_a_token_that_names_an_unknown_pod_is_never_reviewed() -> None:
    reviewer = Reviewer()
    who = Authenticator(reviewer, lambda uid: uid == "p1", Clock())
    with pytest.raises(UnknownPodError):
        await who.identify(f"Bearer {token(0, pod='p2')}")
    assert await who.identify(f"Bearer {token(0, pod='')}") is None
    assert reviewer.reviews == 0


class Mixed(Reviewer):
    """Knows the genuine tokens by their mark."""

    async def __call__(self, text: str) -> Identity | None:
        self.reviews += 1
        return POD if claims_of(text).get("mark") == "genuine" else None


@pytest.mark.parametrize("forged", ["unknown pod", "another pod", "the same pod", "many pods"])
async def test_forged_tokens_delay_no_honest_pod(forged: str) -> None:
    """Breaks if honest pods share a bucket with a caller who forges 1,000 tokens a second."""
    clock, reviewer = Clock(), Mixed()
    who = Authenticator(reviewer, lambda uid: uid != "p9", clock)
    pods = {
        "unknown pod": ["p9"],
        "another pod": ["p2"],
        "the same pod": ["p1"],
        "many pods": list(map(str, range(999))),
    }
    pod = cycle(pods[forged])
    for second in range(30):
        for number in range(1000):
            with suppress(UnknownPodError, TooManyTokensError):
                assert await who.identify(f"Bearer {token(0, f'{second}-{number}', next(pod))}", "10.0.0.66") is None
        # Each time a token that was not seen before, as after a restart of the operator.
        assert await who.identify(f"Bearer {token(1e9 + second, 'genuine')}", "10.0.0.1") == POD
        clock.tick(1)
    assert reviewer.reviews <= 30 + auth.SOURCE_BURST + 30 * auth.SOURCE_RATE
    if forged != "many pods":
        assert reviewer.reviews <= 30 + auth.REVIEW_BURST + 30 * auth.REVIEW_RATE


async def test_reviews_leave_connections_for_other_requests() -> None:
    running = most = 0

    async def slow(text: str) -> Identity | None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0)
        running -= 1
        return POD

    who = ReviewedTokens(slow, Clock())
    assert await asyncio.gather(*(who.identify(f"t{n}", f"10.0.0.{n}") for n in range(500))) == [POD] * 500
    assert most == auth.REVIEWS_AT_ONCE
