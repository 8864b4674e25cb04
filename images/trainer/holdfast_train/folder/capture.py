"""What one node gives to a commit: its folder as it is at one moment. Only chunks that are not there are uploaded.

The moment has three parts, so that the folders of several nodes can be taken at the same one. `freeze` looks at the
folder, and keeps the names of what must be read; `confirm` looks once more, when all nodes have done that; `take` reads
and uploads. A file that changes after it was confirmed, and before it was read, ends the commit.
"""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from holdfast_train.folder import index
from holdfast_train.folder.index import CHUNK, Chunk, Index
from holdfast_train.folder.look import File, Look
from holdfast_train.folder.newest import NewestSave
from holdfast_train.folder.snapshot import READ, ChangedError, Snapshot, is_same
from holdfast_train.folder.uploads import Place, Uploads
from holdfast_train.format.names import CheckpointName
from holdfast_train.storage.base import Storage
from holdfast_train.storage.rate_limit import RateLimit

OWN_NAMES: Final = 256  # files of one commit whose data can be deleted by itself; all others share a name
TRIES: Final = 5  # to read a file that changes all the time


@dataclass(frozen=True)
class Share:
    """What one node gives to a commit. `names`: those under which it has uploaded data for it.

    `is_new`: the newest commit has other files, or other bytes, of this node. `metrics`: of its newest save.
    """

    known: Index
    names: tuple[CheckpointName, ...] = ()
    is_new: bool = True
    metrics: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class _Frozen:
    """The moment: these `files`, of which those that are `unread` are kept by `snapshot`."""

    files: Mapping[str, File]
    moving: frozenset[str]
    is_storm: bool
    unread: tuple[File, ...]
    places: dict[str, Place]
    snapshot: Snapshot
    there: Look


class Capture:
    """Of the folder `root` of one node. `before`: what the newest commit has of this folder, None without one.

    `attempt`: of the names of new data. `check` is called before each object, and ends the upload with the error that
    it raises.
    """

    def __init__(
        self,
        storage: Storage,
        root: Path,
        newest: NewestSave,
        attempt: int,
        *,
        rate: RateLimit | None = None,
        check: Callable[[], None] = lambda: None,
    ) -> None:
        self._storage = storage
        self._root = root
        self._newest = newest
        self._attempt = attempt
        self._rate = rate
        self._check = check
        self.before: Index | None = None
        # By path: a signature that a file had, and the hashes of its chunks then.
        self._content: dict[str, tuple[object, tuple[str, ...]]] = {}
        self._has_made_it = False  # the commit `before`
        self._frozen: _Frozen | None = None
        self._uploads: Uploads | None = None
        self.unread: set[str] = set()
        """Files of the last commit that changed each time that they were read."""

    def begin(self, before: Index | None, there: Mapping[str, File]) -> None:
        """Go on from the commit `before`. `there`: files in the folder that have the content of this commit."""
        self.before = before
        if before is not None and all(chunk.sha256 for chunk in before.chunks):
            self._content = {path: (file.signature, before.content(path)) for path, file in there.items()}

    def note_committed(self, known: Index) -> None:
        """`known` is what the newest commit has of this folder, and this process has given it."""
        self.before, self._has_made_it = known, True

    def freeze(
        self, files: Mapping[str, File], again: Callable[[], Look], moving: frozenset[str], *, is_storm: bool = False
    ) -> None:
        """Keep `files` as they are now. `take`, or `give_up`, must follow.

        `again` looks at the folder once more: all but what is `moving`, which changes all the time, must be the same.
        `is_storm`: any file may change at any time, so each is taken as it is when it is read.
        ChangedError or OSError if the files cannot be read as a whole.
        """
        self.give_up()
        self.unread.clear()
        self._newest.learn(files.values())
        places = self._kept_places()
        unread = tuple(f for f in files.values() if f.link is None and not self._is_known(f, places))
        snapshot = Snapshot(self._root, () if is_storm else unread)
        moving = frozenset(files) if is_storm else moving
        try:
            there = again()
            self._frozen = _Frozen(files, moving, is_storm, unread, places, snapshot, there)
            self._compare(there)
        except BaseException:
            snapshot.close()
            self._frozen = None
            raise

    def confirm(self, again: Callable[[], Look]) -> None:
        """Look once more at what is frozen. ChangedError if it has changed; OSError."""
        self._compare(again())

    def _compare(self, later: Look) -> None:
        frozen = self._frozen
        assert frozen is not None
        if not frozen.is_storm and (changed := is_same(frozen.files, later.files, frozen.moving)) is not None:
            raise ChangedError(changed, "changed while the folder was read")

    def give_up(self) -> tuple[CheckpointName, ...]:
        """Nothing is frozen any more. The names under which `take` has uploaded something, if it has ended early."""
        frozen, self._frozen = self._frozen, None
        if frozen is not None:
            frozen.snapshot.close()
        uploads, self._uploads = self._uploads, None
        return () if uploads is None else uploads.names

    def take(self) -> Share:
        """Read what is frozen, and upload what no commit has. ChangedError, OSError, StorageErrors: then `give_up`."""
        frozen = self._frozen
        assert frozen is not None
        own = sorted((f for f in frozen.unread if f.size >= CHUNK), key=lambda f: -f.size)[:OWN_NAMES]
        uploads = self._uploads = Uploads(self._storage, self._rate, self._check, self._attempt, self._newest.told or 0)
        uploads.own = frozenset(file.path for file in own)
        found: dict[str, File] = dict(frozen.files)
        hashes: dict[str, tuple[str, ...]] = {}
        with frozen.snapshot as snapshot, uploads:
            for file in frozen.unread:
                if file.path in frozen.moving:
                    self._take_moving(file, frozen.places, uploads, found, hashes)
                    continue
                hashes[file.path] = tuple(
                    uploads.put(file.path, data, frozen.places) for data in snapshot.read(file, CHUNK)
                )
        for path, got in hashes.items():
            self._content[path] = found[path].signature, got
        self._content = {path: known for path, known in self._content.items() if path in found}
        content = {path: self._content[path][1] if file.link is None else () for path, file in found.items()}
        share = self._share(frozen, found, content, uploads)
        self._frozen = self._uploads = None
        return share

    def _share(
        self, frozen: _Frozen, found: Mapping[str, File], content: Mapping[str, tuple[str, ...]], uploads: Uploads
    ) -> Share:
        before, empty = self.before, tuple(sorted(frozen.there.empty))
        # Beside a commit whose saves are the same, nobody needs the one before it: only logs have grown.
        is_beside = (
            not frozen.is_storm
            and before is not None
            and self._has_made_it
            and _is_content(before, found, content, frozen.moving)
        )
        known = replace(self._index(found, content, frozen.places, uploads, is_beside=is_beside), empty=empty)
        is_same_content = before is not None and before.empty == empty and _is_content(before, found, content)
        is_known = before is not None and is_same_content and set(known.parts) <= set(before.parts)
        return Share(known, uploads.names, not is_known, self._newest.metrics(known))

    def _take_moving(
        self,
        file: File,
        places: dict[str, Place],
        uploads: Uploads,
        found: dict[str, File],
        hashes: dict[str, tuple[str, ...]],
    ) -> None:
        """Read a file that changes all the time. If it cannot be read, what the newest commit has of it stays."""
        before = None if self.before is None else self.before.files.get(file.path)
        if (read := self._read_moving(file, places, uploads)) is not None:
            found[file.path], hashes[file.path] = read
            return
        if not os.path.lexists(self._root / file.path):
            del found[file.path]
            return
        self.unread.add(file.path)
        content = () if self.before is None or before is None else self.before.content(file.path)
        if self.before is None or before is None or not all(content):  # a chunk of the first form has no hash
            del found[file.path]
            return
        for chunk in (self.before.chunks[number] for number in before.chunks):
            places.setdefault(chunk.sha256, Place(self.before.parts[chunk.part].key, chunk.start, chunk.size))
        found[file.path], hashes[file.path] = before.file, content

    def _is_known(self, file: File, places: Mapping[str, Place]) -> bool:
        signature, hashes = self._content.get(file.path, (None, ()))
        return signature == file.signature and all(sha256 in places for sha256 in hashes)

    def _kept_places(self) -> dict[str, Place]:
        """Where the chunks of the newest commit lie, without names of whose data less than half is still in use.

        A checkpoint keeps all data under the names that it uses. Without this limit one small file would keep a whole
        old save.
        """
        if self.before is None:
            return {}
        parts = self.before.parts
        whole: dict[CheckpointName | None, int] = {}
        used: dict[CheckpointName | None, int] = {}
        for part in parts:
            name = CheckpointName.of_key(part.key)
            whole[name] = whole.get(name, 0) + part.size
        for chunk in self.before.chunks:
            name = CheckpointName.of_key(parts[chunk.part].key)
            used[name] = used.get(name, 0) + chunk.size
        return {
            chunk.sha256: Place(parts[chunk.part].key, chunk.start, chunk.size)
            for chunk in self.before.chunks
            if chunk.sha256 and 2 * used[name := CheckpointName.of_key(parts[chunk.part].key)] >= whole[name]
        }

    def _read_moving(
        self, file: File, places: dict[str, Place], uploads: Uploads
    ) -> tuple[File, tuple[str, ...]] | None:
        """Read a file that changes all the time: all of it, or of one that only grows all lines that are whole.

        None if it was another one each time.
        """
        for _ in range(TRIES):
            try:
                descriptor = os.open(self._root / file.path, READ)
            except (FileNotFoundError, NotADirectoryError):
                continue
            try:
                known = os.fstat(descriptor)
                hashes: list[str] = []
                last: list[bytes] = []  # the last line may begin in the chunk before the last one
                size = 0
                while size < known.st_size and (piece := os.pread(descriptor, min(CHUNK, known.st_size - size), size)):
                    last.append(piece)
                    size += len(piece)
                    if len(last) > 2:
                        hashes.append(uploads.put(file.path, last.pop(0), places))
                after = os.fstat(descriptor)
            finally:
                os.close(descriptor)
            has_grown = after.st_size > known.st_size
            if size != known.st_size or not (has_grown or after.st_mtime_ns == known.st_mtime_ns):
                continue
            end = b"".join(last)
            kept = end[: end.rfind(b"\n") + 1] or end if has_grown else end
            hashes += [uploads.put(file.path, kept[at : at + CHUNK], places) for at in range(0, len(kept), CHUNK)]
            size += len(kept) - len(end)
            return replace(file, size=size, mtime_ns=known.st_mtime_ns), tuple(hashes)
        return None

    def _index(
        self,
        files: Mapping[str, File],
        content: Mapping[str, tuple[str, ...]],
        places: Mapping[str, Place],
        uploads: Uploads,
        *,
        is_beside: bool,
    ) -> Index:
        wanted = sorted({sha256 for hashes in content.values() for sha256 in hashes})
        names = {CheckpointName.of_key(places[sha256].key) for sha256 in wanted}
        before = () if self.before is None else self.before.parts
        parts = [part for part in (*before, *uploads.parts) if CheckpointName.of_key(part.key) in names]
        number_of = {part.key: number for number, part in enumerate(parts)}
        chunks = tuple(Chunk(sha, number_of[places[sha].key], places[sha].start, places[sha].size) for sha in wanted)
        numbers = {chunk.sha256: number for number, chunk in enumerate(chunks)}
        saved = {
            path: index.Saved(
                file,
                tuple(numbers[sha256] for sha256 in content[path]),
                self._newest.is_old(file, content[path]),
            )
            for path, file in sorted(files.items())
        }
        return self._newest.noted(Index(saved, chunks, tuple(parts), is_beside=is_beside))


def _is_content(
    before: Index, files: Mapping[str, File], content: Mapping[str, tuple[str, ...]], but: frozenset[str] = frozenset()
) -> bool:
    """True if the commit `before` has these files, links and bytes, and no others, outside of `but`."""
    if (before.files.keys() ^ files.keys()) - but or before.texts:
        return False
    return all(
        path in but or (before.files[path].file.link == file.link and before.content(path) == content[path])
        for path, file in files.items()
    )
