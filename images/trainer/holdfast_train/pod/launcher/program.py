"""`Program`: the user's command, from its start to its end."""

from __future__ import annotations

import contextlib
import math
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import FrameType

from .output import Tee
from .room import killed_processes
from .signal_receivers import receivers
from .torchrun_report import last_lines
from .verdict import End
from .verdict_files import LEAVE_NOW, read_rank_verdicts, say, wait_for_writers

WRITER_SECONDS = 60.0  # how long a checkpoint that is on its way may take after the end of the program,
MARGIN_SECONDS = 1.0  # and how long before the end of the grace it has to end
NOW_SECONDS = 5.0  # from the second SIGTERM on, for the program and then for a checkpoint that is on its way
SETTLE_SECONDS = 1.0  # signals within this window count once: stopping a process group signals its leader twice
DRAIN_SECONDS = 1.0  # how long each output of the program's orphans is read after the end of the program
NOT_FOUND, NOT_EXECUTABLE = 127, 126  # exit codes, as of a shell,
MISCONFIGURED = 78  # and EX_CONFIG of sysexits.h


class Program:
    """Runs one command to its end. `signalled_at` is set when SIGTERM or SIGINT came.

    The first signal is passed on, and the program has the grace. A second one means now: the program gets SIGTERM, with
    the file LEAVE_NOW beside the verdicts, and is killed after NOW_SECONDS, which a commit that is on its way may use.
    If the command is a shell, the signal ends the shell; its trainer gets the signal too, and has the grace.
    """

    def __init__(self, command: Sequence[str], environment: dict[str, str], grace: float = 30.0) -> None:
        self._command = list(command)
        self._grace = grace
        self._environment = environment
        self._running: dict[int, None] = {}  # the command, and what was signalled; each before those below it
        self._leave_now: Path | None = None
        self._first_signal, self._deadline = 0.0, math.inf
        self._pid = 0
        self._has_ended, self._ending = False, threading.Lock()
        self._regrouped_at: float | None = None
        self.signalled_at: float | None = None

    @property
    def deadline(self) -> float:
        """When all has to be saved, by time.monotonic(): before the end of the grace; infinite without a signal."""
        return self._deadline

    def listen(self) -> None:
        """Take signals from now on. Must be called from the main thread."""
        signal.signal(signal.SIGALRM, lambda *_: self._forward(signal.SIGKILL))
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._on_signal)

    def _on_signal(self, number: int, _frame: FrameType | None) -> None:
        now = time.monotonic()
        if self.signalled_at is None:
            self.signalled_at, self._first_signal = time.time(), now
            self._deadline = min(self._deadline, now + self._grace - MARGIN_SECONDS)
            self._forward(number)
        elif now - self._first_signal >= SETTLE_SECONDS:
            self._first_signal, self._deadline = math.inf, min(self._deadline, now + NOW_SECONDS)  # no third one
            try:  # before the signal: torchrun and others add signals, so a rank cannot count them
                if self._leave_now is not None:
                    self._leave_now.touch(0o644)
            except OSError as error:
                say(f"cannot make {self._leave_now}: {error}")
            self._forward(signal.SIGTERM)
            signal.setitimer(signal.ITIMER_REAL, NOW_SECONDS)

    def _forward(self, number: int, *, again: bool = True) -> None:
        """Signal the command and `receivers`. `again`: those too that were signalled before."""
        fresh = [pid for pid in receivers(os.getpid(), number) if pid not in self._running]
        for pid in [*self._running, *fresh] if again else fresh:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)
        self._running.update(dict.fromkeys(fresh))

    def run(
        self,
        verdict_folder: str | None,
        *,
        on_start: Callable[[], None] = lambda: None,
        end_rest: Callable[[], None] = lambda: None,
    ) -> End:
        """Start the command, wait for its end and read what it left. Must be called from the main thread.

        `on_start` is called when the program runs; `end_rest` when it has ended and no checkpoint is on its way any
        more, before its last lines are read.
        """
        if verdict_folder is not None:
            self._leave_now = Path(verdict_folder) / LEAVE_NOW
            self._leave_now.unlink(missing_ok=True)  # an earlier launcher may have left it in a shared folder
        self.listen()
        killed = killed_processes()
        try:
            child = subprocess.Popen(
                self._command, env=self._environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0
            )
        except OSError as error:
            return self._not_started(error)
        self._pid = child.pid
        self._running[child.pid] = None
        if self.signalled_at is not None:  # the signal came before the start: pass it on now
            self._forward(signal.SIGTERM)
        out, err = Tee(child.stdout, 1), Tee(child.stderr, 2)
        on_start()
        child.returncode = code = self._wait(child.pid)  # Popen must not wait for a reaped process
        self._wait_for_orphans(verdict_folder)
        ended_at = time.monotonic()
        wait_for_writers(verdict_folder, lambda: min(ended_at + WRITER_SECONDS, self._deadline) - time.monotonic())
        end_rest()
        lines = last_lines(err.finish(DRAIN_SECONDS), out.finish(DRAIN_SECONDS))
        by_code, by_signal = (code, None) if code >= 0 else (None, -code)
        ranks = read_rank_verdicts(verdict_folder)
        return End(
            by_code,
            by_signal,
            self.signalled_at,
            ranks,
            lines,
            regrouped_at=self._regrouped_at,
            oom_kills=killed_processes() - killed,
        )

    def regroup(self, verdict_folder: str | None) -> None:
        """Kill the command, because a newer attempt begins; nothing if it has ended. Another thread calls this.

        A checkpoint that is on its way gets NOW_SECONDS before that. `end_rest` of `run` ends what the command leaves.
        """
        self._deadline = min(self._deadline, time.monotonic() + NOW_SECONDS)
        wait_for_writers(verdict_folder, lambda: 0 if self._has_ended else self._deadline - time.monotonic())
        self._kill(is_regrouped=True)

    def end_left(self) -> None:
        """Kill the command, because its ranks have left; nothing if it has ended. Another thread calls this."""
        self._kill(is_regrouped=False)

    def _kill(self, *, is_regrouped: bool) -> None:
        with self._ending:  # so the number of the process belongs to no other one
            if not self._has_ended:
                self._regrouped_at = time.time() if is_regrouped else self._regrouped_at
                with contextlib.suppress(PermissionError):
                    os.kill(self._pid, signal.SIGKILL)

    def _wait(self, child: int) -> int:
        """Wait for the end of the command, and return its exit code: negative if a signal ended it."""
        ended = status = 0
        while ended != child:  # PID 1 inherits every orphan, so the end of each child is collected here
            os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOWAIT)
            with self._ending:
                ended, status = os.waitpid(-1, 0)
                self._has_ended = ended == child
            self._running.pop(ended, None)
        return os.waitstatus_to_exitcode(status)

    def _wait_for_orphans(self, folder: str | None) -> None:
        """Wait, inside the grace, for what was signalled: a trainer that saves outlives the shell that started it."""
        while True:
            with contextlib.suppress(ChildProcessError):
                while os.waitpid(-1, os.WNOHANG)[0]:
                    pass
            for pid in list(self._running):
                if not Path(f"/proc/{pid}").exists():
                    del self._running[pid]
            if self.signalled_at is not None and all(v.result == "running" for v in read_rank_verdicts(folder)):
                self._forward(signal.SIGTERM, again=False)  # a shell may handle the signal and not pass it on
            if not self._running or time.monotonic() >= self._deadline:
                return
            time.sleep(0.05)

    def _not_started(self, error: OSError) -> End:
        name, path = self._command[0], self._environment.get("PATH", "")
        if isinstance(error, FileNotFoundError):
            text = f"command {name!r} was not found in the image; set trainer.command to a program on PATH ({path})"
            return refusal(NOT_FOUND, "CommandNotFound", text, self.signalled_at)
        text = f"command {name!r} cannot be started: {error.strerror or error}"
        return refusal(NOT_EXECUTABLE, "CommandNotExecutable", text, self.signalled_at)


def refusal(code: int, reason: str, text: str, signalled_at: float | None = None) -> End:
    """The end of a command that was not started. Says why."""
    say(text)
    return End(code, None, signalled_at, start_error=(reason, text))
