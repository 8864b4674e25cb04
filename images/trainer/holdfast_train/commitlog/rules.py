"""Who may append which record to the log."""

from collections.abc import Iterable
from typing import Literal

from holdfast_train.commitlog.records import IMPORTED_NAMESPACE, Fence, LogState, newest
from holdfast_train.environment import Identity
from holdfast_train.errors import (
    AlreadyCompleteError,
    FencedError,
    StoragePrefixInUseError,
)

__all__ = [
    "check_commit",
    "check_fence",
    "check_import",
    "check_prune",
    "check_take_back",
    "end_of_hold",
    "ownership",
    "writer",
]


def ownership(state: LogState, identity: Identity) -> Literal["owner", "takeover"] | None:
    """The record that `identity` must append before it can fence, or None if the prefix is its own already.

    StoragePrefixInUseError if another job owns the prefix; FencedError if a newer job of the same name has taken over.
    """
    owner = state.owner
    if owner is None:
        return "owner"
    if owner.namespace == IMPORTED_NAMESPACE != identity.namespace:
        raise StoragePrefixInUseError(
            f"the checkpoint prefix holds what was imported: name it as checkpoint.resume, and give "
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
            f"the job {identity.namespace}/{identity.job} was created anew and has taken over the checkpoints; "
            f"this pod belongs to the one before it"
        )
    return "takeover"


def check_import(state: LogState) -> None:
    """May an import begin to write? StoragePrefixInUseError if anybody has committed, or may ever commit, here.

    An import that was cut off has committed nothing, and does not once another one has taken over.
    """
    owner = state.owner
    if owner is None or (owner.namespace == IMPORTED_NAMESPACE and not state.commits):
        return
    whose = f"belongs to the job {owner.namespace}/{owner.job}"
    if owner.namespace == IMPORTED_NAMESPACE:
        whose = f"holds what was imported already, as step {state.commits[-1].step}"
    raise StoragePrefixInUseError(f"the prefix {whose}; import to a prefix of its own")


def check_fence(state: LogState, identity: Identity) -> None:
    """May `identity` append a fence? FencedError if a newer attempt has; AlreadyCompleteError if training is over."""
    if ownership(state, identity) is not None:
        raise FencedError("the checkpoint log has changed hands")
    if state.complete is not None:
        raise AlreadyCompleteError(state.complete)
    fence = state.fence
    if fence is None or fence.attempt < identity.attempt:
        return
    if fence.attempt > identity.attempt:
        raise FencedError(f"attempt {fence.attempt} has started; attempt {identity.attempt} must end")
    if fence.pod_uid != identity.pod_uid:
        raise FencedError(f"attempt {fence.attempt} belongs to another pod ({fence.pod_uid})")


def end_of_hold(state: LogState, identity: Identity, predecessor: int) -> str | None:
    """Why `identity`, started while attempt `predecessor` trained, may raise its fence. None: it has to wait.

    Where `check_fence` would refuse it there is a reason too: a wait would only put the error off.
    """
    try:
        if ownership(state, identity) is not None:
            return None  # nobody of this job has written yet, and what a job before it has written does not count
    except (StoragePrefixInUseError, FencedError):
        return "the checkpoint prefix has changed hands"
    if state.complete is not None:
        return f"training was completed at step {state.complete}"
    fence = state.fence
    if fence is None:
        return None
    if fence.attempt >= identity.attempt:  # our own: torchrun has restarted its workers, which held before that
        return f"attempt {fence.attempt} has raised its fence already"
    # A handover of an attempt before the predecessor is an old one: the predecessor has yet to raise its fence.
    if fence.attempt >= predecessor and state.handed_over:
        last = newest(state)
        step = "" if last is None else f" at step {last.step}"
        return f"attempt {fence.attempt} has handed over{step}"
    return None


def check_commit(state: LogState, identity: Identity, fence: Fence) -> None:
    """May the writer of `fence` append a quarantine, commit, `handover` or `complete`? FencedError if not."""
    if state.owner is None or state.owner.job_uid != identity.job_uid:
        raise FencedError("the job was created anew and has taken over the checkpoints")
    newest = state.fence
    if newest is None or newest.nonce != fence.nonce:
        who = "another writer" if newest is None else f"attempt {newest.attempt} (pod {newest.pod_uid})"
        raise FencedError(f"{who} has started; attempt {identity.attempt} must end and commits nothing more")
    if state.handed_over:
        raise FencedError(f"attempt {identity.attempt} has handed over; it must end and commits nothing more")
    if state.complete is not None:
        raise AlreadyCompleteError(state.complete)


def writer(state: LogState) -> Fence | None:
    """The fence whose writer may still commit, whether it is alive or not. None: nobody may, before a new fence."""
    return None if state.handed_over or state.complete is not None else state.fence


def check_prune(state: LogState, retired: Iterable[int]) -> None:
    """May somebody who is no attempt append a prune that drops the commits `retired`? FencedError if not.

    Only while nobody may commit. An attempt reads commits after it has raised its fence, never before: one that raises
    it after the prune does not see what was dropped, and one that raised it earlier has ended. So nobody loses what
    they are reading. The newest commit that holds stays whatever is asked.
    """
    dropped = set(retired)
    _check_idle(state, dropped)
    last = newest(state)
    if last is not None and last.seq in dropped:
        raise FencedError(f"commit {last.seq} is the newest that holds; it is never dropped")


def check_take_back(state: LogState, whole: Iterable[int]) -> None:
    """May somebody who is no attempt take the commits `whole` out of quarantine? FencedError if not.

    Only while nobody may commit, as for a prune: an attempt that runs has chosen what it goes on from, and what it
    commits retires older ones by what it knows of them.
    """
    _check_idle(state, set(whole))


def _check_idle(state: LogState, named: set[int]) -> None:
    """FencedError if an attempt may commit, or if the log does not name all of the commits `named`."""
    fence = writer(state)
    if fence is not None:
        raise FencedError(
            f"attempt {fence.attempt} (pod {fence.pod_uid}) may be training: it has raised its fence, and has neither "
            f"handed over nor completed"
        )
    if unknown := named - {c.seq for c in state.commits}:
        raise FencedError(f"the log does not name commit {min(unknown)} any more")
