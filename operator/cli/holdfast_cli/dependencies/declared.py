"""In which file a folder names its dependencies, and what that file requires."""

import shlex
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from packaging.requirements import InvalidRequirement, Requirement

from holdfast_cli.errors import CliError, ExitCode, unreadable

NONE: Final = "none"
LOCK, PROJECT, REQUIREMENTS = "uv.lock", "pyproject.toml", "requirements.txt"
_INCLUDES: Final = ("-r", "--requirement", "-c", "--constraint")


@dataclass(frozen=True, slots=True)
class Declared:
    """Dependencies of a folder. `path`: of the file that names them. `files`: that one and those it includes."""

    path: Path
    files: dict[Path, bytes]

    @property
    def is_lock(self) -> bool:
        """True if uv has locked them already."""
        return self.path.name == LOCK

    @property
    def requires_python(self) -> str:
        """Which versions of Python a lock is for; empty if it does not say it."""
        found = read_toml(self.path, self.files[self.path]).get("requires-python") if self.is_lock else None
        return found if isinstance(found, str) else ""

    def requirements(self) -> Iterator[Requirement]:
        """What is required directly. What only uv can read, such as options and paths, is left out."""
        for line in self.lines():
            try:
                yield Requirement(line)
            except InvalidRequirement:
                continue

    def lines(self) -> Iterator[str]:
        """The lines that say something."""
        if self.path.suffix == ".toml":
            listed = _project(self.path, self.files[self.path]).get("dependencies")
            yield from [one for one in listed if isinstance(one, str)] if isinstance(listed, list) else []
            return
        for content in self.files.values():
            yield from filter(None, map(_stripped, _lines(content)))


def declared(root: Path, chosen: str | None) -> Declared | None:
    """The dependencies of the folder `root`; None if it names none.

    `chosen`: a file, below `root` if it is relative, or none. Without it: uv.lock, pyproject.toml or requirements.txt,
    the first one that names some. CliError if a file cannot be read.
    """
    if chosen == NONE:
        return None
    if chosen is not None:
        path = (root / chosen).resolve()
        return Declared(path, _read_all(path, f"--deps: {path}"))
    for path in (root.resolve() / name for name in (LOCK, PROJECT, REQUIREMENTS)):
        if path.exists():
            found = Declared(path, _read_all(path, str(path)))
            if found.is_lock or any(found.lines()):
                return found
    return None


def is_unknown(root: Path) -> bool:
    """True if only a build of the project tells its dependencies. CliError if its file cannot be read."""
    path = root / PROJECT
    dynamic = _project(path, path.read_bytes()).get("dynamic") if path.exists() else None
    return isinstance(dynamic, list) and "dependencies" in dynamic


def read_toml(path: Path, content: bytes) -> dict[str, Any]:
    """The tables of a file. CliError if it is not TOML."""
    try:
        return tomllib.loads(content.decode())
    except ValueError as error:
        raise CliError(f"{path} cannot be read as TOML: {error}", code=ExitCode.USAGE) from error


def _project(path: Path, content: bytes) -> dict[str, Any]:
    found = read_toml(path, content).get("project")
    return found if isinstance(found, dict) else {}


def _read_all(path: Path, named: str) -> dict[Path, bytes]:
    """The file, and those that it includes, each once."""
    found: dict[Path, bytes] = {}
    waiting = [(path, named)]
    while waiting:
        one, words = waiting.pop()
        if one in found:
            continue
        try:
            found[one] = one.read_bytes()
        except OSError as error:
            raise unreadable(words, error) from error
        if one.suffix not in (".toml", ".lock"):
            waiting += [((one.parent / name).resolve(), f"{one}: {name}") for name in _included(found[one])]
    return found


def _lines(content: bytes) -> list[str]:
    return content.decode("utf-8-sig", errors="replace").replace("\\\r\n", " ").replace("\\\n", " ").splitlines()


def _included(content: bytes) -> Iterator[str]:
    for line in _lines(content):
        if not line.lstrip().startswith("-"):
            continue
        try:
            words = shlex.split(line, comments=True)
        except ValueError:  # uv says what is wrong with it
            continue
        option, _, name = words[0].partition("=")
        name = name or "".join(words[1:2])
        if option in _INCLUDES and name and "://" not in name:
            yield name


def _stripped(line: str) -> str:
    """A line without its comment, hashes and other options."""
    found = line.strip()
    return found if found.startswith("-") else f" {found}".partition(" #")[0].partition(" --")[0].strip()
