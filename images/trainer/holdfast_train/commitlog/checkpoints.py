"""Checkpoints: commit, resume, retention. The order of writes is the design: data, manifest, then the log."""

import hashlib
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from holdfast_train.commitlog import orphans, records, retention
from holdfast_train.commitlog.log import CommitLog, now
from holdfast_train.commitlog.quarantine import BROKEN, Quarantine
from holdfast_train.environment import Identity
from holdfast_train.errors import (
    CheckpointCorruptError,
    NoCheckpointError,
    StorageError,
)
from holdfast_train.format import manifest
from holdfast_train.format.manifest import Manifest
from holdfast_train.format.names import manifest_key, resolve
from holdfast_train.storage.base import Storage, join_uri

__all__ = ["Checkpoints", "Found", "Saved", "find", "found_in"]

FOLDERS: Final = ("data/", "manifests/", "log/")


@dataclass(frozen=True)
class Found:
    """A checkpoint whose manifest, `data` at `uri`, holds. Nothing else of it has been read.

    `seq`: the number of its commit, 0 if no log was asked.
    """

    uri: str
    data: bytes
    manifest: Manifest
    seq: int = 0


@dataclass(frozen=True)
class Saved:
    """A committed checkpoint: `size` in bytes, `seconds` from the beginning of its capture to its commit."""

    step: int
    uri: str
    size: int
    seconds: float
    committed_at: str


class Checkpoints:
    """Checkpoints of one job in one storage. `say` gets one line for people where something is worth a line."""

    def __init__(
        self, storage: Storage, identity: Identity, keep: records.Keep, say: Callable[[str], None] = lambda _: None
    ) -> None:
        self._storage = storage
        self.identity = identity
        self._keep = keep
        self._say = say
        self._dropped: frozenset[str] = frozenset()
        self._unneeded: frozenset[str] = frozenset()
        self._unfinished = False  # are there perhaps uploads that somebody has not finished?
        self._ages: dict[str, float] = {}
        self._list_at = 0.0
        self.log = CommitLog(storage, identity)
        self._quarantine = Quarantine(self.log, say)

    def start(self, resume: str) -> None:
        """Own the prefix and raise the fence. After this no older attempt can commit any more."""
        self.log.own(resume)
        self.log.raise_fence()

    def newest(self) -> Found | None:
        """The newest checkpoint that may hold, and whose manifest does, None if there is none at all.

        NoCheckpointError if there are some and none holds: starting from nothing is a person's decision.
        """
        while (commit := self._quarantine.next()) is not None:
            try:
                return find(self._storage, commit.name, commit.seq, commit.sha256)
            except BROKEN as error:
                self._quarantine.broken(commit, error)
        if commits := self.log.state.commits:
            raise NoCheckpointError(
                f"none of the {len(commits)} checkpoints in {self._storage.uri} holds: {self._quarantine.passed[0]}; "
                f"create the job anew with checkpoint.resume: Never to start from nothing, or with a good one's address"
            )
        return None

    def pass_over(self, found: Found, error: StorageError) -> None:
        """What was read of `found` does not hold. `newest` gives it once more; then it goes into quarantine."""
        self._quarantine.broken(self._commit(found), error)

    def accept(self, found: Found) -> str:
        """What is needed of `found` was read, and holds. What was passed over on the way to it, for people."""
        return self._quarantine.holds(self._commit(found))

    def _commit(self, found: Found) -> records.Commit:
        return next(commit for commit in self.log.state.commits if commit.seq == found.seq)

    def go_on(self, fence: records.Fence | None) -> None:
        """Commit under the fence that another process of this attempt has raised."""
        self.log.fence = fence

    def prepare(self) -> None:
        """Before any data of a checkpoint is written: see what there is. See `sweep` for why it is listed now."""
        if self.log.state.seq == 0:
            self.log.refresh()  # another process of this attempt has written the log so far
        if time.monotonic() >= self._list_at:
            self._ages = self._list()
            self._list_at = time.monotonic() + orphans.ORPHAN_SECONDS

    def discard(self, name: str) -> None:
        """The checkpoint `name` of this attempt is given up: what is there of it goes after the next commit."""
        self._dropped |= {name}

    def publish(self, written: Manifest, begun: float) -> Saved:
        """Commit a checkpoint whose data is in the storage; `begun` is when it was, in seconds of time.monotonic().

        What nobody needs any more after that is deleted by `sweep`.

        FencedError if a newer attempt has started. Other StorageErrors leave the log as it was; what was written until
        then is swept later.
        """
        data = manifest.encode(written)
        self._storage.put(manifest_key(written.name), data)
        self._verify(written, len(data))
        commit = records.Commit(
            seq=0,
            step=written.step,
            attempt=self.identity.attempt,
            at=now(),
            name=written.name,
            sha256=hashlib.sha256(data).hexdigest(),
            size=written.size,
        )
        before, dropped = self.log.state.commits, self._dropped
        record = self.log.commit(retention.with_metric(commit, written.metrics, self._keep), self._keep)
        seconds = time.monotonic() - begun
        dropped |= frozenset(c.name for c in before if c.seq in record.retired)
        self._judge(dropped)
        uri = join_uri(self._storage.uri, manifest_key(written.name))
        return Saved(written.step, uri, written.size, seconds, commit.at)

    def sweep(self, stop: Callable[[], bool] = lambda: False) -> None:
        """Delete what nobody needs since the last commit; whatever cannot be deleted now, the next time.

        Ends before that when `stop` says so, which is asked before each object.
        """
        try:
            for name in sorted(self._unneeded):
                for key in (manifest_key(name), *self._storage.keys(f"data/{name}/")):
                    if stop():
                        return
                    self._storage.delete([key])
                self._unneeded -= {name}
            if self._unfinished and not stop():
                before = datetime.now(UTC) - timedelta(seconds=max(orphans.ORPHAN_SECONDS, 0.0))
                for folder in FOLDERS:
                    self._storage.drop_unfinished(folder, before)
                self._unfinished = False
        except StorageError as error:
            self._say(f"what is not needed any more could not be deleted: {error}; tried again with the next save")

    def hand_over(self) -> None:
        """Append the record that lets a successor go on: nothing is committed after it."""
        self.log.refresh()  # the writer has appended commits that this process has not read
        self.log.hand_over()

    def complete(self, step: int) -> None:
        """Append the record that ends the training."""
        self.log.refresh()
        self.log.complete(step)

    def _verify(self, written: Manifest, manifest_bytes: int) -> None:
        wanted = {part.key: part.size for part in written.parts}
        wanted[manifest_key(written.name)] = manifest_bytes
        for key, size in wanted.items():
            found = self._storage.size(key)
            if found != size:
                raise CheckpointCorruptError(f"{key} has {found} bytes after it was written, not {size}")

    def _list(self) -> dict[str, float]:
        """Every name under data/ and manifests/, with the seconds since something was last written there."""
        ages: dict[str, float] = {}
        at = datetime.now(UTC)
        for entry in (*self._storage.entries("data/"), *self._storage.entries("manifests/")):
            name = entry.key.split("/")[1].removesuffix(".json")
            age = (at - entry.modified_at).total_seconds()
            ages[name] = min(age, ages.get(name, age))
        return ages

    def _judge(self, dropped: frozenset[str]) -> None:
        """After a commit: what nobody needs."""
        assert self.log.fence is not None
        ages = self._ages | dict.fromkeys(dropped, 0.0)
        limit = orphans.ORPHAN_SECONDS
        self._unneeded |= orphans.orphans(ages, self.log.state, self.log.fence, dropped=dropped, limit=limit)
        self._unfinished = self._unfinished or bool(self._ages)  # once an hour
        self._ages, self._dropped = {}, frozenset()


def find(storage: Storage, name: str, seq: int = 0, sha256: str | None = None) -> Found:
    """The checkpoint `name`, whose manifest has the hash `sha256` if the log says so. One of BROKEN if it has not."""
    data = storage.get(manifest_key(name))
    if sha256 is not None and hashlib.sha256(data).hexdigest() != sha256:
        raise CheckpointCorruptError("the manifest is not the one that was committed")
    return found_in(join_uri(storage.uri, manifest_key(name)), data, seq)


def found_in(uri: str, data: bytes, seq: int = 0) -> Found:
    """The checkpoint whose manifest at `uri` is `data`. CheckpointCorruptError if it does not hold."""
    try:
        return Found(uri, data, manifest.decode(data), seq)
    except CheckpointCorruptError as error:
        raise CheckpointCorruptError(f"{manifest_key(resolve(uri)[1] or uri)}: {error}") from error
