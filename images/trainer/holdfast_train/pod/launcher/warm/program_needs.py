"""What a running program needs a process for, that waits for the next attempt."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from ..process_tree import descendants, parent_of
from .command import PythonCommand, read_command
from .told import Told, read_told

TORCH = b"libtorch_python"
MARK = b"HOLDFAST_SPARE"  # as in `spare_hook`
WORKER_MARK = b"TORCHELASTIC_RUN_ID"  # in the environment of a rank that torchrun has started
OF_TORCHRUN = ("torch.distributed.launcher.api", "torch.distributed.elastic.rendezvous.static_tcp_rendezvous")


class Worker(NamedTuple):
    """A rank that torchrun has started: its arguments and environment as of its start, and what it has told."""

    argv: list[bytes]
    environment: dict[bytes, bytes]
    module: str
    told: Told


class Needs(NamedTuple):
    """Modules that the command imports, with their files, and the ranks under torchrun for which a process can wait.

    `why_not` says why none can wait for the ranks, or for the program itself; empty if one can.
    """

    modules: Sequence[str]
    files: dict[str, str]
    workers: list[Worker]
    why_not: str = ""


def uses_torch(pid: int) -> bool:
    """True if the process has loaded torch."""
    try:
        return TORCH in Path(f"/proc/{pid}/maps").read_bytes()
    except OSError:  # the process has ended
        return False


def find_needs(pid: int, command: PythonCommand, folder: str | None, *, waits_no_longer: bool) -> Needs | None:
    """What the program with this process needs. None if that is not known (yet).

    `waits_no_longer`: the ranks have had the time to tell what they have imported.
    """
    if command.is_torchrun:
        ranks = _ranks_below(pid)
        workers = [worker for number, one in enumerate(ranks) if (worker := _worker(one, number, folder)) is not None]
        if ranks and len(workers) == len(ranks):
            why_not = next((worker.told.hindrance for worker in workers if worker.told.hindrance), "")
            return Needs(OF_TORCHRUN, {}, [] if why_not else workers, why_not)
        return Needs(OF_TORCHRUN, {}, []) if ranks and waits_no_longer else None
    told = read_told(folder, 0)
    if told is None or told.pid != pid:
        return None
    return Needs(told.modules, told.files, [], told.hindrance)


def _ranks_below(torchrun: int) -> list[int]:
    """The ranks of torchrun by their local numbers. Empty while one of them is not there, or has not loaded torch."""
    found, size = {}, 0
    for pid in descendants(torchrun):
        with contextlib.suppress(OSError, ValueError, KeyError):  # the process has ended since, or is not a rank
            environment = environment_of(pid)
            if parent_of(pid) == torchrun and WORKER_MARK in environment:
                if not uses_torch(pid):
                    return []
                found[int(environment[b"LOCAL_RANK"])] = pid
                size = int(environment[b"LOCAL_WORLD_SIZE"])
    return [found[number] for number in range(size)] if found.keys() == set(range(size)) else []


def _worker(pid: int, local_rank: int, folder: str | None) -> Worker | None:
    """A rank that has told what it has imported, None if it has not, or if it is not a Python program."""
    told = read_told(folder, local_rank)
    if told is None or told.pid != pid:
        return None
    with contextlib.suppress(OSError):  # the process has ended since
        argv, environment = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[:-1], environment_of(pid)
        names = {os.fsdecode(name): os.fsdecode(value) for name, value in environment.items()}
        command = read_command([os.fsdecode(one) for one in argv], names) if argv else None
        return None if command is None else Worker(argv, environment, command.module, told)
    return None


def environment_of(pid: int) -> dict[bytes, bytes]:
    """The environment with which the program in this process was started, without what a waiting process had more."""
    entries = [entry.partition(b"=") for entry in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")]
    found = {name: value for name, equals, value in entries if equals}
    if found.pop(MARK, None) is not None:
        _, _, rest = found.pop(b"PYTHONPATH", b"").partition(os.fsencode(os.pathsep))
        if rest:
            found[b"PYTHONPATH"] = rest
    return found
