"""The fork server: a process that has loaded torch and boto3 once, and forks trainers and writers in milliseconds.

It has one thread, for a fork takes only the thread that calls it. As the parent of all it forks it
can kill them by number without ever meeting another process: a number is given again only after it has been waited for.
"""

import gc
import json
import os
import selectors
import signal
import socket
import subprocess
import sys
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal, Self

import torch
from tests.support.trainer.stores import environment
from tests.torture import trainer
from tests.torture.phases import Board, Slot
from tests.torture.state import expected

from holdfast_train.storage.opening import open_retrying

MESSAGE: Final = 1 << 16
NICENESS = 10  # other tests that run meanwhile have deadlines


@dataclass(frozen=True)
class Forked:
    """A process was forked for the trial number `trial`; it uses slot number `slot` of the board."""

    role: Literal["trainer", "writer"]
    trial: int
    pid: int
    slot: int


@dataclass(frozen=True)
class Ended:
    """A process has ended, as os.waitstatus_to_exitcode says: below 0 it was that signal."""

    pid: int
    code: int


class ForkServer:
    """The server as its client sees it. A context: at its end everything that was forked is killed."""

    def __init__(self, folder: Path) -> None:
        self.board = Board()
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._reports, reporting = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        descriptors = [theirs.fileno(), reporting.fileno(), self.board.descriptor]
        self.output = folder / "server.txt"
        with theirs, reporting, self.output.open("ab") as out:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.torture.server", *map(str, descriptors)],
                pass_fds=descriptors,
                env=os.environ | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"},
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
            )
        expected("warm", 1)  # what imports half of torch there does so here too, and at the same time

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._control.close()
        self._reports.close()
        self._process.wait()

    def train(self, order: dict[str, Any]) -> None:
        """Fork a trainer. Its writers follow when it asks for them."""
        self._send({"do": "train", "order": order})

    def kill(self, pids: list[int], number: signal.Signals = signal.SIGKILL) -> None:
        """Send a signal to all of them, one directly after the other. Those that have ended are left out."""
        self._send({"do": "kill", "pids": pids, "signal": int(number)})

    def events(self) -> Iterator[Forked | Ended]:
        """What has happened since this was asked last; does not wait."""
        for body in self._arrived(self._control):
            yield Forked(**body) if "role" in body else Ended(**body)

    def reports(self) -> Iterator[dict[str, Any]]:
        """What trainers and writers have told since this was asked last; does not wait."""
        return self._arrived(self._reports)

    def _arrived(self, end: socket.socket) -> Iterator[dict[str, Any]]:
        while True:
            try:
                data = end.recv(MESSAGE, socket.MSG_DONTWAIT)
            except BlockingIOError:
                return
            if not data:
                raise RuntimeError(f"the fork server has ended: {self.output.read_text()[-2000:]}")
            yield json.loads(data)

    def _send(self, body: dict[str, Any]) -> None:
        self._control.send(json.dumps(body).encode())


class _Server:
    def __init__(self, control: socket.socket, reports: int, board: Board) -> None:
        self._control = control
        self._reports = reports
        self._board = board
        self._requests, self._asking = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._selector = selectors.DefaultSelector()
        self._children: dict[int, int] = {}  # pid: pidfd
        self._slots = 0

    def serve(self) -> None:
        for end in (self._control, self._requests):
            self._selector.register(end, selectors.EVENT_READ, None)
        while True:
            for key, _ in self._selector.select():
                if key.data is not None:
                    self._reap(key.data)
                elif key.fileobj is self._requests:
                    self._fork_writer()
                elif not self._obey():
                    return

    def end(self) -> None:
        for pid in self._children:
            os.kill(pid, signal.SIGKILL)
        for pid in self._children:
            os.waitpid(pid, 0)

    def _obey(self) -> bool:
        data = self._control.recv(MESSAGE)
        if not data:
            return False
        body = json.loads(data)
        if body["do"] == "train":
            order = body["order"] | {"reports": self._reports}
            self._fork("trainer", order, lambda slot: trainer.train(order, slot, self._asking))
        else:
            for pid in body["pids"]:
                if pid in self._children:
                    os.kill(pid, body["signal"])
        return True

    def _fork_writer(self) -> None:
        data, descriptors, _, _ = socket.recv_fds(self._requests, MESSAGE, 3)
        order = json.loads(data)
        # The third one stays open until the writer is dead, which its trainer waits for.
        self._fork("writer", order, lambda slot: trainer.write(order, slot, *descriptors[:2]))
        for descriptor in descriptors:
            os.close(descriptor)

    def _fork(self, role: str, order: dict[str, Any], work: Callable[[Slot], int]) -> None:
        number, self._slots = self._slots, self._slots + 1
        pid = os.fork()
        if pid == 0:
            self._child(order, lambda: work(self._board.slot(number)))
        descriptor = os.pidfd_open(pid)
        self._children[pid] = descriptor
        self._selector.register(descriptor, selectors.EVENT_READ, pid)
        self._tell({"role": role, "trial": order["trial"], "pid": pid, "slot": number})

    def _child(self, order: dict[str, Any], work: Callable[[], int]) -> None:
        code = 70
        try:
            os.setsid()
            self._selector.close()
            self._control.close()
            self._requests.close()
            for descriptor in self._children.values():
                os.close(descriptor)
            output = os.open(order["output"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666)
            os.dup2(output, 1)
            os.dup2(output, 2)
            code = work()
        finally:
            if (error := sys.exception()) is not None:
                traceback.print_exception(error)
            sys.stderr.flush()
            os._exit(code)  # after any error: this process must not go on as a second server

    def _reap(self, pid: int) -> None:
        self._selector.unregister(self._children[pid])
        os.close(self._children.pop(pid))
        _, status = os.waitpid(pid, 0)
        self._tell({"pid": pid, "code": os.waitstatus_to_exitcode(status)})

    def _tell(self, body: dict[str, Any]) -> None:
        self._control.send(json.dumps(body).encode())


def _warm() -> None:
    """What each process would do first, done once before they are forked."""
    open_retrying(environment("s3://bucket/prefix", checkpoint_endpoint="http://127.0.0.1:1"), "s3://bucket/x")
    torch.set_num_threads(1)
    expected("warm", 1)  # the first step of an optimizer imports half of torch
    gc.collect()
    gc.freeze()
    if (threads := len(list(Path("/proc/self/task").iterdir()))) > 1:
        raise RuntimeError(f"the fork server has {threads} threads: it must have one when it forks")


def main() -> int:
    """Serve until the client has closed its end."""
    os.nice(NICENESS)
    control, reports, board = map(int, sys.argv[1:])
    server = _Server(socket.socket(fileno=control), reports, Board(board))
    _warm()
    try:
        server.serve()
    except (BrokenPipeError, ConnectionResetError):  # the client has ended
        return 1
    finally:
        server.end()
    return 0


if __name__ == "__main__":
    sys.exit(main())
