"""How the writers of several nodes talk: strangers, garbage, nodes that go away, and answers that stay in step."""

import json
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from tests.support.trainer.folders import pod
from tests.support.waiting import wait_for

from holdfast_train.commitlog.log import CommitLog
from holdfast_train.environment import Environment
from holdfast_train.errors import (
    AlreadyCompleteError,
    CheckpointCorruptError,
    EnvironmentVariableError,
    FencedError,
    StorageDeniedError,
    StorageError,
    StorageFullError,
    StorageUnreachableError,
)
from holdfast_train.folder import link
from holdfast_train.folder.link import Connection, Message, NodeAwayError, Server, answer_of, connect, error_of
from holdfast_train.folder.snapshot import ChangedError
from holdfast_train.storage.folder import FolderStorage


class Talk:
    """A server with two other nodes, and the storage in which it says where it listens."""

    def __init__(self, place: Path) -> None:
        (place / "store").mkdir()
        self.place = place
        self.storage = FolderStorage(place / "store" / "job")
        self.server = Server(self.environment(0), self.storage)

    def environment(self, rank: int, attempt: int = 1) -> Environment:
        own = {"HOLDFAST_NODES": "3", "HOLDFAST_RANK": str(rank), "HOLDFAST_POD_IP": "127.0.0.1"}
        found = Environment.read(pod(self.place / "outputs", self.storage.uri, attempt, self.place / "log", **own))
        assert found is not None
        return found

    def where(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.storage.get("writers/000000000001.json"))
        return found

    def stranger(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.where()["port"]), 10)

    def join(self, rank: int) -> Connection:
        """A node that is connected. It answers nothing by itself."""
        before = self.server._links.get(rank)
        found = connect(self.environment(rank), self.storage, lambda: False, is_patient=False)
        assert found is not None
        wait_for(lambda: self.server._links.get(rank) not in (None, before), 10, "the server to take it")
        return found


@contextmanager
def answering(connected: Connection, answer: Callable[[Message], Message]) -> Iterator[list[Message]]:
    """The node answers each message. What it was asked."""
    asked: list[Message] = []

    def serve() -> None:
        try:
            while True:
                message = connected.receive()
                asked.append(message)
                connected.send(answer(message))
        except OSError:
            return

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield asked
    finally:
        connected.close()
        thread.join(10)


@pytest.fixture
def talk(tmp_path: Path) -> Talk:
    return Talk(tmp_path)


def echo(message: Message) -> Message:
    return {"heard": message["number"]}


def framed(data: bytes) -> bytes:
    return struct.pack("!I", len(data)) + data


# Breaks if a node that answers is not heard.
def test_ask_and_answer(talk: Talk) -> None:
    assert talk.server.missing == [1, 2]
    with answering(talk.join(1), echo), answering(talk.join(2), echo):
        assert talk.server.missing == []
        talk.server.wait_for_all()
        answers, own = talk.server.ask({1: {"number": 5}, 2: {"number": 6}}, lambda: "own")
    assert answers == {1: {"heard": 5}, 2: {"heard": 6}}
    assert own == "own"


# Breaks if somebody who cannot read the storage takes the place of a node, or keeps a thread for ever.
@pytest.mark.parametrize(
    "hello",
    [
        {"rank": 1, "token": "0" * 32},
        {"rank": 1, "token": ""},
        {"rank": 1, "token": None},
        {"rank": 1},
        {"token": "right"},
        {"rank": 0, "token": "right"},
        {"rank": 3, "token": "right"},
        {"rank": -1, "token": "right"},
        {"rank": "one", "token": "right"},
        {"rank": None, "token": "right"},
        {"rank": 1, "token": "right", "long": "x" * 5000},
        ["rank", 1],
        None,
    ],
)
def test_a_stranger_is_no_node(talk: Talk, hello: Any) -> None:
    if isinstance(hello, dict) and hello.get("token") == "right":
        hello["token"] = talk.where()["token"]
    with talk.stranger() as stranger:
        stranger.sendall(framed(json.dumps(hello).encode()))
        assert ended(stranger)
    assert talk.server.missing == [1, 2]


def ended(connected: socket.socket) -> bool:
    """Whether the other side has ended the connection without a word."""
    try:
        return connected.recv(1) == b""
    except ConnectionResetError:  # it has not read everything
        return True


# Breaks if bytes that are no message end the server, or if memory is taken for a message before it is known who sends.
@pytest.mark.parametrize(
    "data", [b"GET / HTTP/1.1\r\n\r\n", b"\0\0\0\1{", b"\xff" * 64, framed(b"\xff\xfe"), framed(b"[" * 4000), b"\0\0"]
)
def test_garbage_is_no_message(talk: Talk, data: bytes) -> None:
    with talk.stranger() as stranger:
        with suppress(OSError):  # it may have been sent away already
            stranger.sendall(data)
            stranger.shutdown(socket.SHUT_WR)
        assert ended(stranger)
    with answering(talk.join(1), echo):
        assert talk.server.ask({1: {"number": 1}}, lambda: None)[0] == {1: {"heard": 1}}


# Breaks if a node that works on its answer is taken for one that is away, or one that hangs is awaited for ever.
def test_a_node_that_takes_long_says_that_it_lives(talk: Talk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(link, "ALIVE_SECONDS", 0.05)
    monkeypatch.setattr(link, "SILENT_SECONDS", 2.0)
    connected, over = talk.join(1), threading.Event()

    def work() -> None:
        connected.receive()
        with connected.alive():
            over.wait(60)
        connected.send({"heard": 1})
        connected.receive()

    thread = threading.Thread(target=work)
    thread.start()
    threading.Timer(3.0, over.set).start()
    assert talk.server.ask({1: {"number": 1}}, lambda: None)[0] == {1: {"heard": 1}}
    with pytest.raises(NodeAwayError, match="timed out"):
        talk.server.ask({1: {"number": 2}}, lambda: None)
    thread.join()
    connected.close()


# Breaks if one who connects and says nothing keeps the nodes from being heard, or stays for ever.
def test_a_silent_stranger_is_sent_away(talk: Talk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(link, "HELLO_SECONDS", 0.2)
    with talk.stranger() as stranger, answering(talk.join(1), echo):
        assert talk.server.ask({1: {"number": 1}}, lambda: None)[0] == {1: {"heard": 1}}
        assert ended(stranger)


# Breaks if one who sends a byte now and then stays for hours.
def test_a_slow_stranger_is_sent_away(talk: Talk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(link, "HELLO_SECONDS", 0.5)
    with talk.stranger() as stranger:
        stranger.settimeout(0.1)
        stranger.sendall(struct.pack("!I", 4000))

        def is_sent_away() -> bool:
            try:
                stranger.sendall(b" ")
                return stranger.recv(1) == b""
            except TimeoutError:
                return False
            except ConnectionError:
                return True

        wait_for(is_sent_away, 10, "the stranger to be sent away")


# Breaks if strangers that take all files of the process for a moment keep all nodes out from then on.
def test_a_connection_that_cannot_be_taken(talk: Talk, monkeypatch: pytest.MonkeyPatch) -> None:
    server, failures = (
        Server.__new__(Server),
        [OSError(24, "Too many open files"), RuntimeError("can't start new thread")],
    )
    taken = threading.Event()

    class Crowded:
        def accept(self) -> Any:
            if failures:
                raise failures.pop()
            taken.set()
            threading.Event().wait()

    server._socket = Crowded()  # type: ignore[assignment]
    threading.Thread(target=server._accept, daemon=True).start()
    assert taken.wait(10)


# Breaks if a node that was started again is not heard, or its earlier connection still is.
def test_the_newest_connection_of_a_node_counts(talk: Talk) -> None:
    earlier = talk.join(1)
    with answering(talk.join(1), echo):
        assert talk.server.ask({1: {"number": 2}}, lambda: None)[0] == {1: {"heard": 2}}
    with pytest.raises(OSError, match=r"ended|reset|descriptor"):
        earlier.receive()


# Breaks if a node that is away is taken for one that answers, if the others are not asked, or if node 0 goes on.
def test_a_node_that_is_not_there(talk: Talk) -> None:
    with answering(talk.join(1), echo) as asked, pytest.raises(NodeAwayError, match="node 2"):
        talk.server.ask({1: {"number": 1}, 2: {"number": 1}}, lambda: None)
    assert asked == [{"number": 1}]


# Breaks if a node that goes away in the middle of an answer holds node 0 up, or the other nodes get out of step.
def test_a_node_that_goes_away_while_it_is_asked(talk: Talk) -> None:
    leaving = talk.join(2)

    def leave() -> None:
        assert leaving.receive() == {"number": 1}
        leaving._socket.sendall(b"\0\0\0\x50{")  # the beginning of an answer
        leaving.close()

    with answering(talk.join(1), echo):
        with pytest.raises(NodeAwayError, match="node 2 does not answer"):
            talk.server.ask({1: {"number": 1}, 2: {"number": 1}}, leave)
        assert talk.server.missing == [2]
        assert talk.server.ask({1: {"number": 2}}, lambda: None)[0] == {1: {"heard": 2}}
        with answering(talk.join(2), echo):
            answers, _ = talk.server.ask({1: {"number": 3}, 2: {"number": 4}}, lambda: None)
            assert answers == {1: {"heard": 3}, 2: {"heard": 4}}


# Breaks if an answer that is no message, or is too long, is believed, or if the next answer is read from its middle.
@pytest.mark.parametrize("answer", [framed(b"[1]"), framed(b"no"), struct.pack("!I", link.MOST_BYTES + 1)])
def test_an_answer_that_is_none(talk: Talk, answer: bytes) -> None:
    node = talk.join(1)
    with pytest.raises(NodeAwayError, match="node 1"):
        talk.server.ask({1: {"number": 1}}, lambda: node._socket.sendall(answer))
    assert talk.server.missing == [1, 2]


# Breaks if, after an error of node 0 or of one node, an answer is taken for that to the next question.
def test_answers_stay_in_step_after_an_error(talk: Talk) -> None:
    def answer(message: Message) -> Message:
        return {"error": "changed", "what": "a file"} if message["number"] == 2 else echo(message)

    def fail() -> None:
        raise ChangedError("a", "changed")

    with answering(talk.join(1), answer), answering(talk.join(2), echo):
        with pytest.raises(ChangedError, match="a changed"):
            talk.server.ask({1: {"number": 1}, 2: {"number": 1}}, fail)
        with pytest.raises(ChangedError, match="node 1: a file"):
            talk.server.ask({1: {"number": 2}, 2: {"number": 3}}, lambda: None)
        assert talk.server.ask({1: {"number": 4}, 2: {"number": 5}}, lambda: None)[0] == {
            1: {"heard": 4},
            2: {"heard": 5},
        }


# Breaks if an error of another node becomes one that ends the training, or loses its words.
@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (ChangedError("a", "changed"), ChangedError),
        (CheckpointCorruptError("broken"), CheckpointCorruptError),
        (StorageFullError("no room"), StorageFullError),
        (StorageUnreachableError("silent"), StorageError),
        (OSError(5, "input/output"), StorageError),
        (EnvironmentVariableError("wrong"), EnvironmentVariableError),
    ],
)
def test_errors_of_nodes(error: Exception, kind: type[Exception]) -> None:
    found = error_of(3, answer_of(error))
    assert type(found) is kind
    assert "node 3" in str(found)
    assert str(error).partition(" ")[2] in str(found)


class Failing(FolderStorage):
    """A storage that answers nothing until `failures` calls have failed."""

    failures = 0
    error: type[StorageError] = StorageUnreachableError

    def get(self, key: str) -> bytes:
        if self.failures:
            self.failures -= 1
            raise self.error("silent")
        return super().get(key)


# Breaks if a program ends because the storage is silent while the process beside it looks for node 0; or if a start
# does not say that its storage is wrong.
@pytest.mark.parametrize("error", [StorageUnreachableError, StorageDeniedError])
def test_a_storage_that_fails_while_a_node_looks_for_node_0(
    talk: Talk, monkeypatch: pytest.MonkeyPatch, error: type[StorageError]
) -> None:
    monkeypatch.setattr(link, "LOOK_SECONDS", 0.01)
    storage = Failing(talk.place / "store" / "job")
    storage.failures, storage.error = 3, error
    found = connect(talk.environment(1), storage, lambda: False, is_patient=True)
    assert found is not None
    found.close()
    storage.failures = 3
    with pytest.raises(error):
        connect(talk.environment(1), storage, lambda: False, is_patient=False)


# Breaks if a node of an attempt that is over waits for its node 0 for ever, or beyond the time that it has.
def test_a_node_waits_only_as_long_as_its_attempt_counts(talk: Talk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(link, "LOOK_SECONDS", 0.01)
    earlier = talk.environment(1, attempt=4)
    assert connect(earlier, talk.storage, iter([False, True]).__next__, is_patient=True) is None
    log = CommitLog(talk.storage, talk.environment(0, attempt=5).identity)
    log.own("Auto")
    log.raise_fence()
    with pytest.raises(FencedError):
        connect(earlier, talk.storage, lambda: False, is_patient=True)
    log.complete(7)
    with pytest.raises((AlreadyCompleteError, FencedError)):
        connect(talk.environment(1, attempt=6), talk.storage, lambda: False, is_patient=True)
