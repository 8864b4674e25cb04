"""`trainer.code.dependencies` in the environment of the program, and whether they fit the image."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from holdfast_protocol import variables
from holdfast_protocol.dependencies import LIST_FILE, Dependencies, read_list
from holdfast_protocol.document import DocumentError

from .verdict_files import say

DO_NOT_FIT = "DependenciesDoNotFit"
SECONDS = 60.0  # for an interpreter to answer: the image may be on a slow disk
HEAD = 256  # bytes of a script in which its interpreter is named
# Asks Python for its version, and which requirements its packages do not meet; null if it cannot compare versions.
_QUESTION = """
import json, sys
python, unmet = "%d.%d" % sys.version_info[:2], []
try:
    from importlib.metadata import PackageNotFoundError, version
    try:
        from packaging.requirements import Requirement
    except ImportError:
        from pip._vendor.packaging.requirements import Requirement
    for text in sys.argv[1:]:
        needed = Requirement(text)
        try:
            found = version(needed.name)
        except PackageNotFoundError:
            found = None
        if found is None or not needed.specifier.contains(found, prereleases=True):
            unmet.append([text, found])
except ImportError:
    unmet = None
print(json.dumps([python, unmet]))
"""


def add_dependencies(environment: dict[str, str]) -> None:
    """Let the program find its packages, before those of the image, and their commands."""
    folder = environment.get(variables.DEPENDENCIES_DIR, "")
    for name, first in (("PYTHONPATH", folder), ("PATH", f"{folder}/bin")):
        rest = environment.get(name) or (os.defpath if name == "PATH" else "")
        environment[name] = f"{first}{os.pathsep}{rest}" if rest else first


def misfit(command: Sequence[str], environment: Mapping[str, str]) -> str | None:
    """Why the packages cannot be used with the Python that runs the command; None if they can be.

    If the command is not a program of Python, python3 of the image is asked, and what does not fit is only said.
    """
    try:
        listed = read_list(Path(environment.get(variables.DEPENDENCIES_DIR, ""), LIST_FILE).read_bytes())
    except (OSError, DocumentError) as error:
        return f"the list of the packages cannot be read: {error}"
    python = interpreter(command, environment)
    found = _ask(python or sys.executable, listed, environment)
    if isinstance(found, str):
        say(f"trainer.code.dependencies were not compared with the image: {found}")
        return None
    version, unmet = found
    if unmet is None:
        say("the packages of the image were not compared: it has neither packaging nor pip")
    text = "; ".join(_problems(listed, version, unmet or []))
    if text and python is None:
        say(f"trainer.code.dependencies may not fit: {text}")
        return None
    return text or None


def interpreter(command: Sequence[str], environment: Mapping[str, str]) -> str | None:
    """The Python that runs the command, as its file says; None if it is not a program of Python."""
    words = list(command)
    if Path(words[0]).name == "env":  # env NAME=VALUE COMMAND
        words = [word for word in words[1:] if "=" not in word] or words
    path = shutil.which(words[0], path=environment.get("PATH"))
    if path is None:
        return None
    if _is_python(path):
        return path
    try:
        with Path(path).open("rb") as opened:
            line = opened.read(HEAD).partition(b"\n")[0]
        words = shlex.split(line[2:].decode()) if line.startswith(b"#!") else []
    except (OSError, ValueError):
        return None
    if words and Path(words[0]).name == "env":
        words = [shutil.which(word, path=environment.get("PATH")) or "" for word in words[1:2]]
    return words[0] if words and _is_python(words[0]) else None


def _is_python(path: str) -> bool:
    return Path(path).resolve().name.startswith("python")


def _ask(python: str, listed: Dependencies, environment: Mapping[str, str]) -> tuple[str, list[list[str]] | None] | str:
    """The version of this Python, and the unmet requirements, each with the version that is there; or what failed."""
    wanted = [need.requirement for need in listed.provided]
    try:
        answer = subprocess.run(
            [python, "-c", _QUESTION, *wanted],
            env=dict(environment),
            cwd="/",
            check=True,
            capture_output=True,
            timeout=SECONDS,
        )
        found: tuple[str, list[list[str]] | None] = tuple(json.loads(answer.stdout))
    except subprocess.CalledProcessError as error:
        lines: list[str] = error.stderr.decode(errors="replace").strip().splitlines()
        return lines[-1] if lines else "no answer"
    except (OSError, ValueError, subprocess.TimeoutExpired) as error:
        return str(error)
    return found


def _problems(listed: Dependencies, version: str, unmet: Sequence[Sequence[str]]) -> list[str]:
    found = []
    if version != listed.python:
        found.append(
            f"the packages of trainer.code.dependencies were chosen for Python {listed.python}, and the image has "
            f"{version}: run the command again with --python {version}"
        )
    by = {need.requirement: need.by for need in listed.provided}
    for requirement, there in unmet:
        has = f"the image has {there}" if there else "the image does not have it"
        found.append(
            f"{by[requirement]} needs {requirement}, which is taken from the image, and {has}: choose another image, "
            f"or another version; --provided says what is taken from the image"
        )
    return found
