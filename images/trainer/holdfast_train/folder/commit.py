"""Commit one checkpoint of a folder.

Data that the checkpoint before it has already, or that another file of it has, is not uploaded again.
"""

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Final

from holdfast_train.commitlog.checkpoints import Checkpoints, Saved
from holdfast_train.commitlog.log import now
from holdfast_train.errors import HoldfastTrainError
from holdfast_train.folder import index
from holdfast_train.folder.index import Index, Piece
from holdfast_train.folder.layouts import Unit
from holdfast_train.folder.marks import metrics_of
from holdfast_train.folder.pointers import pointers_to
from holdfast_train.folder.reading import Reading, UnitChangedError
from holdfast_train.folder.reported import Reported
from holdfast_train.format.manifest import OF_FOLDER, Manifest, Part
from holdfast_train.format.names import CheckpointName
from holdfast_train.storage.base import Storage
from holdfast_train.storage.checksums import CHUNK_BYTES, chunk_sums
from holdfast_train.storage.rate_limit import RateLimit

THREADS: Final = 2  # parts in memory at once, of 64 MiB each


class FolderCommits:
    """Commits checkpoints of the folder `root`. `before`: the index of the newest commit, None without one.

    `check` is called before each part, and ends the commit with the error that it raises. Commits name the segments of
    the history that `reported` writes, if it is set.
    """

    def __init__(
        self,
        checkpoints: Checkpoints,
        storage: Storage,
        root: Path,
        rate: RateLimit | None = None,
        check: Callable[[], None] = lambda: None,
    ) -> None:
        self._checkpoints = checkpoints
        self._storage = storage
        self._root = root
        self._rate = rate
        self._check = check
        self.before: Index | None = None
        self.reported: Reported | None = None

    def commit(self, unit: Unit) -> Saved:
        """Upload and commit `unit`. UnitChangedError or OSError if it cannot be read as a whole; StorageErrors.

        After an error what was uploaded is given up, and the next commit deletes it.
        """
        begun = time.monotonic()
        attempt = self._checkpoints.identity.attempt
        name = CheckpointName.new(unit.step or 0, attempt)
        fresh = CheckpointName.new(unit.step or 0, attempt)
        self._checkpoints.prepare()
        if self.reported is not None:
            self.reported.request()
        try:
            with Reading(self._root, unit.files) as reading:
                first, parts = self._upload(unit, reading, name, fresh)
            written = Manifest(
                name=name,
                step=unit.step or 0,
                attempt=attempt,
                job_uid=self._checkpoints.identity.job_uid,
                at=now(),
                versions={},
                program={OF_FOLDER: unit.name},
                metrics=metrics_of(self._root, unit),
                parts=(first, *parts),
                tensors=(),
                state=None,
                ranks=(),
            )
            used = any(CheckpointName.of_key(part.key) == fresh for part in parts)
            segments = () if self.reported is None else self.reported.written()
            saved = self._checkpoints.publish(written, begun, fresh if used else None, series=segments)
        except (HoldfastTrainError, UnitChangedError, OSError):
            self._checkpoints.discard(name)
            self._checkpoints.discard(fresh)
            raise
        if self.reported is not None:
            self.reported.mark_named(segments)
        self.before = Index(unit, parts)
        self._checkpoints.sweep()
        return saved

    def _upload(
        self, unit: Unit, reading: Reading, name: CheckpointName, fresh: CheckpointName
    ) -> tuple[Part, tuple[Part, ...]]:
        pieces = index.cut(unit.files)
        same = self._unchanged(unit, pieces, reading)
        kept = _worth_keeping(self.before, same)
        uploads = _Uploads()

        def put(number: int) -> Part:
            piece, earlier = pieces[number], same.get(number)
            if earlier is not None and CheckpointName.of_key(earlier.key) in kept:
                return earlier
            self._check()
            data = reading.read(piece)
            sums = chunk_sums(data)
            if earlier is not None and sums != earlier.crc64nvme:
                raise UnitChangedError(f"{piece.spans[0][0]} changed while it was read")
            owner = name if earlier is None else fresh  # what has not changed lies apart, so that it can stay alone
            key = owner.part_key(0, number + 1)

            def write() -> Part:
                with memoryview(data) as view:
                    self._storage.write(key, view, sums=sums, rate=self._rate)
                return Part(key, len(data), CHUNK_BYTES, sums)

            return uploads.once((len(data), *sums, owner == fresh), write)

        with ThreadPoolExecutor(THREADS, "holdfast-put") as pool:
            try:
                parts = tuple(pool.map(put, range(len(pieces))))
            finally:
                pool.shutdown(wait=True, cancel_futures=True)
        reading.check_unchanged()
        data = index.encode(unit, pointers_to(self._root, unit))
        sums = chunk_sums(data)
        self._storage.write(name.part_key(0, 0), memoryview(data), sums=sums, rate=self._rate)
        return Part(name.part_key(0, 0), len(data), CHUNK_BYTES, sums), parts

    def _unchanged(self, unit: Unit, pieces: list[Piece], reading: Reading) -> dict[int, Part]:
        """The parts of the checkpoint before this one that have the same bytes, by the numbers of `pieces`."""
        known = self.before.known() if self.before is not None else {}
        found: dict[int, Part] = {}
        for number, piece in enumerate(pieces):
            earlier = known.get(index.below(unit, piece)) if piece.is_shareable else None
            if earlier is None:
                continue
            self._check()
            if chunk_sums(reading.read(piece)) == earlier.crc64nvme:
                found[number] = earlier
        return found


class _Uploads:
    """The uploads of one commit: a copy or a hard link of a file, such as `best.pt`, needs none of its own."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: dict[object, Future[Part]] = {}

    def once(self, content: object, write: Callable[[], Part]) -> Part:
        """What `write` returned for this content, now or before. It raises what that raised."""
        mine: Future[Part] = Future()
        with self._lock:
            first = self._known.setdefault(content, mine)
        if first is mine:
            try:
                mine.set_result(write())
            except BaseException as error:
                mine.set_exception(error)
                raise
        return first.result()


def _worth_keeping(before: Index | None, same: dict[int, Part]) -> frozenset[CheckpointName]:
    """The earlier names whose data is used again: those of which at least half is the same.

    A checkpoint keeps all data under the names that it uses. Without this limit a tokenizer would keep the whole first
    checkpoint.
    """
    whole: dict[CheckpointName, int] = {}
    reused: dict[CheckpointName, int] = {}
    for counts, parts in ((whole, before.parts if before else ()), (reused, same.values())):
        for part in set(parts):
            if (name := CheckpointName.of_key(part.key)) is not None:
                counts[name] = counts.get(name, 0) + part.size
    return frozenset(name for name, size in reused.items() if 2 * size >= whole[name])
