"""The server for the program's posts: it answers at once, and nothing that is sent to it takes more than its bounds."""

import http.client
import json
import socket
from collections.abc import Iterator
from typing import Any

import pytest
from tests.support.waiting import wait_for

from holdfast_train.pod.launcher.progress import status_server
from holdfast_train.pod.launcher.progress.status_server import CONNECTIONS, MAX_BODY, MAX_HEAD, StatusServer

PATH = "/status"
GOOD = {"Authorization": "Bearer secret", "Content-Type": "application/json"}


class Site:
    def __init__(self) -> None:
        self.statuses: list[dict[str, Any]] = []
        self.server = StatusServer("127.0.0.1", PATH, "secret", self.statuses.append)
        self.server.start()

    def post(self, body: bytes, path: str = PATH, **headers: str) -> tuple[int, bytes]:
        connection = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=30)
        try:
            connection.request("POST", path, body, {**GOOD, **headers})
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()

    def connect(self, data: bytes = b"") -> socket.socket:
        client = socket.create_connection(("127.0.0.1", self.server.port), timeout=30)
        client.sendall(data)
        return client


@pytest.fixture
def site() -> Iterator[Site]:
    site = Site()
    yield site
    site.server.stop()


def test_the_status_comes_back_as_it_was_sent(site: Site) -> None:
    body = b'{"trainerStatus":  {"metrics": []}}'
    assert site.post(body) == (200, body)
    assert site.statuses == [json.loads(body)]


@pytest.mark.parametrize(
    ("body", "path", "headers", "status"),
    [
        (b"{}", PATH, {"Authorization": "Bearer wrong"}, 403),
        (b"{}", PATH, {"Authorization": "secret"}, 403),
        (b"{}", PATH, {"Authorization": "Bearer secret2"}, 403),
        (b"{}", "/else", {}, 404),
        (b"{", PATH, {}, 422),
        (b"[]", PATH, {}, 422),
        (b"", PATH, {}, 422),
        (b"\xff", PATH, {}, 422),
        (b"[" * 60_000, PATH, {}, 422),
        (b"1" * 60_000, PATH, {}, 422),
        (b"{}", PATH, {"Content-Length": str(MAX_BODY + 1)}, 413),
    ],
)
def test_refusals(site: Site, body: bytes, path: str, headers: dict[str, str], status: int) -> None:
    found, text = site.post(body, path, **headers)
    assert (found, json.loads(text)["code"], json.loads(text)["status"]) == (status, status, "Failure")
    assert site.statuses == []


def test_the_longest_body(site: Site) -> None:
    body = b'{"a": "' + b"x" * (MAX_BODY - 9) + b'"}'
    assert len(body) == MAX_BODY
    assert site.post(body) == (200, body)


# Breaks if the memory of a head has no bound.
def test_a_head_without_end(site: Site) -> None:
    with site.connect(b"POST /status HTTP/1.1\r\nX: " + b"x" * (MAX_HEAD + 1)) as client:
        assert client.recv(100).startswith(b"HTTP/1.1 413 ")


# Breaks if a client that is slow, or many of them, keep the program's post from being answered.
def test_slow_clients_do_not_delay_a_post(site: Site) -> None:
    head = b"POST /status HTTP/1.1\r\nAuthorization: Bearer secret\r\nContent-Length: 100\r\n\r\n{"
    slow = [site.connect(head if number % 2 else b"P") for number in range(CONNECTIONS * 3)]
    assert site.post(b"{}") == (200, b"{}")
    assert slow[0].recv(100) == b"", "the oldest ones are closed"
    assert len(site.server._open) <= CONNECTIONS
    for client in slow:
        client.close()
    wait_for(lambda: not site.server._open, 10, "closed connections to be forgotten")


# Breaks if a client that sends a byte now and then may stay.
def test_a_request_has_a_time_limit(monkeypatch: pytest.MonkeyPatch, site: Site) -> None:
    monkeypatch.setattr(status_server, "SECONDS", 0.05)
    with site.connect(b"POST") as client:
        assert client.recv(100) == b""


def test_a_thousand_posts(site: Site) -> None:
    bodies = [json.dumps({"n": number}).encode() for number in range(1000)]
    assert all(site.post(body) == (200, body) for body in bodies)
    assert [status["n"] for status in site.statuses] == list(range(1000))


# Breaks if the port can be reached from another pod.
def test_it_listens_on_the_loopback_alone(site: Site) -> None:
    assert site.server._listening.getsockname()[0] == "127.0.0.1"
