"""Orphans: objects under data/ and manifests/ that belong to no checkpoint, and which of them may be deleted. No I/O.

A save writes its data under a new name, and only its commit makes a checkpoint of it. A writer that dies before the
commit, or is fenced out, leaves an orphan: bytes that cost money and that no process will read.

The bytes of a commit must never be deleted, neither of a present commit nor of a future one. `orphans` relies on no
clock for this. It is called in this order, and the order is the whole proof:

1. list the names;
2. append a record to the log, usually a commit, under our own fence, with success;
3. call `orphans` with the state after that record;
4. delete.

The append succeeds only if no newer fence was in the log, so there was none when the names were listed. An attempt
writes no data before it has raised its fence (a successor that waits at the fence has written nothing). Each listed
name was therefore begun by a writer with an older fence, or by us:

- A writer with an older fence cannot commit any more, on any node and however late: its append finds our fence.
- A late append of our own, for a save that we gave up before step 2 because no answer came, finds its number in the log
  taken by the record of step 2.

So a commit of a listed name is in the state already or never comes, except for our own saves that are still in
progress. A commit may also use data under another name: of what does not change, which an earlier save has written. It
is appended only if the state before it uses that name too, or if its own save has written the data (`check_may_use` in
`rules`). So a name that the state does not use, and that belongs to no save in progress, never comes into use again.
New data gets a new name, so this stays true however late step 4 is.

Age is not part of the proof. Names of earlier attempts are deleted at any age: a volume may have no room for them and
for the next checkpoint. If a writer of such an attempt does not yet know that it is fenced out, it writes more, which
the next list finds. The age of a name is that of its youngest object, by the storage's clock.
"""

from collections.abc import Collection, Mapping
from typing import Final

from holdfast_train.commitlog.records import Fence, LogState
from holdfast_train.format.names import CheckpointName

ORPHAN_SECONDS: Final = 3600.0


def orphans(
    ages: Mapping[CheckpointName, float],
    state: LogState,
    fence: Fence,
    *,
    dropped: Collection[CheckpointName] = (),
    limit: float = ORPHAN_SECONDS,
) -> frozenset[CheckpointName]:
    """Names whose data and manifest may be deleted. `ages`: name -> seconds since its youngest object was written.

    `state`: after a record that the process with `fence` appended after it had listed `ages`. `dropped`: names of this
    process that were finished by that record (saves that it had given up, checkpoints that it had retired); they may be
    deleted at any age. A save that it gave up after the record may have been committed. Empty unless `fence` is the
    newest and has not handed over: only the training attempt may delete.

    A name that no checkpoint of the log uses may be deleted once its attempt is over. The attempt is over if

    - it is older than ours: our fence was raised after its fence;
    - it is ours, and training is complete: nothing is committed after that. Before that, our saves may be in progress,
      also in a writer process that has outlived its trainer;
    - its number is above ours, and the log has a takeover: then it is an attempt of an earlier job, because numbers
      start again when a job is created again. Without a takeover no such attempt exists, and its data stays.

    In the last two cases the name must also be older than `limit`: a process that still writes under it may be ours, or
    may not know yet that its job was deleted.
    """
    if state.fence != fence or state.handed_over:
        return frozenset()
    in_use = state.names_in_use

    def is_over(attempt: int, age: float) -> bool:
        if attempt < fence.attempt:
            return True
        return age > limit and (state.complete is not None if attempt == fence.attempt else bool(state.former))

    def may_go(name: CheckpointName, age: float) -> bool:
        return name not in in_use and (name in dropped or is_over(name.attempt, age))

    return frozenset(name for name, age in ages.items() if may_go(name, age))
