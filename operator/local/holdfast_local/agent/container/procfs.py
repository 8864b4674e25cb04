"""Reading /proc: children of a process, memory of a tree, processes that carry a container's mark."""

import os
import resource
from collections.abc import Callable, Iterable
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

MARK = "HOLDFAST_LOCAL_CONTAINER"
"""The variable in the environment of every process of a container; its value begins with the agent's own mark."""

_PAGE = resource.getpagesize()


class Process(NamedTuple):
    """One line of the process table; rss in bytes."""

    pid: int
    parent: int
    session: int
    state: str
    rss: int


class Table(dict[int, Process]):
    """The process table at one moment, by PID, with what is below and beside each process looked up once."""

    @cached_property
    def children(self) -> dict[int, list[int]]:
        """PIDs by the PID of their parent."""
        return self._by(lambda process: process.parent)

    @cached_property
    def sessions(self) -> dict[int, list[int]]:
        """PIDs by the PID of the leader of their session."""
        return self._by(lambda process: process.session)

    def _by(self, key: Callable[[Process], int]) -> dict[int, list[int]]:
        found: dict[int, list[int]] = {}
        for process in self.values():
            found.setdefault(key(process), []).append(process.pid)
        return found


def table() -> Table:
    """Every process of this machine, zombies included."""
    found = Table()
    for entry in os.scandir("/proc"):
        if entry.name.isdigit():
            process = _read(int(entry.name))
            if process is not None:
                found[process.pid] = process
    return found


def _read(pid: int) -> Process | None:
    try:
        text = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return None  # ended since the listing
    fields = text[text.rindex(b")") + 2 :].split()
    return Process(pid, int(fields[1]), int(fields[3]), fields[0].decode(), int(fields[21]) * _PAGE)


def mark(pid: int) -> str | None:
    """The container mark in a process's environment; None without one, or where it may not be read."""
    try:
        environ = Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return None
    prefix = MARK.encode() + b"="
    for item in environ.split(b"\0"):
        if item.startswith(prefix):
            return item[len(prefix) :].decode(errors="replace")
    return None


def with_descendants(roots: Iterable[int], processes: Table) -> set[int]:
    """The given processes and everything below them."""
    found: set[int] = set()
    todo = [pid for pid in roots if pid in processes]
    while todo:
        pid = todo.pop()
        if pid not in found:
            found.add(pid)
            todo.extend(processes.children.get(pid, []))
    return found


def charged(pid: int) -> int | None:
    """Bytes that a memory cgroup would charge to a process and could not take back: its anonymous and shared memory.

    Shared pages are counted by share, mapped files not at all. None where the kernel does not tell.
    """
    total = 0
    try:
        for line in Path(f"/proc/{pid}/smaps_rollup").read_bytes().splitlines():
            if line.startswith((b"Pss_Anon:", b"Pss_Shmem:")):
                total += int(line.split()[1]) * 1024
    except OSError:
        return None
    return total
