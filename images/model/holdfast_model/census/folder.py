"""Folders with one folder for each class: CLASS/file, or SPLIT/CLASS/file. Only names are read."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final, Literal

from holdfast_model.census.errors import DataSetError
from holdfast_model.census.sample import Sample, Seen, Source

SPLITS: Final = frozenset(
    ("train", "training", "val", "valid", "validation", "dev", "test", "testing", "eval", "evaluation", "holdout")
)
"""Names that folders of splits have."""
Layout = Literal["class", "split/class"]
LAYOUTS: Final[tuple[Layout, ...]] = ("class", "split/class")
DEPTH: Final = 64
"""Folders inside of each other. Links to folders are not followed, so only a strange data set has more."""


def folder_source(root: Path, layout: Layout | None) -> Source:
    """`layout`: default: split/class if a folder of `root` has the name of a split and none has files of its own."""
    chosen = layout or _guess(root)
    return Source(f"folders {chosen}", lambda seen: _samples(root, chosen, seen))


def _guess(root: Path) -> Layout:
    try:
        with os.scandir(root) as entries:
            tops = [entry for entry in entries if not entry.name.startswith(".") and entry.is_dir()]
    except OSError as error:
        raise DataSetError(f"{root} cannot be read: {error.strerror or error}") from error
    if not any(entry.name.lower() in SPLITS for entry in tops):
        return "class"
    return "class" if any(_has_files(entry.path) for entry in tops) else "split/class"


def _has_files(path: str) -> bool:
    try:
        with os.scandir(path) as entries:
            return any(entry.is_file() and not entry.name.startswith(".") for entry in entries)
    except OSError:
        return False


def _samples(root: Path, layout: Layout, seen: Seen) -> Iterator[Sample]:
    depth = 2 if layout == "split/class" else 1
    for parts, entry, size in _walk(root, depth, seen):
        split = parts[0] if depth == 2 and parts else ""
        label = parts[depth - 1] if len(parts) >= depth else ""
        yield Sample(split, label, "/".join((*parts, entry.name)), Path(entry.path), size=size)


def _walk(root: Path, depth: int, seen: Seen) -> Iterator[tuple[tuple[str, ...], "os.DirEntry[str]", int]]:
    """Each file below `root`, with the names of its folders and its size, in the order of the names.

    `depth`: so many folders down, a folder is a class.
    """
    waiting: list[tuple[tuple[str, ...], str]] = [((), str(root))]
    while waiting:
        parts, path = waiting.pop()
        try:
            with os.scandir(path) as found:
                entries = sorted(found, key=lambda entry: entry.name)
        except OSError as error:
            if not parts:
                raise DataSetError(f"{root} cannot be read: {error.strerror or error}") from error
            seen.add("unreadable", f"{'/'.join(parts)}/: {error.strerror or error}")
            continue
        deeper = []
        for entry in entries:
            name = "/".join((*parts, entry.name))
            if entry.name.startswith("."):
                seen.add("hidden", name)
            elif entry.is_symlink() and entry.is_dir():
                seen.add("linked folders", name)
            elif entry.is_dir():
                if len(parts) >= DEPTH:
                    raise DataSetError(f"{path} is over {DEPTH} folders deep; name a folder of classes")
                deeper.append(((*parts, entry.name), entry.path))
                if len(parts) == depth - 1:
                    seen.classes.add((parts[0] if parts else "", entry.name))
            else:
                yield from _file(parts, entry, name, seen)
        waiting += reversed(deeper)


def _file(
    parts: tuple[str, ...], entry: "os.DirEntry[str]", name: str, seen: Seen
) -> Iterator[tuple[tuple[str, ...], "os.DirEntry[str]", int]]:
    if entry.is_symlink():
        seen.add("links", name)
    try:
        size = entry.stat().st_size  # of what a link leads to
    except OSError as error:
        seen.add("unreadable", f"{name}: {error.strerror or error}")
        return
    if not entry.is_file():
        seen.add("special", name)
        return
    yield parts, entry, size
