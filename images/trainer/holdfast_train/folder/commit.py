"""Commit the folders of all nodes of a training, each as it is at the same moment."""

import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from holdfast_train.commitlog.checkpoints import Checkpoints, Saved
from holdfast_train.commitlog.log import now
from holdfast_train.folder import index
from holdfast_train.folder.capture import Share
from holdfast_train.folder.index import Index
from holdfast_train.folder.merge import merged
from holdfast_train.folder.note import Note
from holdfast_train.folder.reported import Reported
from holdfast_train.format.manifest import OF_FOLDER, Manifest, Part
from holdfast_train.format.names import CheckpointName
from holdfast_train.storage.base import Storage, join_uri
from holdfast_train.storage.checksums import CHUNK_BYTES, chunk_sums
from holdfast_train.storage.rate_limit import RateLimit


@dataclass(frozen=True)
class FolderCommit:
    """A commit that is in the log: what was `saved`, and its index."""

    saved: Saved
    known: Index


class FolderCommits:
    """Commits what the nodes have taken of their folders.

    Commits name the segments of the history that `reported` writes, if it is set. `note` says at which commit the
    folder is. `code`: what each commit says of it.
    """

    def __init__(
        self,
        checkpoints: Checkpoints,
        storage: Storage,
        *,
        rate: RateLimit | None = None,
        note: Note | None = None,
        reported: Reported | None = None,
        code: Mapping[str, str] | None = None,
    ) -> None:
        self._checkpoints = checkpoints
        self._storage = storage
        self._rate = rate
        self._note = note
        self._reported = reported
        self._code = code or {}
        self._name: CheckpointName | None = None  # of the newest commit, if this process has made it
        self._at: tuple[str, ...] = ()  # the address of the newest commit
        self._begun = 0.0

    def begin(self, uri: str) -> None:
        """Go on from the commit whose manifest is at `uri`; empty without one."""
        self._at = (uri,) if uri else ()

    @property
    def newest(self) -> str:
        """The address of the newest commit, empty without one."""
        return self._at[-1] if self._at else ""

    def prepare(self) -> None:
        """Before the nodes upload anything. StorageErrors."""
        self._begun = time.monotonic()
        self._checkpoints.prepare()
        if self._reported is not None:
            self._reported.request()

    def commit(self, shares: Sequence[Share | None], writers: Collection[int] = ()) -> FolderCommit | None:
        """Commit what the nodes have taken. None if all of it is in the newest commit. `writers`: as of an Index.

        None in `shares`: the node shares the volume of another one. StorageErrors, TooMuchError: what was uploaded is
        given up.
        """
        given = [share for share in shares if share is not None]
        made = {name for share in given for name in share.names}
        needed: set[CheckpointName] = set()  # what is made beside these is given up
        try:
            if not any(share.is_new for share in given):
                return None
            known = merged([None if share is None else share.known for share in shares])
            index.check_fits(known)
            known = replace(known, writers=tuple(sorted(writers)))
            name = CheckpointName.new(known.step or 0, self._checkpoints.identity.attempt)
            metrics = next((share.metrics for share in given if share.known.newest == known.newest), {})
            made.add(name)
            written = self._write(known, name, metrics)
            segments = () if self._reported is None else self._reported.written()
            uri = join_uri(self._storage.uri, name.manifest_key)
            if self._note is not None:
                self._note.note_commits((*self._at, uri))  # before: if this process dies now, one of both is true
            fresh = set(written.sizes) & made - {name}
            replaces = self._name if known.is_beside else None
            saved = self._checkpoints.publish(written, self._begun, fresh, series=segments, replaces=replaces)
            needed = {name, *fresh}
        finally:
            self.give_up(made - needed)
        if self._reported is not None:
            self._reported.mark_named(segments)
        self._name, self._at = name, (uri,)
        if self._note is not None:
            self._note.note_commits(self._at)
        self._checkpoints.sweep()
        return FolderCommit(saved, known)

    def give_up(self, names: Collection[CheckpointName]) -> None:
        """Nobody needs what was uploaded under these names: the next commit deletes it."""
        for name in names:
            self._checkpoints.discard(name)

    def _write(self, known: Index, name: CheckpointName, metrics: Mapping[str, str]) -> Manifest:
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
            program={OF_FOLDER: known.newest, **self._code},
            metrics=metrics,
            parts=(Part(name.part_key(0, 0), len(data), CHUNK_BYTES, sums), *known.parts),
            tensors=(),
            state=None,
            ranks=(),
        )
