"""Which attempt may append which record to the log. Each rule raises an error that says why not.

| record | rule |
|---|---|
| owner, takeover | `ownership_record`; for an import `check_may_import` first |
| fence | `check_may_fence`; a successor first waits until `reason_to_pass_fence` |
| quarantine, commit, handover, complete | `check_may_write` |
| commit that uses data of earlier checkpoints | `check_may_use` |
| prune, by a person | `check_may_prune` |
| rollback | `check_may_roll_back`; by an attempt `check_may_write` too |
| pin, by a person | `check_may_pin` |
| quarantine that releases checkpoints, by a person | `check_may_release` |
"""

from collections.abc import Collection, Iterable
from typing import Literal

from holdfast_train.commitlog.records import IMPORTED_NAMESPACE, Commit, Fence, LogState, newest
from holdfast_train.environment import Identity
from holdfast_train.errors import (
    AlreadyCompleteError,
    CheckpointCorruptError,
    FencedError,
    StoragePrefixInUseError,
)
from holdfast_train.format.manifest import Manifest
from holdfast_train.format.names import CheckpointName


def ownership_record(state: LogState, identity: Identity) -> Literal["owner", "takeover"] | None:
    """The kind of record that `identity` must append before its fence, None if its job owns the prefix already.

    StoragePrefixInUseError if another job owns the prefix; FencedError if a newer job of the same name has taken over.
    """
    owner = state.owner
    if owner is None:
        return "owner"
    if owner.namespace == IMPORTED_NAMESPACE != identity.namespace:
        raise StoragePrefixInUseError(
            f"the checkpoint prefix contains an imported checkpoint: set its address as checkpoint.resume, and give "
            f"{identity.namespace}/{identity.job} a prefix of its own (spec.checkpoint.storage)"
        )
    if (owner.namespace, owner.job) != (identity.namespace, identity.job):
        raise StoragePrefixInUseError(
            f"the checkpoint prefix belongs to the job {owner.namespace}/{owner.job}; "
            f"give {identity.namespace}/{identity.job} a prefix of its own (spec.checkpoint.storage)"
        )
    if owner.job_uid == identity.job_uid:
        return None
    if identity.job_uid in state.former:
        raise FencedError(
            f"the job {identity.namespace}/{identity.job} was deleted and created again, and the new job has taken "
            f"over the checkpoints; this pod belongs to the old job"
        )
    return "takeover"


def check_may_import(state: LogState) -> None:
    """StoragePrefixInUseError if a process has committed, or may ever commit, in this prefix.

    An interrupted import has committed nothing, and commits nothing once another import has taken over.
    """
    owner = state.owner
    if owner is None or (owner.namespace == IMPORTED_NAMESPACE and not state.commits):
        return
    use = f"belongs to the job {owner.namespace}/{owner.job}"
    if owner.namespace == IMPORTED_NAMESPACE:
        use = f"contains an imported checkpoint already, as step {state.commits[-1].step}"
    raise StoragePrefixInUseError(f"the prefix {use}; import to a prefix of its own")


def check_owner(state: LogState, identity: Identity) -> None:
    """FencedError if the job of `identity` does not own the prefix."""
    if state.owner is None or state.owner.job_uid != identity.job_uid:
        raise FencedError("the job was deleted and created again, and the new job has taken over the checkpoints")


def check_may_fence(state: LogState, identity: Identity) -> None:
    """FencedError if a newer attempt has raised its fence; AlreadyCompleteError if training is complete."""
    if ownership_record(state, identity) is not None:
        raise FencedError("the owner of the checkpoint log has changed")
    if state.complete is not None:
        raise AlreadyCompleteError(state.complete)
    fence = state.fence
    if fence is None or fence.attempt < identity.attempt:
        return
    if fence.attempt > identity.attempt:
        raise FencedError(f"attempt {fence.attempt} has started; attempt {identity.attempt} must end")
    if fence.pod_uid != identity.pod_uid:
        raise FencedError(f"attempt {fence.attempt} belongs to another pod ({fence.pod_uid})")


def reason_to_pass_fence(state: LogState, identity: Identity, predecessor: int) -> str | None:
    """Why `identity`, started while attempt `predecessor` trained, may raise its fence. None: it has to wait.

    There is a reason too if `check_may_fence` would refuse because of another owner or attempt: waiting would only
    delay the error.
    """
    try:
        if ownership_record(state, identity) is not None:
            return None  # this job has not written yet, and records of a job before it do not count
    except (StoragePrefixInUseError, FencedError):
        return "the owner of the checkpoint prefix has changed"
    fence = state.fence
    # Of a complete training the predecessor may still do the rest: the operator knows when its pod is gone.
    if fence is None or state.complete is not None:
        return None
    if fence.attempt >= identity.attempt:  # our own: torchrun has restarted its workers after we passed the fence
        return f"attempt {fence.attempt} has raised its fence already"
    # A handover by an attempt before the predecessor is old: the predecessor has not raised its fence yet.
    if fence.attempt >= predecessor and state.handed_over:
        last = newest(state)
        step = "" if last is None else f" at step {last.step}"
        return f"attempt {fence.attempt} has handed over{step}"
    return None


def check_may_write(state: LogState, identity: Identity, fence: Fence) -> None:
    """FencedError if the writer of `fence` may not append a quarantine, commit, handover or `complete`."""
    check_owner(state, identity)
    newest = state.fence
    if newest is None or newest.nonce != fence.nonce:
        other = "another writer" if newest is None else f"attempt {newest.attempt} (pod {newest.pod_uid})"
        raise FencedError(f"{other} has started; attempt {identity.attempt} must end and commits nothing more")
    if state.handed_over:
        last = state.rollbacks[-1] if state.rollbacks else None
        if last is not None and last.seq > newest.seq:
            raise FencedError(
                f"the training was rolled back to step {last.step} ({last.why}); attempt {identity.attempt} must end "
                f"and commits nothing more"
            )
        raise FencedError(f"attempt {identity.attempt} has handed over; it must end and commits nothing more")
    if state.complete is not None:
        raise AlreadyCompleteError(state.complete)


def check_may_use(state: LogState, commit: Commit, fresh: Collection[CheckpointName] = ()) -> None:
    """CheckpointCorruptError if `commit` uses data that may be deleted: that of no checkpoint in `state`.

    `fresh`: the names of data that the save of this commit has written for later ones too.
    """
    in_use = state.names_in_use
    for use in commit.uses:
        if use.name not in fresh and use.name not in in_use:
            raise CheckpointCorruptError(
                f"step {commit.step} is not saved: it uses the data in {use.name}, which no checkpoint in the log uses "
                f"any more; the next save writes it again"
            )


def possible_writer(state: LogState) -> Fence | None:
    """The fence whose writer may still commit, alive or not. None: no process may commit before a new fence."""
    return None if state.handed_over or state.complete is not None else state.fence


def may_go_on_from_memory(state: LogState, copy: Manifest, fence: int) -> bool:
    """True if an attempt that has raised its fence in `state` may go on from a copy of which the log has no commit.

    The attempt of `copy` had raised the fence number `fence`. Its copy counts if a commit of it, as the last record
    before our fence, would have been allowed, and would have been the newest one: no rollback came after its fence, no
    later attempt has committed, and no commit has its step or a later one.
    """
    if state.owner is None or state.owner.job_uid != copy.job_uid or state.complete is not None:
        return False
    if any(rollback.seq > fence for rollback in state.rollbacks):
        return False
    if any(commit.attempt > copy.attempt for commit in state.commits):
        return False
    return all(commit.step < copy.step for commit in state.commits if not commit.corrupt)


def check_may_prune(state: LogState, retired: Iterable[int]) -> None:
    """Check that a person may append a prune that drops the commits `retired`. FencedError if not.

    A prune is allowed only while no process may commit. An attempt reads commits only after it has raised its fence.
    An attempt that raises its fence after the prune does not see the dropped commits, and one that raised it earlier
    has ended. So no attempt loses a checkpoint that it reads. The newest intact commit is never dropped.
    """
    dropped = set(retired)
    _check_idle(state, dropped)
    if pinned := [c.seq for c in state.every if c.pinned and c.seq in dropped]:
        raise FencedError(f"commit {pinned[0]} is pinned; it is never dropped")
    last = newest(state)
    if last is not None and last.seq in dropped:
        raise FencedError(f"commit {last.seq} is the newest intact one; it is never dropped")


def check_may_pin(state: LogState, named: Iterable[int]) -> None:
    """Check that a person may pin or unpin the commits `named`. FencedError if the log does not contain them.

    This is allowed while an attempt trains: the next commit decides what it retires by the state before it.
    """
    _check_known(state, set(named))


def check_may_roll_back(state: LogState, to: int) -> None:
    """Check that a rollback may go back to the commit number `to`, 0 for the start without a checkpoint.

    FencedError if it is not on the present branch, or is in quarantine; AlreadyCompleteError if training is complete.
    This is allowed while an attempt trains: the rollback ends its fence, so the attempt commits nothing after it, and
    the next attempt raises a fence of its own before it reads which commits there are.
    """
    if state.complete is not None:
        raise AlreadyCompleteError(state.complete)
    if to == 0:
        return
    found = next((c for c in state.commits if c.seq == to), None)
    if found is None:
        is_left = any(c.seq == to for c in state.left)
        why = "an earlier rollback has left it behind" if is_left else "the log does not contain it any more"
        raise FencedError(f"commit {to} cannot be gone back to: {why}")
    if found.corrupt:
        raise FencedError(f"commit {to} cannot be gone back to: it is in quarantine")


def check_may_release(state: LogState, intact: Iterable[int]) -> None:
    """Check that a person may take the commits `intact` out of quarantine. FencedError if not.

    As a prune, this is allowed only while no process may commit: a running attempt has already chosen its checkpoint,
    and its commits retire older ones by the quarantine that it knows.
    """
    _check_idle(state, set(intact))


def _check_idle(state: LogState, named: set[int]) -> None:
    """FencedError if an attempt may commit, or if the log does not contain all commits of `named`."""
    fence = possible_writer(state)
    if fence is not None:
        raise FencedError(
            f"attempt {fence.attempt} (pod {fence.pod_uid}) may be training: it has raised its fence, and has neither "
            f"handed over nor completed"
        )
    _check_known(state, named)


def _check_known(state: LogState, named: set[int]) -> None:
    if unknown := named - {c.seq for c in state.every}:
        raise FencedError(f"the log does not contain commit {min(unknown)} any more")
