"""What is below a prefix: the state of the log, the objects, and the standing of each checkpoint.

Pure, except `survey`, `newest_state` and `log_for_person`.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from typing import Final

from holdfast_cli.errors import CliError, ExitCode
from holdfast_cli.storage.address import Found
from holdfast_train.commitlog.log import CommitLog, read
from holdfast_train.commitlog.records import Commit, LogState
from holdfast_train.environment import Identity
from holdfast_train.errors import KeyMissingError
from holdfast_train.format.names import CheckpointName
from holdfast_train.storage.base import Entry, Storage

NOBODY: Final = Identity("", "", "", 0, "")


class Standing(StrEnum):
    """The standing of a checkpoint, without reading its bytes."""

    OK = "ok"
    CORRUPT = "corrupt"  # in quarantine: a resume found that it is not intact
    DAMAGED = "damaged"  # objects of it are missing or have a wrong size
    LEFT = "left"  # a rollback went back to an earlier one; retention drops it later
    SET_ASIDE = "set aside"  # a takeover with `resume: Never` excluded it
    RETIRED = "retired"  # retention dropped it, but objects of it still exist
    UNCOMMITTED = "uncommitted"  # no record names it: a save in progress, or an interrupted one


@dataclass(frozen=True, slots=True)
class Objects:
    """The objects of one checkpoint."""

    name: CheckpointName
    data: tuple[Entry, ...]
    manifest: Entry | None

    @property
    def size(self) -> int:
        """Bytes of data."""
        return sum(entry.size for entry in self.data)

    @property
    def modified(self) -> datetime:
        """When the newest of its objects was written."""
        times = [entry.modified_at for entry in self.data]
        return max([*times, self.manifest.modified_at] if self.manifest else times)

    @property
    def keys(self) -> tuple[str, ...]:
        """The manifest first: without it, objects are not a checkpoint."""
        manifest = (self.manifest.key,) if self.manifest else ()
        return (*manifest, *(entry.key for entry in self.data))


@dataclass(frozen=True, slots=True)
class Prefix:
    """Everything below a prefix. `objects` were listed before `state` was read, so they are not newer."""

    uri: str
    state: LogState
    objects: Mapping[CheckpointName, Objects] = field(default_factory=dict)

    @property
    def unnamed(self) -> tuple[Objects, ...]:
        """Objects that the log does not name, oldest first."""
        named = self.state.names_in_use
        return tuple(sorted((o for o in self.objects.values() if o.name not in named), key=lambda o: o.modified))


@dataclass(frozen=True, slots=True)
class Row:
    """One checkpoint. `at`: time of the commit or of the last write, None if unknown. `note`: what is wrong.

    `commit`: its record, None if it is not committed or was set aside.
    """

    name: CheckpointName
    at: datetime | None
    size: int
    standing: Standing
    note: str = ""
    commit: Commit | None = None

    @property
    def marks(self) -> tuple[str, ...]:
        """What the log says of it beside its standing."""
        if self.commit is None:
            return ()
        return (("healthy",) if self.commit.healthy else ()) + (("pinned",) if self.commit.pinned else ())


def survey(storage: Storage) -> Prefix:
    """List the objects, then read the log. CliError if there is no log; StorageError."""
    data, manifests = storage.entries("data/"), storage.entries("manifests/")
    return Prefix(storage.uri, newest_state(storage), group(data, manifests))


def newest_state(storage: Storage) -> LogState:
    """The state after the newest record. CliError if there is no record; StorageError, CheckpointCorruptError.

    A listing may be stale in some stores, a read of one key is not: the log is followed to its end.
    """
    state = CommitLog(storage, NOBODY).refresh()
    while True:
        try:
            _, state = read(storage, state.seq + 1)
        except KeyMissingError:
            break
    if state.seq == 0:
        raise CliError(
            f"there is no checkpoint log below {storage.uri}",
            code=ExitCode.NOT_FOUND,
            hint="no attempt has started yet, or the prefix is wrong",
        )
    return state


def log_for_person(storage: Storage, state: LogState) -> CommitLog:
    """The log for a person, not an attempt, to append to after `state`."""
    owner = state.owner
    assert owner is not None  # a log begins with its owner
    found = CommitLog(storage, Identity(owner.namespace, owner.job, owner.job_uid, 0, ""))
    found.state = state
    return found


def check_owner(found: Found, state: LogState) -> None:
    """CliError if a job was named, and the prefix belongs to another one: nothing there is changed in its name.

    The author of a job may write any prefix into it, also that of another job. The person who types the command may
    have keys for both, and would change the checkpoints of the other job.
    """
    owner = state.owner
    if found.job is None or owner is None or (owner.namespace, owner.job) == found.job[:2]:
        return
    raise CliError(
        f"nothing was changed: {found.uri}, which is the prefix of {found.job.namespace}/{found.job.name}, belongs to "
        f"{owner.namespace}/{owner.job}",
        hint=f"if you mean that training, name it, or give {found.uri}",
    )


def group(data: Iterable[Entry], manifests: Iterable[Entry]) -> dict[CheckpointName, Objects]:
    """Objects by the name of their checkpoint. Objects with other names are left out."""
    parts: dict[CheckpointName, list[Entry]] = {}
    for entry in data:
        if (name := CheckpointName.of_key(entry.key)) is not None:
            parts.setdefault(name, []).append(entry)
    found = {name: entry for entry in manifests if (name := CheckpointName.of_key(entry.key)) is not None}
    return {name: Objects(name, tuple(parts.get(name, ())), found.get(name)) for name in parts.keys() | found.keys()}


def rows(prefix: Prefix, retired: frozenset[CheckpointName]) -> list[Row]:
    """Every checkpoint: committed ones, newest first, then left, set aside, the rest. `retired`: once committed."""
    made = [_committed(commit, prefix.objects) for commit in reversed(prefix.state.commits)]
    left = [_committed(commit, prefix.objects) for commit in reversed(prefix.state.left)]
    made += [replace(row, standing=Standing.LEFT) if row.standing is Standing.OK else row for row in left]
    for name in reversed(prefix.state.set_aside):
        there = prefix.objects.get(name)
        at, size, note = (there.modified, there.size, "") if there else (None, 0, "all its objects are missing")
        made.append(Row(name, at, size, Standing.SET_ASIDE, note))
    for there in reversed(prefix.unnamed):
        standing = Standing.RETIRED if there.name in retired else Standing.UNCOMMITTED
        note = "" if there.manifest else "no manifest"
        made.append(Row(there.name, there.modified, there.size, standing, note))
    return made


def _committed(commit: Commit, objects: Mapping[CheckpointName, Objects]) -> Row:
    note = missing(commit, objects)
    standing = Standing.CORRUPT if commit.corrupt else Standing.DAMAGED if note else Standing.OK
    at = datetime.fromisoformat(commit.at)
    return Row(commit.name, at, commit.size, standing, note, commit)


def missing(commit: Commit, objects: Mapping[CheckpointName, Objects]) -> str:
    """What a listing shows to be wrong with a commit; empty if nothing."""
    there = objects.get(commit.name)
    if there is None:
        return "all its objects are missing"
    if there.manifest is None:
        return "its manifest is missing"
    if there.size != commit.own_size:
        return f"{there.size:,} of {commit.own_size:,} bytes exist"
    for use in commit.uses:  # other checkpoints may use more of the same data
        shared = objects.get(use.name)
        if shared is None or shared.size < use.size:
            size = 0 if shared is None else shared.size
            return f"{size:,} of {use.size:,} bytes exist of the frozen parameters in {use.name}"
    return ""
