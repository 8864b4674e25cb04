"""The processes below the launcher that a signal has to reach."""

from __future__ import annotations

import contextlib
from collections.abc import Collection
from pathlib import Path


def receivers(parent: int, number: int, without: Collection[int] = ()) -> list[int]:
    """The processes below `parent` that the signal `number` has to reach, each before those below it.

    These are the first process of each line of descent that handles the signal (it decides about its own children), and
    those above it: a shell that waits for a trainer would start its next command. All others are left alone: `tee` has
    to outlive the trainer whose output it reads. Children in `without` are left out, with those below them.
    """
    above: dict[int, int] = {}
    handling = set()
    for path in Path("/proc").glob("[0-9]*/status"):
        with contextlib.suppress(OSError, KeyError, ValueError):  # the process has ended since
            lines = dict(line.split(":", 1) for line in path.read_text(errors="replace").splitlines() if ":" in line)
            pid = int(path.parent.name)
            above[pid] = int(lines["PPid"])
            if (int(lines["SigCgt"], 16) | int(lines["SigBlk"], 16)) >> (number - 1) & 1:  # blocked: it uses sigwait
                handling.add(pid)
    found: dict[int, None] = {}
    for pid in sorted(handling):
        line = [pid]
        while (upper := above.get(line[0], 0)) not in (0, parent):
            line.insert(0, upper)
        if upper == parent and handling.isdisjoint(line[:-1]) and line[0] not in without:
            found.update(dict.fromkeys(line))
    return list(found)
