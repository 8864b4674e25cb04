"""Kills a program on purpose, in its pod. `script.TEXT` runs there: python3 -I -c TEXT PLAN COMMAND [ARGUMENT ...].

The process becomes COMMAND, so signals, streams and the exit status are those of the program itself. In an attempt that
the plan names, a process beside it waits, and kills the program with all that it has started.
"""

from __future__ import annotations

import json
import math
import os
import signal
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from holdfast_cli.rehearse.save_watch import SaveWatch

PAUSE, CLOSE_PAUSE = 0.2, 0.002  # seconds between two looks, and while a save is waited for
KILLED = "holdfast rehearse: the program is killed"
IN_SAVE, NO_SAVE = f"{KILLED} in a save", f"{KILLED}, because no save began"


def commit_of(folder: str) -> str | None:
    """The commit at which the folder is, as its note says; None while one is being made, and without a note."""
    with suppress(OSError, ValueError, KeyError, TypeError):
        (only,) = json.loads(Path(folder or os.devnull, ".holdfast-folder.json").read_bytes())["commits"]
        return str(only)
    return None


def step_of(commit: str | None) -> int:
    """The step in the name of a commit; 0 if nothing says it."""
    digits = str(commit).rpartition("/")[2].partition("-")[0]
    return int(digits) if digits.isdecimal() else 0


def words_of(pid: int | str) -> list[str]:
    """State, parent and more of a process, as the kernel says; nothing if it has ended."""
    with suppress(OSError):
        found = Path(f"/proc/{pid}/stat").read_text("utf-8", "replace").rpartition(")")[2].split()
        return [] if found[0] in "ZX" else found
    return []


def kill(root: int) -> None:
    """End a process, and all below it."""
    found = [root]
    for number in (signal.SIGSTOP, signal.SIGKILL):  # what is stopped starts nothing more
        for pid in found:  # grows meanwhile
            with suppress(OSError):
                os.kill(pid, number)
            every = Path("/proc").glob("[0-9]*") if number == signal.SIGSTOP else ()
            found += [int(one.name) for one in every if words_of(one.name)[1:2] == [str(pid)]]


class Killer:
    """Kills the process `pid` as `planned`. The folder is as it was before the program began; empty: there is none."""

    def __init__(self, pid: int, folder: str, planned: dict[str, Any]) -> None:
        self._pid, self._folder, self._planned = pid, folder, planned
        self._birth, self._began = words_of(pid)[19], time.monotonic()
        self._watch, self._at = SaveWatch(folder), commit_of(folder)
        self._saves, self._has_written = 0, False

    def run(self) -> str:
        """What was done, in words; empty if the program has ended before."""
        if not self._wait(self.is_due) or not self._wait(lambda: False, self._planned["pause"]):
            return ""
        path = [""]
        if self._planned["inSave"]:
            self._watch.has_begun()  # all that was written until now
            if not self._wait(lambda: self._begins(path), self._planned["patience"], CLOSE_PAUSE):
                return ""
        kill(self._pid)
        return f"{IN_SAVE}: {path[0]}" if path[0] else NO_SAVE if self._planned["inSave"] else KILLED

    def is_due(self) -> bool:
        """True after so many seconds of this start, once so many of its saves are committed, or one of this step."""
        self._has_written = bool(self._watch.has_begun()) or self._has_written
        now = commit_of(self._folder)
        if now not in (None, self._at):
            self._at = now
            if self._has_written:  # otherwise only a log has grown
                self._saves, self._has_written = self._saves + 1, False
        if time.monotonic() < self._began + self._planned["seconds"]:
            return False
        return self._saves >= self._planned["saves"] or (self._saves > 0 and step_of(self._at) >= self._planned["step"])

    def _begins(self, path: list[str]) -> bool:
        path[0] = self._watch.has_begun()
        return bool(path[0])

    def _wait(self, true: Callable[[], bool], seconds: float = math.inf, pause: float = PAUSE) -> bool:
        """Wait until it is true, or so long; False if the program has ended before."""
        until = time.monotonic() + seconds
        while words_of(self._pid)[19:20] == [self._birth]:
            if true() or time.monotonic() >= until:
                return True
            time.sleep(pause)
        return False


def go_beside(killer: Killer) -> None:
    """Let the killer wait in a process that is not a child of this one: the program must not find it."""
    if child := os.fork():
        os.waitpid(child, 0)
        return
    try:
        os.setsid()
        if os.fork() == 0:
            null = os.open(os.devnull, os.O_RDWR)
            os.dup2(null, 0)
            os.dup2(null, 1)
            os.closerange(3, 4096)
            os.write(2, f"{said}\n".encode("utf-8", "replace") if (said := killer.run()) else b"")
    finally:
        os._exit(0)


def main(arguments: list[str]) -> int:
    """Become the command; the exit code if that is not possible, as of a shell."""
    plan, command = json.loads(arguments[0]), arguments[1:]
    planned = plan["attempts"].get(os.environ.get("HOLDFAST_ATTEMPT", ""))
    if planned and os.environ.get("HOLDFAST_RANK", "0") in ("", "0"):
        go_beside(Killer(os.getpid(), plan["folder"], planned))
    given = Path("/proc/self/environ").read_bytes().split(b"\0")  # Python itself may have added a locale
    for number in (signal.SIGPIPE, signal.SIGXFSZ):  # Python ignores them, and what is ignored stays so
        signal.signal(number, signal.SIG_DFL)
    try:
        os.execvpe(command[0], command, dict(pair.split(b"=", 1) for pair in given if b"=" in pair))  # noqa: S606
    except OSError as error:
        sys.stderr.write(f"{command[0]}: {error.strerror}\n")
        return 127 if isinstance(error, FileNotFoundError) else 126


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
