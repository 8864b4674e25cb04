"""`InPlace`: a program that goes on in its own process when the training starts again.

A program that calls `holdfast_train.restart_in_place` makes a pipe named `PID.call` in a folder that the launcher gives
it. When its part of an attempt is over, it writes `PID.back` and stops itself (SIGSTOP): a process that is stopped can
do nothing. The launcher then ends all other processes of the program, as after the end of any program.

For the next attempt the launcher writes `PID.next` and lets the process go on (SIGCONT). Once the process has cleaned
up it writes `PID.on`. If it does not soon, it is killed, and a new process starts in its place. So an
attempt never fails because of what an earlier one has left behind.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from holdfast_protocol import settings, variables
from holdfast_protocol.gates import RESTART_IN_PLACE

from .process_tree import state_of
from .program import KeptProcess, Running
from .timings import USUAL, Timings
from .verdict_files import say, temporary_folder

LOOK_SECONDS = 0.01  # between two looks whether it has


class InPlace(KeptProcess):
    """Keeps the process of the program, if it comes back from its attempt.

    All methods but `ask` must be called in the main thread, which collects the children of the launcher.
    """

    def __init__(self, folder: str, *, timings: Timings = USUAL) -> None:
        """OSError if nothing can be written into `folder`."""
        self._timings = timings
        self._folder = Path(folder)
        self._waiting: tuple[Running, float] | None = None  # a process, and when it was started
        (self._folder / f"launcher-{os.getpid()}").touch()

    # While the program runs.

    def ask(self, pid: int, attempt: str) -> bool:
        try:
            pipe = os.open(self._folder / f"{pid}.call", os.O_WRONLY | os.O_NONBLOCK)
        except OSError:  # there is none, or no process reads it
            return False
        try:
            return os.write(pipe, f"{attempt}\n".encode()) > 0
        except OSError:
            return False
        finally:
            os.close(pipe)

    def read_back(self, pid: int) -> int | None:
        path = self._folder / f"{pid}.back"
        try:
            code = int(path.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return None
        path.unlink()
        return code

    def keep(self, running: Running) -> None:
        found = state_of(running.child.pid)
        self._waiting = None if found is None else (running, found.started_at)

    def let_end(self, pid: int) -> None:
        self._let_go_on(pid, {"do": "end"})

    # Between two attempts.

    @property
    def kept(self) -> int:
        return 0 if self._waiting is None else self._waiting[0].child.pid

    def go_on(self, environment: Mapping[str, str]) -> Running | None:
        if self._waiting is None:
            return None
        running, started_at = self._waiting
        pid = running.child.pid
        before = running.environment
        changed = {name: environment.get(name) for name in {*environment, *before}}
        changed = {name: value for name, value in changed.items() if value != before.get(name)}
        if self._state(pid, started_at) == "T" and self._let_go_on(pid, {"do": "start", "environment": changed}):
            answer, deadline = self._folder / f"{pid}.on", time.monotonic() + self._timings.in_place_answer
            is_alive = True
            while is_alive and time.monotonic() < deadline:
                is_alive = self._state(pid, started_at) not in ("", "Z", "X")  # before the look: it may answer and end
                if answer.exists():
                    answer.unlink()
                    self._waiting = None
                    say("the program goes on in its process")
                    return running
                time.sleep(LOOK_SECONDS)
        say("the program cannot go on in its process: a new one starts")
        self.close()
        return None

    def close(self) -> None:
        """End the waiting process. A process that hangs in a driver cannot be killed: the launcher stops tracking
        it."""
        if self._waiting is None:
            return
        (running, started_at), self._waiting = self._waiting, None
        pid = running.child.pid
        running.child.returncode = -signal.SIGKILL  # Popen must not wait for a process that is collected here
        deadline = time.monotonic() + self._timings.in_place_answer
        if self._state(pid, started_at):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
            with contextlib.suppress(ChildProcessError):
                while not os.waitpid(pid, os.WNOHANG)[0] and time.monotonic() < deadline:
                    time.sleep(LOOK_SECONDS)
        for path in self._folder.glob(f"{pid}.*"):
            path.unlink()

    def _let_go_on(self, pid: int, word: Mapping[str, object]) -> bool:
        path = self._folder / f"{pid}.next"
        try:
            path.with_suffix(".new").write_text(json.dumps(word), encoding="utf-8")
            path.with_suffix(".new").replace(path)
            os.kill(pid, signal.SIGCONT)
        except OSError as error:
            say(f"the program that waits cannot be told to go on: {error}")
            return False
        return True

    @staticmethod
    def _state(pid: int, started_at: float) -> str:
        """One letter of /proc; empty if the process has ended, and its number may belong to another one."""
        found = state_of(pid)
        return found.letter if found is not None and found.started_at == started_at else ""


@contextlib.contextmanager
def in_place(environment: dict[str, str]) -> Iterator[KeptProcess]:
    """An InPlace for programs with one process on each node, if its gate is on; otherwise no process is kept.

    `environment` gets its variable.
    """
    with contextlib.ExitStack() as stack:
        kept = KeptProcess()
        may = settings.read(environment).is_on(RESTART_IN_PLACE) and variables.is_one_process(environment)
        if may and (folder := stack.enter_context(temporary_folder())):
            try:
                kept = stack.enter_context(contextlib.closing(InPlace(folder)))
                environment[variables.IN_PLACE] = folder
            except OSError as error:
                say(f"no program goes on in its process: {error}")
        yield kept
