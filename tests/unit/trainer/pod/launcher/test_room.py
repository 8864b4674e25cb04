"""Memory is short if less than a tenth of it is left. The page cache counts as left: the kernel gives it up."""

import subprocess
import sys
from pathlib import Path

import pytest

from holdfast_train.pod.launcher import room

G = 1 << 30


NAMES = {1: ("memory.limit_in_bytes", "memory.usage_in_bytes"), 2: ("memory.max", "memory.current")}


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize(
    ("state", "short"),
    [((100, 85, 0), False), ((100, 95, 0), True), ((100, 95, 20), False), ((None, 95, 0), False)],
)
def test_a_limit_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: int, state: tuple[int | None, int, int], short: bool
) -> None:
    """`state`: GiB of the limit, of what is used, and of the page cache in it."""
    monkeypatch.setattr(room, "GROUPS", tmp_path)
    monkeypatch.setattr(room, "MACHINE", tmp_path / "meminfo")
    (tmp_path / "meminfo").write_text(f"MemTotal: {500 << 20} kB\nMemAvailable: {400 << 20} kB\n")
    folder, prefix = (tmp_path, "") if version == 2 else (tmp_path / "memory", "total_")
    folder.mkdir(exist_ok=True)
    limit, used, cache = state
    no_limit = "max" if version == 2 else str((1 << 63) - 4096)
    for name, text in zip(NAMES[version], (no_limit if limit is None else str(limit * G), str(used * G)), strict=True):
        (folder / name).write_text(f"{text}\n")
    stat = f"anon 1\n{prefix}active_file {cache * G // 2}\n{prefix}inactive_file {cache * G // 2}\n"
    (folder / "memory.stat").write_text(stat)
    assert room.is_short() is short


@pytest.mark.parametrize(("size", "fits"), [(59, True), (60, False), (200, False)])
def test_what_fits_leaves_twice_as_much_as_what_is_short(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int, fits: bool
) -> None:
    monkeypatch.setattr(room, "GROUPS", tmp_path)
    monkeypatch.setattr(room, "MACHINE", tmp_path / "meminfo")
    (tmp_path / "meminfo").write_text(f"MemTotal: {500 << 20} kB\nMemAvailable: {160 << 20} kB\n")
    assert room.has_room(size * G) is fits


@pytest.mark.parametrize("folder", ["", "pids"])
@pytest.mark.parametrize(("tasks", "fits"), [(("45", "100"), True), (("46", "100"), False), (("46", "max"), True)])
def test_threads_are_limited_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, folder: str, tasks: tuple[str, str], fits: bool
) -> None:
    monkeypatch.setattr(room, "GROUPS", tmp_path)
    assert room.has_tasks()
    (tmp_path / folder).mkdir(exist_ok=True)
    for name, text in zip(("pids.current", "pids.max"), tasks, strict=True):
        (tmp_path / folder / name).write_text(text)
    assert room.has_tasks() is fits


def test_the_memory_of_a_process() -> None:
    code = "import sys; data = b'a' * (64 << 20); print(flush=True); sys.stdin.read()"
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        assert 64 << 20 < room.process_memory(process.pid) < 80 << 20
        process.kill()
    assert room.process_memory(process.pid) == 0


@pytest.mark.parametrize(("left", "short"), [(60, False), (40, True)])
def test_the_machine_counts_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, left: int, short: bool) -> None:
    monkeypatch.setattr(room, "GROUPS", tmp_path)
    monkeypatch.setattr(room, "MACHINE", tmp_path / "meminfo")
    (tmp_path / "meminfo").write_text(f"MemTotal: {500 << 20} kB\nMemAvailable: {left << 20} kB\n")
    assert room.is_short() is short


def test_a_kernel_that_tells_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room, "GROUPS", tmp_path)
    monkeypatch.setattr(room, "MACHINE", tmp_path / "meminfo")
    assert not room.is_short()


@pytest.mark.parametrize(
    ("name", "text", "count"),
    [
        ("memory.events", "low 0\nhigh 0\nmax 7\noom 3\noom_kill 2\noom_group_kill 0\n", 2),
        ("memory/memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 3\n", 3),
        ("memory/memory.oom_control", "oom_kill_disable 0\nunder_oom 0\n", 0),  # before Linux 4.13
        ("memory.max", "max", 0),
    ],
)
def test_processes_that_the_kernel_killed_are_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, text: str, count: int
) -> None:
    monkeypatch.setattr(room, "GROUPS", tmp_path)
    (tmp_path / "memory").mkdir()
    (tmp_path / name).write_text(text)
    assert room.killed_processes() == count
