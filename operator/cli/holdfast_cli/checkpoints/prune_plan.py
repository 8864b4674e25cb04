"""What a prune would delete, and whether it may. Pure.

The rules that make it safe while a training runs:

1. **What the log names stays**, and what its checkpoints use: frozen parameters lie under names of their own, which
   several checkpoints use. They go with the last of these. Committed checkpoints go only by a `prune` record in the
   log, before any byte of them is deleted. The record is appended by compare-and-swap: if the log has grown, rule 2 is
   checked again.
2. **A `prune` record is refused while an attempt may commit**: while the writer of the newest fence has neither handed
   over nor completed, alive or not. An attempt reads commits only after its own fence. So a later attempt does not see
   the dropped commits, and earlier attempts have ended.
3. **The newest intact checkpoint stays**, and only checkpoints whose manifest and sizes are right count towards
   `--keep-last`.
4. **What the log does not name** (objects of an interrupted save or of an interrupted deletion) is deleted if none of
   it was written within `--older-than`. While an attempt may commit, it is deleted only if its own attempt is older
   than the newest fence: that attempt can no longer commit, and no other attempt commits what it wrote.
5. Objects are **listed before the log is read**, and the log is followed to its end. So a listed object that is not
   named was written under a fence older than that state, or by the attempt that rule 4 protects: names are never
   reused, and a later fence comes with new names. After the user has confirmed, the log is read once more, and what it
   names then stays.
6. What was **set aside** by `resume: Never`, and what is not named like a checkpoint, is never deleted.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from holdfast_cli.checkpoints.survey import Objects, Prefix, missing
from holdfast_protocol.settings import Keep
from holdfast_train.commitlog import retention, rules
from holdfast_train.commitlog.records import Commit, Fence, LogState
from holdfast_train.format.names import CheckpointName


@dataclass(frozen=True, slots=True)
class Item:
    """One checkpoint to delete. `commit` is its record in the log; None if the log does not name it."""

    name: CheckpointName
    step: int
    size: int
    keys: tuple[str, ...]
    why: str
    commit: Commit | None = None


@dataclass(frozen=True, slots=True)
class Kept:
    """Objects that the log does not name and that stay; `why` says the reason."""

    name: CheckpointName
    why: str


@dataclass(frozen=True, slots=True)
class Plan:
    """What is deleted and what stays. `refused`: the fence that forbids dropping commits now; `items` has none then."""

    items: tuple[Item, ...]
    kept: tuple[Kept, ...] = ()
    refused: Fence | None = None

    @property
    def retired(self) -> tuple[int, ...]:
        """Numbers of the commits to drop."""
        return tuple(item.commit.seq for item in self.items if item.commit)

    @property
    def size(self) -> int:
        """Bytes of data to delete."""
        return sum(item.size for item in self.items)


def plan(prefix: Prefix, keep: Keep | None, broken: Mapping[int, str], older_than: timedelta, now: datetime) -> Plan:
    """What a prune would delete. `keep` None: no commits. `broken`: commits that are not intact, and why."""
    orphans, kept = _orphans(prefix, older_than, now)
    if keep is None:
        return Plan(orphans, kept)
    if (fence := rules.possible_writer(prefix.state)) is not None:
        return Plan(orphans, kept, fence)
    return Plan((*_commits(prefix, keep, broken), *orphans), kept)


def _commits(prefix: Prefix, keep: Keep, broken: Mapping[int, str]) -> list[Item]:
    left, seen = (
        [replace(c, corrupt=c.corrupt or c.seq in broken) for c in commits]
        for commits in (prefix.state.left, prefix.state.commits)
    )
    dropped = set(retention.retire(seen, keep, left))
    items = []
    for commit in (*left, *seen):
        if commit.seq in dropped:
            there = prefix.objects.get(commit.name)
            why = (
                f"it is not intact: {broken.get(commit.seq, 'a resume found that')}" if commit.corrupt else "retention"
            )
            items.append(Item(commit.name, commit.step, commit.own_size, there.keys if there else (), why, commit))
    after = replace(
        prefix.state,
        commits=tuple(c for c in prefix.state.commits if c.seq not in dropped),
        left=tuple(c for c in prefix.state.left if c.seq not in dropped),
    )
    return [*items, *_unused(prefix, after)]


def _unused(prefix: Prefix, after: LogState) -> list[Item]:
    """Data that no checkpoint uses once the log has the state `after`."""
    why = "only checkpoints that are dropped use it"
    found = [there for name in sorted(prefix.state.shared_names) if (there := prefix.objects.get(name)) is not None]
    return [Item(o.name, o.name.step, o.size, o.keys, why) for o in found if o.name not in after.names_in_use]


def _orphans(prefix: Prefix, older_than: timedelta, now: datetime) -> tuple[tuple[Item, ...], tuple[Kept, ...]]:
    fence = rules.possible_writer(prefix.state)
    items, kept = [], []
    for there in prefix.unnamed:
        if why := _why_needed(there, fence, older_than, now):
            kept.append(Kept(there.name, why))
        else:
            items.append(Item(there.name, there.name.step, there.size, there.keys, "the log does not name it"))
    return tuple(items), tuple(kept)


def _why_needed(there: Objects, fence: Fence | None, older_than: timedelta, now: datetime) -> str:
    """Why objects that the log does not name may still be needed; empty if they cannot."""
    if fence is not None and there.name.attempt >= fence.attempt:
        return f"attempt {fence.attempt} may be writing it"
    return "" if now - there.modified >= older_than else "it was written too recently"


def broken_commits(prefix: Prefix, unreadable: Mapping[int, str]) -> dict[int, str]:
    """Commits whose objects are missing or have a wrong size, and commits with `unreadable` manifests."""
    shown = {c.seq: note for c in prefix.state.every if (note := missing(c, prefix.objects))}
    return {**unreadable, **shown}


def still_unnamed(items: Sequence[Item], state: LogState) -> list[Item]:
    """The `items` that `state` does not name: the last check before deleting."""
    named = state.names_in_use
    return [item for item in items if item.name not in named]
