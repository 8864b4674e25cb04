"""The index of a checkpoint from a folder: its files, and where their bytes are. It is the first part of its data."""

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Final

from holdfast_train.errors import CheckpointCorruptError
from holdfast_train.folder.layouts import Layout, Unit, target_of
from holdfast_train.folder.look import File
from holdfast_train.folder.pointers import Pointer, pointers_of
from holdfast_train.format.manifest import PART_BYTES, Part
from holdfast_train.format.sealed_json import decoded_json

MOST_TIME: Final = 2**63 - 1  # nanoseconds
SMALL_BYTES: Final = 1 << 20  # smaller files share a part, and are uploaded again with each checkpoint


@dataclass(frozen=True)
class Piece:
    """Bytes of one part: of each path, `size` bytes of the file from `start` on."""

    spans: tuple[tuple[str, int, int], ...]

    @property
    def size(self) -> int:
        """Bytes in all."""
        return sum(size for _, _, size in self.spans)

    @property
    def is_shareable(self) -> bool:
        """True if a later checkpoint may use this part: it has bytes of one file only."""
        return len(self.spans) == 1 and (self.spans[0][1] > 0 or self.size >= SMALL_BYTES)


@dataclass(frozen=True)
class Index:
    """The `unit` that was committed, and its `parts` as in the manifest, without that of the index itself.

    `pointers`: links and small files beside it that named it.
    """

    unit: Unit
    parts: tuple[Part, ...]
    pointers: tuple[Pointer, ...] = ()

    def known(self) -> Mapping[tuple[tuple[str, int, int], ...], Part]:
        """The parts that a later checkpoint may use, by the bytes of files that they have."""
        pieces = cut(self.unit.files)
        return {
            below(self.unit, piece): part for piece, part in zip(pieces, self.parts, strict=True) if piece.is_shareable
        }


def below(unit: Unit, piece: Piece) -> tuple[tuple[str, int, int], ...]:
    """The bytes of `piece`, by paths below the unit: `checkpoint-500/a` and `checkpoint-600/a` are the same file."""
    skip = len(unit.name) + 1 if unit.name else 0
    return tuple((path[skip:], start, size) for path, start, size in piece.spans)


def cut(files: Sequence[File]) -> list[Piece]:
    """The pieces of all `files`, in an order that depends on `files` alone."""
    pieces: list[Piece] = []
    small: list[tuple[str, int, int]] = []
    filled = 0
    for file in files:
        if file.link is not None or file.size == 0:
            continue
        if file.size >= SMALL_BYTES:
            for start in range(0, file.size, PART_BYTES):
                pieces.append(Piece(((file.path, start, min(PART_BYTES, file.size - start)),)))
            continue
        if filled + file.size > PART_BYTES:
            pieces.append(Piece(tuple(small)))
            small, filled = [], 0
        small.append((file.path, 0, file.size))
        filled += file.size
    return [*pieces, Piece(tuple(small))] if small else pieces


def encode(unit: Unit, pointers: Sequence[Pointer] = ()) -> bytes:
    """The bytes of the index. Names that are not UTF-8 keep their bytes."""
    files = [[f.path, f.size, f.mtime_ns, f.mode, f.link] for f in unit.files]
    body: dict[str, object] = {
        "v": 1,
        "name": unit.name,
        "layout": unit.layout,
        "step": unit.step,
        "isFolder": unit.is_folder,
        "files": files,
        "pointers": [[p.path, p.is_link, p.text] for p in pointers],
    }
    return json.dumps(body, separators=(",", ":")).encode("ascii")


def decode(data: bytes, parts: Sequence[Part]) -> Index:
    """The index in `data`. CheckpointCorruptError if it is not one, or if a path would leave the folder."""
    try:
        body = decoded_json(data)
        files = tuple(_file(*one) for one in body["files"])
        layout: Layout = body["layout"]
        step = None if body["step"] is None else int(body["step"])
        unit = Unit(str(body["name"]), layout, step, files, bool(body["isFolder"]))
        pointers = pointers_of(unit, body["pointers"])
    except (ValueError, KeyError, TypeError, OverflowError) as error:
        raise CheckpointCorruptError(f"the index of its files cannot be read: {error}") from error
    for path in _paths(unit):
        if path.startswith("/") or "\0" in path or any(part in ("", ".", "..") for part in path.split("/")):
            raise CheckpointCorruptError(f"the index has the path {path!r}, which is outside the folder")
    if unit.is_folder and any(not f.path.startswith(f"{unit.name}/") for f in unit.files):
        raise CheckpointCorruptError(f"the index has files outside {unit.name!r}")
    sizes = [piece.size for piece in cut(files)]
    if sizes != [part.size for part in parts] or not math.isfinite(sum(sizes)):
        raise CheckpointCorruptError("the index does not fit the parts of the checkpoint")
    return Index(unit, tuple(parts), pointers)


def _file(path: object, size: object, mtime_ns: object, mode: object, link: object) -> File:
    """One file of an index. Only permission bits of `mode` are kept. ValueError or TypeError for impossible values."""
    if not (isinstance(size, int) and isinstance(mtime_ns, int) and isinstance(mode, int)):
        raise TypeError(f"size, time and mode of {path!r} are not whole numbers")
    if size < 0 or not -MOST_TIME <= mtime_ns <= MOST_TIME:
        raise ValueError(f"{path!r} has the size {size} and the time {mtime_ns}")
    return File(str(path), size, mtime_ns, mode & 0o777, None if link is None else str(link))


def _paths(unit: Unit) -> Iterator[str]:
    for file in unit.files:
        yield file.path
    if unit.is_folder:
        yield unit.name


def escapes(unit: Unit) -> File | None:
    """The first symbolic link of `unit` that leads out of it, or special file. None if there is none."""
    for file in unit.files:
        if file.is_other or (file.link is not None and not _stays(unit, file.path, file.link)):
            return file
    return None


def _stays(unit: Unit, path: str, link: str) -> bool:
    if link.startswith("/"):
        return False
    if not unit.is_folder:
        return any(file.path == target_of(path, link) for file in unit.files)
    depth = len(PurePosixPath(path).parts) - 1 - len(PurePosixPath(unit.name).parts)
    for part in PurePosixPath(link).parts:
        depth += -1 if part == ".." else 1
        if depth < 0:
            return False
    return True
