"""What a prune would remove, and whether it may. Pure.

The rule, which keeps it safe beside a training that runs:

1. **What the log names stays.** Committed checkpoints go only by a `prune` record in the log, before any byte of them
   is deleted. It is appended by compare-and-swap: if the log has grown, rule 2 is asked again of what it says now.
2. **Such a record is refused while anybody may commit**: while the newest fence's writer has neither handed over nor
   completed, whether it is alive or not. An attempt reads commits only after its own fence. So one that starts later
   does not see what was dropped, and those that started earlier have ended.
3. **The newest checkpoint that holds stays**, and only those whose manifest and sizes hold count towards
   `--keep-last`.
4. **What the log does not name** (data or a manifest of a save that was cut off, or whose deletion was) goes if nothing
   of it was written for `--older-than`. If somebody may commit, it goes only if its attempt is older than the newest
   fence: such an attempt can commit nothing any more, and nobody else will commit what it wrote.
5. Objects are **listed before the log is read**, and the log is followed to its end. So what was listed and is not
   named was written under a fence that is older than that state, or by the attempt that rule 4 leaves alone: names are
   never used twice, and a fence that is raised later comes with names of its own. After a person has said yes the log
   is read once more, and what it names by then stays.
6. What was **set aside** by `resume: Never`, and what is not named like a checkpoint, is never touched.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from holdfast.cli.checkpoints.survey import Objects, Prefix, missing, names
from holdfast_train.commitlog import retention, rules
from holdfast_train.commitlog.records import Commit, Fence, Keep, LogState


@dataclass(frozen=True, slots=True)
class Item:
    """One checkpoint that goes. `commit` is what the log says of it; None if the log does not name it."""

    name: str
    step: int
    size: int
    keys: tuple[str, ...]
    why: str
    commit: Commit | None = None


@dataclass(frozen=True, slots=True)
class Kept:
    """Something that looks as if it should go, and stays: `why`."""

    name: str
    why: str


@dataclass(frozen=True, slots=True)
class Plan:
    """What goes and what stays. `refused`: the fence because of which commits may not go now; `items` then has none."""

    items: tuple[Item, ...]
    kept: tuple[Kept, ...] = ()
    refused: Fence | None = None

    @property
    def retired(self) -> tuple[int, ...]:
        """Numbers of the commits that go."""
        return tuple(item.commit.seq for item in self.items if item.commit)

    @property
    def size(self) -> int:
        """Bytes of data that go."""
        return sum(item.size for item in self.items)


def plan(prefix: Prefix, keep: Keep | None, broken: Mapping[int, str], older_than: timedelta, now: datetime) -> Plan:
    """What a prune would remove. `keep` None: nothing committed. `broken`: commits that do not hold, and why."""
    orphans, kept = _orphans(prefix, older_than, now)
    if keep is None:
        return Plan(orphans, kept)
    if (fence := rules.writer(prefix.state)) is not None:
        return Plan(orphans, kept, fence)
    return Plan((*_commits(prefix, keep, broken), *orphans), kept)


def _commits(prefix: Prefix, keep: Keep, broken: Mapping[int, str]) -> list[Item]:
    seen = [replace(c, corrupt=c.corrupt or c.seq in broken) for c in prefix.state.commits]
    dropped = set(retention.retire(seen, keep))
    items = []
    for commit in seen:
        if commit.seq in dropped:
            there = prefix.objects.get(commit.name)
            why = (
                f"it does not hold: {broken.get(commit.seq, 'a resume found that')}" if commit.corrupt else "retention"
            )
            items.append(Item(commit.name, commit.step, commit.size, there.keys if there else (), why, commit))
    return items


def _orphans(prefix: Prefix, older_than: timedelta, now: datetime) -> tuple[tuple[Item, ...], tuple[Kept, ...]]:
    fence = rules.writer(prefix.state)
    items, kept = [], []
    for there in prefix.unnamed:
        if why := _alive(there, fence, older_than, now):
            kept.append(Kept(there.name, why))
        else:
            items.append(Item(there.name, there.step, there.size, there.keys, "the log does not name it"))
    return tuple(items), tuple(kept)


def _alive(there: Objects, fence: Fence | None, older_than: timedelta, now: datetime) -> str:
    """Why somebody may still want objects that the log does not name; empty if nobody can."""
    if fence is not None and there.attempt >= fence.attempt:
        return f"attempt {fence.attempt} may be writing it"
    return "" if now - there.modified >= older_than else "it was written too recently"


def broken_commits(prefix: Prefix, unreadable: Mapping[int, str]) -> dict[int, str]:
    """Commits of which objects are missing or have another size, and those with `unreadable` manifests."""
    shown = {c.seq: note for c in prefix.state.commits if (note := missing(c, prefix.objects.get(c.name)))}
    return {**unreadable, **shown}


def still_unnamed(items: Sequence[Item], state: LogState) -> list[Item]:
    """Those of `items` that `state` does not name: the last look before anything is deleted."""
    named = names(state)
    return [item for item in items if item.name not in named]
