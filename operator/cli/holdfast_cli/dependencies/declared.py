"""In which file a folder names its dependencies, and what that file requires."""

import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

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
            yield from _of_project(self.files[self.path])
            return
        for content in self.files.values():
            yield from filter(None, map(_stripped, _joined(content)))


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
        elif one.name == LOCK:
            waiting.append((one.with_name(PROJECT), str(one.with_name(PROJECT))))
    return found


def _joined(content: bytes) -> list[str]:
    return content.decode(errors="replace").replace("\\\n", " ").splitlines()


def _included(content: bytes) -> Iterator[str]:
    for line in _joined(content):
        option, _, name = _stripped(line).replace("=", " ", 1).partition(" ")
        if option in _INCLUDES and name.strip() and "://" not in name:
            yield name.strip()


def _stripped(line: str) -> str:
    """A line without its comment, hashes and other options."""
    return line.partition("#")[0].partition(" --")[0].strip() if not line.startswith("-") else line.strip()


def _of_project(content: bytes) -> list[str]:
    """`dependencies` of [project]. CliError if it cannot be read."""
    try:
        project = tomllib.loads(content.decode()).get("project")
    except ValueError as error:
        raise CliError(f"{PROJECT} cannot be read as TOML: {error}", code=ExitCode.USAGE) from error
    listed = project.get("dependencies") if isinstance(project, dict) else None
    return [one for one in listed if isinstance(one, str)] if isinstance(listed, list) else []


def is_of(requirement: Requirement, names: frozenset[str]) -> bool:
    """True if it is one of these packages; `names` are canonical."""
    return canonicalize_name(requirement.name) in names
