"""The memory of this container, without the library: what is left, by the same rules as `holdfast_train/memory.py`."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

SHORT = 10  # memory is short if less than this part of it is left
UNLIMITED = 1 << 60  # bytes; version 1 of control groups says "no limit" by a number
GROUPS = Path("/sys/fs/cgroup")  # a container sees its own group here
MACHINE = Path("/proc/meminfo")


def is_short() -> bool:
    """True if less than a tenth of the container's limit, or of the machine, is left. The page cache is left."""
    return any(total // SHORT > left for total, left in _rooms())


def has_room(size: int) -> bool:
    """True if `size` more bytes leave twice as much as what is short."""
    return all(left - size > 2 * (total // SHORT) for total, left in _rooms())


def has_tasks() -> bool:
    """True if all processes and threads of this container may be there twice, and a tenth of the limit is left."""
    for folder in (GROUPS, GROUPS / "pids"):
        with suppress(OSError, ValueError):  # another version of control groups, or no limit
            most, now = (int((folder / f"pids.{name}").read_text()) for name in ("max", "current"))
            return 2 * now <= most - most // SHORT
    return True


def process_memory(pid: int) -> int:
    """Bytes of memory that the process has for itself; 0 if it has ended."""
    with suppress(OSError, KeyError):
        return _numbers(Path(f"/proc/{pid}/smaps_rollup"))["Anonymous:"] * 1024
    return 0


def killed_processes() -> int:
    """How many processes of this container the kernel has killed because memory ran out; 0 if that is not known."""
    for path in (GROUPS / "memory.events", GROUPS / "memory" / "memory.oom_control"):
        with suppress(OSError, KeyError):  # another version of control groups, or a kernel that does not count them
            return _numbers(path)["oom_kill"]
    return 0


def unwritten() -> int:
    """Bytes of files in this container's memory that still have to reach a disk; 0 if that is not known."""
    for path, names in (
        (GROUPS / "memory.stat", ("file_dirty", "file_writeback")),
        (GROUPS / "memory" / "memory.stat", ("total_dirty", "total_writeback")),
    ):
        with suppress(OSError, KeyError):  # another version of control groups
            told = _numbers(path)
            return sum(told[name] for name in names)
    return 0


def _rooms() -> list[tuple[int, int]]:
    """Of the machine and of the container, if it has a limit: all bytes, and those that are left."""
    found = []
    with suppress(OSError, ValueError, KeyError):
        machine = _numbers(MACHINE)
        found.append((machine["MemTotal:"] * 1024, machine["MemAvailable:"] * 1024))
    for folder, limit, used, prefix in (
        (GROUPS, "memory.max", "memory.current", ""),
        (GROUPS / "memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_"),
    ):
        with suppress(OSError, ValueError, KeyError):  # another version of control groups, or no limit
            total = int((folder / limit).read_text())
            stat = _numbers(folder / "memory.stat")
            cache = stat[f"{prefix}active_file"] + stat[f"{prefix}inactive_file"]
            if total < UNLIMITED:
                found.append((total, total - int((folder / used).read_text()) + cache))
    return found


def _numbers(path: Path) -> dict[str, int]:
    """The first number of each line, by the first word."""
    lines = [line.split() for line in path.read_text().splitlines()]
    return {line[0]: int(line[1]) for line in lines if len(line) > 1 and line[1].isdecimal()}
