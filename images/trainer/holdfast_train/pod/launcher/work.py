"""`Work`: whether a program that takes no step works. This is the only definition of that; `StallWatch` uses it.

A program works while its processes use a processor, and while bytes move: its processes write to anything or read from
a disk, what they have written reaches the disk, or the network of the pod carries data. So a save, a download or an
upload is work as long as bytes move, however slow it is, and waiting for a storage that takes nothing is not.

No file of the program is looked at: a file system that does not answer would stop this process too.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple, TypeVar

from .room import unwritten

# The least pace of work. A program that computes, loads or evaluates uses more of a core, and a save or a download
# moves more bytes a second. Threads that only watch, such as a tracker that samples the machine, do less, but not in
# each second.
LEAST_CORE = 0.05
LEAST_BYTES = 64 << 10
NETWORK = Path("/proc/net/dev")
LOOPBACK = "lo"  # ranks that wait for each other talk there
_RECEIVED, _SENT = 0, 8  # columns of NETWORK

Key = TypeVar("Key", int, str)


class Counts(NamedTuple):
    """What the kernel has counted up to a moment: processor seconds, and bytes.

    `moved`: by the process that wrote them or read them from a disk; `carried`: by the network interface. `unwritten`:
    those in the container's memory that still have to reach a disk.
    """

    processor: Mapping[int, float] = {}
    moved: Mapping[int, int] = {}
    carried: Mapping[str, int] = {}
    unwritten: int = 0


class Work:
    """The work of a program from look to look."""

    def __init__(self) -> None:
        self._before: Counts | None = None

    def look(self, processes: Iterable[int]) -> float:
        """Seconds of work at the least pace since the last look. `processes`: all of the program."""
        known, now = self._before, counts(processes)
        self._before = now
        return 0.0 if known is None else seconds_of_work(known, now)


def seconds_of_work(before: Counts, now: Counts) -> float:
    """How long a program that works at the least pace needs for what was done between two looks. Pure."""
    reached_disk = max(0, before.unwritten - now.unwritten)
    moved = _growth(before.moved, now.moved) + _growth(before.carried, now.carried) + reached_disk
    return _growth(before.processor, now.processor) / LEAST_CORE + moved / LEAST_BYTES


def _growth(before: Mapping[Key, float], now: Mapping[Key, float]) -> float:
    """What was counted between two looks. A process that was not there before has begun since."""
    return sum(max(0.0, value - before.get(key, 0.0)) for key, value in now.items())


def counts(processes: Iterable[int]) -> Counts:
    """What is counted now. What a process of another user moves is not known."""
    alive = list(processes)
    moved = {pid: found for pid in alive if (found := _moved(pid)) is not None}
    return Counts(processor_time(alive), moved, _carried(), unwritten())


def processor_time(processes: Iterable[int]) -> dict[int, float]:
    """By process: the seconds of processor time that it has used."""
    found = {}
    for pid in processes:
        with suppress(OSError):  # the process has ended since
            fields = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
            found[pid] = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return found


def _moved(pid: int) -> int | None:
    with suppress(OSError, KeyError):  # the process has ended since, or belongs to another user
        lines = Path(f"/proc/{pid}/io").read_text().splitlines()
        told = {name: int(value) for name, _, value in (line.partition(":") for line in lines)}
        # A call that writes counts in `wchar` when it ends, and in `write_bytes` while it fills pages; writes to mapped
        # memory have pages alone. Reads of files in /proc count in `rchar`, which is left out.
        return max(told["wchar"], told["write_bytes"]) + told["read_bytes"]
    return None


def _carried() -> dict[str, int]:
    with suppress(OSError):  # a sandbox without it
        pairs = (line.partition(":")[::2] for line in NETWORK.read_text().splitlines()[2:])
        columns = {name.strip(): text.split() for name, text in pairs}
        return {name: int(one[_RECEIVED]) + int(one[_SENT]) for name, one in columns.items() if name != LOOPBACK}
    return {}
