from typing import Any

import pytest
from tests.support.operator.fake_api_server import FakeClient

from holdfast.runtime.endpoint.token_review import POD_UID, TokenReviewer
from holdfast.serve.auth import Identity


def answer(**over: Any) -> dict[str, Any]:
    user = {"username": "system:serviceaccount:ns:default", "extra": {POD_UID: ["p1"]}, **over.pop("user", {})}
    return {"status": {"authenticated": True, "audiences": ["holdfast"], "user": user, **over}}


async def review(reply: dict[str, Any]) -> Identity | None:
    client = FakeClient()
    client.on("POST", "tokenreviews", reply)
    identity = await TokenReviewer(client)("secret")
    assert client.calls[0][2]["spec"] == {"token": "secret", "audiences": ["holdfast"]}
    return identity


async def test_a_valid_token_names_its_pod() -> None:
    assert await review(answer()) == Identity(namespace="ns", pod_uid="p1")


@pytest.mark.parametrize(
    "reply",
    [
        {},
        answer(authenticated=False),
        answer(audiences=["https://kubernetes.default.svc"]),
        answer(user={"username": "jane"}),
        answer(user={"extra": {}}),
        answer(user={"extra": {POD_UID: ["p1", "p2"]}}),
    ],
)
async def test_any_other_answer_names_none(reply: dict[str, Any]) -> None:
    assert await review(reply) is None
