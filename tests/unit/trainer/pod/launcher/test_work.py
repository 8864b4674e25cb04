"""What counts as work of a program that takes no step: the definition, and what the kernel tells of real processes."""

import fcntl
import os
import subprocess
import sys
import termios
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.support.waiting import wait_for

from holdfast_train.pod.launcher import room, work
from holdfast_train.pod.launcher.work import LEAST_BYTES, LEAST_CORE, Counts, Work, counts, seconds_of_work

MiB = 1 << 20


# Breaks if something that moves bytes is not work, if less than the least pace is, or if a process that ends hides it.
@pytest.mark.parametrize(
    ("before", "now", "seconds"),
    [
        (Counts(), Counts(), 0),
        (Counts({1: 5.0}), Counts({1: 5.0 + 30 * LEAST_CORE}), 30),
        (Counts({1: 5.0}), Counts({2: LEAST_CORE}), 1),  # another process has begun
        (Counts({1: 5.0}), Counts({1: 1.0}), 0),  # a new process has the number of one that has ended
        (Counts(moved={1: MiB}), Counts(moved={1: MiB + LEAST_BYTES}), 1),
        (Counts(moved={1: MiB, 2: MiB}), Counts(moved={2: MiB + LEAST_BYTES}), 1),
        (Counts(carried={"eth0": 0}), Counts(carried={"eth0": 2 * LEAST_BYTES}), 2),
        (Counts(unwritten=4 * LEAST_BYTES), Counts(unwritten=LEAST_BYTES), 3),  # an fsync waits for that
        (Counts(unwritten=LEAST_BYTES), Counts(unwritten=4 * LEAST_BYTES), 0),
        (Counts({1: 0.0}, {1: 0}), Counts({1: LEAST_CORE / 2}, {1: LEAST_BYTES // 2}), 1),
    ],
)  # fmt: skip
def test_the_definition(before: Counts, now: Counts, seconds: float) -> None:
    assert seconds_of_work(before, now) == pytest.approx(seconds)


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """What other programs on this machine write and send does not count."""
    monkeypatch.setattr(room, "GROUPS", Path("/nothing"))
    monkeypatch.setattr(work, "NETWORK", Path("/nothing"))


@contextmanager
def running(code: str, *arguments: str) -> Iterator[int]:
    with subprocess.Popen([sys.executable, "-c", code, *arguments]) as process:
        try:
            yield process.pid
        finally:
            process.kill()


SAVES = """
import sys, time
with open(sys.argv[1], "wb", buffering=0) as file:
    while True:
        file.write(bytes(64 << 10))
        time.sleep(0.02)
"""


# Breaks if a real save counts as doing nothing because it hardly uses a processor.
def test_a_process_that_writes_slowly_works(tmp_path: Path) -> None:
    file = tmp_path / "step.pt"
    with running(SAVES, str(file)) as pid:
        wait_for(file.exists, 30, "the save")
        looks = Work()
        looks.look([pid])
        size = file.stat().st_size
        wait_for(lambda: file.stat().st_size >= size + MiB, 30, "another MiB")
        assert looks.look([pid]) >= (MiB - (64 << 10)) / LEAST_BYTES


# Breaks if a program whose save hangs, in a storage that takes no byte, counts as one that works.
def test_a_process_that_hangs_in_a_write_does_not_work(tmp_path: Path) -> None:
    os.mkfifo(pipe := tmp_path / "step.pt")
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    full = fcntl.fcntl(reader, fcntl.F_GETPIPE_SZ)
    with running(SAVES, str(pipe)) as pid:
        wait_for(lambda: waiting_in(reader) == full, 30, "a pipe that is full")
        wait_for(lambda: counts([pid]).moved[pid] == full, 30, "the end of the last call")
        looks = Work()
        looks.look([pid])
        assert sum(looks.look([pid]) for _ in range(20)) < 1
    os.close(reader)


def waiting_in(pipe: int) -> int:
    return int.from_bytes(fcntl.ioctl(pipe, termios.FIONREAD, bytes(4)), sys.byteorder)


def test_the_network_of_the_pod_counts_without_its_loopback(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(work, "NETWORK", tmp_path / "dev")
    head = "Inter-|   Receive                            |  Transmit\n face |bytes    packets ...|bytes ...\n"
    row = "{}: {} 29 0 0 0 0 0 0 {} 29 0 0 0 0 0 0\n"
    (tmp_path / "dev").write_text(head + row.format("    lo", 100, 100) + row.format("  eth0", 30, 4))
    assert counts([]).carried == {"eth0": 34}


@pytest.mark.parametrize(("folder", "prefix"), [("", "file_"), ("memory", "total_")])
def test_what_still_has_to_reach_a_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, folder: str, prefix: str
) -> None:
    monkeypatch.setattr(room, "GROUPS", tmp_path)
    assert room.unwritten() == 0
    (tmp_path / folder).mkdir(exist_ok=True)
    (tmp_path / folder / "memory.stat").write_text(f"anon 1\n{prefix}dirty 40\n{prefix}writeback 2\n")
    assert room.unwritten() == 42
