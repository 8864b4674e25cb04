"""The ranks of a program without Holdfast's library: which processes they are, and what they do when it hangs.

Such a process cannot be asked what it does. The launcher sends it SIGABRT instead. PYTHONFAULTHANDLER has switched on
Python's faulthandler there, which then writes the stacks of all threads to the standard error, also in a deadlock. Then
the process ends.
"""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from holdfast_protocol.rank_verdict import RankVerdict

from ..process_tree import descendants, letter_of, runs, send
from ..work import processor_time

ABORTED, MODULES = "Fatal Python error: Aborted", "Extension modules: "  # what faulthandler writes first, and last
STACK_SECONDS = 3.0  # for one rank to write its stacks and end,
READ_SECONDS = 1.0  # and for the launcher to read them;
ALL_SECONDS = 20.0  # for all of them: a notice may come meanwhile
MOST = 64  # ranks whose stacks are asked for
PAUSE = 0.02
_LOCAL_RANK, _RANK = b"LOCAL_RANK", b"RANK"  # variables of a rank of torchrun, accelerate and others


def plain_ranks(others: Collection[int] = ()) -> list[RankVerdict]:
    """The processes that train: those that are told a rank on this node, each without its helpers.

    If there is none, the process that has used the processor for longest. `others`: children of this process that
    belong to no program.
    """
    found: dict[int, int] = {}
    alive = descendants(os.getpid(), others)
    for pid in alive:  # a rank comes before the workers of its data loader, which inherit its variables
        rank = _rank(pid)
        if rank is not None:
            found.setdefault(rank, pid)
    if not found and (used := processor_time(alive)):
        found = {0: max(used, key=lambda pid: used[pid])}
    chosen = sorted(found.items())[:MOST]
    return [RankVerdict(rank, "running", "", "", None, None, 0.0, pid, _python(pid)) for rank, pid in chosen]


def end_with_stacks(
    ranks: Iterable[RankVerdict],
    steps: Mapping[int, int | None],
    printed: Callable[[], Sequence[str]],
    others: Collection[int] = (),
) -> list[dict[str, Any]]:
    """As `gather`. The ranks end one after the other, so that their stacks do not mix; then all other processes end.

    Meanwhile these are stopped: torchrun would end all ranks when the first one ends. `printed`: the last lines of the
    program.
    """
    known = list(ranks)
    found: list[dict[str, Any]] = [
        {"rank": one.rank, "step": steps.get(one.rank), "state": letter_of(one.pid), "collectives": {}} for one in known
    ]
    stopped = descendants(os.getpid(), others)
    for pid in stopped:
        send(pid, signal.SIGSTOP)
    deadline = time.monotonic() + ALL_SECONDS
    for one, rank in zip(found, known):  # noqa: B905 - Python 3.9 has no strict
        one["stacks"] = _stacks(rank.pid, printed) if time.monotonic() < deadline else ""
    for pid in stopped:  # without its parent, a process that is stopped would stay
        send(pid, signal.SIGKILL)
    return found


def _stacks(pid: int, printed: Callable[[], Sequence[str]]) -> str:
    """The stacks that the process writes as it ends; empty if it writes none."""
    before = _newest(printed())
    with contextlib.suppress(OSError, ValueError):  # it has ended, or belongs to another user
        resource.prlimit(pid, resource.RLIMIT_CORE, (0, 0))  # a core file would have all its memory
    send(pid, signal.SIGABRT)
    send(pid, signal.SIGCONT)
    deadline = time.monotonic() + STACK_SECONDS
    while runs(pid) and time.monotonic() < deadline:
        time.sleep(PAUSE)
    last, deadline = before, time.monotonic() + READ_SECONDS
    while time.monotonic() < deadline:
        now = _newest(printed())
        if now != before and now == last:
            return "\n".join(now)
        last = now
        time.sleep(PAUSE)
    return "" if last == before else "\n".join(last)


def _newest(lines: Sequence[str]) -> list[str]:
    """The stacks that faulthandler has written last: after ABORTED, or all lines if it is so far back that it is lost.

    A bar that has not ended its line may stand before ABORTED.
    """
    starts = [number for number, line in enumerate(lines) if ABORTED in line]
    if not starts and not any(line.endswith("(most recent call first):") for line in lines):
        return []
    return [line for line in lines[starts[-1] + 1 if starts else 0 :] if not line.startswith(MODULES)]


def _rank(pid: int) -> int | None:
    with contextlib.suppress(OSError, ValueError):  # it has ended, or belongs to another user
        data = Path(f"/proc/{pid}/environ").read_bytes()
        variables = dict(pair.partition(b"=")[::2] for pair in data.split(b"\0"))
        if _LOCAL_RANK in variables:
            return int(variables.get(_RANK) or variables[_LOCAL_RANK])
    return None


def _python(pid: int) -> str:
    """What runs the process, as it was started: in a virtual environment the file itself is elsewhere."""
    with contextlib.suppress(OSError):
        name = os.fsdecode(Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[0])
        return name if "/" in name else str(Path(f"/proc/{pid}/exe").readlink())
    return ""
