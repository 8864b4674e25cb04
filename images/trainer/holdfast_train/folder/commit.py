"""Commit a folder as it is at one moment. Only chunks that the newest commit does not have are uploaded."""

import os
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final

from holdfast_train.commitlog.checkpoints import Checkpoints, Saved
from holdfast_train.commitlog.log import now
from holdfast_train.folder import index
from holdfast_train.folder.index import CHUNK, Chunk, Index
from holdfast_train.folder.look import File, Look
from holdfast_train.folder.newest import NewestSave
from holdfast_train.folder.note import Note
from holdfast_train.folder.reported import Reported
from holdfast_train.folder.snapshot import READ, ChangedError, Snapshot, is_same
from holdfast_train.folder.uploads import Place, Uploads
from holdfast_train.format.manifest import OF_FOLDER, Manifest, Part
from holdfast_train.format.names import CheckpointName
from holdfast_train.storage.base import Storage, join_uri
from holdfast_train.storage.checksums import CHUNK_BYTES, chunk_sums
from holdfast_train.storage.rate_limit import RateLimit

OWN_NAMES: Final = 256  # files of one commit whose data can be deleted by itself; all others share a name
TRIES: Final = 5  # to read a file that changes all the time


class FolderCommits:
    """Commits the folder `root`. `before`: the index of the newest commit, None without one.

    `check` is called before each object, and ends the commit with the error that it raises. Commits name the segments
    of the history that `reported` writes, if it is set. `note` says at which commit the folder is.
    """

    def __init__(
        self,
        checkpoints: Checkpoints,
        storage: Storage,
        root: Path,
        newest: NewestSave,
        *,
        rate: RateLimit | None = None,
        check: Callable[[], None] = lambda: None,
        note: Note | None = None,
    ) -> None:
        self._checkpoints = checkpoints
        self._storage = storage
        self._root = root
        self._newest = newest
        self._rate = rate
        self._check = check
        self._note = note
        self.before: Index | None = None
        self.reported: Reported | None = None
        # By path: a signature that a file had, and the hashes of its chunks then.
        self._content: dict[str, tuple[object, tuple[str, ...]]] = {}
        self._name: CheckpointName | None = None  # of the commit `before`, if this process has made it
        self._at: tuple[str, ...] = ()  # the address of the commit `before`
        self.unread: set[str] = set()
        """Files of the last commit that changed each time that they were read."""

    def begin(self, before: Index | None, there: Mapping[str, File], uri: str = "") -> None:
        """Go on from the commit `before`, whose manifest is at `uri`.

        `there`: files in the folder that have the content of this commit.
        """
        self.before, self._at = before, (uri,) if uri else ()
        if before is not None and all(chunk.sha256 for chunk in before.chunks):
            self._content = {path: (file.signature, before.content(path)) for path, file in there.items()}

    def commit(
        self, files: Mapping[str, File], again: Callable[[], Look], moving: frozenset[str], *, is_storm: bool = False
    ) -> Saved | None:
        """Upload and commit `files`. None if they have the content of the newest commit.

        `again` looks at the folder once more: all but what is `moving`, which changes all the time, must be the same.
        `is_storm`: any file may change at any time, so each is taken as it is when it is read.
        ChangedError or OSError if the files cannot be read as a whole; StorageErrors. After an error what was uploaded
        is given up, and the next commit deletes it.
        """
        begun = time.monotonic()
        attempt = self._checkpoints.identity.attempt
        uploads = Uploads(self._storage, self._rate, self._check, attempt, self._newest.told or 0)
        self._checkpoints.prepare()
        self._newest.learn(files.values())
        if self.reported is not None:
            self.reported.request()
        made: list[CheckpointName] = []
        needed: set[CheckpointName] = set()  # what is made beside these is given up
        try:
            known = self._read(files, again, frozenset(files) if is_storm else moving, uploads, is_storm=is_storm)
            if known is None:
                return None
            name = CheckpointName.new(known.step or 0, attempt)
            made.append(name)
            written = self._write(known, name)
            segments = () if self.reported is None else self.reported.written()
            uri = join_uri(self._storage.uri, name.manifest_key)
            if self._note is not None:
                self._note.note_commits((*self._at, uri))  # before: if this process dies now, one of both is true
            fresh = set(written.sizes).intersection(uploads.names)
            replaces = self._name if known.is_beside else None
            saved = self._checkpoints.publish(written, begun, fresh, series=segments, replaces=replaces)
            needed = {name, *fresh}
        finally:
            for unneeded in {*made, *uploads.names} - needed:
                self._checkpoints.discard(unneeded)
        if self.reported is not None:
            self.reported.mark_named(segments)
        self.before, self._name, self._at = known, name, (uri,)
        if self._note is not None:
            self._note.note_commits(self._at)
        self._checkpoints.sweep()
        return saved

    def _write(self, known: Index, name: CheckpointName) -> Manifest:
        """Upload the index of the commit `name`. Its manifest."""
        data = index.encode(known)
        sums = chunk_sums(data)
        self._storage.write(name.part_key(0, 0), memoryview(data), sums=sums, rate=self._rate)
        return Manifest(
            name=name,
            step=known.step or 0,
            attempt=name.attempt,
            job_uid=self._checkpoints.identity.job_uid,
            at=now(),
            versions={},
            program={OF_FOLDER: known.newest},
            metrics=self._newest.metrics(known),
            parts=(Part(name.part_key(0, 0), len(data), CHUNK_BYTES, sums), *known.parts),
            tensors=(),
            state=None,
            ranks=(),
        )

    def _read(
        self,
        files: Mapping[str, File],
        again: Callable[[], Look],
        moving: frozenset[str],
        uploads: Uploads,
        *,
        is_storm: bool,
    ) -> Index | None:
        """Read what is new, upload it, and return the index of all files. None if nothing is new."""
        self.unread.clear()
        places = self._kept_places()
        unread = [f for f in files.values() if f.link is None and not self._is_known(f, places)]
        own = sorted((f for f in unread if f.size >= CHUNK), key=lambda f: -f.size)[:OWN_NAMES]
        uploads.own = frozenset(file.path for file in own)
        found: dict[str, File] = dict(files)
        hashes: dict[str, tuple[str, ...]] = {}
        with Snapshot(self._root, () if is_storm else unread) as snapshot:
            there = again()
            if not is_storm and (changed := is_same(files, there.files, moving)) is not None:
                raise ChangedError(changed, "changed while the folder was read")
            with uploads:
                for file in unread:
                    if file.path in moving:
                        self._take_moving(file, places, uploads, found, hashes)
                        continue
                    hashes[file.path] = tuple(
                        uploads.put(file.path, data, places) for data in snapshot.read(file, CHUNK)
                    )
        for path, got in hashes.items():
            self._content[path] = found[path].signature, got
        self._content = {path: known for path, known in self._content.items() if path in found}
        content = {path: self._content[path][1] if file.link is None else () for path, file in found.items()}
        before = self.before
        # Beside a commit whose saves are the same, nobody needs the one before it: only logs have grown.
        empty = tuple(sorted(there.empty))
        is_beside = (
            not is_storm
            and before is not None
            and self._name is not None
            and _is_content(before, found, content, moving)
        )
        known = replace(self._index(found, content, places, uploads, is_beside=is_beside), empty=empty)
        is_same_content = before is not None and before.empty == empty and _is_content(before, found, content)
        if before is not None and is_same_content and set(known.parts) <= set(before.parts):
            return None
        return known

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
