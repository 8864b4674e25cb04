"""NCCL's report of its communicators. No NCCL runs without a GPU, so a server of text takes its place."""

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from holdfast_train.pod.launcher.hang import nccl
from holdfast_train.pod.launcher.hang.nccl import ras_status


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
        assert ras_status({"NCCL_RAS_ADDR": address}).endswith("2.27.5\n  Rank 1 has status MISSING\n")
    assert asked == [b"verbose status\n"]


def test_a_report_without_end_is_cut() -> None:
    def answer(connection: socket.socket) -> None:
        try:
            while True:
                connection.sendall(b"x" * 4096)
        except OSError:  # the reader has what it wants
            return

    with server(answer) as (address, _):
        assert len(ras_status({"NCCL_RAS_ADDR": address})) == nccl.MOST_BYTES


def test_nothing_where_nobody_answers() -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    assert ras_status({"NCCL_RAS_ADDR": f"127.0.0.1:{port}"}) == ""
    assert ras_status({"NCCL_RAS_ADDR": "nonsense"}) == ""


def test_not_asked_if_it_is_off() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.setblocking(False)
        address = f"127.0.0.1:{listening.getsockname()[1]}"
        assert ras_status({"NCCL_RAS_ADDR": address, "NCCL_RAS_ENABLE": "0"}) == ""
        try:
            listening.accept()
        except BlockingIOError:
            return
    raise AssertionError("it was asked")
