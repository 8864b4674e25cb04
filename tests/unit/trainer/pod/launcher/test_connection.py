"""Calls to the endpoint over TLS."""

import http.client
import threading
from collections.abc import Iterator

import pytest
from tests.support.http.fake_operator import FakeOperator
from tests.support.http.progress_endpoint import Endpoint

from holdfast_protocol.endpoint import MEMBER, PROGRESS
from holdfast_train.pod.launcher.connection import Connection, Target

REPORT = {"podUID": "pod-1", "rank": 0, "attempt": 0, "state": "ready"}


@pytest.fixture
def connection(endpoint: Endpoint) -> Iterator[Connection]:
    url = f"https://127.0.0.1:{endpoint.port}/"
    found = Connection(Target(url, "ns", "job", str(endpoint.token), str(endpoint.ca)), 30.0)
    yield found
    found.close()


# Breaks if each call opens a connection, or if the token is read once only.
def test_one_connection_and_a_fresh_token(connection: Connection, endpoint: Endpoint) -> None:
    for token in ("first", "second"):
        endpoint.token.write_text(f"{token}\n")
        assert connection.call("POST", PROGRESS, {"acknowledged": 0}).status == 200
    assert endpoint.tokens == ["Bearer first", "Bearer second"]
    assert endpoint.reports[0]["path"] == "/v1/namespaces/ns/jobs/job/progress"
    assert endpoint.connections == 1


@pytest.mark.parametrize(("headers", "seconds"), [({"Retry-After": "2"}, 2), ({"Retry-After": "soon"}, 0), ({}, 0)])
def test_retry_after(connection: Connection, endpoint: Endpoint, headers: dict[str, str], seconds: int) -> None:
    endpoint.members.refusal = (503, headers)
    assert connection.call("POST", MEMBER, REPORT, wait=0)[:3] == (503, None, seconds)


# Breaks if nobody learns why the operator refuses a report, or if the page of a proxy gets into a log.
@pytest.mark.parametrize(
    ("says", "told"),
    [
        (b'{"error": "sender: Field required"}', ": sender: Field required"),
        (b'{"error": "two\\nlines"}', ": two lines"),
        (b'{"error": "' + b"x" * 500 + b'"}', ": " + "x" * 200),
        (b'{"error": "\\u001b[31mred"}', ""),
        (b'{"error": 5}', ""),
        (b'{"message": "x"}', ""),
        (b"[]", ""),
        (b"[" * 100_000, ""),
        (b"<html>a proxy</html>", ""),
        (b"", ""),
    ],
)
def test_why_a_report_is_refused(says: bytes, told: str) -> None:
    operator = FakeOperator()
    operator.answers, operator.says = [400], says
    connection = Connection(Target(f"http://127.0.0.1:{operator.server.server_port}", "ns", "job", None, None), 30.0)
    try:
        assert connection.call("POST", PROGRESS, {}) == (400, None, 0, f"HTTP status 400{told}")
    finally:
        connection.close()
        operator.server.shutdown()
        operator.server.server_close()


# Breaks if a launcher whose program has ended goes on waiting for an answer on it, or asks once more.
def test_abort_ends_the_call_of_another_thread(connection: Connection, endpoint: Endpoint) -> None:
    connection.call("POST", MEMBER, REPORT, wait=0)  # a connection that is used again
    errors: list[Exception] = []

    def call() -> None:
        try:
            connection.call("POST", MEMBER, {**REPORT, "podUID": "pod-2"}, wait=60)
        except (OSError, http.client.HTTPException) as error:
            errors.append(error)

    thread = threading.Thread(target=call)
    thread.start()
    endpoint.members.wait_for("pod-2", "ready", 0, 10)
    connection.abort()
    thread.join(10)
    assert not thread.is_alive()
    assert len(errors) == 1
    assert endpoint.connections == 1
    with pytest.raises(ConnectionAbortedError):
        connection.call("POST", MEMBER, REPORT, wait=0)
