"""The index of a checkpoint from a folder: its files, and where their bytes are. It is the first part of its data.

With several nodes the index has the files of all folders. Where two nodes have other files at the same path, the one of
the lower node is in `files`, and the other one in `own`: `view` is what one node finds.

The bytes of a file are cut into chunks of CHUNK bytes. A chunk is known by the SHA-256 of its content, so a file that
did not change, that moved or that was copied needs no new data, and one that has grown needs its last chunk. Chunks lie
one after the other in objects, which are the other parts of the checkpoint.
"""

import hashlib
import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, NamedTuple

from holdfast_train.commitlog.checkpoints import Found
from holdfast_train.errors import CheckpointCorruptError, MisconfiguredStorageError
from holdfast_train.folder.first_index import translated
from holdfast_train.folder.look import LARGE, MOST_FILES, OWN, File, TooMuchError
from holdfast_train.format.manifest import OF_FOLDER, PART_BYTES, Part, check_chunks
from holdfast_train.format.sealed_json import decoded_json
from holdfast_train.storage.base import Storage

CHUNK: Final = 4 << 20
MOST_BYTES: Final = 1 << 40  # of all files,
MOST_INDEX: Final = 256 << 20  # and of the index
_MOST_TIME: Final = 2**63 - 1  # nanoseconds


class NotFromFolderError(MisconfiguredStorageError):
    """A checkpoint was not saved with `checkpoint.folder`, so it has no files to put back."""

    reason = "CheckpointNotFromFolder"


class Chunk(NamedTuple):
    """`size` bytes of data part number `part`, from `start` on. `sha256`: of them, in hex digits.

    Empty in a checkpoint of an earlier version, where the sums of its part guard the bytes.
    """

    sha256: str
    part: int
    start: int
    size: int


@dataclass(frozen=True, slots=True)
class Saved:
    """One file of a checkpoint, and the numbers of its `chunks`. `is_old`: no save of this training wrote it.

    Such a file was there before the job's first start, or before the program's first step.
    """

    file: File
    chunks: tuple[int, ...] = ()
    is_old: bool = False


@dataclass(frozen=True)
class Index:
    """The `files` of a checkpoint by their paths. `parts`: those of the manifest, without that of the index itself.

    `newest`: the path of the newest save of the program, empty without one. `step`: of it, None if nothing says it;
    `step_from`: what says it, in words. `texts`: small files that the index itself has, by their paths.
    `empty`: folders without anything in them.

    `nodes`: how many nodes there were. `own`: of each of them, its files that are not as in `files`; () if there are
    none. `is_fixed`: a node has files of its own in a save, so only as many nodes can go on from it. `writers`: the
    nodes that wrote the last saves. `owners`: of the files in `files` that not all nodes had, those that had them; the
    others find copies.
    """

    files: Mapping[str, Saved]
    chunks: tuple[Chunk, ...]
    parts: tuple[Part, ...]
    newest: str = ""
    step: int | None = None
    step_from: str = ""
    texts: Mapping[str, str] = field(default_factory=dict)
    empty: tuple[str, ...] = ()
    nodes: int = 1
    own: tuple[Mapping[str, Saved], ...] = ()
    is_fixed: bool = False
    writers: tuple[int, ...] = ()
    owners: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    is_beside: bool = False  # only files that change all the time differ from the commit before; not in the storage

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return sum(saved.file.size for saved in self.files.values())

    @property
    def has_save(self) -> bool:
        """True if the training has written a save, or a file of some size that may be one."""
        return bool(self.newest) or any(s.file.size >= LARGE and not s.is_old for s in self.files.values())

    def view(self, node: int) -> "Index":
        """What the node with this number finds: the files of all nodes, and where they differ its own."""
        own = self.own[node] if node < len(self.own) else {}
        if not own:
            return self
        files = {path: self.files[path] for path in clear_of(own, self.files)}
        return replace(self, files={**files, **own}, own=(), empty=tuple(clear_of(own, self.empty)))

    def is_copy(self, path: str, node: int, nodes: Collection[int]) -> bool:
        """True if this one of the `nodes` that have folders finds a file of another one at `path`."""
        owners = (0,) if self.nodes == 1 else self.owners.get(path)
        return owners is not None and node not in ({*owners} & {*nodes} or {0})

    def content(self, path: str) -> tuple[str, ...]:
        """The hashes of the chunks of a file."""
        return tuple(self.chunks[number].sha256 for number in self.files[path].chunks)


def above(path: str) -> Iterator[str]:
    """The folders above `path`."""
    names = path.split("/")
    return ("/".join(names[:count]) for count in range(1, len(names)))


def clear_of(files: Collection[str], paths: Iterable[str]) -> list[str]:
    """Those of `paths` that are not at, above or below one of `files`."""
    folders = {one for path in files for one in above(path)}
    return [p for p in paths if p not in files and p not in folders and not any(one in files for one in above(p))]


def hash_of(data: bytes | bytearray | memoryview) -> str:
    """The name of a chunk with these bytes."""
    return hashlib.sha256(data).hexdigest()


def check_fits(known: Index) -> None:
    """TooMuchError if a node could not be given so much: the files of all nodes are put back on each of them."""
    for own in known.own or ({},):
        hidden = sum(known.files[path].file.size for path in own.keys() & known.files.keys())
        size = known.size - hidden + sum(saved.file.size for saved in own.values())
        count = len(known.files.keys() | own.keys())
        if size > MOST_BYTES or count > MOST_FILES:
            raise TooMuchError(
                f"the folders of all nodes have {count} files of {size} bytes; allowed: {MOST_FILES} files of "
                f"{MOST_BYTES} bytes"
            )


def encode(known: Index) -> bytes:
    """The bytes of the index. Names that are not UTF-8 keep their bytes. TooMuchError if the names are too long."""
    body: dict[str, object] = {
        "v": 2,
        "newest": known.newest,
        "step": known.step,
        "stepFrom": known.step_from,
        "chunks": known.chunks,
        "files": _rows(known.files),
        "empty": known.empty,
    }
    if known.nodes > 1:
        body |= {"nodes": known.nodes, "own": [_rows(own) for own in known.own], "fixed": known.is_fixed}
        body |= {"writers": known.writers, "owners": known.owners}
    data = json.dumps(body, separators=(",", ":")).encode("ascii")
    if len(data) > MOST_INDEX:
        raise TooMuchError(f"the list of the files has {len(data)} bytes, more than {MOST_INDEX}")
    return data


def _rows(files: Mapping[str, Saved]) -> list[list[object]]:
    return [
        [s.file.path, s.file.size, s.file.mtime_ns, s.file.mode, s.file.link, s.chunks, int(s.is_old)]
        for s in files.values()
    ]


def decode(data: bytes, parts: Sequence[Part]) -> Index:
    """The index in `data`. CheckpointCorruptError if it is not one, or if a path would leave the folder."""
    try:
        body = decoded_json(data)
        is_first = body["v"] == 1
        found = _decode(translated(body, len(parts)) if is_first else body, parts, hash_length=0 if is_first else 64)
    except (ValueError, KeyError, TypeError, OverflowError, IndexError) as error:
        raise CheckpointCorruptError(f"the index of its files cannot be read: {error}") from error
    _check_chunks(found)
    for one in (found, *(replace(found, files=own, texts={}, empty=()) for own in found.own)):
        _check_paths(one)
        _check_bytes(one)
    return found


def _decode(body: Any, parts: Sequence[Part], hash_length: int) -> Index:
    if body["v"] != 2:
        raise ValueError("another version of holdfast-train wrote it")
    chunks = tuple(Chunk(str(sha256), *_counts(*place)) for sha256, *place in body["chunks"])
    files, own = _files(body["files"]), tuple(_files(rows) for rows in body.get("own", ()))
    if any(len(chunk.sha256) != hash_length for chunk in chunks):
        raise ValueError("it names a chunk without its hash")
    (nodes,) = _counts(body.get("nodes", 1))
    if len(own) > nodes:
        raise ValueError("it has files of more nodes than there were")
    step = None if body["step"] is None else int(body["step"])
    texts = {str(path): str(text) for path, text in body.get("texts", {}).items()}
    empty = tuple(map(str, body.get("empty", ())))
    return Index(
        files,
        chunks,
        tuple(parts),
        str(body["newest"]),
        step,
        str(body["stepFrom"]),
        texts,
        empty,
        nodes=nodes,
        own=own,
        is_fixed=bool(body.get("fixed", False)),
        writers=_counts(*body.get("writers", ())),
        owners={str(path): _counts(*ranks) for path, ranks in body.get("owners", {}).items()},
    )


def _files(rows: Sequence[Any]) -> dict[str, Saved]:
    files = {}
    for path, size, mtime_ns, mode, link, numbers, is_old in rows:
        file = file_of(path, size, mtime_ns, mode, link)
        files[file.path] = Saved(file, _counts(*numbers), bool(is_old))
    if len(files) != len(rows):
        raise ValueError("it names a file twice")
    return files


def _counts(*numbers: object) -> tuple[Any, ...]:
    if any(not isinstance(number, int) or isinstance(number, bool) or number < 0 for number in numbers):
        raise ValueError("a place in it is not a number from 0 on")
    return numbers


def file_of(path: object, size: object, mtime_ns: object, mode: object, link: object) -> File:
    """One file of an index. Only permission bits of `mode` are kept. ValueError or TypeError for impossible values."""
    if not (isinstance(size, int) and isinstance(mtime_ns, int) and isinstance(mode, int)):
        raise TypeError(f"size, time and mode of {path!r} are not whole numbers")
    if size < 0 or not -_MOST_TIME <= mtime_ns <= _MOST_TIME:
        raise ValueError(f"{path!r} has the size {size} and the time {mtime_ns}")
    return File(str(path), size, mtime_ns, mode & 0o777, None if link is None else str(link))


def _check_paths(known: Index) -> None:
    """CheckpointCorruptError if a path would leave the folder, also through a link of the checkpoint itself."""
    links = {path for path, saved in known.files.items() if saved.file.link is not None}
    for path in (*known.files, *known.texts, *known.empty):
        names = path.split("/")
        if "\0" in path or any(name in ("", ".", "..") or name.startswith(OWN) for name in names):
            raise CheckpointCorruptError(f"the index has the path {path!r}, which is outside the folder")
        if any(folder in links or folder in known.files for folder in above(path)):
            raise CheckpointCorruptError(f"the index has the path {path!r}, below a file or a link")


def _check_chunks(known: Index) -> None:
    """CheckpointCorruptError if a chunk lies beyond its part, or has more bytes than one can have."""
    if any(chunk.size > PART_BYTES for chunk in known.chunks):
        raise CheckpointCorruptError(f"the index has more bytes than {PART_BYTES} in a chunk")
    for chunk in known.chunks:
        if chunk.part >= len(known.parts) or chunk.start + chunk.size > known.parts[chunk.part].size:
            raise CheckpointCorruptError("the index does not fit the parts of the checkpoint")


def _check_bytes(known: Index) -> None:
    """CheckpointCorruptError if the chunks of a file are not as long as it is.

    Nor may there be more bytes than a commit can have: anybody may have written the index.
    """
    if known.size > MOST_BYTES:
        raise CheckpointCorruptError(f"the index has more bytes than {MOST_BYTES}")
    for path, saved in known.files.items():
        if any(number >= len(known.chunks) for number in saved.chunks):
            raise CheckpointCorruptError(f"the index has no bytes of {path!r}")
        if sum(known.chunks[number].size for number in saved.chunks) != saved.file.size:
            raise CheckpointCorruptError(f"the index has not all bytes of {path!r}")


def read_part(storage: Storage, part: Part, most: int = PART_BYTES) -> bytearray:
    """All bytes of `part`. CheckpointCorruptError or KeyMissingError if it is broken, or has more than `most` bytes."""
    if part.size > most:
        raise CheckpointCorruptError(f"{part.key} has {part.size} bytes, more than {most}")
    data = bytearray(part.size)
    with memoryview(data) as view:
        storage.read_into(part.key, 0, view)
        check_chunks(part, 0, view)
    return data


def read_index(storage: Storage, found: Found) -> Index:
    """The index of `found`. CheckpointCorruptError if it is broken, NotFromFolderError if it has none."""
    if OF_FOLDER not in found.manifest.program or not found.manifest.parts:
        raise NotFromFolderError(
            f"{found.uri} was not saved with checkpoint.folder, and has no files to put back; give the job a prefix of "
            f"its own (spec.checkpoint.storage), or leave out checkpoint.folder"
        )
    first, *rest = found.manifest.parts
    return decode(bytes(read_part(storage, first, MOST_INDEX)), rest)


def read_small(storage: Storage, known: Index, path: str) -> bytes:
    """The content of a small file of the checkpoint. CheckpointCorruptError or KeyMissingError if it is broken."""
    pieces: list[bytes] = []
    for number in known.files[path].chunks:
        chunk = known.chunks[number]
        if chunk.sha256:
            data = bytearray(chunk.size)
            with memoryview(data) as view:
                storage.read_into(known.parts[chunk.part].key, chunk.start, view)
            check_hash(known, chunk, data)
        else:
            data = read_part(storage, known.parts[chunk.part])[chunk.start : chunk.start + chunk.size]
        pieces.append(bytes(data))
    return b"".join(pieces)


def check_hash(known: Index, chunk: Chunk, data: bytes | bytearray | memoryview) -> None:
    """CheckpointCorruptError if `data` are not the bytes of `chunk`."""
    if hash_of(data) != chunk.sha256:
        raise CheckpointCorruptError(f"{known.parts[chunk.part].key}: the bytes from {chunk.start} on have changed")
