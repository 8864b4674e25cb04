"""A rank goes on if the launcher cannot keep its memory. What the launcher does: pod/launcher/test_keeper.py."""

import os
import socket
import threading
from pathlib import Path

import pytest

from holdfast_train import kept_memory
from holdfast_train.kept_memory import KeptMemory
from holdfast_train.memory_file import memory_file


def test_without_a_launcher_nothing_is_kept(capsys: pytest.CaptureFixture[str]) -> None:
    kept = KeptMemory(None)
    kept.keep(0, 0, 0)
    kept.drop(0)
    assert kept.files() == {}
    assert capsys.readouterr().err == ""


# Breaks if a launcher that hangs, or has ended, stops the training.
def test_a_launcher_that_does_not_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(kept_memory, "CALL_SECONDS", 0.1)
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as server:
        server.bind(str(tmp_path / "keeper"))
        server.listen()
        KeptMemory(str(tmp_path / "keeper")).drop(0)
    assert KeptMemory(str(tmp_path / "keeper")).files() == {}
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
        found = KeptMemory(str(tmp_path / "keeper")).files()
        thread.join(30)
        of_ranks = [file for files in found.values() for file in files]
        assert len(of_ranks) == answer.count(b"0.0")
        for file in of_ranks:
            os.close(file)
        left = [str(path.readlink()) for path in Path("/proc/self/fd").iterdir() if path.is_symlink()]
        assert not any("kept-memory" in link for link in left)
