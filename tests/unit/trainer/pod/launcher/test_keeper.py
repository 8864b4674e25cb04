"""The launcher keeps files in memory for the next program, and gives them for reading only."""

import contextlib
import os
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.waiting import wait_for

from holdfast_train.keeper_memory import KeeperMemory
from holdfast_train.memory_file import memory_file
from holdfast_train.pod.launcher import keeper as module
from holdfast_train.pod.launcher.keeper import Keeper, keeper
from holdfast_train.pod.launcher.timings import Timings


@pytest.fixture
def address(tmp_path: Path) -> Iterator[str]:
    found = Keeper(str(tmp_path / "keeper"))
    yield str(tmp_path / "keeper")
    found.close()


def file_of(text: str, name: str = "a-test") -> int:
    file = memory_file(name)
    os.write(file, text.encode())
    return file


def keep(kept: KeeperMemory, rank: int, number: int, text: str, name: str = "a-test") -> None:
    file = file_of(text, name)
    kept.keep(rank, number, file)
    os.close(file)


def texts(kept: KeeperMemory) -> dict[int, list[str]]:
    found = {}
    for rank, files in kept.list().files.items():
        found[rank] = [os.pread(file, 99, 0).decode() for file in files]
        for file in files:
            os.close(file)
    return found


# Breaks if a file is freed with the process that made it, or if one that was replaced is still kept.
def test_files_outlive_their_maker_until_they_are_replaced_or_dropped(address: str) -> None:
    kept = KeeperMemory(address)
    assert texts(kept) == {}
    for rank, number in ((0, 0), (0, 1), (12, 0), (1, 0)):
        keep(kept, rank, number, f"{rank} {number}")
    keep(kept, 0, 1, "newer")
    assert texts(kept) == {0: ["0 0", "newer"], 1: ["1 0"], 12: ["12 0"]}
    kept.drop(1)  # not 12
    assert texts(kept) == {0: ["0 0", "newer"], 12: ["12 0"]}


def open_files(name: str) -> int:
    """How many open files of this process are the file in memory of this name."""
    found = 0
    for link in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):  # closed since, by another test's thread
            found += f"memfd:{name} " in str(link.readlink())
    return found


# Breaks if each arena that a rank makes leaves its memory behind.
def test_a_replaced_file_is_freed(address: str) -> None:
    kept = KeeperMemory(address)
    for number in range(5):
        keep(kept, 0, 0, str(number), "a-replaced-test")
    wait_for(lambda: open_files("a-replaced-test") == 1, 30, "the files that were replaced to be closed")


# Breaks if a second process can write into memory that its maker and its writer have: then two would own it.
def test_nobody_gets_a_file_for_writing(address: str) -> None:
    kept = KeeperMemory(address)
    keep(kept, 0, 0, "mine")
    ((file,),) = kept.list().files.values()
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.write(file, b"theirs")
    os.close(file)


@pytest.mark.parametrize(
    ("request_", "files"),
    [
        (b"", 0),
        (b"{", 0),
        (b"[]", 0),
        (b'{"do": "sell"}', 0),
        (b'{"do": "keep", "name": "0.0"}', 0),  # without a file
        (b'{"do": "keep"}', 1),
        (b'{"do": "drop", "prefix": 5}', 0),
    ],
)
def test_a_wrong_request_is_refused_and_the_next_one_is_answered(address: str, request_: bytes, files: int) -> None:
    keep(KeeperMemory(address), 0, 0, "mine")
    sent = [file_of("x") for _ in range(files)]
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as client:
        client.connect(address)
        socket.send_fds(client, [request_], sent)
        assert client.recv(99) == b""
    for file in sent:
        os.close(file)
    assert texts(KeeperMemory(address)) == {0: ["mine"]}


def test_there_is_a_limit(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_FILES", 2)
    kept = KeeperMemory(address)
    for number in range(4):
        keep(kept, number, 0, "x")
    assert sorted(texts(kept)) == [0, 1]
    keep(kept, 1, 0, "newer")
    assert texts(kept)[1] == ["newer"]


def test_a_launcher_that_can_have_no_socket_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with keeper() as found:
        assert found is not None
        assert texts(KeeperMemory(found.address)) == {}
    assert not Path(found.address).exists()
    deep = tmp_path.joinpath(*["a-long-name"] * 12)  # a socket's address has at most 107 bytes
    deep.mkdir(parents=True)
    monkeypatch.setenv("TMPDIR", str(deep))
    with keeper() as found:
        assert found is None
    assert "are not kept in memory" in capsys.readouterr().err


# Breaks if a program that needs its memory while it starts is killed because of copies that it may not even use.
def test_copies_are_freed_if_memory_is_short_while_a_program_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    found = Keeper(str(tmp_path / "keeper"), timings=Timings(keeper_look=0.01))
    kept = KeeperMemory(found.address)
    keep(kept, 0, 0, "old")
    short, looks = threading.Event(), threading.Event()

    def is_short() -> bool:
        looks.set()
        return short.is_set()

    monkeypatch.setattr(module, "is_short", is_short)
    found.expect_program()
    assert looks.wait(30)
    assert texts(kept) == {0: ["old"]}
    keep(kept, 1, 0, "of the new program")
    short.set()
    wait_for(lambda: texts(kept) == {1: ["of the new program"]}, 30, "the old copy to be freed")
    assert found._guard is not None
    found._guard.join(30)
    assert not found._guard.is_alive(), "nothing looks at the memory while the program trains"
    assert "memory is short" in capsys.readouterr().err
    found.close()


def test_names_count_as_a_whole(address: str) -> None:
    """Breaks if a file is freed because the name of another one begins in the same way, or an old note stays."""
    kept = KeeperMemory(address)
    for number in (1, 10, 900):
        keep(kept, 3, number, f"file {number}")
        kept.note(3, number, b"note")
    keep(kept, 3, 1, "newer")
    assert texts(kept) == {3: ["newer", "file 10", "file 900"]}
    assert len(kept.list().notes[3]) == 2, "the note of what was replaced is gone"
    kept.drop(3, but=[10])
    assert texts(kept) == {3: ["file 10"]}
    assert kept.list().notes == {3: [b"note"]}
