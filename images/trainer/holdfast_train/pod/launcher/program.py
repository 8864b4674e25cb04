"""`Program`: the user's command, from its start to its end."""

from __future__ import annotations

import contextlib
import math
import os
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import FrameType
from typing import NamedTuple

from holdfast_protocol import reasons, settings, variables
from holdfast_protocol.hang import Hang
from holdfast_protocol.rank_verdict import RankVerdict
from holdfast_protocol.verdict import WRITER_SECONDS

from .room import killed_processes
from .signals.forwarding import Forwarding, shutdown_timeout
from .tee import OnData, Tee
from .torchrun_report import last_lines
from .verdict import End
from .verdict_files import LEAVE_NOW, read_rank_verdicts, read_writers, say, wait_for_writers

MARGIN_SECONDS = 1.0  # how long before the end of the grace it has to end
NOW_SECONDS = 5.0  # from the second SIGTERM on, for the program and then for a checkpoint that is on its way
SETTLE_SECONDS = 1.0  # signals within this window count once: stopping a process group signals its leader twice
STALLED_SECONDS = 5.0  # for the processes of a program that hangs to end after SIGKILL
LEFT_SECONDS = 0.5  # for processes that end with the program, such as workers of a loader, before it counts as left
DRAIN_SECONDS = 1.0  # how long each output of the program's orphans is read after the end of the program
NOT_FOUND, NOT_EXECUTABLE = 127, 126  # exit codes, as of a shell,
MISCONFIGURED = 78  # and EX_CONFIG of sysexits.h


class Running(NamedTuple):
    """A process of the program, what reads its outputs, and the environment with which the program was started."""

    child: subprocess.Popen[bytes]
    out: Tee
    err: Tee
    environment: Mapping[str, str]

    @classmethod
    def of(cls, child: subprocess.Popen[bytes], environment: Mapping[str, str]) -> Running:
        """A process that has just started."""
        return cls(child, Tee(child.stdout, 1), Tee(child.stderr, 2), environment)


class Starter:
    """Starts the processes of programs: this one starts a new process each time, and keeps none.

    `warm.Spare` has a process that waits beside the program.
    """

    @property
    def imports(self) -> tuple[str, ...]:
        """Libraries that another process for the same program can import before it starts, as far as is known."""
        return ()

    def prepare(self, imports: Sequence[str], environment: Mapping[str, str], over: threading.Event) -> None:
        """Have a process ready that has imported these modules, for the first program, with such an environment.

        It takes seconds, until `over` at the latest.
        """

    @property
    def oom_kills(self) -> int:
        """How many processes that belong to no program the kernel has killed because memory ran out."""
        return 0

    def start(self, command: Sequence[str], environment: Mapping[str, str]) -> subprocess.Popen[bytes]:
        """A process of `command`, with pipes for its outputs. OSError if it cannot be started."""
        return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0)

    def processes(self) -> list[int]:
        """Children of the launcher that belong to no program, each with those below it."""
        return []

    def beside(
        self, program: Program, environment: Mapping[str, str], folder: str | None
    ) -> contextlib.AbstractContextManager[None]:
        """What is done while `program` runs, which has this environment and this folder for verdicts."""
        return contextlib.nullcontext()

    def close(self) -> None:
        """End what belongs to no program."""


class KeptProcess:
    """A process that comes back from an attempt, and goes on in the next one: here none does.

    `in_place.InPlace` keeps the process of the program.
    """

    @property
    def kept(self) -> int:
        """The process that has come back and waits; 0 if there is none. Those below it belong to the program."""
        return 0

    def ask(self, pid: int, attempt: str) -> bool:
        """Ask the program to come back from this attempt. False if it cannot. Any thread may call this."""
        return False

    def read_back(self, pid: int) -> int | None:
        """The exit code that the program would have, if it has stopped because it is back; otherwise None."""
        return None

    def keep(self, running: Running) -> None:
        """Keep this process for the next attempt: it is back, and stopped."""

    def go_on(self, environment: Mapping[str, str]) -> Running | None:
        """The process that was kept, which goes on as the program with this environment. None: start another one."""
        return None

    def let_end(self, pid: int) -> None:
        """Let a process that is back end by itself: this pod has to go."""


class Beside:
    """A process of Holdfast beside the program: here there is none. `folder_writer.FolderWriter` has one."""

    def processes(self) -> tuple[int, ...]:
        """The process, a child of the launcher, if it has not ended."""
        return ()

    def has_written(self, verdict: RankVerdict) -> bool:
        """True if the verdict is not of a rank, but of this process, or of one whose place it has taken."""
        return False

    def unchanged(self) -> contextlib.AbstractContextManager[object]:
        """Inside `with`, no other process takes the place of this one."""
        return contextlib.nullcontext()


class Log:
    """The log of this container, which is told of programs: here it is not kept. `kept_log.KeptLog` keeps it."""

    def begins(self, folder: str | None) -> None:
        """A program starts, whose ranks write their verdicts into `folder`."""

    def ends(self, ranks: Sequence[RankVerdict], deadline: float) -> None:
        """It has ended with these verdicts, and its folder may go. `deadline`: of this pod, by time.monotonic()."""

    def processes(self) -> tuple[int, ...]:
        """The process that stores the log, a child of the launcher, while there is one."""
        return ()


class Program:
    """Runs one command to its end. `signalled_at` is set when SIGTERM or SIGINT came.

    The first signal is passed on, and the program has the grace. A second one means now: the program gets SIGTERM, with
    the file LEAVE_NOW beside the verdicts, and is killed after NOW_SECONDS, which a commit that is on its way may use.
    If the command is a shell, its trainer gets the signal and has the grace; the shell ends after it (`signals`).
    """

    def __init__(
        self,
        command: Sequence[str],
        environment: dict[str, str],
        grace: float = 30.0,
        starter: Starter | None = None,
        listeners: tuple[OnData | None, OnData | None] = (None, None),
        *,
        kept: KeptProcess | None = None,
        log: Log | None = None,
    ) -> None:
        """`listeners` get what the program prints to its standard output, and to its standard error."""
        self._command = list(command)
        self._starter, self._listeners = starter or Starter(), listeners
        self._kept = kept or KeptProcess()
        self._log = log or Log()
        self._grace = grace
        self._environment = environment
        self.beside = Beside()
        self._running = Forwarding(self.others, shutdown_timeout(grace))
        self._leave_now: Path | None = None
        self._first_signal, self._deadline = 0.0, math.inf
        self._pid = 0
        self._has_ended, self._ending = threading.Event(), threading.Lock()
        self._is_back = False  # the process waits for the next attempt
        self._regrouped_at: float | None = None
        self.ordered_at: float | None = None
        """When the order came that a newer attempt begins, or that none follows, in seconds since 1970."""
        self._stalled = ""  # how the program hangs
        self._hang: Hang | None = None
        self._outputs: tuple[Tee, ...] = ()
        self.signalled_at: float | None = None
        self._asked_at: float | None = None  # to leave, although this pod may stay

    @property
    def deadline(self) -> float:
        """When all has to be saved, by time.monotonic(): before the end of the grace; infinite without a signal."""
        return self._deadline

    def listen(self) -> None:
        """Take signals from now on. Must be called from the main thread."""
        signal.signal(signal.SIGALRM, lambda *_: self._forward(signal.SIGKILL))
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._on_signal)

    @property
    def leaves_since(self) -> float | None:
        """When the program was told to leave; None if it was not."""
        return self.signalled_at if self._asked_at is None else self._asked_at

    def leave(self) -> None:
        """Send the program SIGTERM, because all of its nodes have to save; this pod may stay. Any thread may call this.

        Nothing after a signal. The program has the grace for it.
        """
        if self.leaves_since is None:
            self._asked_at = time.time()
            self._deadline = min(self._deadline, time.monotonic() + self._grace - MARGIN_SECONDS)
            self._forward(signal.SIGTERM)

    def _on_signal(self, number: int, _frame: FrameType | None) -> None:
        now = time.monotonic()
        if self.signalled_at is None:
            self.signalled_at, self._first_signal = time.time(), now
            self._deadline = min(self._deadline, now + self._grace - MARGIN_SECONDS)
            self._forward(number, again=self._asked_at is None)
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
        """Signal the program. `again`: those processes too that were signalled before."""
        folder = None if self._leave_now is None else str(self._leave_now.parent)
        # Ranks with the library keep their workers of data loaders, and torchrun looks after its ranks.
        has_library = any(not self.beside.has_written(one) for one in read_rank_verdicts(folder))
        self._running.forward(number, again=again, spares_ranks=not has_library)

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
        self._log.begins(verdict_folder)
        killed = killed_processes() - self._starter.oom_kills
        with self._ending:  # an order to regroup comes before the start, or finds what it has to end
            if self.ordered_at is not None:
                return self._regrouped_before_start(self.ordered_at)
            try:
                running = self._kept.go_on(self._environment)
                if running is None:
                    running = Running.of(self._starter.start(self._command, self._environment), self._environment)
            except OSError as error:
                return self._not_started(error)
            child, out, err, _ = running
            self._pid = child.pid
            self._running.add(child.pid)
        if self.leaves_since is not None and not self._running.is_told(child.pid):  # it came before the start
            self._forward(signal.SIGTERM)
        out.on_data, err.on_data = self._listeners
        self._outputs = (out, err)
        on_start()
        with self._watch(verdict_folder):
            code = self._wait(child.pid)
        if self._is_back:
            self._kept.keep(running)
        else:
            child.returncode = code  # Popen must not wait for a reaped process
        self._wait_for_orphans(verdict_folder)
        left = self._left(verdict_folder) if code == 0 and self.leaves_since is None and not self._is_back else ()
        ended_at = time.monotonic()
        wait_for_writers(verdict_folder, lambda: min(ended_at + WRITER_SECONDS, self._deadline) - time.monotonic())
        if self._stalled:
            self._end_what_hangs()
        with self.beside.unchanged():
            end_rest()
        read = Tee.turn_page if self._is_back else Tee.finish
        lines = last_lines(read(err, DRAIN_SECONDS), read(out, DRAIN_SECONDS))
        by_code, by_signal = (code, None) if code >= 0 else (None, -code)
        ranks = read_rank_verdicts(verdict_folder)
        self._log.ends(ranks, self._deadline)
        return End(
            by_code,
            by_signal,
            self.leaves_since,
            ranks,
            lines,
            regrouped_at=self._regrouped_at,
            oom_kills=killed_processes() - self._starter.oom_kills - killed,
            stalled=self._stalled,
            hang=self._hang,
            left=left,
        )

    def given_up(self) -> End | None:
        """The end of a command that was not started, and must not be any more: a signal, or an order, came before."""
        if self.leaves_since is not None:
            return End(None, signal.SIGTERM, self.leaves_since)
        return None if self.ordered_at is None else self._regrouped_before_start(self.ordered_at)

    def _regrouped_before_start(self, at: float) -> End:
        return End(None, signal.SIGKILL, self.signalled_at, regrouped_at=at)

    def inform(self, name: str, value: str) -> None:
        """Give the program a variable, before its start."""
        self._environment[name] = value

    def _end_what_hangs(self) -> None:
        from .process_tree import end_descendants  # noqa: PLC0415 - only after a hang

        with self.beside.unchanged():
            end_descendants(STALLED_SECONDS, self.others())

    def _left(self, folder: str | None) -> tuple[str, ...]:
        """The names of processes that the program left; Holdfast's own writers end after it."""
        from .process_tree import names_of_left  # noqa: PLC0415 - only a program that ends by itself needs it

        with self.beside.unchanged():
            return names_of_left(LEFT_SECONDS, [*self.others(), *read_writers(folder)])

    def others(self) -> list[int]:
        """Children of the launcher that belong to no program."""
        return [*self._starter.processes(), *self.beside.processes(), *self._log.processes()]

    @property
    def pid(self) -> int:
        """The process of the command; 0 before its start."""
        return self._pid

    def regroup(self, verdict_folder: str | None) -> None:
        """End the command, because a newer attempt begins, or do not start it. Another thread calls this.

        A checkpoint that is on its way, and a program that can come back, get NOW_SECONDS before the command is killed.
        `end_rest` of `run` ends what the command leaves. If the command has ended, only `deadline` changes: what is
        still to be saved gets NOW_SECONDS.
        """
        self._deadline = min(self._deadline, time.monotonic() + NOW_SECONDS)
        attempt = self._environment.get(variables.ATTEMPT, "")
        with self._ending:
            self.ordered_at = self.ordered_at or time.time()
            if not self._pid:
                return
            is_asked = not self._has_ended.is_set() and self._kept.ask(self._pid, attempt)
            if is_asked:
                self._regrouped_at = time.time()
        if is_asked:
            self._has_ended.wait(self._deadline - time.monotonic())
        wait_for_writers(verdict_folder, lambda: 0 if self._has_ended.is_set() else self._deadline - time.monotonic())
        with self._ending:
            if not self._has_ended.is_set():
                self._regrouped_at = self._regrouped_at or time.time()
                self._kill()

    def end_left(self) -> None:
        """Kill the command, because its ranks have left; nothing if it has ended. Another thread calls this."""
        with self._ending:
            self._kill()

    def _watch(self, folder: str | None) -> contextlib.AbstractContextManager[None]:
        """Inside `with`, a training that hangs is ended, if the operator wants that."""
        if settings.read(self._environment).stall is None:
            return contextlib.nullcontext()
        from .stall_watch import StallWatch  # noqa: PLC0415 - a program that is not watched needs none of its imports

        return StallWatch(folder, self._environment, partial(self._end_stalled, folder), self.others)

    def _end_stalled(self, folder: str | None, how: str, *, only_own: bool) -> bool:
        """Kill the command, because its training hangs; nothing after a signal, which has an end of its own.

        False if the training may go on. `only_own`: it goes on unless a rank of this node is the cause.
        """
        from .hang.record import record, waits_for_other_nodes  # noqa: PLC0415 - only after a hang

        if only_own and waits_for_other_nodes(folder, self.others()):
            return False
        with self._ending:
            if self.leaves_since is not None or self._regrouped_at is not None or self._has_ended.is_set():
                return True
            self._stalled = how
        try:
            where, self._hang = record(folder, how, self._printed, self._environment, self.others())
            self._stalled += where
        except OSError as error:  # the program may have changed the files of its ranks: it is ended all the same
            say(f"the evidence of the hang is not complete: {error}")
        with self._ending:
            self._kill()
        return True

    def _printed(self) -> list[str]:
        """The last lines of the program: of its standard output, and then of its standard error."""
        return [line for output in self._outputs for line in output.recent()]

    def _kill(self) -> None:
        """Kill the command. `_ending` is taken, so the number of the process belongs to no other one."""
        if self._pid and not self._has_ended.is_set():
            with contextlib.suppress(PermissionError):
                os.kill(self._pid, signal.SIGKILL)

    def _wait(self, child: int) -> int:
        """Wait for the end of the command, and return its exit code: negative if a signal ended it.

        It has also ended if it is back from this attempt, and stopped.
        """
        ended = status = 0
        while ended != child:  # PID 1 inherits every orphan, so the end of each child is collected here
            os.waitid(os.P_ALL, 0, os.WEXITED | os.WSTOPPED | os.WNOWAIT)
            with self._ending:
                ended, status = os.waitpid(-1, os.WUNTRACED)
                if os.WIFSTOPPED(status):
                    code = self._kept.read_back(ended) if ended == child else None
                    if code is not None and self.signalled_at is None:
                        self._has_ended.set()
                        self._is_back = True
                        self._running.forget(child)
                        return code if self._regrouped_at is None else -signal.SIGKILL
                    if code is not None:
                        self._kept.let_end(child)
                    ended = 0
                    continue
                if ended == child:
                    self._has_ended.set()
            self._running.forget(ended)
        return os.waitstatus_to_exitcode(status)

    def _wait_for_orphans(self, folder: str | None) -> None:
        """Wait, inside the grace, for what was signalled: a trainer that saves outlives the shell that started it."""
        while True:
            with contextlib.suppress(ChildProcessError):
                while os.waitpid(-1, os.WNOHANG)[0]:
                    pass
            for pid in self._running:
                if not Path(f"/proc/{pid}").exists():
                    self._running.forget(pid)
            if self.leaves_since is not None and all(v.result == "running" for v in read_rank_verdicts(folder)):
                self._forward(signal.SIGTERM, again=False)  # a shell may handle the signal and not pass it on
            if not any(self._running) or time.monotonic() >= self._deadline:
                return
            time.sleep(0.05)

    def _not_started(self, error: OSError) -> End:
        name, path = self._command[0], self._environment.get("PATH", "")
        if isinstance(error, FileNotFoundError):
            text = f"command {name!r} was not found in the image; set trainer.command to a program on PATH ({path})"
            if (script := shutil.which(name, path=path)) is not None:
                text = _missing_interpreter(script)
            return refusal(NOT_FOUND, reasons.COMMAND_NOT_FOUND, text, self.signalled_at)
        text = f"command {name!r} cannot be started: {error.strerror or error}"
        return refusal(NOT_EXECUTABLE, reasons.COMMAND_NOT_EXECUTABLE, text, self.signalled_at)


def _missing_interpreter(script: str) -> str:
    """Why a script that exists was not found: the first line of the file names a program that does not exist."""
    with Path(script).open("rb") as file:
        line = file.readline(256)
    text = f"command {script!r} is a script whose first line names a program that the image does not have: {line!r}"
    return f"{text}. The line ends in CR LF: write the file with LF alone" if line.endswith(b"\r\n") else text


def refusal(code: int, reason: str, text: str, signalled_at: float | None = None) -> End:
    """The end of a command that was not started. Says why."""
    say(text)
    return End(code, None, signalled_at, start_error=(reason, text))
