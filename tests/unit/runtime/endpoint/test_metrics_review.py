from typing import Any

import pytest
from tests.support.operator.fake_api_server import FakeClient

from holdfast.runtime.endpoint.metrics_review import MetricsReviewer
from holdfast.serve.metrics_endpoint import Reader

USER = {"username": "system:serviceaccount:monitoring:prometheus", "groups": ["g"], "uid": "u", "extra": {"k": ["v"]}}


async def reviewed(token_status: dict[str, Any], access_status: dict[str, Any]) -> tuple[Reader | None, FakeClient]:
    client = FakeClient()
    client.on("POST", "tokenreviews", {"status": token_status})
    client.on("POST", "subjectaccessreviews", {"status": access_status})
    return await MetricsReviewer(client)("t"), client


@pytest.mark.parametrize("allowed", [True, False])
async def test_a_user_may_read_if_the_api_server_says_so(allowed: bool) -> None:
    reader, client = await reviewed({"authenticated": True, "user": USER}, {"allowed": allowed})
    assert reader == Reader(USER["username"], allowed)  # type: ignore[arg-type]
    (_, token), (_, access) = client.sent("POST")
    assert token["spec"] == {"token": "t"}
    assert access["spec"] == {
        "user": USER["username"],
        "groups": ["g"],
        "uid": "u",
        "extra": {"k": ["v"]},
        "nonResourceAttributes": {"path": "/metrics", "verb": "get"},
    }


@pytest.mark.parametrize("status", [{}, {"authenticated": False}, {"authenticated": True, "user": {}}])
async def test_an_invalid_token_has_no_user_and_no_second_review(status: dict[str, Any]) -> None:
    reader, client = await reviewed(status, {"allowed": True})
    assert reader is None
    assert len(client.sent("POST")) == 1
