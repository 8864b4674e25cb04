"""The processes below the launcher that a signal has to reach, and those that have to wait for them."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import NamedTuple

SHELLS = frozenset(("sh", "bash", "dash", "ash", "busybox", "zsh", "ksh", "mksh"))
# They pass a signal on to the whole group of their child: workers of a data loader would end while their trainer saves.
# Those of MPI, and the last three, kill what they have started some seconds after a signal, also while it saves.
# Names as in /proc, which has 15 characters of each.
GROUP_SIGNALLERS = frozenset(
    ("timeout", "dumb-init", "tini", "docker-init", "mpirun", "mpiexec", "orterun", "prterun", "prte", "mpiexec.hydra",
     "hydra_pmi_proxy", "script", "su", "runuser")
)  # fmt: skip
START_SECONDS = 0.5  # of processor time: a process that only starts another one needs no more
_RANK = b"TORCHELASTIC_RUN_ID="  # a variable that torchrun gives to its ranks. It signals the group of each of them


class Receivers(NamedTuple):
    """Which processes get a signal, each before those below it.

    `now`: the first process of each line of descent that handles the signal (it decides about its own children), and
    those above it that work by themselves.
    `held`: those above it that only wait for it, such as a shell, which would start its next command, or a parent whose
    children end with it. `passing_on`: those above it that would signal a whole group.
    Both have for each process those of `now` below it. `agents`: those of `passing_on` that are torchrun. `reading`:
    those of `held` that read what the processes below them print.
    All other processes are left alone: `tee` has to outlive the trainer whose output it reads.
    """

    now: tuple[int, ...]
    held: Mapping[int, frozenset[int]]
    passing_on: Mapping[int, frozenset[int]]
    agents: frozenset[int]
    reading: frozenset[int]


class _Process(NamedTuple):
    parent: int
    name: str
    handles: bool


def receivers(parent: int, number: int, without: Collection[int] = (), *, spares_ranks: bool = True) -> Receivers:
    """The processes below `parent` that the signal `number` concerns.

    Children in `without` are left out, with those below them. `spares_ranks`: torchrun counts as one that would signal
    a group.
    """
    found = _below(parent, _processes(number), without)
    agents = _agents(found) if spares_ranks else set()
    passing_on = agents | {pid for pid, one in found.items() if one.handles and one.name in GROUP_SIGNALLERS}
    handling = {pid for pid, one in found.items() if one.handles} - passing_on
    deciding, above = _lines(found, handling)
    alone = [pid for pid in passing_on if pid not in above]  # nothing below it handles the signal: as any other one
    if alone:
        deciding, above = _lines(found, handling.union(alone))
    now: dict[int, None] = dict.fromkeys(deciding)
    held: dict[int, frozenset[int]] = {}
    relays: dict[int, frozenset[int]] = {}
    for pid, below in above.items():
        if pid in passing_on:
            relays[pid] = frozenset(below)
        elif found[pid].name in SHELLS or _waits_for(pid, below):
            held[pid] = frozenset(below)
        else:
            now[pid] = None
    reading = frozenset(pid for pid, below in held.items() if _reads(pid, below))
    ordered = tuple(sorted(now, key=lambda pid: (pid not in above, pid)))
    return Receivers(ordered, held, relays, frozenset(agents & relays.keys()), reading)


def _processes(number: int) -> dict[int, _Process]:
    found = {}
    for path in Path("/proc").glob("[0-9]*/status"):
        with contextlib.suppress(OSError, KeyError, ValueError):  # the process has ended since
            lines = dict(line.split(":", 1) for line in path.read_text(errors="replace").splitlines() if ":" in line)
            taken = int(lines["SigCgt"], 16) | int(lines["SigBlk"], 16)  # blocked: it uses sigwait
            handles = bool(taken >> (number - 1) & 1)
            found[int(path.parent.name)] = _Process(int(lines["PPid"]), lines["Name"].strip(), handles)
    return found


def _below(parent: int, processes: Mapping[int, _Process], without: Collection[int]) -> dict[int, _Process]:
    """The processes below `parent`, but children in `without` and those below them."""
    children: dict[int, list[int]] = {}
    for pid, one in processes.items():
        children.setdefault(one.parent, []).append(pid)
    found = [pid for pid in children.get(parent, ()) if pid not in without]
    for pid in found:  # grows meanwhile
        found += children.get(pid, ())
    return {pid: processes[pid] for pid in found}


def _lines(found: Mapping[int, _Process], handling: Collection[int]) -> tuple[list[int], dict[int, set[int]]]:
    """The first process of each line that handles the signal; and each process above one, with those below it."""
    deciding: list[int] = []
    above: dict[int, set[int]] = {}
    for pid in sorted(handling):
        line, upper = [], found[pid].parent
        while upper in found:
            line.append(upper)
            upper = found[upper].parent
        if not any(one in handling for one in line):
            deciding.append(pid)
            for one in line:
                above.setdefault(one, set()).add(pid)
    return deciding, above


def _agents(found: Mapping[int, _Process]) -> set[int]:
    """Processes of torchrun: a child has a variable that it gives to its ranks, and it does not have it itself.

    Each rank leads a session. Those of an old torchrun do not, and it signals no groups. Only the environment of such a
    process is read: to read one takes as long as its process changes its memory, such as a large pinned buffer.
    """
    leaders = {pid: one.parent for pid, one in found.items() if one.parent in found and _leads(pid)}
    agents = {upper for pid, upper in leaders.items() if found[upper].handles and _is_rank(pid)}
    return {pid for pid in agents if not _is_rank(pid)}


def _leads(pid: int) -> bool:
    with contextlib.suppress(ProcessLookupError):
        return os.getsid(pid) == pid
    return False


def _is_rank(pid: int) -> bool:
    with contextlib.suppress(OSError):  # the process has ended since, or belongs to another user
        data = Path(f"/proc/{pid}/environ").read_bytes()
        return data.startswith(_RANK) or b"\0" + _RANK in data
    return False


def _waits_for(pid: int, below: Collection[int]) -> bool:
    """True if `pid` has done little but start these processes: one of them has worked at least half as long.

    A training that takes no notice of the signal works more than its helpers do, and ends at once.
    """
    return _worked(pid) < 2 * max(map(_worked, below)) + START_SECONDS


def _reads(pid: int, below: Collection[int]) -> bool:
    """True if the process reads a pipe that is the output of one of `below`."""
    outputs = {name for one in below for number, name in _files(one).items() if number in ("1", "2")}
    return any(name in outputs and _is_for_reading(pid, number) for number, name in _files(pid).items())


def _files(pid: int) -> dict[str, str]:
    """The pipes that the process has opened, by their numbers there."""
    found = {}
    with contextlib.suppress(OSError):  # the process has ended since, or belongs to another user
        for path in Path(f"/proc/{pid}/fd").iterdir():
            with contextlib.suppress(OSError):
                found[path.name] = str(path.readlink())
    return {number: name for number, name in found.items() if name.startswith("pipe:")}


def _is_for_reading(pid: int, number: str) -> bool:
    with contextlib.suppress(OSError, IndexError, ValueError):
        text = Path(f"/proc/{pid}/fdinfo/{number}").read_text()
        return int(text.partition("flags:")[2].split()[0], 8) & os.O_ACCMODE == os.O_RDONLY
    return False


def _worked(pid: int) -> float:
    """Seconds of processor time that the process has used; 0 if it has ended."""
    with contextlib.suppress(OSError):
        fields = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return 0.0
