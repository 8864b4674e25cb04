"""A prune in a log that others write, too."""

import pytest
from tests.support.trainer.stores import MemoryStorage, identity

from holdfast_protocol.settings import Keep
from holdfast_train.commitlog import records
from holdfast_train.commitlog.log import CommitLog
from holdfast_train.errors import FencedError
from holdfast_train.format import names
from holdfast_train.format.names import CheckpointName

NOBODY = identity(0)


def commit(step: int) -> records.Commit:
    return records.Commit(0, step, 1, "2026-01-01T00:00:00+00:00", CheckpointName(step, 1, "0"), "00", 1)


@pytest.fixture
def storage() -> MemoryStorage:
    """Commits 3, 4 and 5 of an attempt that has handed over."""
    made = MemoryStorage()
    first = CommitLog(made, identity(1))
    first.own("Auto")
    first.raise_fence()
    for step in (10, 20, 30):
        first.commit(commit(step), Keep(9))
    first.hand_over()
    return made


def person(storage: MemoryStorage) -> CommitLog:
    found = CommitLog(storage, NOBODY)
    found.refresh()
    return found


def test_later_attempts_do_not_see_what_was_dropped(storage: MemoryStorage) -> None:
    person(storage).prune((3, 4))
    second = CommitLog(storage, identity(2))
    second.own("Auto")
    second.raise_fence()
    assert [c.step for c in second.state.commits] == [30]
    second.commit(commit(40), Keep(9))
    assert [c.step for c in second.state.commits] == [30, 40]


def test_a_fence_that_came_between_refuses(storage: MemoryStorage) -> None:
    late = person(storage)
    second = CommitLog(storage, identity(2))
    second.own("Auto")
    second.raise_fence()
    with pytest.raises(FencedError, match="attempt 2"):
        late.prune((3,))
    assert [c.step for c in person(storage).state.commits] == [10, 20, 30]


def test_a_job_that_was_created_anew_between_refuses(storage: MemoryStorage) -> None:
    late = person(storage)
    again = CommitLog(storage, identity(1, uid="uid-2"))
    again.own("Auto")
    with pytest.raises(FencedError, match="deleted and created again"):
        late.prune((3,))


def test_a_prune_of_a_checkpoint_that_another_prune_has_removed_is_refused(storage: MemoryStorage) -> None:
    late = person(storage)
    newest = late.state.seq

    def faster(method: str, key: str) -> None:
        if method == "put_if_absent" and key == names.log_key(newest + 1) and key not in storage.content:
            storage.content[key] = records.encode(
                late.state, records.draft(late.state, "prune", NOBODY, "other", "t", retired=(3,))
            )

    storage.before = faster
    with pytest.raises(FencedError, match="does not contain commit 3"):
        late.prune((3, 4))
