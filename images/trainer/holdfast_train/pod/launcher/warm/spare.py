"""`Spare`: a process that has imported torch, and becomes the program of the next attempt at once.

With several nodes a program may end, or be ended, and start again in the same pod. Most of that start is the import of
torch. So the launcher starts the same command once more while the program trains; `spare_hook` makes that process
import what the program has imported, and wait. It opens no accelerator, and it is not a process of the program: no
signal reaches it, and its end is not a failure.

Only programs that use torch have a spare, if they are Python programs (`command`) whose imports depend on nothing that
they do before (`told`). There is none while memory is short. Its import begins once the program trains, because it
takes one processor core for some seconds.
"""

from __future__ import annotations

import contextlib
import marshal
import os
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ..process_tree import descendants, end_tree
from ..program import Program, Starter
from ..room import has_room, has_tasks, is_short, killed_processes, process_memory
from ..timings import USUAL, Timings
from ..verdict_files import say
from .command import PythonCommand, read_command
from .program_needs import MARK, OF_TORCHRUN, Needs, find_needs, uses_torch
from .told import AT_FIRST_USE, LIBRARIES

READY_LOOK_SECONDS = 0.05  # between two looks at a spare for which this launcher waits
LONGEST_LOOK = 5.0  # seconds between looks when torch was not imported for a long time
SETTLE_SECONDS = 600.0  # after the import of torch, for ranks that do not tell what they have imported
PROBE_SECONDS = 30.0  # for Python to start
ANSWER_SECONDS = 10.0  # for the spare to become the program
PREPARE_SECONDS = 60.0  # for the imports of a first program
FAILED = "the spare process failed"  # as `spare_hook` says it
OUTPUT_BYTES = 1 << 16  # as much as a pipe takes
BYTES_EACH = 512 << 20  # of memory that is free before the start: a process with torch and its compiler takes 400 MiB


class Spare(Starter):
    """The spare of one pod. `hook`: the file or folder that contains sitecustomize."""

    def __init__(self, command: Sequence[str], hook: Path, *, timings: Timings = USUAL) -> None:
        self._timings = timings
        self._command = list(command)
        self._hook = str(hook)
        self._process: subprocess.Popen[bytes] | None = None
        self._socket: socket.socket | None = None
        self._answer = b""
        self._is_possible = True
        self._waiting = 0  # processes that the spare consists of
        self._is_said, self._began_at = False, 0.0  # that they are ready, and when their start began
        self._why_not = ""  # that was said last
        self._why_ended = ""  # the process that was there last
        self._killed = 0  # by the kernel, when the process was last seen alive
        self._kills = 0
        self._lock = threading.RLock()
        self._libraries: tuple[str, ...] = ()  # that the process imports
        self._imports: tuple[str, ...] = ()  # that a process has imported, from the files of the program
        self.is_settled = False  # a process waits, or there will be none for this attempt

    @property
    def oom_kills(self) -> int:
        """How many processes that waited the kernel has killed."""
        self._look()
        return self._kills

    @property
    def imports(self) -> tuple[str, ...]:
        """As Starter."""
        return self._imports

    def processes(self) -> list[int]:
        """The process that waits; those below it belong to it."""
        return [] if self._process is None else [self._process.pid]

    @contextlib.contextmanager
    def beside(self, program: Program, environment: Mapping[str, str], folder: str | None) -> Iterator[None]:
        """Inside `with`, a thread makes the spare for the attempt after that of `program`."""
        over = threading.Event()
        self.is_settled = False
        thread = threading.Thread(
            target=self._run, args=(program, environment, folder, over), name="spare", daemon=True
        )
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()

    def start(self, command: Sequence[str], environment: Mapping[str, str]) -> subprocess.Popen[bytes]:
        """The spare, which goes on as the program with this environment; a new process if there is none."""
        if self._process is not None and self.is_ready() and self._goes(environment):
            process, self._process = self._process, None
            self._forget()
            say("the program starts in a process that has imported torch")
            return process
        self.close()
        return super().start(command, environment)

    def close(self) -> None:
        """End the process that waits, if there is one."""
        with self._lock:
            process, self._process = self._process, None
            if process is not None:
                if not self._is_gone():
                    end_tree(process.pid)
                for output in (process.stdout, process.stderr):
                    if output is not None:
                        output.close()
                process.returncode = -signal.SIGKILL  # Popen must not wait for it: the launcher collects every child
            self._forget()

    def _forget(self) -> None:
        if self._socket is not None:
            self._socket.close()
        self._socket, self._answer = None, b""

    def prepare(self, imports: Sequence[str], environment: Mapping[str, str], over: threading.Event) -> None:
        """Have a process ready that has imported these modules, for the first program, with such an environment.

        The same program on another node has a process that waits with them. So they come from the same files as without
        it: this pod has the same image and the same command.
        """
        command, began = read_command(self._command, environment), time.monotonic()
        if command is None or not has_room(BYTES_EACH) or not has_tasks():
            return
        try:
            if self._is_reached(command, environment, over):
                later = (AT_FIRST_USE[name] for name in imports if name in AT_FIRST_USE)
                modules = OF_TORCHRUN if command.is_torchrun else (*imports, *later)
                self._begin(command, environment, Needs(modules, {}, []))
                while not self.is_ready() and self._look() and time.monotonic() - began < PREPARE_SECONDS:
                    if over.wait(READY_LOOK_SECONDS):
                        return
        except OSError as error:
            self.close()
            say(f"no process imports modules before the program starts: {error}")
            return
        if self.is_ready():
            say(f"a process has imported {', '.join(modules)} in {time.monotonic() - began:.0f} s")

    # While the program runs.

    def _run(self, *arguments: Any) -> None:
        try:
            self._prepare(*arguments)
        finally:
            self.is_settled = True

    def _prepare(
        self, program: Program, environment: Mapping[str, str], folder: str | None, over: threading.Event
    ) -> None:
        command = read_command(self._command, environment)
        needs = None if command is None else self._find(program, command, folder, over)
        if command is None or needs is None:
            return
        if self.processes():  # of an earlier attempt: this program has gone on in its own process
            self._watch(over)
            return
        if needs.why_not != self._why_not:
            self._why_not = needs.why_not
            say(f"no process with the modules of the program waits for the next attempt: {needs.why_not}")
        if needs.why_not and not command.is_torchrun:
            return
        if not has_room(BYTES_EACH * (1 + len(needs.workers))) or not has_tasks():
            say("no process with torch waits for the next attempt: this container has no memory, or no threads, for it")
            return
        try:
            if not self._is_reached(command, environment, over):
                return
            self._begin(command, environment, needs)
        except OSError as error:
            self.close()
            say(f"no process with torch waits for the next attempt: {error}")
            return
        self._watch(over)

    def _find(
        self, program: Program, command: PythonCommand, folder: str | None, over: threading.Event
    ) -> Needs | None:
        """What the program needs, once it trains. None if it can have no spare, or has ended."""
        since: float | None = None
        began = time.monotonic()
        if not self._is_possible:
            return None
        while not over.wait(max(self._timings.spare_look, min(LONGEST_LOOK, (time.monotonic() - began) / 20))):
            if program.pid and since is None and any(map(uses_torch, (program.pid, *descendants(program.pid)))):
                since = time.monotonic()
            if since is not None:
                is_late = time.monotonic() > since + SETTLE_SECONDS
                needs = find_needs(program.pid, command, folder, waits_no_longer=is_late)
                if needs is not None:
                    return needs
        return None

    def _open(self, command: Sequence[str], environment: Mapping[str, str], plan: Mapping[str, Any]) -> None:
        """Start a process that imports `spare_hook` first, and tell it what to do."""
        ours, theirs = socket.socketpair()
        path = environment.get("PYTHONPATH")
        more = {
            os.fsdecode(MARK): str(theirs.fileno()),
            "PYTHONPATH": f"{self._hook}{os.pathsep}{path}" if path else self._hook,
        }
        ours.setblocking(False)
        with theirs, self._lock:
            self._socket, self._killed = ours, killed_processes()
            self._process = subprocess.Popen(
                list(command),
                env={**environment, **more},
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                bufsize=0,
                pass_fds=(theirs.fileno(),),
            )
        self._send(plan)

    def _is_reached(self, command: PythonCommand, environment: Mapping[str, str], over: threading.Event) -> bool:
        """True if this Python imports `spare_hook` before its script. Otherwise the script would run."""
        self._open([*command.interpreter, "-c", ""], environment, {"probe": True})
        deadline = time.monotonic() + PROBE_SECONDS
        while not (ready := self.is_ready()) and not self._is_gone() and time.monotonic() < deadline:
            if over.wait(0.05):
                break
        if not ready and not over.is_set():
            self._is_possible = False
            say("no process with torch waits for the next attempt: this Python does not import sitecustomize")
        self.close()
        return ready

    def _begin(self, command: PythonCommand, environment: Mapping[str, str], needs: Needs) -> None:
        workers = [
            {
                "argv": one.argv,
                "environment": one.environment,
                "modules": one.told.modules,
                "files": one.told.files,
                "own": one.module,
            }
            for one in needs.workers
        ]
        self._waiting = 1 + len(workers)
        self._is_said, self._began_at = False, time.monotonic()
        first = needs.workers[0].told.modules if needs.workers else needs.modules
        self._libraries = tuple(name for name in first if name in LIBRARIES)
        plan = {"modules": list(needs.modules), "files": needs.files, "own": command.module, "workers": workers}
        self._open(self._command, environment, {**plan, "environment": _encoded(environment)})

    def _watch(self, over: threading.Event) -> None:
        """Say when the process is ready. End it if memory gets short."""
        while not over.wait(self._timings.spare_look):
            if not self._look():
                say(f"the process that waited for the next attempt has ended{self._why_ended}")
                return
            if is_short():
                say("memory is short: the process that waits for the next attempt is ended")
                self.close()
                return
            if self.is_settled or not self.is_ready():
                continue
            self.is_settled, self._imports = True, self._libraries
            if not self._is_said:
                self._is_said = True
                pids = [pid for root in self.processes() for pid in (root, *descendants(root))]
                size, seconds = sum(map(process_memory, pids)) >> 20, time.monotonic() - self._began_at
                say(f"{len(pids)} processes wait for the next attempt: {size} MiB, ready after {seconds:.0f} s")

    def _look(self) -> bool:
        """True if the process waits. One that the kernel has killed is counted."""
        with self._lock:
            before, self._killed = self._killed, killed_processes()
            if self._process is None or not self._is_gone():
                return self._process is not None
            self._kills += min(self._killed - before, self._waiting)
            self._why_ended = _why_ended(self._process)
            self.close()
            return False

    # The conversation.

    def _send(self, content: Mapping[str, Any]) -> None:
        data = marshal.dumps(dict(content), 2)  # 2: every Python reads it
        if self._socket is not None:
            self._socket.settimeout(ANSWER_SECONDS)
            try:
                self._socket.sendall(len(data).to_bytes(8, "big") + data)
            finally:
                self._socket.setblocking(False)

    def is_ready(self) -> bool:
        """True if the process has said that it is ready, and is the one that was started."""
        if self._socket is None or self._process is None:
            return False
        with contextlib.suppress(BlockingIOError, ConnectionError):
            self._answer += self._socket.recv(64)
        return self._answer == b"ready %d\n" % self._process.pid

    def _is_gone(self) -> bool:
        """True if the process has closed its end."""
        if self._socket is None:
            return True
        try:
            return not self._socket.recv(1, socket.MSG_PEEK)
        except BlockingIOError:
            return False
        except ConnectionError:
            return True

    def _goes(self, environment: Mapping[str, str]) -> bool:
        """True if the process goes on with this environment."""
        if self._socket is None:
            return False
        try:
            self._send({"environment": _encoded(environment), "outputs": []})
            self._socket.settimeout(ANSWER_SECONDS)
            return self._socket.recv(1) == b"y"
        except OSError:
            return False


def _encoded(environment: Mapping[str, str]) -> dict[bytes, bytes]:
    return {os.fsencode(name): os.fsencode(value) for name, value in environment.items()}


def _why_ended(process: subprocess.Popen[bytes]) -> str:
    """What the process, or the first one below it that failed, has written about that; empty if it has not."""
    with contextlib.suppress(OSError):
        assert process.stderr is not None
        os.set_blocking(process.stderr.fileno(), False)
        text = os.read(process.stderr.fileno(), OUTPUT_BYTES).decode(errors="replace")
        return next((line.partition(FAILED)[2] for line in text.splitlines() if FAILED in line), "")
    return ""
