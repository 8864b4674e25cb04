"""The commit log, pure: who owns a prefix, who may commit, what to resume from. `retention` says what is kept.

The log is a chain of records `log/{seq:012d}.json`, each created with a create-only write at the number after the
newest one. So a record exists only if its writer had read all that came before it: the log is a compare-and-swap
register, and its numbers are the only order there is. Each record also carries the state of the log after itself, so
that a reader needs the newest record only. `apply` defines that state; `replay` computes it from all the records. And
it carries its own hash: whoever followed a damaged record would write what it says into all that come after it.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, Final, Literal, cast

from holdfast_train.environment import Identity
from holdfast_train.errors import (
    CheckpointCorruptError,
)
from holdfast_train.format.names import log_key
from holdfast_train.format.sealed_json import sealed, unsealed

__all__ = [
    "IMPORTED_NAMESPACE",
    "Commit",
    "Fence",
    "Keep",
    "Kind",
    "LogState",
    "Owner",
    "Record",
    "apply",
    "decode",
    "draft",
    "encode",
    "newest",
    "replay",
]

Kind = Literal["owner", "takeover", "fence", "quarantine", "commit", "handover", "prune", "complete"]

KINDS: Final = ("owner", "takeover", "fence", "quarantine", "commit", "handover", "prune", "complete")

FORMER_KEPT: Final = 32

VERSION: Final = 1

IMPORTED_NAMESPACE: Final = "(imported)"  # of an owner that is no job: namespaces have no such names


@dataclass(frozen=True)
class Owner:
    """The job that owns the prefix."""

    seq: int
    namespace: str
    job: str
    job_uid: str


@dataclass(frozen=True)
class Fence:
    """The newest fence: only its writer may commit. `nonce` tells two writers of one pod apart."""

    seq: int
    attempt: int
    pod_uid: str
    nonce: str


@dataclass(frozen=True)
class Commit:
    """One checkpoint. `name` is its folder under data/ and its manifest's name, `sha256` is that of the manifest.

    `size` counts bytes of data. `corrupt`: it is in quarantine, for somebody who wanted to resume from it found it
    broken. `metric`: its value, a decimal, of the metric `metric_name`; None if none was asked for, or none was
    measured at this step.
    """

    seq: int
    step: int
    attempt: int
    at: str
    name: str
    sha256: str
    size: int
    corrupt: bool = False
    metric_name: str | None = None
    metric: str | None = None


@dataclass(frozen=True)
class Keep:
    """Retention: the newest `last` checkpoints, one of every `every` seconds, and the `best` ones by `metric`.

    `mode` says which are best: those with the lowest (Min) or the highest (Max) value.
    """

    last: int = 3
    every: float | None = None
    best: int = 0
    metric: str | None = None
    mode: Literal["Min", "Max"] = "Min"


@dataclass(frozen=True)
class LogState:
    """What the log says after its record number `seq`. `commits`: oldest first, those that may be resumed from.

    `former`: UIDs of jobs that owned the prefix under the same name; `set_aside`: names of their checkpoints that a
    takeover did not want. Nobody resumes from those of themselves, and nobody deletes them either. `handed_over`: the
    writer of `fence` has left and commits nothing more. `complete`: the step at which training was completed.
    """

    seq: int = 0
    owner: Owner | None = None
    former: tuple[str, ...] = ()
    fence: Fence | None = None
    commits: tuple[Commit, ...] = ()
    set_aside: tuple[str, ...] = ()
    handed_over: bool = False
    complete: int | None = None


@dataclass(frozen=True)
class Record:
    """One record. `nonce` is new for every append, so that a writer knows its own record again. `at`: RFC 3339, UTC.

    `commit` belongs to a commit, with `retired` (numbers of commits that it drops); `retired` alone to a prune. A
    quarantine has numbers of commits that were found broken (`corrupt`), and of those that hold after all (`whole`).
    What a person appends, not an attempt (every prune, some quarantines), has the owner's `identity` with attempt 0.
    `step` belongs to `complete`, and to a handover: that of the newest commit, if any; `resume` (`Auto` or `Never`) to
    a takeover.
    """

    seq: int
    kind: Kind
    identity: Identity
    nonce: str
    at: str
    commit: Commit | None = None
    retired: tuple[int, ...] = ()
    corrupt: tuple[int, ...] = ()
    whole: tuple[int, ...] = ()
    resume: str | None = None
    step: int | None = None


def apply(state: LogState, record: Record) -> LogState:
    """The state after `record`. CheckpointCorruptError if `record` cannot follow `state`."""
    if record.seq != state.seq + 1 or (record.kind == "owner") != (state.owner is None):
        raise CheckpointCorruptError(f"log record {record.seq} ({record.kind}) cannot follow record {state.seq}")
    who = record.identity
    after = replace(state, seq=record.seq)
    if record.kind == "owner":
        return replace(after, owner=Owner(record.seq, who.namespace, who.job, who.job_uid))
    if record.kind == "takeover":
        return _after_takeover(after, record)
    if record.kind == "fence":
        fence = Fence(record.seq, who.attempt, who.pod_uid, record.nonce)
        return replace(after, fence=fence, handed_over=False)
    if record.kind == "handover":
        return replace(after, handed_over=True)
    if record.kind == "quarantine":
        return replace(after, commits=tuple(_judged(c, record) for c in state.commits))
    if record.kind == "prune":
        return replace(after, commits=tuple(c for c in state.commits if c.seq not in record.retired))
    if record.kind == "commit":
        if record.commit is None:
            raise CheckpointCorruptError(f"log record {record.seq} is a commit without a checkpoint")
        kept = tuple(c for c in state.commits if c.seq not in record.retired)
        return replace(after, commits=(*kept, replace(record.commit, seq=record.seq)))
    return replace(after, complete=record.step or 0)


def _judged(commit: Commit, record: Record) -> Commit:
    if commit.seq in record.whole:
        return replace(commit, corrupt=False)
    return replace(commit, corrupt=True) if commit.seq in record.corrupt else commit


def newest(state: LogState) -> Commit | None:
    """The newest commit that is not in quarantine: what the next attempt goes on from. None if there is none."""
    return next((commit for commit in reversed(state.commits) if not commit.corrupt), None)


def _after_takeover(state: LogState, record: Record) -> LogState:
    who = record.identity
    assert state.owner is not None
    former = (*(uid for uid in state.former if uid != who.job_uid), state.owner.job_uid)[-FORMER_KEPT:]
    wanted = record.resume == "Auto"
    return replace(
        state,
        owner=Owner(record.seq, who.namespace, who.job, who.job_uid),
        former=former,
        fence=None,
        handed_over=False,
        complete=None,
        commits=state.commits if wanted else (),
        set_aside=state.set_aside if wanted else (*state.set_aside, *(c.name for c in state.commits)),
    )


def replay(records: Iterable[Record]) -> LogState:
    """The state after all `records`, which must be complete and in order."""
    state = LogState()
    for record in records:
        state = apply(state, record)
    return state


def draft(state: LogState, kind: Kind, identity: Identity, nonce: str, at: str, **more: Any) -> Record:
    """The record of `kind` that would follow `state`."""
    return Record(seq=state.seq + 1, kind=kind, identity=identity, nonce=nonce, at=at, **more)


def encode(state: LogState, record: Record) -> bytes:
    """The bytes of `record`, with the state after it and a hash of all."""
    who = record.identity
    body: dict[str, Any] = {
        "v": VERSION,
        "seq": record.seq,
        "kind": record.kind,
        "jobUID": who.job_uid,
        "namespace": who.namespace,
        "job": who.job,
        "attempt": who.attempt,
        "podUID": who.pod_uid,
        "nonce": record.nonce,
        "at": record.at,
    }
    if record.commit is not None:
        body["commit"] = replace(record.commit, seq=record.seq)
    if record.kind == "quarantine":
        body["corrupt"], body["whole"] = list(record.corrupt), list(record.whole)
    if record.kind in ("commit", "prune"):
        body["retired"] = list(record.retired)
    if record.resume is not None:
        body["resume"] = record.resume
    if record.step is not None or record.kind == "handover":
        body["step"] = record.step
    body["state"] = apply(state, record)
    return sealed(body)


def decode(data: bytes, seq: int) -> tuple[Record, LogState]:
    """The record number `seq` and the state after it. CheckpointCorruptError if `data` is not that, or is damaged."""
    try:
        body = _intact(data, seq)
        if (body["v"], body["seq"], body["kind"] in KINDS) != (VERSION, seq, True):
            raise CheckpointCorruptError(f"{log_key(seq)} has another version, number or kind")
        commit = body.get("commit")
        record = Record(
            seq=seq,
            kind=cast("Kind", body["kind"]),
            identity=Identity(body["namespace"], body["job"], body["jobUID"], int(body["attempt"]), body["podUID"]),
            nonce=body["nonce"],
            at=body["at"],
            commit=None if commit is None else Commit(**commit),
            retired=tuple(body.get("retired", ())),
            corrupt=tuple(body.get("corrupt", ())),
            whole=tuple(body.get("whole", ())),
            resume=body.get("resume"),
            step=body.get("step"),
        )
        return record, _decode_state(body["state"])
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise CheckpointCorruptError(f"{log_key(seq)} is not a record of this log: {error}") from error


def _intact(data: bytes, seq: int) -> dict[str, Any]:
    try:
        return unsealed(data)
    except CheckpointCorruptError as error:
        raise CheckpointCorruptError(f"{log_key(seq)} is damaged: {error}") from error


def _decode_state(body: dict[str, Any]) -> LogState:
    return LogState(
        seq=int(body["seq"]),
        owner=None if body["owner"] is None else Owner(**body["owner"]),
        former=tuple(body["former"]),
        fence=None if body["fence"] is None else Fence(**body["fence"]),
        commits=tuple(Commit(**c) for c in body["commits"]),
        set_aside=tuple(body["set_aside"]),
        handed_over=body.get("handed_over", False),  # older records do not have it
        complete=body["complete"],
    )
