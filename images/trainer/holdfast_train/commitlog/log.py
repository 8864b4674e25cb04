"""The commit log in a storage: reads the newest record, appends with compare-and-swap."""

import uuid
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime

from holdfast_train.commitlog import records, retention, rules
from holdfast_train.environment import Identity
from holdfast_train.errors import (
    AlreadyCompleteError,
    CheckpointCorruptError,
    FencedError,
    KeyMissingError,
    StorageError,
)
from holdfast_train.format import names
from holdfast_train.storage.base import Storage, join_uri

__all__ = ["CommitLog", "now", "read"]

TRIES = 1000


def now() -> str:
    """RFC 3339, UTC, milliseconds."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def read(storage: Storage, seq: int) -> tuple[records.Record, records.LogState]:
    """Record number `seq` and the state after it. KeyMissingError; CheckpointCorruptError says how to go on without it.

    Other StorageErrors.
    """
    data = storage.get(names.log_key(seq))
    try:
        return records.decode(data, seq)
    except CheckpointCorruptError as error:
        raise CheckpointCorruptError(
            f"{storage.uri}: {error}; put back a copy of that object, or an older version if the bucket keeps them. "
            f"Without it checkpoints can still be read by the addresses of their manifests, "
            f"{join_uri(storage.uri, 'manifests/NAME.json')}: with holdfast-train export, holdfast_train.load, or "
            f"as checkpoint.resume of a job on another prefix"
        ) from error


class CommitLog:
    """The log of one prefix as `identity` sees it. `state` is what it said when we last read or appended."""

    def __init__(self, storage: Storage, identity: Identity) -> None:
        self._storage = storage
        self._identity = identity
        self.state = records.LogState()
        self.fence: records.Fence | None = None

    def refresh(self) -> records.LogState:
        """Read the newest record."""
        after = names.log_key(self.state.seq) if self.state.seq else ""
        numbers = [seq for key in self._storage.keys("log/", after) if (seq := names.log_seq(key)) is not None]
        if numbers:
            newest = max(numbers)
            _, self.state = read(self._storage, newest)
        return self.state

    def own(self, resume: str) -> None:
        """Make sure that the prefix is this job's: a first record, or an explicit takeover from a job of the same name.

        `resume` is Auto (earlier checkpoints are taken over), anything else sets them aside.
        StoragePrefixInUseError, FencedError: see `log.ownership`.
        """
        self.refresh()

        def next_record(state: records.LogState) -> records.Record | None:
            kind = rules.ownership(state, self._identity)
            if kind is None:
                return None
            wanted = "Auto" if resume == "Auto" else "Never"
            more = {"resume": wanted} if kind == "takeover" else {}
            return records.draft(state, kind, self._identity, uuid.uuid4().hex, now(), **more)

        self._append(next_record)

    def claim(self) -> None:
        """Own a prefix that nobody has, for an import, and raise the fence. Errors: see `log.check_import`, `own`."""
        self.refresh()

        def next_record(state: records.LogState) -> records.Record:
            rules.check_import(state)
            kind = rules.ownership(state, self._identity) or "owner"
            more = {"resume": "Never"} if kind == "takeover" else {}
            return records.draft(state, kind, self._identity, uuid.uuid4().hex, now(), **more)

        self._append(next_record)
        self.raise_fence()

    def raise_fence(self) -> records.Fence:
        """Append a fence: from here on no older attempt can commit. Errors: see `log.check_fence`."""

        def next_record(state: records.LogState) -> records.Record:
            rules.check_fence(state, self._identity)
            return records.draft(state, "fence", self._identity, uuid.uuid4().hex, now())

        record = self._append(next_record)
        assert record is not None
        self.fence = records.Fence(record.seq, self._identity.attempt, self._identity.pod_uid, record.nonce)
        return self.fence

    def quarantine(self, corrupt: tuple[int, ...]) -> None:
        """Append which commits this attempt has found to be `corrupt`.

        FencedError if a newer attempt has started.
        """
        fence = self._fenced()

        def next_record(state: records.LogState) -> records.Record:
            rules.check_commit(state, self._identity, fence)
            return records.draft(state, "quarantine", self._identity, uuid.uuid4().hex, now(), corrupt=corrupt)

        self._append(next_record)

    def take_back(self, whole: tuple[int, ...]) -> None:
        """Append that commits are `whole` after all, as nobody's attempt. FencedError: see `log.check_take_back`."""

        def next_record(state: records.LogState) -> records.Record:
            self._check_owner(state)
            rules.check_take_back(state, whole)
            return records.draft(state, "quarantine", self._identity, uuid.uuid4().hex, now(), whole=whole)

        self._append(next_record)

    def commit(self, commit: records.Commit, keep: records.Keep) -> records.Record:
        """Append a commit that also retires what `keep` does not keep. FencedError if a newer attempt has started."""
        fence = self._fenced()

        def next_record(state: records.LogState) -> records.Record:
            rules.check_commit(state, self._identity, fence)
            record = records.draft(state, "commit", self._identity, uuid.uuid4().hex, now(), commit=commit)
            return replace(record, retired=retention.retire(records.apply(state, record).commits, keep))

        record = self._append(next_record)
        assert record is not None
        return record

    def prune(self, retired: tuple[int, ...]) -> records.Record:
        """Append a prune, as nobody's attempt. FencedError if an attempt may be training: see `log.check_prune`."""

        def next_record(state: records.LogState) -> records.Record:
            self._check_owner(state)
            rules.check_prune(state, retired)
            return records.draft(state, "prune", self._identity, uuid.uuid4().hex, now(), retired=retired)

        record = self._append(next_record)
        assert record is not None
        return record

    def end_of_hold(self, predecessor: int) -> str | None:
        """Read the newest record, and say whether a successor of attempt `predecessor` may go on: `log.end_of_hold`."""
        return rules.end_of_hold(self.refresh(), self._identity, predecessor)

    def hand_over(self) -> None:
        """Append `handover`, once: this attempt commits nothing more. FencedError if a newer attempt has started."""
        fence = self._fenced()

        def next_record(state: records.LogState) -> records.Record | None:
            if state.fence == fence and state.handed_over:
                return None
            rules.check_commit(state, self._identity, fence)
            last = records.newest(state)
            step = None if last is None else last.step
            return records.draft(state, "handover", self._identity, uuid.uuid4().hex, now(), step=step)

        self._append(next_record)

    def complete(self, step: int) -> None:
        """Append `complete`: training is over at `step`. FencedError if a newer attempt has started."""
        fence = self._fenced()

        def next_record(state: records.LogState) -> records.Record:
            rules.check_commit(state, self._identity, fence)
            return records.draft(state, "complete", self._identity, uuid.uuid4().hex, now(), step=step)

        self._append(next_record)

    def _check_owner(self, state: records.LogState) -> None:
        if state.owner is None or state.owner.job_uid != self._identity.job_uid:
            raise FencedError("the job was created anew and has taken over the checkpoints")

    def _fenced(self) -> records.Fence:
        if self.fence is None:
            raise FencedError("this process has not raised its fence; it must not commit")
        return self.fence

    def _append(self, next_record: Callable[[records.LogState], records.Record | None]) -> records.Record | None:
        """Create the record after the newest one. If somebody was faster, read theirs and ask `next_record` again."""
        for _ in range(TRIES):
            try:
                record = next_record(self.state)
            except AlreadyCompleteError as error:
                raise AlreadyCompleteError(error.step, self._storage.uri) from error
            if record is None:
                return None
            if self._storage.put_if_absent(names.log_key(record.seq), records.encode(self.state, record)):
                self.state = records.apply(self.state, record)
                return record
            try:
                other, after = read(self._storage, record.seq)
            except KeyMissingError:  # a refused write without a winner: the store answered 412 while one was in flight
                continue
            self.state = after
            if other.nonce == record.nonce:  # our write took effect though its answer was lost
                return record
        raise StorageError(f"{self._storage.uri}: {TRIES} other writers were faster in appending to the log")
