import asyncio

import pytest
from tests.support.operator.fake_api_server import FakeClient

from holdfast.runtime.endpoint.serving_ca import read_or_create_ca
from holdfast.runtime.endpoint.token_review import TokenReviewer
from holdfast.runtime.errors import ConfigurationError
from holdfast.serve.auth import Identity

REVIEWS = "tokenreviews"


async def test_operators_that_start_together_agree_on_one_ca() -> None:
    client = FakeClient()
    first, second = await asyncio.gather(read_or_create_ca(client, "ns"), read_or_create_ca(client, "ns"))
    assert first == second
    assert await read_or_create_ca(client, "ns") == first


async def test_a_secret_with_something_else_is_named() -> None:
    client = FakeClient()
    client.put("/api/v1/namespaces/ns/secrets/holdfast-serving", {"metadata": {}, "data": {"tls.crt": "eA=="}})
    with pytest.raises(ConfigurationError, match=r"ns/holdfast-serving must have the keys ca\.crt"):
        await read_or_create_ca(client, "ns")


def review(**status: object) -> dict[str, object]:
    return {"status": {"authenticated": True, "audiences": ["holdfast"], **status}}


USER = {"username": "system:serviceaccount:team:default", "extra": {"authentication.kubernetes.io/pod-uid": ["p1"]}}


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (review(user=USER), Identity("team", "p1")),
        (review(user=USER, authenticated=False), None),
        (review(user=USER, audiences=["https://kubernetes"]), None),
        (review(user={**USER, "extra": {}}), None),
        (review(user={**USER, "username": "alice"}), None),
        ({}, None),
    ],
)
async def test_only_a_pods_token_for_our_audience_counts(answer: dict[str, object], expected: Identity | None) -> None:
    client = FakeClient()
    client.on("POST", REVIEWS, answer)
    assert await TokenReviewer(client)("t") == expected
    assert client.sent("POST")[0][1]["spec"] == {"token": "t", "audiences": ["holdfast"]}
