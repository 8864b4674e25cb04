"""The processes of one container: start, signal, end of PID 1, and the end of everything it started.

The agent is a child subreaper: a process that outlives its parent always becomes a child of the agent. Its
container is known by a variable in its environment or by the session that PID 1 leads. What escapes is a process that
clears its environment, leaves the session and forks twice; it ends when the agent does.

PID 1 is an ordinary process here, so SIGTERM without a handler ends it. In a real PID namespace the kernel drops it.
"""

import asyncio
import contextlib
import ctypes
import fcntl
import hashlib
import logging
import os
import signal
import subprocess
import termios
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from holdfast_local.agent.container import procfs

_PR_SET_CHILD_SUBREAPER = 36
_KILL_ROUNDS = 200
_KILL_PAUSE = 0.01

log = logging.getLogger(__name__)


def agent_mark(root: Path) -> str:
    """What every container mark of the agent of this folder begins with."""
    return hashlib.sha256(os.fsencode(root.resolve())).hexdigest()[:12]


class Streams(NamedTuple):
    """File descriptors for a process. `terminal`: they are a terminal, which becomes that of its session."""

    stdin: int
    stdout: int
    stderr: int
    terminal: bool = False


def _take_terminal() -> None:
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


class Reaper:
    """Collects every ended child of this process: PID 1s for their waiters, orphans so that no zombie stays."""

    def __init__(self) -> None:
        self._waiting: dict[int, asyncio.Future[int]] = {}
        self._loop = asyncio.get_running_loop()

    def install(self) -> None:
        """Adopt orphans and notice every ended child from now on. Only in a main thread."""
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
            raise OSError(ctypes.get_errno(), "prctl(PR_SET_CHILD_SUBREAPER)")
        self._loop.add_signal_handler(signal.SIGCHLD, self._collect)

    def remove(self) -> None:
        """Stop listening."""
        self._loop.remove_signal_handler(signal.SIGCHLD)

    def known(self) -> set[int]:
        """PIDs with a waiter."""
        return set(self._waiting)

    def start(
        self, argv: Sequence[str], env: Mapping[str, str], cwd: str, output: int, streams: Streams | None = None
    ) -> tuple[int, asyncio.Future[int]]:
        """Start a process in a session of its own; its exit code comes in the future, 128 + n for signal n.

        Both kinds of output go to `output`, and it has no input, unless it has `streams`. Raises OSError where the
        program cannot be started.
        """
        streams = streams or Streams(subprocess.DEVNULL, output, output)
        process = subprocess.Popen(
            list(argv),
            env=dict(env),
            cwd=cwd,
            stdin=streams.stdin,
            stdout=streams.stdout,
            stderr=streams.stderr,
            start_new_session=True,
            close_fds=True,
            preexec_fn=_take_terminal if streams.terminal else None,  # noqa: PLW1509 - it only makes a system call
        )
        # The signal handler runs in this thread, so the PID has not been waited for yet. Popen must not do so either.
        process.returncode = 0
        ended: asyncio.Future[int] = self._loop.create_future()
        self._waiting[process.pid] = ended
        return process.pid, ended

    def _collect(self) -> None:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            ended = self._waiting.pop(pid, None)
            if ended is not None and not ended.done():
                code = os.waitstatus_to_exitcode(status)
                ended.set_result(code if code >= 0 else 128 - code)


class ContainerProcess:
    """PID 1 of a running container and everything below it."""

    def __init__(self, reaper: Reaper, mark: str) -> None:
        self.mark = mark
        self.pid = 0
        self.out_of_memory = False
        self._reaper = reaper
        self._ended: asyncio.Future[int] | None = None
        self._guests = set[int]()
        self._gone = False

    def start(self, argv: Sequence[str], env: Mapping[str, str], cwd: str, on_output: Callable[[bytes], None]) -> None:
        """Start PID 1. Its output goes to the callback, b"" at the end. Raises OSError where it cannot be started."""
        reading, writing = os.pipe()
        try:
            self.pid, self._ended = self._reaper.start(argv, {**env, procfs.MARK: self.mark}, cwd, writing)
        except OSError:
            os.close(reading)
            raise
        finally:
            os.close(writing)
        os.set_blocking(reading, False)
        loop = asyncio.get_running_loop()
        self._drained = loop.create_future()
        loop.add_reader(reading, self._read, reading, on_output)

    def enter(self, argv: Sequence[str], env: Mapping[str, str], cwd: str, streams: Streams) -> asyncio.Future[int]:
        """Start one more process beside PID 1; its exit code. It is killed when PID 1 has ended.

        Raises OSError where it cannot be started.
        """
        pid, ended = self._reaper.start(argv, {**env, procfs.MARK: self.mark}, cwd, streams.stdout, streams)
        self._guests.add(pid)
        ended.add_done_callback(lambda _: self._guests.discard(pid))
        return ended

    def _read(self, fd: int, on_output: Callable[[bytes], None]) -> None:
        try:
            chunk = os.read(fd, 1 << 16)
        except BlockingIOError:
            return
        except OSError:
            chunk = b""
        on_output(chunk)
        if not chunk:
            asyncio.get_running_loop().remove_reader(fd)
            os.close(fd)
            if not self._drained.done():
                self._drained.set_result(None)

    async def wait(self) -> int:
        """The exit code of PID 1, once what PID 1 left behind is killed and the output is read to its end."""
        if self._ended is None:
            raise RuntimeError("wait() before start()")
        code = await asyncio.shield(self._ended)
        await self.kill_tree()
        with contextlib.suppress(TimeoutError):  # only a process that escaped can keep the pipe open
            await asyncio.wait_for(asyncio.shield(self._drained), 1.0)
        return code

    @property
    def running(self) -> bool:
        """Whether PID 1 lives."""
        return self._ended is not None and not self._ended.done()

    def terminate(self) -> None:
        """SIGTERM to PID 1, and to no other process."""
        if self.running:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGTERM)

    def members(self, processes: procfs.Table) -> set[int]:
        """Every process of this container, zombies included."""
        if self.pid == 0:
            return set()
        me, known = os.getpid(), self._reaper.known()
        roots = {pid for pid in processes.sessions.get(self.pid, []) if pid != self.pid or self.running}
        orphans = (pid for pid in processes.children.get(me, []) if pid not in known)
        roots |= {pid for pid in orphans if procfs.mark(pid) == self.mark} | self._guests
        return procfs.with_descendants(roots, processes)

    async def kill_tree(self) -> None:
        """SIGKILL to every process of the container, until none is left."""
        for _ in range(_KILL_ROUNDS):
            if self._gone:
                return
            processes = procfs.table()
            alive = {pid for pid in self.members(processes) if processes[pid].state not in "ZX"}
            if not alive:
                self._gone = not self.running  # from now on its PID may belong to another process
                return
            _kill(alive)
            await asyncio.sleep(_KILL_PAUSE)
        log.error("container %s: processes are left after %d rounds of SIGKILL", self.mark, _KILL_ROUNDS)


def _kill(pids: set[int]) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)


async def kill_marked(prefix: str) -> int:
    """Kill what an earlier life left: processes whose container mark begins so, and all below. Returns how many."""
    return await _kill_until_none(
        lambda processes: [pid for pid in processes if (procfs.mark(pid) or "").startswith(prefix)]
    )


async def kill_children() -> int:
    """Kill everything below this process: what escaped its container is the agent's child by now. Returns how many."""
    return await _kill_until_none(lambda _: [os.getpid()])


async def _kill_until_none(find: Callable[[procfs.Table], list[int]]) -> int:
    killed: set[int] = set()
    for _ in range(_KILL_ROUNDS):
        processes = procfs.table()
        below = procfs.with_descendants(find(processes), processes)
        alive = {pid for pid in below if processes[pid].state not in "ZX"}
        alive.discard(os.getpid())
        if not alive:
            break
        killed |= alive
        _kill(alive)
        await asyncio.sleep(_KILL_PAUSE)
    return len(killed)
