"""The folder of a package on disk. `package.json` is written last: without it there is no package.

package.json             what it is, where it is from, each variant with its files, their hashes and its test
README.md                the same for people
report.html              the same for people with a browser
tests.safetensors        0/in/images, 0/out/logits, ...: outputs are those of the model in torch
safetensors/             weights
onnx/, onnx-fp16/, ...   a folder for each variant
"""

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from holdfast_model.package.document import parse, read_json
from holdfast_model.package.errors import PackageError, ProblemError
from holdfast_model.package.problem import Tensor

VERSION: Final = 1
FILE: Final = "package.json"
TESTS: Final = "tests.safetensors"
README: Final = "README.md"
REPORT: Final = "report.html"
MOST_BYTES: Final = 16 << 20
"""The largest package.json that is read."""


@dataclass(frozen=True)
class Opened:
    """A package that was read. `document`: package.json."""

    folder: Path
    document: Mapping[str, Any]
    inputs: Mapping[str, Tensor]
    outputs: Mapping[str, Tensor]
    dims: Mapping[str, tuple[int, int]]

    @property
    def variants(self) -> Mapping[str, Mapping[str, Any]]:
        """By name."""
        found: Mapping[str, Mapping[str, Any]] = self.document["variants"]
        return found


def open_package(folder: str | os.PathLike[str]) -> Opened:
    """Read package.json. PackageError if it is missing, of another version, or not what a package has."""
    place = Path(folder)
    file = place / FILE
    try:
        with file.open("rb") as stream:
            text = stream.read(MOST_BYTES + 1)
    except (FileNotFoundError, NotADirectoryError) as error:
        raise PackageError(f"{place} is not a package: it has no {FILE}, which is written last") from error
    except (OSError, ValueError) as error:
        raise PackageError(f"{file} cannot be read: {error}") from error
    if len(text) > MOST_BYTES:
        raise PackageError(f"{file} has over {MOST_BYTES >> 20} MiB; it is not of this program")
    try:
        document = read_json(text)
        version = document.get("v") if isinstance(document, dict) else None
        if version == VERSION:
            inputs, outputs, dims = parse(document)
    except (ValueError, ProblemError) as error:
        raise PackageError(f"{file} is damaged: {error}") from error
    if version != VERSION:
        raise PackageError(f"{file} has the version {version!r:.40}; this program reads version {VERSION}")
    return Opened(place, document, inputs, outputs, dims)


def tensor_entries(tensors: Mapping[str, Tensor]) -> list[dict[str, Any]]:
    """As in package.json. The order is that of the model's arguments."""
    return [{"name": name, "dtype": one.dtype, "shape": list(one.shape)} for name, one in tensors.items()]


def _inside(folder: Path, name: str) -> Path:
    """The path of a file of the package. PackageError if the name, or a link, leads out of it."""
    path = folder / name
    try:
        is_inside = path.resolve().is_relative_to(folder.resolve())
    except (OSError, RuntimeError, ValueError) as error:
        raise PackageError(f"{folder / FILE} names the file {name!r}, which cannot be found: {error}") from error
    if not is_inside:
        raise PackageError(f"{folder / FILE} names the file {name!r}, which is outside of the package")
    return path


def file_entry(path: Path) -> dict[str, Any]:
    """Size and hash of a file."""
    return {"bytes": path.stat().st_size, "sha256": _digest(path)}


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def verify(package: Opened, files: Mapping[str, Mapping[str, Any]]) -> None:
    """PackageError names the first file that is missing or has changed."""
    for name, entry in files.items():
        path = _inside(package.folder, name)
        try:
            is_there = path.is_file()
            is_same = is_there and path.stat().st_size == entry["bytes"] and _digest(path) == entry["sha256"]
        except OSError as error:
            raise PackageError(f"{path} cannot be read: {error}") from error
        if not is_there:
            raise PackageError(f"{package.folder} lacks the file {name}; copy the package again")
        if not is_same:
            raise PackageError(f"{path} has changed since the package was made; copy the package again")


def named_files(document: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """Size and hash of each file that package.json names, by its path: all files of the package but package.json."""
    found = {TESTS: document["tests"], **document.get("pages", {})}
    for entry in document["variants"].values():
        found |= entry["files"]
    return found


def others(package: Opened) -> list[str]:
    """Files and links in the folder that package.json does not name: somebody else has put them there."""
    known = {FILE, *named_files(package.document)}
    found = (path for path in package.folder.rglob("*") if path.is_symlink() or not path.is_dir())
    return sorted(name for path in found if (name := str(path.relative_to(package.folder))) not in known)


def verify_variant(package: Opened, name: str) -> None:
    """PackageError if a file of this variant is missing or has changed, or if it has none."""
    entry = package.variants[name]
    if entry["model"] not in entry["files"]:
        raise PackageError(f"variant {name!r} of {package.folder} could not be made: it has no file")
    verify(package, entry["files"])


def write_json(folder: Path, document: Mapping[str, Any]) -> None:
    """Write package.json whole or not at all. FileExistsError if it is there: a package is never changed."""
    temporary = folder / f".{FILE}.new"
    temporary.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    os.link(temporary, folder / FILE)
    temporary.unlink()
