"""The benchmark of folders: what counts the bytes, what changes them, and its arithmetic."""

import socket
import threading
from pathlib import Path

import pytest
from tests.bench.figures.folder_stall import _mean_step, _result
from tests.bench.folder import training
from tests.bench.folder.relay import relay
from tests.bench.goals import BY_KEY, Measured

from holdfast_train.folder.index import CHUNK, hash_of

SIZE = 26 * CHUNK


def test_the_relay_counts_both_ways_and_changes_nothing() -> None:
    """Breaks if bytes that a client sends, or gets, are not counted."""
    sent = bytes(range(256)) * 8192
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            server, _ = listener.accept()
            with server, server.makefile("rb") as stream:
                server.sendall(stream.read(len(sent))[:1000])

        thread = threading.Thread(target=serve)
        thread.start()
        with relay(listener.getsockname()[1]) as counted:
            with socket.create_connection(("127.0.0.1", counted.port)) as client, client.makefile("rb") as stream:
                client.sendall(sent)
                assert stream.read() == sent[:1000]
            thread.join()
            assert (counted.sent, counted.received) == (len(sent), 1000)


def chunks(folder: Path) -> dict[tuple[str, int], str]:
    found: dict[tuple[str, int], str] = {}
    for path in folder.rglob("*"):
        data = path.read_bytes() if path.is_file() else b""
        for at in range(0, len(data), CHUNK):
            found[str(path.relative_to(folder)), at] = hash_of(data[at : at + CHUNK])
    return found


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    training.make_files(tmp_path / "outputs", SIZE)
    return tmp_path / "outputs"


def test_no_chunk_is_there_twice(folder: Path) -> None:
    """Breaks if a commit finds bytes that it should have to move."""
    found = chunks(folder)
    assert len(set(found.values())) == len(found)
    assert SIZE <= training.size_of(folder) < SIZE + (1 << 20)


def test_a_change_is_as_large_as_it_says(folder: Path) -> None:
    """Breaks if a change leaves the bytes as they were, or changes more of them."""
    before, size = chunks(folder), training.size_of(folder)
    training.change_middle(folder)
    middle = chunks(folder)
    assert 1 <= sum(middle[name] != sha256 for name, sha256 in before.items()) <= 2
    training.change_pages(folder)
    pages = chunks(folder)
    assert sum(pages[name] != sha256 for name, sha256 in middle.items()) > len(middle) / 2
    training.change_ranges(folder)
    ranges = {name for name, sha256 in chunks(folder).items() if pages[name] != sha256}
    assert {path for path, _ in ranges} == {training.LARGEST}
    assert training.size_of(folder) == size
    training.append(folder)
    assert 0.009 < training.size_of(folder) / size - 1 < 0.011


def test_a_node_has_half(folder: Path, tmp_path: Path) -> None:
    """Breaks if a put back onto half of the files, or half of each, has another share to bring."""
    whole = chunks(folder)
    training.copy_half_of_the_files(folder, tmp_path / "files")
    training.copy_half_of_each_file(folder, tmp_path / "chunks")
    assert 0.49 < training.size_of(tmp_path / "files") / training.size_of(folder) < 0.51
    assert training.size_of(tmp_path / "chunks") == training.size_of(folder)
    there = chunks(tmp_path / "chunks")
    share = sum(there[name] == sha256 for name, sha256 in whole.items()) / len(whole)
    assert 0.4 < share < 0.7


def test_a_window_with_the_process_is_compared_with_those_around_it() -> None:
    """Breaks if a machine that becomes slower looks like a process that costs something."""
    found = _result([10.0, 20.0, 30.0], [15.0, 25.5], 0.02)
    assert found.value == pytest.approx(1.0)
    assert "from +0.00% to +2.00%" in found.note
    assert _mean_step([0, 10_000_000, 20_000_000, 40_000_000, 60_000_000], (5_000_000, 50_000_000)) == 15.0


def test_scattered_changes_may_move_as_much_as_the_files() -> None:
    """Breaks if the page says that scattered changes are cheap."""
    check = BY_KEY["folder-pages"].check
    assert check(Measured("folder-pages", 100.0, 100.0))
    assert not check(Measured("folder-pages", 100.0, 50.0))


def test_a_stall_that_is_lost_in_the_noise_is_not_met() -> None:
    """Breaks if a busy machine publishes that the process costs nothing."""
    check = BY_KEY["folder"].check
    noisy = _result([10.0, 10.0, 10.0], [8.0, 10.5], 0.02)
    assert noisy.value < 0
    assert not check(noisy)
    assert check(_result([10.0, 10.0, 10.0], [10.05, 10.06], 0.02))
    assert not check(_result([10.0, 10.0, 10.0], [10.2, 10.21], 0.02))
