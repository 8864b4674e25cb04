"""Ports are free, different from each other, and a port in use is refused with the name of its user."""

import os
import select
import socket
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import pytest

from holdfast_local.errors import PortTakenError
from holdfast_local.ports import HOST, answers_ok, free


def test_ports_are_different_and_can_be_bound() -> None:
    ports = free([f"p{number}" for number in range(50)])
    assert len(set(ports.values())) == 50
    for port in ports.values():
        with socket.socket() as listener:
            listener.bind((HOST, port))


def test_a_fixed_port_is_kept_and_never_given_to_another_name() -> None:
    wanted = free(["a"])["a"]
    ports = free(["x", "y", "a"], {"a": wanted})
    assert ports["a"] == wanted
    assert len(set(ports.values())) == 3


def test_a_port_in_use_is_refused_and_its_user_named() -> None:
    with socket.socket() as listener:
        listener.bind((HOST, 0))
        listener.listen()
        port = listener.getsockname()[1]
        with pytest.raises(PortTakenError, match=f"port {port} for s3 cannot be used .* process {os.getpid()}"):
            free(["s3"], {"s3": port})


@pytest.fixture
def server() -> Iterator[int]:
    """A port: /good answers 200, /slow too, but late and only if the client still waits; other paths answer 404."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            hung_up = self.path == "/slow" and select.select([self.connection], [], [], 1.2)[0]
            self.send_response(200 if self.path in ("/good", "/slow") and not hung_up else 404)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Print nothing."""

    with ThreadingHTTPServer((HOST, 0), Handler) as found:
        thread = Thread(target=found.serve_forever, args=(0.01,))
        thread.start()
        yield found.server_address[1]
        found.shutdown()
        thread.join()


def test_only_a_200_is_a_good_answer(server: int) -> None:
    assert answers_ok(server, "/good", tls=False)
    assert not answers_ok(server, "/bad", tls=False)
    assert not answers_ok(server, "/good", tls=True), "the server speaks no TLS"


# Breaks if a control plane that is ready counts as not ready because the machine is busy.
def test_a_late_answer_is_an_answer(server: int) -> None:
    assert answers_ok(server, "/slow", tls=False)


def test_a_port_without_a_server_does_not_answer() -> None:
    assert not answers_ok(free(["a"])["a"], "/good", tls=False)
