"""Which commands are Python programs that a waiting process can become. Pure, but for the files of the image."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

_PYTHON = re.compile(r"python(\d+(\.\d+)*t?)?")
_FLAGS = re.compile(r"-[uOBbqdsPR]+")  # none of them keeps Python from importing sitecustomize
_WITH_VALUE = ("-X", "-W")
_TORCHRUN = ("torch.distributed.run", "torch.distributed.launch")
HEAD_BYTES = 256  # Linux reads no more of the first line of a script


class PythonCommand(NamedTuple):
    """A Python program: the interpreter with its options, and the module that it runs with `-m`, or the script."""

    interpreter: tuple[str, ...]
    module: str = ""
    script: str = ""

    @property
    def is_torchrun(self) -> bool:
        """True if this is torchrun, which starts the ranks as processes of their own."""
        return self.module in _TORCHRUN or Path(self.script).name == "torchrun"


def read_command(command: Sequence[str], environment: Mapping[str, str]) -> PythonCommand | None:
    """The Python program that `command` starts, None if it starts something else or if that is not certain."""
    if _PYTHON.fullmatch(Path(command[0]).name):
        return _read_options(command)
    path = _find(command[0], environment)
    line = _first_line(path) if path else None
    if line is None:
        return None
    words = line.split()
    if words and Path(words[0]).name == "env":
        words = words[1:]
    if not words or not _PYTHON.fullmatch(Path(words[0]).name):
        return None
    return _read_options([*words, str(path), *command[1:]])


def _read_options(command: Sequence[str]) -> PythonCommand | None:
    rest = list(command[1:])
    options = []
    while rest and rest[0].startswith("-"):
        if rest[0] in ("-m", "-c"):
            break
        takes = 2 if rest[0] in _WITH_VALUE else 1
        if takes == 1 and not _FLAGS.fullmatch(rest[0]) and not rest[0].startswith(_WITH_VALUE):
            return None
        options += rest[:takes]
        rest = rest[takes:]
    if not rest or (rest[0] in ("-m", "-c") and len(rest) == 1):
        return None
    interpreter = (command[0], *options)
    if rest[0] == "-m":
        return PythonCommand(interpreter, module=rest[1])
    return PythonCommand(interpreter, script="" if rest[0] == "-c" else rest[0])


def _find(name: str, environment: Mapping[str, str]) -> Path | None:
    """The file that the system starts for `name`."""
    if "/" in name:
        return Path(name)
    for folder in os.get_exec_path(environment):
        path = Path(folder, name)
        if path.is_file() and os.access(path, os.X_OK):
            return path
    return None


def _first_line(path: Path) -> str | None:
    """What stands after `#!` in a script, None if the file is none."""
    try:
        with path.open("rb") as file:
            head = file.read(HEAD_BYTES)
    except OSError:
        return None
    if not head.startswith(b"#!") or b"\n" not in head:
        return None
    return head[2:].split(b"\n", 1)[0].decode("utf-8", "surrogateescape")
