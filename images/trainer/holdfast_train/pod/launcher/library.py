"""Programs of the library, in processes of their own, also where the image of the program does not have the library.

The init container copies it beside the launcher. It needs Python 3.11.
"""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

ANSWER = "holdfast: kept at "  # begins the last line of a process that has stored something, before its address
LIBRARY = "library"  # the folder with the library beside the launcher, if the program does not need to have it
_START = "import sys; sys.path.insert(0, sys.argv.pop(1)); from {} import main; sys.exit(main())"


def library_command(module: str, *arguments: str) -> list[str]:
    """The command of a process that runs `main` of a module of that library.

    -P: a file of the program may be named as a module of Python.
    """
    return [sys.executable, "-P", "-c", _START.format(module), str(_copied()), *arguments]


def ask_library(
    module: str,
    given: bytes,
    python: str,
    environment: Mapping[str, str],
    *,
    seconds: float,
    on_start: Callable[[subprocess.Popen[bytes]], None] = lambda _: None,
) -> str:
    """The address at which `main` of a module of the library has stored `given`, which it gets on its standard input.

    It prints ANSWER and the address: other lines are of what Python itself starts, such as a sitecustomize.

    `python`: of a rank of the program that has the library; "" if there is none. Then the copy beside the launcher is
    taken, or the library of the launcher's own Python. OSError, in words, if there is none of them, or if it fails.
    """
    if python:
        command = [python, "-P", "-m", module]
    elif _copied().is_dir():
        command = library_command(module)
    elif importlib.util.find_spec("holdfast_train") is not None:
        command = [sys.executable, "-P", "-m", module]
    else:
        raise OSError("python3 of the image does not have holdfast_train")
    if seconds <= 0:
        raise OSError("no time is left")
    pipe = subprocess.PIPE
    with subprocess.Popen(command, env=environment, stdin=pipe, stdout=pipe, stderr=pipe) as process:
        on_start(process)
        try:
            told, why = process.communicate(given, seconds)
        except subprocess.TimeoutExpired as error:
            process.kill()
            raise OSError(f"the storage took more than {seconds:.0f} s") from error
    # Not by its exit code: the launcher collects all processes that end, so this one may be collected already.
    last = told.decode("utf-8", "replace").strip().rpartition("\n")[2]
    if not last.startswith(ANSWER):
        raise OSError(why.decode("utf-8", "replace").strip().rpartition("\n")[2] or "its process ended without a word")
    return last[len(ANSWER) :]


def _copied() -> Path:
    return Path(sys.argv[0]).resolve().parent / LIBRARY
