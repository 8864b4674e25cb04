"""Orphans: what lies under data/ and manifests/ and belongs to no checkpoint. Which of it may be deleted. Pure.

A save writes its data under a name that is new, and only its commit makes a checkpoint of it. Whoever dies before that,
or is fenced out, leaves an orphan: bytes that nobody will ever read, and that somebody pays for.

What must never happen is that the bytes of a commit are deleted, of one that is there or of one that is still to come.
`orphans` leaves that to no clock. It is asked in this order, which is the whole proof:

1. list the names;
2. append a record to the log, a commit as a rule, under our own fence, and succeed;
3. ask, with the state after that record; 4. delete.

That the record could be appended shows that no newer fence was there when the names were listed. An attempt writes
nothing before it has raised its fence (a successor that holds at it has written nothing), so every name of the list was
begun by somebody whose fence is older than ours, or by us. Of the former none can be committed any more, whatever its
writer still does, on however silent a node: its append finds our fence. And a late append of our own, of a save that we
gave up before step 2 because no answer came, finds its place in the log taken by the record of step 2. A commit that
names one of the listed is therefore in the state already, or never comes, but for saves of ours that are still on their
way. And because names are never used again, this stays true however late step 4 is.

Age only keeps us from deleting under the hands of a writer that does not know yet that it is fenced out, which would
leave more orphans behind; it is that of the youngest object of a name, by the storage's own clock.
"""

from collections.abc import Collection, Mapping
from typing import Final

from holdfast_train.commitlog.records import Fence, LogState
from holdfast_train.format.names import attempt_of

__all__ = ["ORPHAN_SECONDS", "orphans"]

ORPHAN_SECONDS: Final = 3600.0


def orphans(
    ages: Mapping[str, float],
    state: LogState,
    fence: Fence,
    *,
    dropped: Collection[str] = (),
    limit: float = ORPHAN_SECONDS,
) -> frozenset[str]:
    """Names that may be deleted, data and manifest. `ages`: name -> seconds since its youngest object was written.

    `state`: after a record that the process with `fence` has appended since `ages` were listed. `dropped`: names of the
    calling process itself that were over by that record (saves that it had given up before, checkpoints that it had
    retired); they go at any age. A save that it gave up later may have been committed later. None goes if `fence` is
    not the newest, or has handed over: sweeping is for who trains.

    What no commit names and nobody has set aside goes once it is older than `limit` and its attempt is over:

    - it is older than ours: our fence was raised over it;
    - it is ours, and training is complete: nothing is committed after that. Before it, saves of ours may be in flight,
      also in a writer that has outlived its trainer;
    - its number is above ours: then it was an attempt of the job before, for numbers start again when a job is created
      anew. Without a takeover in the log there is no such attempt, and what it may be is not for us to judge.

    A name that is not made as ours are is somebody else's, and stays.
    """
    if state.fence != fence or state.handed_over:
        return frozenset()
    in_use = {commit.name for commit in state.commits} | set(state.set_aside)

    def over(attempt: int) -> bool:
        if attempt == fence.attempt:
            return state.complete is not None
        return attempt < fence.attempt or bool(state.former)

    def goes(name: str, age: float) -> bool:
        attempt = attempt_of(name)
        if attempt is None or name in in_use:
            return False
        return name in dropped or (age > limit and over(attempt))

    return frozenset(name for name, age in ages.items() if goes(name, age))
