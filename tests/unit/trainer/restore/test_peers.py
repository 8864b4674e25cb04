"""A rank reads files in the memory of another node, and goes on without it if that node does not send them."""

import os
import pickle
import socket
from collections.abc import Iterator

import pytest

from holdfast_train.memory_file import memory_file
from holdfast_train.restore import peers
from holdfast_train.restore.peers import Peer, PeerFile, PeerServer

DATA = os.urandom(300_000)


@pytest.fixture
def server() -> Iterator[PeerServer]:
    files = [memory_file("a-test"), memory_file("a-test")]
    os.write(files[0], DATA)
    found = PeerServer("127.0.0.1", {3: files})
    yield found
    found.close()
    for file in files:
        os.close(file)


def of(server: PeerServer) -> Peer:
    """As another rank gets it."""
    found = pickle.loads(pickle.dumps(server.peer))
    assert isinstance(found, Peer)
    return found


def test_ranges_fill_several_pieces_of_memory(server: PeerServer) -> None:
    peer = of(server)
    file = PeerFile(peer, 3, 0)
    for _ in range(2):
        pieces = [bytearray(100_000), bytearray(1), bytearray(99)]
        assert file.fill(100_000, [memoryview(piece) for piece in pieces])
        assert b"".join(pieces) == DATA[100_000:200_100]
    peer.close()
    assert not file.fill(0, [memoryview(bytearray(1))])


# Breaks if a missing range ends the connection: the ranges after it could be there.
@pytest.mark.parametrize(("rank", "index", "offset"), [(3, 1, 0), (3, 2, 0), (4, 0, 0), (3, 0, len(DATA) - 9)])
def test_what_is_not_there(server: PeerServer, rank: int, index: int, offset: int) -> None:
    peer = of(server)
    view = memoryview(bytearray(10))
    assert not PeerFile(peer, rank, index).fill(offset, [view])
    assert PeerFile(peer, 3, 0).fill(len(DATA) - 10, [view])
    assert bytes(view) == DATA[-10:]
    peer.close()


# Breaks if any process of the cluster can read the state of a training.
def test_without_the_token_nothing_is_sent(server: PeerServer, capsys: pytest.CaptureFixture[str]) -> None:
    host, port, token = server.peer.__getstate__()
    peer = Peer(host, port, bytes(len(token)))
    for _ in range(2):
        assert not PeerFile(peer, 3, 0).fill(0, [memoryview(bytearray(10))])
    assert capsys.readouterr().err.count("does not send its copy") == 1


# Breaks if a node that hangs stops the restore of all others.
def test_a_node_that_does_not_answer_is_asked_once(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(peers, "SILENT_SECONDS", 0.1)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        peer = Peer("127.0.0.1", silent.getsockname()[1], bytes(16))
        for _ in range(3):
            assert not PeerFile(peer, 3, 0).fill(0, [memoryview(bytearray(10))])
    assert capsys.readouterr().err.count("does not send its copy") == 1


def test_a_server_ends_with_its_connections(server: PeerServer) -> None:
    peer = of(server)
    assert PeerFile(peer, 3, 0).fill(0, [memoryview(bytearray(10))])
    server.close()
    assert not PeerFile(peer, 3, 0).fill(0, [memoryview(bytearray(10))])
    peer.close()


def test_an_address_of_another_machine_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    assert PeerServer.start("192.0.2.1", {}) is None
    assert "other nodes cannot read" in capsys.readouterr().err
    assert PeerServer.start(None, {}) is None
