"""PeerCopies in memory: their notes, and another node that keeps them."""

import contextlib
import os
import socket
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
from tests.support.waiting import wait_for

from holdfast_train.errors import StorageError
from holdfast_train.format.copy_note import CopyNote
from holdfast_train.format.fragment import Fragment
from holdfast_train.format.manifest import Part
from holdfast_train.format.names import CheckpointName
from holdfast_train.keeper_memory import OF_PEER, KeeperMemory, file_numbers
from holdfast_train.memory_file import memory_file
from holdfast_train.pod.launcher.keeper import Keeper
from holdfast_train.save import peer_copies
from holdfast_train.save.arena import Arenas
from holdfast_train.save.job import Job
from holdfast_train.save.links import CopyLinks
from holdfast_train.save.peer_copies import CopyReceiver, CopySender, PeerCopies
from holdfast_train.storage.checksums import chunk_sums

CHUNK = 1000
NAME = CheckpointName(9, 2, "aa")
DATA = os.urandom(5_500)
TOKEN = b"0123456789abcdef"


def note_of(data: bytes, step: int = 9) -> CopyNote:
    name = CheckpointName(step, 2, "aa")
    cut = 3_000
    parts = [
        Part(name.part_key(1, number), len(piece), CHUNK, chunk_sums(piece, CHUNK))
        for number, piece in enumerate((data[:cut], data[cut:]))
    ]
    return CopyNote(name, 2, Fragment(1, "form", share=(parts[0],), own=(parts[1],)), has_frozen=False)


@pytest.fixture
def kept(tmp_path: Path) -> Iterator[KeeperMemory]:
    keeper = Keeper(str(tmp_path / "keeper"))
    yield KeeperMemory(keeper.address)
    keeper.close()


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as found:
        yield found
        if found.fileno() >= 0:
            found.shutdown(socket.SHUT_RDWR)  # ends the thread that accepts


def links(listener: socket.socket, token: bytes = TOKEN) -> CopyLinks:
    return CopyLinks(listener.getsockname(), token, TOKEN, listener.fileno())


def contents(kept: KeeperMemory) -> dict[int, tuple[list[bytes], list[int]]]:
    """By rank: the bytes of its copies, and the steps of the notes."""
    found = kept.list()
    result = {}
    for rank, files in found.files.items():
        data = [os.pread(file, 1 << 20, 0) for file in files]
        result[rank] = (data, [CopyNote.decode(one).name.step for one in found.notes.get(rank, ())])
        for file in files:
            os.close(file)
    return result


def test_the_other_node_keeps_what_was_sent(kept: KeeperMemory, listener: socket.socket) -> None:
    CopyReceiver(listener, TOKEN, kept)
    sender = CopySender(1, links(listener))
    assert sender.send(note_of(DATA).encode(), memoryview(DATA))
    assert contents(kept) == {1: ([DATA], [9])}
    newer = os.urandom(7_000)
    assert sender.send(note_of(newer, 12).encode(), memoryview(newer))
    assert contents(kept) == {1: ([newer], [12])}, "it takes the place of the one before"


# Breaks if a copy that was overwritten while it was sent takes the place of a good one.
def test_a_copy_that_its_note_does_not_fit_is_refused(
    kept: KeeperMemory, listener: socket.socket, capsys: pytest.CaptureFixture[str]
) -> None:
    CopyReceiver(listener, TOKEN, kept)
    sender = CopySender(1, links(listener))
    assert sender.send(note_of(DATA).encode(), memoryview(DATA))
    torn = bytearray(DATA)
    torn[4_000] ^= 1
    for wrong, data in ((note_of(DATA, 12), bytes(torn)), (note_of(DATA, 12), DATA[:-1]), (note_of(DATA), DATA + b"1")):
        assert not sender.send(wrong.encode(), memoryview(data))
    assert not sender.send(b"no note", memoryview(DATA))
    assert contents(kept) == {1: ([DATA], [9])}
    assert capsys.readouterr().err.count("not all bytes are those of its note") == 1, "said once"
    assert sender.send(note_of(DATA, 13).encode(), memoryview(DATA))
    assert "keeps a copy of the state of rank 1" in capsys.readouterr().err


# Breaks if the time for a copy depends on its size: the limit is for silence.
def test_a_slow_node_has_time_as_long_as_it_takes_bytes(
    listener: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(peer_copies, "SILENT_SECONDS", 0.5)
    monkeypatch.setattr(peer_copies, "SLICE", 1 << 16)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 14)
    data, pause = bytes(6 << 20), threading.Event()

    def read_slowly() -> None:
        connection, _ = listener.accept()
        with connection:
            left = len(data) + peer_copies._HEADER.size
            while left > 0:
                left -= len(connection.recv(1 << 18))
                pause.wait(0.01)
            connection.sendall(peer_copies._KEPT)

    thread = threading.Thread(target=read_slowly)
    thread.start()
    begun = time.monotonic()
    assert CopySender(1, links(listener)).send(b"", memoryview(data))
    assert time.monotonic() - begun > 0.5
    thread.join(30)


def test_without_memory_for_it_a_copy_is_refused(
    kept: KeeperMemory, listener: socket.socket, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(peer_copies, "fits", lambda size: size < 5_000)
    CopyReceiver(listener, TOKEN, kept)
    assert not CopySender(1, links(listener)).send(note_of(DATA).encode(), memoryview(DATA))
    assert contents(kept) == {}
    assert "it has no memory for it" in capsys.readouterr().err


# Breaks if a stranger in the cluster can fill the memory of a node, or stop the copies of the training.
@pytest.mark.parametrize("what", [b"GET / HTTP/1.1\r\n\r\nmore than a header", b"", TOKEN[:8]])
def test_a_stranger_is_turned_away(kept: KeeperMemory, listener: socket.socket, what: bytes) -> None:
    CopyReceiver(listener, TOKEN, kept)
    with socket.create_connection(listener.getsockname()) as stranger:
        stranger.sendall(what)
        stranger.settimeout(30)
        with contextlib.suppress(ConnectionResetError):  # not all that it has sent was read
            assert stranger.recv(1) == b""
    assert not CopySender(1, links(listener, token=bytes(16))).send(note_of(DATA).encode(), memoryview(DATA))
    assert contents(kept) == {}
    assert CopySender(1, links(listener)).send(note_of(DATA).encode(), memoryview(DATA))


def test_a_node_that_is_away_does_not_stop_the_training(
    listener: socket.socket, capsys: pytest.CaptureFixture[str]
) -> None:
    found = links(listener)
    listener.close()
    sender = CopySender(1, found)
    assert not sender.send(b"", memoryview(DATA))
    assert not sender.send(b"", memoryview(DATA))
    assert capsys.readouterr().err.count("does not keep the copy of the state of rank 1") == 1


class Saves:
    """`note_of` of saves whose copies the test completes."""

    def __init__(self) -> None:
        self.ready = threading.Event()
        self.fails = False
        self.seen: list[int] = []

    def note_of(self, job: Job) -> CopyNote:
        assert self.ready.wait(30)
        self.seen.append(job.save.step)
        if self.fails:
            raise StorageError("given up")
        return replace(note_of(DATA), name=CheckpointName(job.save.step, 2, "aa"))


def save(step: int) -> Job:
    """As much of a job as is looked at."""
    of = type("Save", (), {"step": step, "arena": 0})
    return cast("Any", type("Job", (), {"save": of, "arriving": type("Bytes", (), {"view": memoryview(DATA)})}))


def noted(kept: KeeperMemory) -> list[int]:
    return [CopyNote.decode(one).name.step for one in kept.list().notes.get(1, ())]


def test_the_newest_save_is_noted_and_older_ones_that_wait_are_not(kept: KeeperMemory) -> None:
    saves = Saves()
    found = PeerCopies(1, 2, kept, saves.note_of)
    found.add(save(3))
    wait_for(lambda: found._next is None, 30, "the first save to be looked at")
    found.add(save(6))
    found.add(save(9))
    saves.ready.set()
    found.end()
    assert saves.seen == [3, 9]
    assert noted(kept) == [9]


# Breaks if one save that is given up ends the notes of all later ones.
def test_a_save_that_is_given_up_has_no_note(kept: KeeperMemory) -> None:
    saves = Saves()
    saves.ready.set()
    saves.fails = True
    found = PeerCopies(1, 2, kept, saves.note_of)
    found.add(save(3))
    wait_for(lambda: saves.seen == [3], 30, "the save that fails")
    saves.fails = False
    found.add(save(6))
    found.end()
    assert noted(kept) == [6]


# Breaks if a second failure right after the first one finds no copy, or if old copies stay for ever.
def test_copies_of_earlier_attempts_are_freed_by_the_first_of_this_one(kept: KeeperMemory) -> None:
    file = memory_file("old")
    for number in file_numbers(1):
        kept.keep(1, number, file)
    kept.note(1, file_numbers(1)[0], note_of(DATA).encode())
    kept.keep(0, OF_PEER, file)
    arenas = Arenas(1, kept, 1, file_numbers(2), keeps_old=True)
    arenas.make(0, 100)
    assert len(contents(kept)[1][0]) == 3
    saves = Saves()
    saves.ready.set()
    found = PeerCopies(1, 2, kept, saves.note_of)
    found.add(save(12))
    found.end()
    assert {rank: (len(files), notes) for rank, (files, notes) in contents(kept).items()} == {0: (1, []), 1: (1, [12])}
    arenas.close()
    os.close(file)
