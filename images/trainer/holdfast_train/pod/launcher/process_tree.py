"""The processes below the launcher: all of them end before the program is started again."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from pathlib import Path

PAUSE = 0.01  # seconds between two rounds of SIGKILL
_PR_SET_CHILD_SUBREAPER = 36  # <linux/prctl.h>


def adopt_orphans() -> None:
    """Become the parent of every process below that loses its own. PID 1 is that already."""
    if os.getpid() != 1:
        import ctypes  # noqa: PLC0415 - a container does not need it

        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def descendants(parent: int) -> list[int]:
    """The processes below `parent` that have not ended, each after those above it."""
    below: dict[int, list[int]] = {}
    ended = set()
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):  # the process has ended since
            state, upper = path.read_text(errors="replace").rpartition(")")[2].split()[:2]
            pid = int(path.parent.name)
            below.setdefault(int(upper), []).append(pid)
            if state in "ZX":
                ended.add(pid)
    found = below.get(parent, [])
    for pid in found:  # grows meanwhile
        found += below.get(pid, ())
    return [pid for pid in found if pid not in ended]


def started_at(pid: int) -> float:
    """When the process started, in seconds since 1970; 0 if it has ended."""
    with contextlib.suppress(OSError):
        ticks = int(Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()[19])
        return time.time() - time.clock_gettime(time.CLOCK_BOOTTIME) + ticks / os.sysconf("SC_CLK_TCK")
    return 0.0


def end_descendants(seconds: float) -> list[int]:
    """Kill all processes below this one, and collect them. Those that have not ended after `seconds`."""
    deadline = time.monotonic() + seconds
    while True:
        collect()
        left = descendants(os.getpid())
        if not left or time.monotonic() > deadline:
            return left
        for pid in left:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(PAUSE)


def collect() -> None:
    """Collect the children of this process that have ended."""
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
