"""NCCL's report of its communicators. No NCCL runs without a GPU, so a server of text takes its place."""

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from tests.support.trainer.pod_settings import pod_variables

from holdfast_train.pod.launcher.hang import nccl
from holdfast_train.pod.launcher.hang.nccl import ras_status


def asked_at(address: str, **changes: Any) -> dict[str, str]:
    """The environment of a pod whose gate is on, and whose NCCL answers at `address`."""
    return pod_variables({}, **{"NCCL_RAS_ADDR": address, "gates": ("NcclRas",), **changes})


@contextmanager
def server(answer: Callable[[socket.socket], None]) -> Iterator[tuple[str, list[bytes]]]:
    """Its address, and the lines that it has read."""
    asked: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve() -> None:
            connection, _ = listening.accept()
            with connection, connection.makefile("rb") as lines:
                asked.append(lines.readline())
                answer(connection)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield f"127.0.0.1:{listening.getsockname()[1]}", asked
        thread.join(30)
        assert not thread.is_alive()


def test_the_report() -> None:
    """Breaks if a report that comes in parts is cut, or if NCCL is not asked for the ranks that are behind."""

    def answer(connection: socket.socket) -> None:
        connection.sendall(b"NCCL version 2.27.5\n")
        connection.sendall(b"  Rank 1 has status MISSING\n")

    with server(answer) as (address, asked):
        assert ras_status(asked_at(address)).endswith("2.27.5\n  Rank 1 has status MISSING\n")
    assert asked == [b"verbose status\n"]


def test_a_report_without_end_is_cut() -> None:
    def answer(connection: socket.socket) -> None:
        try:
            while True:
                connection.sendall(b"x" * 4096)
        except OSError:  # the reader has what it wants
            return

    with server(answer) as (address, _):
        assert len(ras_status(asked_at(address))) == nccl.MOST_BYTES


def test_nothing_where_nobody_answers() -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    assert ras_status(asked_at(f"127.0.0.1:{port}")) == ""
    assert ras_status(asked_at("nonsense")) == ""


@pytest.mark.parametrize("changes", [{"NCCL_RAS_ENABLE": "0"}, {"gates": ()}])
def test_not_asked_if_it_is_off_or_has_no_gate(changes: dict[str, Any]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.setblocking(False)
        address = f"127.0.0.1:{listening.getsockname()[1]}"
        assert ras_status(asked_at(address, **changes)) == ""
        with pytest.raises(BlockingIOError):  # nobody has connected
            listening.accept()
