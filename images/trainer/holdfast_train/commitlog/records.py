"""The commit log without I/O: its records, the state after each of them, and their form in the storage.

The log is a chain of records `log/{seq:012d}.json`. Each record is created with a create-only write at the number after
the newest record. A record therefore exists only if its writer had read all records before it: the log is a
compare-and-swap register, and the numbers of its records are the only order there is.

Each record also carries the state of the log after itself, so a reader needs only the newest record. `apply` defines
this state; `replay` computes it from all records. Each record carries its own hash, because a writer that followed a
damaged record would copy the damage into all later records. `rules` says who may append which record.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, Final, Literal, get_args

from holdfast_train.environment import Identity
from holdfast_train.errors import CheckpointCorruptError, CheckpointVersionError
from holdfast_train.format.codec import decoded, encoded
from holdfast_train.format.names import CheckpointName, log_key
from holdfast_train.format.sealed_json import sealed, unsealed
from holdfast_train.format.version import VERSION, take_version

Kind = Literal["owner", "takeover", "fence", "quarantine", "commit", "handover", "prune", "pin", "rollback", "complete"]

FORMER_KEPT: Final = 32
ROLLBACKS_KEPT: Final = 32
HEALTHY_STEPS: Final = 100

IMPORTED_NAMESPACE: Final = "(imported)"  # of an owner that is not a job: no namespace has this name


@dataclass(frozen=True)
class Owner:
    """The job that owns the prefix."""

    seq: int
    namespace: str
    job: str
    job_uid: str


@dataclass(frozen=True)
class Fence:
    """The newest fence: only its writer may commit. `nonce` distinguishes two writers of one pod."""

    seq: int
    attempt: int
    pod_uid: str
    nonce: str


@dataclass(frozen=True)
class Use:
    """Data that checkpoints share: `size` bytes of a checkpoint lie under `name`, which is not its own name.

    They are frozen parameters, or files of a folder. The first checkpoint that has them writes them under names of
    their own, so that they can be deleted independently of it.
    """

    name: CheckpointName
    size: int


@dataclass(frozen=True)
class Commit:
    """One checkpoint. `sha256` is the hash of its manifest.

    `size`: bytes of data, with those of `uses`. `corrupt`: the checkpoint is in quarantine, because a resume found it
    broken. `metric`: the value, a decimal, of the metric `metric_name`; None if the job keeps none by a metric or did
    not measure it at this step.

    `clean`: how many steps had finite numbers, directly before the last `unknown` ones, whose losses were not known
    when it was saved; None if nothing watched them. `healthy`: HEALTHY_STEPS steps after it had finite numbers too.
    `pinned`: a person wants to keep it. `skipped`: how many steps' data rollbacks have passed over before it, so its
    step s + 1 takes the data of step s + 1 + `skipped`. `series`: keys of the segments of the history since the commit
    of its writer before.
    """

    seq: int
    step: int
    attempt: int
    at: str
    name: CheckpointName
    sha256: str
    size: int
    corrupt: bool = False
    metric_name: str | None = None
    metric: str | None = None
    uses: tuple[Use, ...] = ()
    clean: int | None = None
    healthy: bool = False
    pinned: bool = False
    skipped: int = 0
    series: tuple[str, ...] = ()
    unknown: int = 0

    @property
    def names(self) -> frozenset[CheckpointName]:
        """The names of all its data."""
        return frozenset((self.name, *(use.name for use in self.uses)))

    @property
    def own_size(self) -> int:
        """Bytes of data under its own name."""
        return self.size - sum(use.size for use in self.uses)


@dataclass(frozen=True)
class Rollback:
    """The record number `seq` took the training back to `step`, the commit number `to`; 0 is the start without one.

    `attempt`: of its writer, 0 for a person. `found`: the step after which the fault was found, None if it is not
    known. `skipped`: as of the Commit, for the steps that follow.
    """

    seq: int
    attempt: int
    at: str
    to: int
    step: int
    found: int | None
    why: str
    skipped: int


@dataclass(frozen=True)
class LogState:
    """The state after record number `seq`. `commits`: checkpoints to resume from, oldest first.

    `left`: checkpoints that rollbacks have left behind, oldest first. No attempt resumes from them, and retention drops
    them. `rollbacks`: the newest ones, oldest first.

    `former`: UIDs of jobs that owned the prefix before, under the same name. `set_aside`: their checkpoints that a
    takeover did not want; an attempt neither resumes from them nor deletes them. `set_aside_data`: the names of other
    data that these use. `handed_over`: the writer of `fence`
    has left and commits nothing more. `complete`: the step at which training was completed.
    """

    seq: int = 0
    owner: Owner | None = None
    former: tuple[str, ...] = ()
    fence: Fence | None = None
    commits: tuple[Commit, ...] = ()
    set_aside: tuple[CheckpointName, ...] = ()
    handed_over: bool = False
    complete: int | None = None
    set_aside_data: tuple[CheckpointName, ...] = ()
    left: tuple[Commit, ...] = ()
    rollbacks: tuple[Rollback, ...] = ()

    @property
    def every(self) -> tuple[Commit, ...]:
        """All commits whose data is kept: `left` and `commits`."""
        return (*self.left, *self.commits)

    @property
    def shared_names(self) -> frozenset[CheckpointName]:
        """The names of data that commits use beside their own."""
        return frozenset(use.name for commit in self.every for use in commit.uses)

    @property
    def names_in_use(self) -> frozenset[CheckpointName]:
        """Every name under which the data or the manifest of a checkpoint lies. Nothing may delete these."""
        found = frozenset((*self.set_aside, *self.set_aside_data))
        return found.union(*(commit.names for commit in self.every))


@dataclass(frozen=True)
class Record:
    """One record. `nonce` is new for each append, so that a writer recognises its own record. `at`: RFC 3339, UTC.

    Fields of one kind only: `commit` and `retired` (numbers of the commits that it drops) of a commit; `retired` of a
    prune; `corrupt` and `intact` (numbers of commits that go into quarantine or come out of it) of a quarantine; `step`
    of a `complete`, and of a handover (the step of the newest commit, None without one); `resume` (`Auto` or `Never`)
    of a takeover; `pinned` and `unpinned` (numbers of commits) of a pin; `to`, `found`, `why` and `skipped` of a
    rollback, as of the Rollback. A record that a person appends (each prune and pin, some quarantines and rollbacks)
    has the owner's `identity` with attempt 0.
    """

    seq: int
    kind: Kind
    identity: Identity
    nonce: str
    at: str
    commit: Commit | None = None
    retired: tuple[int, ...] = ()
    corrupt: tuple[int, ...] = ()
    intact: tuple[int, ...] = ()
    resume: str | None = None
    step: int | None = None
    pinned: tuple[int, ...] = ()
    unpinned: tuple[int, ...] = ()
    to: int | None = None
    found: int | None = None
    why: str | None = None
    skipped: int = 0


def apply(state: LogState, record: Record) -> LogState:
    """The state after `record`. CheckpointCorruptError if `record` cannot follow `state`."""
    if record.seq != state.seq + 1 or (record.kind == "owner") != (state.owner is None):
        raise CheckpointCorruptError(f"log record {record.seq} ({record.kind}) cannot follow record {state.seq}")
    writer = record.identity
    after = replace(state, seq=record.seq)
    if record.kind == "owner":
        return replace(after, owner=Owner(record.seq, writer.namespace, writer.job, writer.job_uid))
    if record.kind == "takeover":
        return _after_takeover(after, record)
    if record.kind == "fence":
        fence = Fence(record.seq, writer.attempt, writer.pod_uid, record.nonce)
        return replace(after, fence=fence, handed_over=False)
    if record.kind == "handover":
        return replace(after, handed_over=True)
    if record.kind == "quarantine":
        return replace(after, commits=tuple(_judged(c, record) for c in state.commits))
    if record.kind in ("prune", "commit"):
        after = replace(after, commits=_without(state.commits, record), left=_without(state.left, record))
        return after if record.kind == "prune" else _after_commit(after, newest(state), record)
    if record.kind == "pin":
        left, commits = (tuple(_pinned(c, record) for c in of) for of in (state.left, state.commits))
        return replace(after, left=left, commits=commits)
    if record.kind == "rollback":
        return _after_rollback(after, record)
    return replace(after, complete=record.step or 0)


def _without(commits: tuple[Commit, ...], record: Record) -> tuple[Commit, ...]:
    return tuple(c for c in commits if c.seq not in record.retired)


def _pinned(commit: Commit, record: Record) -> Commit:
    is_pinned = commit.seq in record.pinned or (commit.pinned and commit.seq not in record.unpinned)
    return replace(commit, pinned=is_pinned)


def _after_commit(state: LogState, before: Commit | None, record: Record) -> LogState:
    """`state` with the commit of `record`. It counts its clean steps on from the commit `before` it, and shows which
    earlier ones are healthy."""
    if record.commit is None:
        raise CheckpointCorruptError(f"log record {record.seq} is a commit without a checkpoint")
    clean = record.commit.clean
    known = record.commit.step - record.commit.unknown  # the newest step whose loss is known
    if clean is not None and before is not None and before.clean is not None:
        steps = known - (before.step - before.unknown)
        clean = before.clean + steps if clean >= known - before.step else clean
    made = replace(record.commit, seq=record.seq, clean=clean)

    def judged(commit: Commit) -> Commit:
        is_healthy = clean is not None and HEALTHY_STEPS <= known - commit.step <= clean
        return replace(commit, healthy=True) if is_healthy else commit

    return replace(state, commits=(*map(judged, state.commits), made))


def _after_rollback(state: LogState, record: Record) -> LogState:
    """`state` with the commits after `record.to` left behind. Its fence is over, as after a handover."""
    to = record.to or 0
    if to and all(commit.seq != to for commit in state.commits):
        raise CheckpointCorruptError(f"log record {record.seq} goes back to commit {to}, which the log does not have")
    made = Rollback(
        record.seq,
        record.identity.attempt,
        record.at,
        to,
        record.step or 0,
        record.found,
        record.why or "",
        record.skipped,
    )
    return replace(
        state,
        commits=tuple(c for c in state.commits if c.seq <= to),
        left=(*state.left, *(c for c in state.commits if c.seq > to)),
        rollbacks=(*state.rollbacks, made)[-ROLLBACKS_KEPT:],
        handed_over=True,
    )


def skipped_at(state: LogState, seq: int) -> int:
    """How many steps' data an attempt passes over that goes on from the commit number `seq`, 0 for the start."""
    own = [commit.skipped for commit in state.commits if commit.seq == seq]
    return max((*own, *(rollback.skipped for rollback in state.rollbacks if rollback.to == seq)), default=0)


def _judged(commit: Commit, record: Record) -> Commit:
    if commit.seq in record.intact:
        return replace(commit, corrupt=False)
    return replace(commit, corrupt=True) if commit.seq in record.corrupt else commit


def newest(state: LogState) -> Commit | None:
    """The newest commit outside quarantine, from which the next attempt resumes. None if there is none."""
    return next((commit for commit in reversed(state.commits) if not commit.corrupt), None)


def _after_takeover(state: LogState, record: Record) -> LogState:
    writer = record.identity
    assert state.owner is not None
    former = (*(uid for uid in state.former if uid != writer.job_uid), state.owner.job_uid)[-FORMER_KEPT:]
    wanted = record.resume == "Auto"
    return replace(
        state,
        owner=Owner(record.seq, writer.namespace, writer.job, writer.job_uid),
        former=former,
        fence=None,
        handed_over=False,
        complete=None,
        commits=state.commits if wanted else (),
        left=state.left if wanted else (),
        rollbacks=state.rollbacks if wanted else (),
        set_aside=state.set_aside if wanted else (*state.set_aside, *(c.name for c in state.every)),
        set_aside_data=state.set_aside_data if wanted else _with_data(state),
    )


def _with_data(state: LogState) -> tuple[CheckpointName, ...]:
    """The names of data that checkpoints use which a takeover sets aside, after it."""
    return tuple(dict.fromkeys((*state.set_aside_data, *sorted(state.shared_names))))


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
    """The bytes of `record`, with the state after it and a hash of everything."""
    if record.commit is not None:
        record = replace(record, commit=replace(record.commit, seq=record.seq))
    return sealed({"v": VERSION, **encoded(record), "state": apply(state, record)})


def decode(data: bytes, seq: int) -> tuple[Record, LogState]:
    """Record number `seq` and the state after it.

    CheckpointCorruptError if `data` is damaged or is another record; CheckpointVersionError if it has another version.
    """
    try:
        body = unsealed(data)
        take_version(body)
        state = body.pop("state")
        record, after = decoded(Record, body), decoded(LogState, state)
    except CheckpointCorruptError as error:
        raise CheckpointCorruptError(f"{log_key(seq)} is damaged: {error}") from error
    except CheckpointVersionError as error:
        raise CheckpointVersionError(f"{log_key(seq)}: {error}") from error
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise CheckpointCorruptError(f"{log_key(seq)} is not a record of this log: {error}") from error
    if (record.seq, record.kind in get_args(Kind)) != (seq, True):
        raise CheckpointCorruptError(f"{log_key(seq)} has another number or kind")
    return record, after
