"""The files of locked packages on this machine, by package."""

import os
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from importlib.metadata import Distribution, EntryPoint, distributions
from pathlib import Path
from typing import Final

from packaging.requirements import Requirement
from packaging.tags import parse_tag
from packaging.utils import canonicalize_name
from rich.console import Console

from holdfast_cli.dependencies.declared import is_of
from holdfast_cli.dependencies.locked import Locked, Target, applies, plain
from holdfast_cli.dependencies.uv import run_uv
from holdfast_cli.errors import CliError
from holdfast_protocol.dependencies import Dependencies, Need, Package, read_list
from holdfast_protocol.document import to_text
from holdfast_train.code.archive import kind_of
from holdfast_train.code.tree import Entry, content_hash, tree_hash

FILES, LIST = "files", "list.json"
BIN: Final = "bin/"
_SCRIPT: Final = """#!/usr/bin/env python3
import sys
from {module} import {first}

if __name__ == "__main__":
    sys.exit({name}())
"""


@dataclass(frozen=True, slots=True)
class Unpacked:
    """Packages below `root`. `content`: the list as it is sent, whose hash is `sha256`."""

    root: Path
    content: bytes

    @property
    def sha256(self) -> str:
        """What `trainer.code.dependencies` names."""
        return content_hash(self.content)

    @property
    def listed(self) -> Dependencies:
        """The list."""
        return read_list(self.content)

    def entries(self) -> dict[str, list[Entry]]:
        """The files of each package, by its name."""
        return {_name(one): _entries(self.root, paths) for one, paths in _by_package(self.root)}


def unpack(locked: Locked, target: Target, cache: Path, err: Console) -> Unpacked:
    """Download and unpack what is locked, or take it from `cache`. CliError from uv. OSError."""
    place = cache / locked.key(target)
    if not place.exists():
        with tempfile.TemporaryDirectory(dir=cache) as made:
            whole = Path(made, "whole")
            whole.mkdir()
            _fill(whole / FILES, locked, target, err)
            (whole / LIST).write_bytes(_listed(whole / FILES, locked, target))
            try:
                whole.rename(place)
            except OSError:  # another command has made it meanwhile
                if not place.exists():
                    raise
    return Unpacked(place / FILES, (place / LIST).read_bytes())


def _fill(root: Path, locked: Locked, target: Target, err: Console) -> None:
    root.mkdir()
    requirements = root.with_name("requirements.txt")
    requirements.write_text(locked.text)
    run_uv(
        *("pip", "install", "--target", str(root), "--no-deps", *target.options),
        *("-r", str(requirements)),
        folder=root,
        doing="download the dependencies",
        is_shown=err.is_terminal,
    )
    (root / ".lock").unlink(missing_ok=True)  # of uv
    for one in _distributions(root):
        _make_portable(root, one)
    _refuse_strays(root)


def _distributions(root: Path) -> list[Distribution]:
    return sorted(distributions(path=[str(root)]), key=_name)


def _name(one: Distribution) -> str:
    return canonicalize_name(one.metadata["Name"])


def _by_package(root: Path) -> Iterator[tuple[Distribution, list[str]]]:
    """Each package with its files. A file that two packages have is of the first one."""
    taken: set[str] = set()
    for one in _distributions(root):
        paths = [path for path in _paths(one) if path not in taken]
        taken.update(paths)
        yield one, paths


def _paths(one: Distribution) -> list[str]:
    """The files of a package, as its RECORD names them."""
    if one.files is None:
        raise CliError(f"the package {_name(one)} does not say which files it has: its RECORD is missing")
    return sorted({str(path) for path in one.files})


def _make_portable(root: Path, one: Distribution) -> None:
    """Write commands, whose first line names the Python of this machine, so that they run in a pod.

    RECORD has no hashes of commands then. Both become the same on every machine.
    """
    points = {point.name: point for point in one.entry_points.select(group="console_scripts")}
    for path in _paths(one):
        if path.startswith(BIN):
            _make_command(root / path, points.get(path.removeprefix(BIN)))
    record = next(root / path for path in _paths(one) if path.endswith(".dist-info/RECORD"))
    lines = sorted(record.read_text().splitlines())
    _write(record, "".join(f"{_without_hash(line)}\n" for line in lines), is_command=False)


def _without_hash(line: str) -> str:
    return f"{line.partition(',')[0]},," if line.startswith(BIN) else line


def _make_command(file: Path, point: EntryPoint | None) -> None:
    if point is not None:
        name = point.attr
        first = name.partition(".")[0]
        _write(file, _SCRIPT.format(module=point.module, first=first, name=name), is_command=True)
        return
    content = file.read_bytes()
    line, end, rest = content.partition(b"\n")
    if line.startswith(b"#!") and b"python" in line:
        _write(file, f"#!/usr/bin/env python3\n{rest.decode()}" if end else "", is_command=True)


def _write(file: Path, text: str, *, is_command: bool) -> None:
    """Write a new file in its place: the old one may be a second name of a file in uv's cache."""
    new = file.with_name(f"{file.name}.new")
    new.write_text(text)
    new.chmod(0o755 if is_command else 0o644)
    new.replace(file)


def _refuse_strays(root: Path) -> None:
    """CliError if a file belongs to no package, and so would not be sent, or to two."""
    known = [path for one in _distributions(root) for path in _paths(one)]
    there = {os.path.relpath(Path(folder, name), root) for folder, _, names in os.walk(root) for name in names}
    if strays := there ^ set(known):
        raise CliError(f"packages and their files do not agree: {', '.join(sorted(strays)[:10])}")


def _listed(root: Path, locked: Locked, target: Target) -> bytes:
    packages, needs, is_compiled = [], set(locked.of_image), False
    for one, paths in _by_package(root):
        entries = _entries(root, paths)
        size = sum(entry.size for entry in entries)
        packages.append(Package(_name(one), one.version, tree_hash(entries), size))
        needs.update(_needs(one, target))
        is_compiled = is_compiled or _is_compiled(one)
    ordered = sorted(needs, key=lambda need: (need.by, need.requirement))
    return to_text(Dependencies(target.python, is_compiled, tuple(ordered), tuple(packages))).encode()


def _entries(root: Path, paths: Iterable[str]) -> list[Entry]:
    contents = ((path, (root / path).read_bytes()) for path in paths)
    return [Entry(path, kind_of((root / path).stat()), len(data), content_hash(data)) for path, data in contents]


def _needs(one: Distribution, target: Target) -> Iterator[Need]:
    for text in one.requires or ():
        requirement = Requirement(text)
        if is_of(requirement, target.of_image) and applies(requirement, target):
            yield Need(plain(requirement), _name(one))


def _is_compiled(one: Distribution) -> bool:
    """True if it is built for one version of Python. abi3 is for all later ones too."""
    lines = (one.read_text("WHEEL") or "").splitlines()
    tags = (tag for line in lines if line.startswith("Tag:") for tag in parse_tag(line.removeprefix("Tag:").strip()))
    return any(tag.abi.startswith("cp") for tag in tags)
