"""In which file a folder names its dependencies, and what that file requires."""

import shlex
import tomllib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from holdfast_cli.errors import CliError, ExitCode, unreadable

NONE: Final = "none"
LOCK, PROJECT, REQUIREMENTS = "uv.lock", "pyproject.toml", "requirements.txt"
NOT_READ: Final = ("poetry.lock", "Pipfile", "setup.py", "setup.cfg", "environment.yml")
_REQUIRES: Final = ("-r", "--requirement")
_INCLUDES: Final = (*_REQUIRES, "-c", "--constraint")


@dataclass(frozen=True, slots=True)
class Declared:
    """Dependencies of a folder. `path`: of the file that names them. `files`: that one and those it includes.

    `constraints`: those of the files that require nothing by themselves.
    """

    path: Path
    files: dict[Path, bytes]
    constraints: frozenset[Path] = frozenset()

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
        """What is required directly. Options and paths are left out."""
        return readable(self.lines())

    def lines(self) -> Iterator[str]:
        """The lines that say something."""
        if self.path.suffix == ".toml":
            listed = _project(self.path, self.files[self.path]).get("dependencies")
            yield from [one for one in listed if isinstance(one, str)] if isinstance(listed, list) else []
            return
        for path, content in self.files.items():
            if path not in self.constraints:
                yield from filter(None, map(_stripped, _lines(content)))

    def direct(self) -> frozenset[str]:
        """The names that the project of a lock requires directly."""
        project = self.path.with_name(PROJECT)
        content = project.read_bytes() if project.exists() else b""
        listed = _project(project, content).get("dependencies") or ()
        return frozenset(canonicalize_name(one.name) for one in readable(listed))


def readable(lines: Iterable[str]) -> Iterator[Requirement]:
    """The lines that are requirements. Those that only uv understands are left out."""
    for line in lines:
        try:
            yield Requirement(line)
        except InvalidRequirement:
            continue


def declared(root: Path, chosen: str | None) -> Declared | None:
    """The dependencies of the folder `root`; None if it names none.

    `chosen`: a file, below `root` if it is relative, or none. Without it: uv.lock, pyproject.toml or requirements.txt,
    the first one that names some. CliError if a file cannot be read.
    """
    if chosen == NONE:
        return None
    if chosen is not None:
        path = (root / chosen).resolve()
        if path.suffix in (".py", ".cfg", ".yml", ".yaml"):
            allowed = f"{LOCK}, {PROJECT} or a file of requirements"
            raise CliError(f"--deps: {path} cannot be read for packages; allowed: {allowed}", code=ExitCode.USAGE)
        return _read_all(path, f"--deps: {path}")
    for path in (root.resolve() / name for name in (LOCK, PROJECT, REQUIREMENTS)):
        if path.exists():
            found = _read_all(path, str(path))
            if found.is_lock or any(found.lines()):
                return found
    return None


def not_read(root: Path) -> list[str]:
    """Files of the folder that may name dependencies and are not read. CliError if its project cannot be read."""
    path = root / PROJECT
    content = path.read_bytes() if path.exists() else b""
    dynamic = _project(path, content).get("dynamic")
    is_built = isinstance(dynamic, list) and "dependencies" in dynamic
    is_poetry = "dependencies" in table(read_toml(path, content), "tool", "poetry")
    found = [name for name in NOT_READ if (root / name).exists()]
    return [PROJECT, *found] if is_built or is_poetry else found


def read_toml(path: Path, content: bytes) -> dict[str, Any]:
    """The tables of a file. CliError if it is not TOML."""
    try:
        return tomllib.loads(content.decode())
    except ValueError as error:
        raise CliError(f"{path} cannot be read as TOML: {error}", code=ExitCode.USAGE) from error


def table(tables: dict[str, Any], *names: str) -> dict[str, Any]:
    """The table at these names, one below the other; an empty one if there is none."""
    for name in names:
        found = tables.get(name)
        tables = found if isinstance(found, dict) else {}
    return tables


def _project(path: Path, content: bytes) -> dict[str, Any]:
    return table(read_toml(path, content), "project")


def _read_all(path: Path, named: str) -> Declared:
    """The file, and those that it includes, each once."""
    found: dict[Path, bytes] = {}
    required = {path}
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
            for name, is_required in _included(found[one]):
                other = (one.parent / name).resolve()
                waiting.append((other, f"{one}: {name}"))
                if is_required and one in required:
                    required.add(other)
    return Declared(path, found, frozenset(found.keys() - required))


def _lines(content: bytes) -> list[str]:
    return content.decode("utf-8-sig", errors="replace").replace("\\\r\n", " ").replace("\\\n", " ").splitlines()


def _included(content: bytes) -> Iterator[tuple[str, bool]]:
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
            yield name, option in _REQUIRES


def _stripped(line: str) -> str:
    """A line without its comment, hashes and other options."""
    found = line.strip()
    return found if found.startswith("-") else f" {found}".partition(" #")[0].partition(" --")[0].strip()
