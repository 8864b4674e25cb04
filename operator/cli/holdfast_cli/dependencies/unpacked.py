"""The files of locked packages on this machine, by package."""

import hashlib
import os
import shutil
import sys
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from importlib.metadata import Distribution, EntryPoint, distributions
from pathlib import Path
from typing import Final

from packaging.tags import Tag, parse_tag
from packaging.utils import canonicalize_name
from rich.console import Console

from holdfast_cli.dependencies.declared import readable
from holdfast_cli.dependencies.locked import ForImage, Locked, extras_of, needs
from holdfast_cli.dependencies.uv import run_uv
from holdfast_cli.errors import CliError
from holdfast_protocol.dependencies import LIST_FILE, Dependencies, Package, read_list
from holdfast_protocol.document import DocumentError, to_text
from holdfast_train.code.archive import kind_of
from holdfast_train.code.tree import OF_DEPENDENCIES, Entry, check_size, check_tree, content_hash, tree_hash
from holdfast_train.errors import CodeError

FILES, LIST = "files", "list.json"
BIN: Final = "bin/"
_OF_UV: Final = "uv_cache.json"  # has times of files
_ENV: Final = b"#!/usr/bin/env python3\n"
_SHELL: Final = b"#!/bin/sh\n'''exec' "  # how a long path of Python is written, up to the line with three quotes
_OF_PYTHON: Final = sys.stdlib_module_names | {"sitecustomize", "usercustomize"}
_SCRIPT: Final = """import sys
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

    def packages(self) -> list[tuple[Package, list[Entry]]]:
        """Each package with its files. CliError if a file was changed since: then all are forgotten."""
        try:
            found = {_name(one): _entries(self.root, paths) for one, paths in _by_package(self.root)}
        except OSError:
            found = {}
        every = [(package, found.get(package.name, [])) for package in self.listed.packages]
        if changed := [package.name for package, files in every if tree_hash(files) != package.sha256]:
            shutil.rmtree(self.root.parent)
            raise CliError(
                f"files of {', '.join(changed)} were changed in {self.root}",
                hint="run the command again, which makes new ones",
            )
        return every


def unpack(locked: Locked, image: ForImage, cache: Path, err: Console) -> Unpacked:
    """Download and unpack what is locked, or take it from `cache`. Raises CliError, OSError."""
    place = cache / locked.key(image)
    if not _is_whole(place):
        with tempfile.TemporaryDirectory(dir=cache) as made:
            whole = Path(made, "whole")
            (whole / FILES).mkdir(parents=True)
            _fill(whole / FILES, locked, image, err)
            (whole / LIST).write_bytes(_listed(whole / FILES, locked, image))
            try:
                whole.rename(place)
            except OSError:  # another command has made it meanwhile
                if not place.exists():
                    raise
    return Unpacked(place / FILES, (place / LIST).read_bytes())


def _is_whole(place: Path) -> bool:
    """True if the list is there, and can be read. A broken one is removed."""
    if not place.exists():  # another command may make it at this moment
        return False
    try:
        read_list((place / LIST).read_bytes())
    except (OSError, DocumentError):
        shutil.rmtree(place, ignore_errors=True)
        return False
    return True


def _fill(root: Path, locked: Locked, image: ForImage, err: Console) -> None:
    # A copy: uv would link files of its cache, and an edit of another environment would change these.
    run_uv(
        *("pip", "install", "--target", str(root), "--no-deps", "--link-mode", "copy", *image.options, "-r", "-"),
        folder=locked.folder,
        doing="download the dependencies",
        said=locked.text,
        is_shown=err.is_terminal,
    )
    (root / ".lock").unlink(missing_ok=True)  # of uv
    for one in _distributions(root):
        _refuse_built_here(one, image)
        _make_portable(root, one)
    _refuse_strays(root)
    _refuse_hidden(root)


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
        raise CliError(
            f"the package {_name(one)} does not say which files it has: its RECORD is missing",
            hint="put it into the image",
        )
    return sorted({str(path) for path in one.files})


def _make_portable(root: Path, one: Distribution) -> None:
    """Write commands, whose first line names the Python of this machine, so that they run in a pod.

    RECORD has no hashes of commands then. Both become the same on every machine.
    """
    points = {point.name: point for point in one.entry_points if point.group in ("console_scripts", "gui_scripts")}
    for path in _paths(one):
        if path.startswith(BIN):
            _make_command(root / path, points.get(path.removeprefix(BIN)))
    record = next(root / path for path in _paths(one) if path.endswith(".dist-info/RECORD"))
    own = record.with_name(_OF_UV)
    own.unlink(missing_ok=True)
    lines = sorted(line for line in record.read_text().splitlines() if f"/{_OF_UV}," not in line)
    record.write_text("".join(f"{_without_hash(line)}\n" for line in lines))


def _without_hash(line: str) -> str:
    return f"{line.partition(',')[0]},," if line.startswith(BIN) else line


def _make_command(file: Path, point: EntryPoint | None) -> None:
    content = file.read_bytes()
    if point is not None:
        first = point.attr.partition(".")[0]
        file.write_bytes(_ENV + _SCRIPT.format(module=point.module, first=first, name=point.attr).encode())
    elif content.startswith(_SHELL):
        file.write_bytes(_ENV + content.partition(b"\n' '''\n")[2])
    elif content.startswith(b"#!") and b"python" in (line := content.partition(b"\n"))[0]:
        file.write_bytes(_ENV + line[2])


def _refuse_built_here(one: Distribution, image: ForImage) -> None:
    """CliError if a package had no wheel for the pod, and was built on this machine for this machine."""
    platforms = {tag.platform for tag in _tags(one)}
    if platforms and not any(name == "any" or name.startswith(("manylinux", "musllinux")) for name in platforms):
        raise CliError(
            f"the package {_name(one)} {one.version} has no wheel for {image.platform}", hint="put it into the image"
        )


def _tags(one: Distribution) -> Iterator[Tag]:
    for line in (one.read_text("WHEEL") or "").splitlines():
        if line.startswith("Tag:"):
            yield from parse_tag(line.removeprefix("Tag:").strip())


def _refuse_hidden(root: Path) -> None:
    """CliError if a package would hide a module of Python itself: PYTHONPATH comes before those."""
    hidden = {path.name.partition(".")[0] for path in root.iterdir()} & _OF_PYTHON
    if hidden:
        raise CliError(
            f"packages would hide these modules of Python: {', '.join(sorted(hidden))}",
            hint="Python has them itself: leave the packages out that bring them, such as enum34 or dataclasses",
        )


def _refuse_strays(root: Path) -> None:
    """CliError if a file belongs to no package, and so would not be sent, or is missing."""
    known = {path for one in _distributions(root) for path in _paths(one)}
    there = {os.path.relpath(Path(folder, name), root) for folder, _, names in os.walk(root) for name in names}
    if strays := there ^ known:
        raise CliError(
            f"packages and their files do not agree: {', '.join(sorted(strays)[:10])}",
            hint="a package that writes outside of its folder cannot be sent: put it into an image",
        )


def _listed(root: Path, locked: Locked, image: ForImage) -> bytes:
    """The list of the packages. CliError if no pod would take it."""
    packages, found, files, extras = [], set(locked.provided), 0, dict(locked.extras)
    for one in _distributions(root):
        for name, more in extras_of(readable(one.requires or ())).items():
            extras[name] = extras.get(name, frozenset()) | more
    for one, paths in _by_package(root):
        entries = _entries(root, paths)
        _check(_name(one), entries)
        packages.append(Package(_name(one), one.version, tree_hash(entries), sum(entry.size for entry in entries)))
        found.update(needs(readable(one.requires or ()), image, _name(one), extras.get(_name(one), ())))
        files += len(entries)
    ordered = sorted(found, key=lambda need: (need.by, need.requirement))
    content = to_text(Dependencies(image.python, tuple(ordered), tuple(packages))).encode()
    try:
        check_size(files, sum(package.size for package in packages), OF_DEPENDENCIES)
        read_list(content)
    except (CodeError, DocumentError) as error:
        raise CliError(f"these packages cannot be sent: {error}", hint="put some of them into the image") from error
    return content


def _check(name: str, entries: list[Entry]) -> None:
    try:
        check_tree(entries, OF_DEPENDENCIES)
        if any(entry.path == LIST_FILE for entry in entries):
            raise CliError(f"the package {name} has a file {LIST_FILE}, which is Holdfast's", hint="leave it out")
    except CodeError as error:
        raise CliError(f"the package {name} cannot be sent: {error}", hint="put it into the image") from error


def _entries(root: Path, paths: Iterable[str]) -> list[Entry]:
    return [_entry(root / path, path) for path in paths]


def _entry(file: Path, path: str) -> Entry:
    with file.open("rb") as opened:
        status = os.fstat(opened.fileno())
        return Entry(path, kind_of(status), status.st_size, hashlib.file_digest(opened, "sha256").hexdigest())
