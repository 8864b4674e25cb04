"""The checkpoints of a job: commit, resume, delete. The order of writes is the design: data, manifest, then the log."""

import hashlib
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final, NamedTuple

from holdfast_protocol.settings import Keep
from holdfast_train.commitlog import orphans, records, retention
from holdfast_train.commitlog.log import CommitLog, now
from holdfast_train.commitlog.quarantine import BROKEN, Quarantine
from holdfast_train.environment import Identity
from holdfast_train.errors import CheckpointCorruptError, CheckpointVersionError, NoCheckpointError, StorageError
from holdfast_train.format import manifest
from holdfast_train.format.manifest import Manifest
from holdfast_train.format.names import CheckpointName
from holdfast_train.storage.base import Storage, join_uri
from holdfast_train.storage.parallel import delete_all, sizes

FOLDERS: Final = ("data/", "manifests/", "log/", "series/")
PREFIXES: Final = 8  # of the data of one checkpoint; for more, the list of all data needs fewer requests


@dataclass(frozen=True)
class Found:
    """A checkpoint whose manifest, with the bytes `data` at `uri`, is intact. Its data has not been read.

    `seq`: the number of its commit, 0 if no log was read. `only`: the objects to restore from it for a warm start;
    empty: everything.
    """

    uri: str
    data: bytes
    manifest: Manifest
    seq: int = 0
    only: tuple[str, ...] = ()


class Clean(NamedTuple):
    """Before a step, `unknown` steps whose losses are not known; directly before these, `steps` with finite losses."""

    steps: int
    unknown: int = 0


@dataclass(frozen=True)
class Saved:
    """A committed checkpoint: `size` in bytes, `seconds` from the start of its capture to its commit.

    `uses`: the names of data that later checkpoints may use too, with `shared` bytes. Of these, earlier saves had
    uploaded `reused` bytes.
    """

    step: int
    uri: str
    size: int
    seconds: float
    committed_at: str
    uses: frozenset[CheckpointName] = frozenset()
    shared: int = 0
    reused: int = 0

    @property
    def uploaded(self) -> int:
        """The bytes that this save has uploaded."""
        return self.size - self.reused


class Checkpoints:
    """Checkpoints of one job in one storage. `say` gets lines for people."""

    def __init__(
        self, storage: Storage, identity: Identity, keep: Keep, say: Callable[[str], None] = lambda _: None
    ) -> None:
        self._storage = storage
        self.identity = identity
        self._keep = keep
        self._say = say
        self._dropped: frozenset[CheckpointName] = frozenset()  # given up since our last record
        self._undecided: frozenset[CheckpointName] = frozenset()  # a commit of them may be in the log, or come late
        self._unneeded: frozenset[CheckpointName] = frozenset()
        self._partial: frozenset[CheckpointName] = frozenset()  # of the unneeded: those that may have unfinished writes
        self._unfinished = False  # True if there may be unfinished uploads
        self._has_complained = False  # that something cannot be deleted
        self._ages: dict[CheckpointName, float] = {}
        self._list_at = 0.0
        self.log = CommitLog(storage, identity)
        self._quarantine = Quarantine(self.log, say)

    def start(self, resume: str) -> None:
        """Own the prefix and raise the fence. After this no older attempt can commit."""
        self.log.own(resume)
        self.log.raise_fence()

    def newest(self) -> Found | None:
        """The newest checkpoint that is not reported as broken and has an intact manifest, None without any commit.

        NoCheckpointError if all commits are broken: a start from nothing is a person's decision.
        """
        while (commit := self._quarantine.next_commit()) is not None:
            try:
                return find(self._storage, commit.name, commit.seq, commit.sha256)
            except BROKEN as error:
                self._quarantine.report_broken(commit, error)
        if commits := self.log.state.commits:
            raise NoCheckpointError(
                f"none of the {len(commits)} checkpoints in {self._storage.uri} is intact: "
                f"{self._quarantine.passed_over[0]}; create the job again with checkpoint.resume: Never to start from "
                f"nothing, or with the address of an intact checkpoint"
            )
        return None

    def report_broken(self, found: Found, error: StorageError) -> None:
        """Report `found` as broken. `newest` returns it once more; a second report quarantines it."""
        self._quarantine.report_broken(self._commit(found), error)

    def accept(self, found: Found) -> str:
        """Take `found`, whose needed bytes were read and are intact. Return what was passed over, for people."""
        return self._quarantine.accept(self._commit(found))

    def _commit(self, found: Found) -> records.Commit:
        return next(commit for commit in self.log.state.commits if commit.seq == found.seq)

    def use_fence(self, fence: records.Fence | None) -> None:
        """Commit under the fence that another process of this attempt has raised."""
        self.log.fence = fence

    def prepare(self, stop: Callable[[], bool] = lambda: False) -> None:
        """Before any data of a checkpoint is written: list the names in the storage, and delete what no attempt needs.

        The list is step 1 of `orphans`. What failed saves have left is deleted before the next save and not after it,
        because a volume may have no room for both. `stop`: as for `sweep`.
        """
        if self.log.state.seq == 0:
            self.log.refresh()  # until now another process of this attempt has written the log
        if time.monotonic() >= self._list_at:
            self._ages = self._list()
            self._list_at = time.monotonic() + orphans.ORPHAN_SECONDS
        if not stop() and (self._undecided or self._orphans(frozenset())):
            self.log.settle()
            self._judge(self._dropped)
        self._drop_decided()
        self.sweep(stop)

    def discard(self, name: CheckpointName, *, by_dead_writer: bool = False) -> None:
        """Give up the checkpoint `name` of this attempt. The next sweep deletes its objects.

        If its commit may have reached the log, they stay until a later record shows whether it has. `by_dead_writer`: a
        process before this one has tried to save it.
        """
        self._dropped |= {name}
        if by_dead_writer:
            self._undecided |= {name}
        self._drop_decided()

    def _drop_decided(self) -> None:
        """What was given up before its commit was tried is not needed. Other ranks may still write parts of it."""
        decided = self._dropped - self._undecided
        self._unneeded |= decided
        self._partial |= decided

    def publish(
        self,
        written: Manifest,
        begun: float,
        fresh: Collection[CheckpointName] = (),
        clean: Clean | None = None,
        *,
        series: tuple[str, ...] = (),
        replaces: CheckpointName | None = None,
    ) -> Saved:
        """Commit a checkpoint whose data is in the storage. `begun`: the start of its capture, by time.monotonic().

        `clean`: of the step that is saved. `series`: as of the Commit. `replaces`: an earlier checkpoint that nobody
        needs beside this one; a pinned one stays.

        Its parts may lie under other names: those of `fresh`, which this save was the first to use, or names that a
        checkpoint in the log uses. CheckpointCorruptError if they lie elsewhere, or are missing.

        `sweep` then deletes the objects that are not needed any more. FencedError if a newer attempt has started. After
        another StorageError it may be called again with the same arguments; the log gets one commit at most. After
        `discard` instead, a later sweep deletes the written objects.
        """
        data = manifest.encode(written)
        self._storage.put(written.name.manifest_key, data)
        self._verify(written, len(data))
        commit = records.Commit(
            seq=0,
            step=written.step,
            attempt=self.identity.attempt,
            at=now(),
            name=written.name,
            sha256=hashlib.sha256(data).hexdigest(),
            size=written.size,
            uses=tuple(records.Use(name, size) for name, size in sorted(written.sizes.items()) if name != written.name),
            clean=None if clean is None else clean.steps,
            series=series,
            unknown=0 if clean is None else clean.unknown,
        )
        dropped = self._dropped
        self._undecided |= {written.name, *fresh}
        commit = retention.with_metric(commit, written.metrics, self._keep)
        record, retired = self.log.commit(commit, self._keep, fresh, replaces)
        seconds = time.monotonic() - begun
        self._judge(dropped.union(*(c.names for c in retired)))
        uri = join_uri(self._storage.uri, written.name.manifest_key)
        return Saved(
            written.step,
            uri,
            written.size,
            seconds,
            commit.at if record.commit is None else record.commit.at,
            uses=commit.names - {commit.name},
            shared=sum(use.size for use in commit.uses),
            reused=sum(use.size for use in commit.uses if use.name not in fresh),
        )

    def sweep(self, stop: Callable[[], bool] = lambda: False) -> None:
        """Delete what is not needed since the last commit. The next sweep repeats failed deletions.

        `stop` is called before each manifest and before each batch of objects; True ends the sweep.
        """
        try:
            for name in sorted(self._unneeded):
                if stop():
                    return
                self._storage.delete([name.manifest_key])  # without it, objects are not a checkpoint
                if not delete_all(self._storage, self._storage.keys(name.data_prefix), stop):
                    return
                if name in self._partial:
                    self._storage.drop_unfinished(name.data_prefix, datetime.now(UTC))
                self._unneeded -= {name}
                self._partial -= {name}
            if self._unfinished and not stop():
                before = datetime.now(UTC) - timedelta(seconds=max(orphans.ORPHAN_SECONDS, 0.0))
                for folder in FOLDERS:
                    self._storage.drop_unfinished(folder, before)
                self._unfinished = False
            self._has_complained = False
        except StorageError as error:
            if not self._has_complained:  # a storage that is down for hours needs one line
                self._say(f"cannot delete checkpoints that are not needed any more: {error}; the next save tries again")
            self._has_complained = True

    def hand_over(self) -> None:
        """Append the record that lets a successor raise its fence. This attempt commits nothing after it."""
        self.log.refresh()  # the writer has appended commits that this process has not read
        self.log.hand_over()

    def complete(self, step: int) -> None:
        """Append the record that training is complete at `step`."""
        self.log.refresh()
        self.log.complete(step)

    def _verify(self, written: Manifest, manifest_bytes: int) -> None:
        wanted = {part.key: part.size for part in written.parts}
        wanted[written.name.manifest_key] = manifest_bytes
        prefixes = written.prefixes if len(written.prefixes) <= PREFIXES else (FOLDERS[0],)
        found = sizes(self._storage, wanted, prefixes)
        for key, size in wanted.items():
            if found[key] != size:
                raise CheckpointCorruptError(f"{key} has {found[key]} bytes after the write; expected {size}")

    def _list(self) -> dict[CheckpointName, float]:
        """Every checkpoint's name under data/ and manifests/, with the seconds since its last write."""
        ages: dict[CheckpointName, float] = {}
        at = datetime.now(UTC)
        for entry in (*self._storage.entries("data/"), *self._storage.entries("manifests/")):
            if (name := CheckpointName.of_key(entry.key)) is not None:
                age = (at - entry.modified_at).total_seconds()
                ages[name] = min(age, ages.get(name, age))
        return ages

    def _judge(self, dropped: frozenset[CheckpointName]) -> None:
        """After a record of ours, note which names are not needed any more."""
        found = self._orphans(dropped)
        self._unneeded |= found
        self._partial |= found & (self._ages.keys() | self._dropped)
        self._unfinished = self._unfinished or bool(self._ages)  # the names are listed once an hour
        self._ages, self._dropped, self._undecided = {}, frozenset(), frozenset()

    def _orphans(self, dropped: frozenset[CheckpointName]) -> frozenset[CheckpointName]:
        """What `orphans` finds in the state of the log as we know it."""
        if self.log.fence is None:
            return frozenset()
        ages = self._ages | dict.fromkeys(dropped, 0.0)
        limit = orphans.ORPHAN_SECONDS
        return orphans.orphans(ages, self.log.state, self.log.fence, dropped=dropped, limit=limit)


def find(storage: Storage, name: CheckpointName, seq: int = 0, sha256: str | None = None) -> Found:
    """The checkpoint `name`. `sha256`: the hash of its manifest in the log, if known. One of BROKEN if it is broken."""
    data = storage.get(name.manifest_key)
    if sha256 is not None and hashlib.sha256(data).hexdigest() != sha256:
        raise CheckpointCorruptError("the manifest is not the one that was committed")
    return found_in(join_uri(storage.uri, name.manifest_key), data, seq)


def found_in(uri: str, data: bytes, seq: int = 0, only: tuple[str, ...] = ()) -> Found:
    """The checkpoint whose manifest at `uri` has the bytes `data`.

    CheckpointCorruptError if they are damaged, CheckpointVersionError if another version of holdfast-train wrote them.
    """
    try:
        return Found(uri, data, manifest.decode(data), seq, only)
    except (CheckpointCorruptError, CheckpointVersionError) as error:
        raise type(error)(f"{uri}: {error}") from error
