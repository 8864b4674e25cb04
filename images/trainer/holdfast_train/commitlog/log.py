"""The commit log in a storage: read the newest record, append with compare-and-swap."""

import uuid
from collections.abc import Callable, Collection
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, Final, TypeVar

from holdfast_protocol.settings import Keep
from holdfast_train.commitlog import records, retention, rules
from holdfast_train.environment import Identity
from holdfast_train.errors import (
    AlreadyCompleteError,
    CheckpointCorruptError,
    CheckpointVersionError,
    FencedError,
    KeyMissingError,
    StorageError,
)
from holdfast_train.format import names
from holdfast_train.format.names import CheckpointName
from holdfast_train.storage.base import Storage, join_uri

R = TypeVar("R", records.Record, records.Record | None)
TRIES: Final = 1000


def now() -> str:
    """The time now in RFC 3339, UTC, with milliseconds."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def read(storage: Storage, seq: int) -> tuple[records.Record, records.LogState]:
    """Record number `seq` and the state after it. StorageErrors, CheckpointVersionError.

    CheckpointCorruptError and CheckpointVersionError say what a person can do.
    """
    data = storage.get(names.log_key(seq))
    try:
        return records.decode(data, seq)
    except CheckpointVersionError as error:
        raise CheckpointVersionError(f"{storage.uri}: {error}") from error
    except CheckpointCorruptError as error:
        raise CheckpointCorruptError(
            f"{storage.uri}: {error}; restore a copy of that object, or an older version if the bucket keeps versions. "
            f"Without it, checkpoints can still be read by the addresses of their manifests, "
            f"{join_uri(storage.uri, 'manifests/NAME.json')}: with holdfast-train export, holdfast_train.load, or "
            f"as checkpoint.resume of a job on another prefix"
        ) from error


class CommitLog:
    """The log of one prefix, for `identity`. `state` is the state after the last record that we read or appended."""

    def __init__(self, storage: Storage, identity: Identity) -> None:
        self._storage = storage
        self._identity = identity
        self.state = records.LogState()
        self.fence: records.Fence | None = None

    def refresh(self) -> records.LogState:
        """Read the newest record and return the state after it."""
        after = names.log_key(self.state.seq) if self.state.seq else ""
        numbers = [seq for key in self._storage.keys("log/", after) if (seq := names.log_seq(key)) is not None]
        if numbers:
            newest = max(numbers)
            _, self.state = self._read(newest)
        return self.state

    def own(self, resume: str) -> None:
        """Make the prefix this job's own, with a first record or a takeover from a job of the same name.

        A takeover keeps the earlier checkpoints if `resume` is Auto; otherwise it sets them aside. Errors: see
        `rules.ownership_record`.
        """
        self.refresh()
        self._append(lambda state: self._ownership(state, "Auto" if resume == "Auto" else "Never"))

    def claim(self) -> None:
        """Own an unused prefix for an import, and raise the fence. Errors: see `rules.check_may_import`, `own`."""
        self.refresh()

        def next_record(state: records.LogState) -> records.Record | None:
            rules.check_may_import(state)
            return self._ownership(state, "Never")

        self._append(next_record)
        self.raise_fence()

    def raise_fence(self) -> records.Fence:
        """Append a fence: after it no older attempt can commit. Errors: see `rules.check_may_fence`."""

        def next_record(state: records.LogState) -> records.Record:
            rules.check_may_fence(state, self._identity)
            return self._draft(state, "fence")

        record = self._append(next_record)
        self.fence = records.Fence(record.seq, self._identity.attempt, self._identity.pod_uid, record.nonce)
        return self.fence

    def quarantine(self, corrupt: tuple[int, ...]) -> None:
        """Put the commits `corrupt` into quarantine. FencedError if a newer attempt has started."""
        self._append(lambda state: self._own_draft(state, "quarantine", corrupt=corrupt))

    def settle(self) -> None:
        """Append a record that changes nothing: a quarantine of no commits. FencedError if a newer attempt has started.

        An append of ours whose answer was lost is in the log before it, or cannot come any more: its number is taken.
        """
        self.quarantine(())

    def release(self, intact: tuple[int, ...]) -> None:
        """Take the commits `intact` out of quarantine, for a person. FencedError: see `rules.check_may_release`."""

        def next_record(state: records.LogState) -> records.Record:
            rules.check_owner(state, self._identity)
            rules.check_may_release(state, intact)
            return self._draft(state, "quarantine", intact=intact)

        self._append(next_record)

    def commit(
        self,
        commit: records.Commit,
        keep: Keep,
        fresh: Collection[CheckpointName] = (),
        replaces: CheckpointName | None = None,
    ) -> tuple[records.Record, tuple[records.Commit, ...]]:
        """Append a commit that also retires commits by `keep`. Return its record and the commits that it retires.

        If the log has a commit of that name, from an append whose answer was lost, nothing is appended. FencedError if
        a newer attempt has started. CheckpointCorruptError if it uses data that it may not use. `fresh`: see
        `rules.check_may_use`. `replaces`: see `retention.retire`. Data that the branch has passed over before
        (`skipped`) is noted in the commit.
        """

        def next_record(state: records.LogState) -> records.Record | None:
            if any(known.name == commit.name for known in state.commits):
                return None
            rules.check_may_use(state, commit, fresh)
            last = records.newest(state)
            skipped = records.skipped_at(state, 0 if last is None else last.seq)
            record = self._own_draft(state, "commit", commit=replace(commit, skipped=skipped))
            after = records.apply(state, record)
            return replace(record, retired=retention.retire(after.commits, keep, after.left, replaces))

        before = self.state
        record = self._append(next_record)
        if record is None:
            number = next(known.seq for known in self.state.commits if known.name == commit.name)
            (record, _), (_, before) = self._read(number), self._read(number - 1)
        return record, tuple(known for known in before.every if known.seq in record.retired)

    def prune(self, retired: tuple[int, ...]) -> records.Record:
        """Append a prune for a person. FencedError if an attempt may be training: see `rules.check_may_prune`."""

        def next_record(state: records.LogState) -> records.Record:
            rules.check_owner(state, self._identity)
            rules.check_may_prune(state, retired)
            return self._draft(state, "prune", retired=retired)

        return self._append(next_record)

    def pin(self, pinned: tuple[int, ...] = (), unpinned: tuple[int, ...] = ()) -> records.Record:
        """Pin and unpin commits for a person. FencedError: see `rules.check_may_pin`."""

        def next_record(state: records.LogState) -> records.Record:
            rules.check_owner(state, self._identity)
            rules.check_may_pin(state, (*pinned, *unpinned))
            return self._draft(state, "pin", pinned=pinned, unpinned=unpinned)

        return self._append(next_record)

    def roll_back(
        self, to: int, why: str, *, found: int | None = None, skipped: int = 0, by_person: bool = False
    ) -> records.Record:
        """Append a rollback to the commit number `to`, 0 for the start: the next attempt goes on from there.

        Nothing is committed after it under the fence before it. The other arguments: see `records.Rollback`.
        FencedError, AlreadyCompleteError: see `rules.check_may_roll_back`; FencedError too if a newer attempt has
        started and no person asks for it.
        """

        def next_record(state: records.LogState) -> records.Record:
            rules.check_owner(state, self._identity)
            rules.check_may_roll_back(state, to)
            step = next((known.step for known in state.commits if known.seq == to), 0)
            draft = self._draft if by_person else self._own_draft
            return draft(state, "rollback", to=to, step=step, found=found, why=why, skipped=skipped)

        return self._append(next_record)

    def reason_to_pass_fence(self, predecessor: int) -> str | None:
        """Read the newest record. Why a successor of `predecessor` may raise its fence, None if it has to wait."""
        return rules.reason_to_pass_fence(self.refresh(), self._identity, predecessor)

    def hand_over(self) -> None:
        """Append `handover`, once: this attempt commits nothing more. FencedError if a newer attempt has started."""

        def next_record(state: records.LogState) -> records.Record | None:
            if state.fence == self.fence and state.handed_over:
                return None
            last = records.newest(state)
            return self._own_draft(state, "handover", step=None if last is None else last.step)

        self._append(next_record)

    def complete(self, step: int) -> None:
        """Append `complete`: training is over at `step`. FencedError if a newer attempt has started."""
        self._append(lambda state: self._own_draft(state, "complete", step=step))

    def _read(self, seq: int) -> tuple[records.Record, records.LogState]:
        """As `read`. FencedError if another version wrote the record while this attempt had the fence."""
        try:
            return read(self._storage, seq)
        except CheckpointVersionError as error:
            if self.fence is None:
                raise
            raise FencedError(
                f"another attempt has started, with another version of holdfast-train ({error}); attempt "
                f"{self._identity.attempt} must end and commits nothing more"
            ) from error

    def _draft(self, state: records.LogState, kind: records.Kind, **more: Any) -> records.Record:
        return records.draft(state, kind, self._identity, uuid.uuid4().hex, now(), **more)

    def _ownership(self, state: records.LogState, resume: str) -> records.Record | None:
        """The record by which the job owns the prefix, None if it does."""
        kind = rules.ownership_record(state, self._identity)
        return None if kind is None else self._draft(state, kind, **({"resume": resume} if kind == "takeover" else {}))

    def _own_draft(self, state: records.LogState, kind: records.Kind, **more: Any) -> records.Record:
        """A record under our own fence. FencedError if it is not the newest."""
        if self.fence is None:
            raise FencedError("this process has not raised its fence; it must not commit")
        rules.check_may_write(state, self._identity, self.fence)
        return self._draft(state, kind, **more)

    def _append(self, next_record: Callable[[records.LogState], R]) -> R:
        """Create the record that `next_record` returns for the newest state. Ask again if another writer was faster."""
        for _ in range(TRIES):
            try:
                record = next_record(self.state)
            except AlreadyCompleteError as error:
                raise AlreadyCompleteError(error.step, self._storage.uri) from error
            if record is None:
                return record
            if self._storage.put_if_absent(names.log_key(record.seq), records.encode(self.state, record)):
                self.state = records.apply(self.state, record)
                return record
            try:
                other, after = self._read(record.seq)
            except KeyMissingError:  # refused without a winner: the store answered 412 while a write was in flight
                continue
            self.state = after
            if other.nonce == record.nonce:  # our write took effect, but its answer was lost
                return record
        raise StorageError(f"{self._storage.uri}: another writer was faster in {TRIES} appends to the log")
