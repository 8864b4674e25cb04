"""The stacks of a rank with its native frames, such as those of NCCL or of a data library, from py-spy.

Python's faulthandler shows no native frames. py-spy does, where the program's image has it and where the container may
trace processes: it needs the same user, and `kernel.yama.ptrace_scope` 0 or the capability SYS_PTRACE.
"""

from __future__ import annotations

import shutil
import subprocess
import time
from collections.abc import Iterable, Mapping
from pathlib import Path

from holdfast_protocol.rank_verdict import RankVerdict

from ..verdict_files import say

SECONDS = 15.0  # for all ranks of a node
MOST_BYTES = 512 << 10  # of all ranks of a node,
RANK_BYTES = 64 << 10  # and of each; the begin counts, because the main thread is there


def native_stacks(ranks: Iterable[RankVerdict], environment: Mapping[str, str]) -> dict[int, str]:
    """By rank, what `py-spy dump --native` prints of it. A rank of which it tells nothing is missing.

    That is each rank without py-spy, and each that a signal has stopped.
    """
    deadline = time.monotonic() + SECONDS
    known, found = sorted((one for one in ranks if one.pid), key=lambda one: one.rank), dict[int, str]()
    for one in known:
        program = _program(one.python, environment)
        if program is None:
            continue
        command = [program, "dump", "--native", "--pid", str(one.pid)]
        left = max(deadline - time.monotonic(), 0.1)
        try:
            done = subprocess.run(command, capture_output=True, timeout=left, check=False)
        except (OSError, subprocess.TimeoutExpired) as error:
            say(f"py-spy tells nothing of rank {one.rank}: {error}")
            continue
        # Its exit code is not looked at: the launcher, as PID 1, may collect the process before `run` does.
        if b"\nThread " not in done.stdout:
            lines = done.stderr.decode("utf-8", "replace").strip().splitlines()
            say(f"py-spy tells nothing of rank {one.rank}: {lines[0] if lines else 'it is stopped, or has ended'}")
            continue
        found[one.rank] = done.stdout[: min(RANK_BYTES, MOST_BYTES // len(known))].decode("utf-8", "replace")
    return found


def _program(python: str, environment: Mapping[str, str]) -> str | None:
    """py-spy beside the program's Python, or on its PATH."""
    beside = Path(python).with_name("py-spy") if python else None
    if beside is not None and beside.is_file():
        return str(beside)
    return shutil.which("py-spy", path=environment.get("PATH"))
