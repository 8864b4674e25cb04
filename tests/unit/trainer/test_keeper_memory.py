"""A rank goes on if the launcher cannot keep its memory. What the launcher does: pod/launcher/test_keeper.py."""

import errno
import os
import socket
import threading
from pathlib import Path

import pytest

from holdfast_train import keeper_memory
from holdfast_train.keeper_memory import KeeperMemory, Kept
from holdfast_train.memory_file import memory_file
from holdfast_train.pod.launcher.keeper import Keeper


def test_without_a_launcher_nothing_is_kept(capsys: pytest.CaptureFixture[str]) -> None:
    kept = KeeperMemory(None)
    kept.keep(0, 0, 0)
    kept.note(0, 0, b"")
    kept.drop(0)
    assert kept.list() == Kept()
    assert capsys.readouterr().err == ""


# Breaks if a launcher that hangs, or has ended, stops the training.
def test_a_launcher_that_does_not_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(keeper_memory, "CALL_SECONDS", 0.1)
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as server:
        server.bind(str(tmp_path / "keeper"))
        server.listen()
        KeeperMemory(str(tmp_path / "keeper")).drop(0)
    assert KeeperMemory(str(tmp_path / "keeper")).list().files == {}
    assert capsys.readouterr().err.count("the launcher does not keep copies") == 2


@pytest.mark.parametrize("answer", [b'["0.0", "a name"]', b"nonsense"])
def test_files_that_are_not_understood_are_closed(tmp_path: Path, answer: bytes) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as server:
        server.bind(str(tmp_path / "keeper"))
        server.listen()

        def serve() -> None:
            client, _ = server.accept()
            with client:
                client.recv(99)
                files = [memory_file("kept-memory") for _ in range(2)]
                socket.send_fds(client, [answer], files)
                for file in files:
                    os.close(file)

        thread = threading.Thread(target=serve)
        thread.start()
        found = KeeperMemory(str(tmp_path / "keeper")).list().files
        thread.join(30)
        of_ranks = [file for files in found.values() for file in files]
        assert len(of_ranks) == answer.count(b"0.0")
        for file in of_ranks:
            os.close(file)
        left = [str(path.readlink()) for path in Path("/proc/self/fd").iterdir() if path.is_symlink()]
        assert not any("kept-memory" in link for link in left)


def test_a_note_lies_beside_each_file(tmp_path: Path) -> None:
    """Breaks if a note is taken for the copy of a rank, or if a newer note does not replace the older one."""
    keeper = Keeper(str(tmp_path / "keeper"))
    kept = KeeperMemory(keeper.address)
    file = memory_file("kept-memory")
    kept.keep(3, 0, file)
    os.close(file)
    for text in (b"the first", b"the second"):
        kept.note(3, 0, text)
    kept.note(4, 100, b"without a file")
    found = kept.list()
    assert {rank: len(files) for rank, files in found.files.items()} == {3: 1}
    assert found.notes == {3: [b"the second"], 4: [b"without a file"]}
    os.close(found.files[3][0])
    kept.drop(3)
    assert kept.list().notes == {4: [b"without a file"]}
    keeper.close()


def test_a_note_that_cannot_be_written_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Breaks if a node without free memory ends the thread that copies the state, so that no later step is copied."""
    keeper = Keeper(str(tmp_path / "keeper"))
    kept = KeeperMemory(keeper.address)

    def no_room(*_: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", no_room)
        kept.note(3, 0, b"text")
    assert "no note is kept of a copy of the state in memory: [Errno 28] No space left" in capfd.readouterr().err
    kept.note(3, 0, b"later")
    assert kept.list().notes == {3: [b"later"]}
    keeper.close()
