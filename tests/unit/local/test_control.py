"""Orders to the node agent: one line there, one line back, and every failure in words."""

import json
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from holdfast_local.control import order
from holdfast_local.errors import ControlError
from holdfast_local.layout import Layout

Agent = Callable[[bytes], list[bytes]]


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[Agent]:
    """Answers one order with the given bytes; the list holds what was asked."""
    threads: list[threading.Thread] = []
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.bind(str(tmp_path / "agent.sock"))
    listener.listen()

    def serve(answer: bytes) -> list[bytes]:
        asked: list[bytes] = []

        def run() -> None:
            connection, _ = listener.accept()
            with connection, connection.makefile("rb") as lines:
                asked.append(lines.readline())
                connection.sendall(answer)

        threads.append(threading.Thread(target=run))
        threads[-1].start()
        return asked

    yield serve
    for thread in threads:
        thread.join(10)
    listener.close()


def test_an_order_is_one_json_line(agent: Agent, tmp_path: Path) -> None:
    asked = agent(b'{"ok": true}\n')
    order(Layout(tmp_path), "reclaim", "spot-1", noticeSeconds=30.0)
    assert json.loads(asked[0]) == {"op": "reclaim", "node": "spot-1", "noticeSeconds": 30.0}


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (b'{"ok": false, "error": "no node spot-9"}\n', "crash spot-9: no node spot-9"),
        (b"hello\n", "'hello.n', which is not an answer"),
        (b"", "which is not an answer"),
        (b"[]\n", "which is not an answer"),
    ],
)
def test_a_refusal_has_a_message_for_people(agent: Agent, tmp_path: Path, answer: bytes, words: str) -> None:
    agent(answer)
    with pytest.raises(ControlError, match=words):
        order(Layout(tmp_path), "crash", "spot-9")


def test_no_agent(tmp_path: Path) -> None:
    with pytest.raises(ControlError, match=r"does not answer.*holdfast local status"):
        order(Layout(tmp_path), "crash", "spot-1")
