"""The end of a process whose Run has left or has failed: the next attempt may wait for it.

At its end Python searches all objects for garbage, again and again. With torch that takes a second of one processor
core for each rank, and the memory goes with the process anyway. Without the search, objects that the modules of the
program hold may not be finalised, which Python does not promise: a `gzip` or `zip` file in a cycle that the program has
not closed has no end. What `open` gave is flushed, functions of `atexit` and of C libraries are called, and the exit
code stays.
"""

import atexit
import contextlib
import gc
import io
import logging
import os
from typing import Final

_FILES: Final = (io.TextIOWrapper, io.BufferedWriter, io.BufferedRandom)
_processes: Final[set[int]] = set()


def end_quickly() -> None:
    """Let this process end without a search for garbage. It may still run for as long as it wants to."""
    _processes.add(os.getpid())


def _on_exit() -> None:
    if os.getpid() not in _processes:
        return
    is_loud = False
    for found in gc.get_objects():
        if type(found) in _FILES:
            with contextlib.suppress(OSError, ValueError):  # it is closed already, or its disk is full
                found.flush()
        is_loud = is_loud or type(found).__module__ == "nanobind"
    gc.freeze()
    if is_loud:
        _silence()


def _silence() -> None:
    """Drop what comes on stderr: modules made with nanobind report each object that is not finalised, in many lines.

    Functions of `atexit` from before the import of this module are still to come, and logging's is one of them.
    """
    logging.shutdown()
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 2)
    os.close(nowhere)


atexit.register(_on_exit)  # at the import, so that it comes after the functions that the program registers later
