"""The writer process, as its trainer starts, hears and ends it."""

import contextlib
import os
import socket
import subprocess
import sys
import threading
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

from holdfast_train.errors import WriterLostError
from holdfast_train.save.channel import Channel, ClosedError
from holdfast_train.save.in_flight_lock import InFlightLock

_MODULE: Final = "holdfast_train.save.writer"  # an argument of its own, so that lists of processes show it
_START: Final = """\
import importlib, sys
sys.path += [path for path in sys.argv[4:] if path not in sys.path]
sys.exit(importlib.import_module(sys.argv[1]).main(sys.argv[2:4]))
"""


@dataclass(frozen=True, eq=False)
class WriterProcess:
    """A running writer. `end` kills the process and returns when it is reaped: only then it reads no arena any more.

    A closed `channel` proves nothing: one thread of a writer can fail while another thread still uploads.
    """

    channel: Channel
    end: Callable[[], None]


def start_writer(lock: InFlightLock) -> WriterProcess:
    """Start a writer process, in its own session: signals to the trainer's process group do not reach it.

    It finds the modules that this process finds. But modules of the program, such as a `queue.py`, do not hide those of
    Python: the working directory is not searched (`-P`), and the paths of the program are searched last.
    WriterLostError if it cannot be started.
    """
    ours, theirs = socket.socketpair()
    _ends.update((ours, theirs))
    with theirs:
        descriptors = [theirs.fileno(), lock.descriptor]
        paths = (str(Path(entry).absolute()) for entry in sys.path)
        command = [sys.executable, "-P", "-c", _START, _MODULE, *map(str, descriptors), *paths]
        try:
            process = subprocess.Popen(command, pass_fds=descriptors, stdin=subprocess.DEVNULL, start_new_session=True)
        except OSError as error:
            ours.close()
            raise WriterLostError(
                f"the process that writes checkpoints cannot be started: {error}; is the container at its limit of "
                f"processes or memory?"
            ) from error
    return WriterProcess(Channel(ours), partial(_end, process))


def hear(
    writer: WriterProcess,
    on_message: "weakref.ref[Callable[[WriterProcess, object], None]]",
    on_end: "weakref.ref[Callable[[WriterProcess], None]]",
) -> None:
    """Hand on what `writer` says, in a thread, until it has ended. If no thread can be started, end the writer:
    WriterLostError.

    The references are weak because a writer may work longer than the trainer's objects are in use.
    """

    def listen() -> None:
        try:
            with contextlib.suppress(ClosedError):
                while True:
                    message = writer.channel.receive()[0]
                    if (handle := on_message()) is not None:
                        handle(writer, message)
                    del handle
        finally:  # without this thread no arena would ever become free
            if (forget := on_end()) is not None:
                forget(writer)
            del forget
            writer.channel.close()
            writer.end()

    try:
        threading.Thread(target=listen, name="holdfast-saver", daemon=True).start()
    except RuntimeError as error:
        writer.channel.close()
        writer.end()
        raise WriterLostError(
            f"the process that writes checkpoints cannot be heard: {error}; is the container at its limit of "
            f"processes or memory?"
        ) from error


def _end(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()


# A process that the program forks, such as a data-loader worker, gets a copy of each open socket. A copy of one end of
# a channel would hide the end of the process that owns this end. So a forked process closes its copies.
_ends: "weakref.WeakSet[socket.socket]" = weakref.WeakSet()


def _close_ends() -> None:
    for end in list(_ends):
        end.close()


os.register_at_fork(after_in_child=_close_ends)
