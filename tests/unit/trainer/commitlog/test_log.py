"""The log in a storage: races, lost answers, zombies."""

import json
from concurrent.futures import ThreadPoolExecutor

import pytest
from tests.support.trainer.stores import MemoryStorage, identity

from holdfast_protocol.settings import Keep
from holdfast_train.commitlog import records as log
from holdfast_train.commitlog.log import CommitLog
from holdfast_train.environment import Identity
from holdfast_train.errors import (
    AlreadyCompleteError,
    FencedError,
    HoldfastTrainError,
    StoragePrefixInUseError,
    StorageUnreachableError,
)
from holdfast_train.format import names
from holdfast_train.format.names import CheckpointName
from holdfast_train.storage.retrying import RetryingStorage


def commit(step: int) -> log.Commit:
    return log.Commit(0, step, 1, "2026-01-01T00:00:00+00:00", CheckpointName(step, 1, "0"), "00", 1)


def started(storage: MemoryStorage, who: Identity, resume: str = "Auto") -> CommitLog:
    found = CommitLog(storage, who)
    found.own(resume)
    found.raise_fence()
    return found


def kinds(storage: MemoryStorage) -> list[str]:
    return [log.decode(storage.content[key], number)[0].kind for number, key in enumerate(storage.keys("log/"), 1)]


def test_records_in_order() -> None:
    storage = MemoryStorage()
    first = started(storage, identity(1))
    first.commit(commit(10), Keep())
    second = started(storage, identity(2))
    second.commit(commit(20), Keep())
    second.complete(20)
    assert kinds(storage) == ["owner", "fence", "commit", "fence", "commit", "complete"]
    assert [c.step for c in second.state.commits] == [10, 20]


def test_zombie_commits_nothing() -> None:
    """The successor has raised its fence: nothing that the zombie does afterwards changes the log."""
    storage = MemoryStorage()
    zombie = started(storage, identity(1))
    successor = started(storage, identity(2))
    before = dict(storage.content)
    with pytest.raises(FencedError):
        zombie.commit(commit(10), Keep())
    with pytest.raises(FencedError):
        zombie.complete(10)
    assert storage.content == before
    successor.commit(commit(20), Keep())


def test_commit_without_a_fence_is_refused() -> None:
    storage = MemoryStorage()
    found = CommitLog(storage, identity(1))
    found.own("Auto")
    with pytest.raises(FencedError):
        found.commit(commit(1), Keep())
    with pytest.raises(FencedError):
        found.hand_over()


@pytest.mark.parametrize("saved", [True, False])
def test_handover_is_written_once_and_is_the_end(saved: bool) -> None:
    storage = MemoryStorage()
    first, successor = started(storage, identity(1)), CommitLog(storage, identity(2))
    if saved:
        first.commit(commit(10), Keep())
    assert successor.reason_to_pass_fence(1) is None
    first.hand_over()
    first.hand_over()
    assert kinds(storage)[2:] == [*(["commit"] if saved else []), "handover"]
    newest = len(storage.content)
    body = json.loads(storage.content[names.log_key(newest)])
    assert (body["identity"]["attempt"], body["step"]) == (1, 10 if saved else None)
    for write in (lambda: first.commit(commit(11), Keep()), lambda: first.complete(11)):
        with pytest.raises(FencedError, match="attempt 1 has handed over"):
            write()
    assert successor.reason_to_pass_fence(1) == "attempt 1 has handed over" + (" at step 10" if saved else "")
    started(storage, identity(2)).commit(commit(20), Keep())
    assert kinds(storage)[newest:] == ["fence", "commit"]


def test_zombie_hands_nothing_over() -> None:
    """Else it would end the hold of the successor's successor, while the successor trains."""
    storage = MemoryStorage()
    zombie = started(storage, identity(1))
    started(storage, identity(2))
    with pytest.raises(FencedError, match="attempt 2"):
        zombie.hand_over()
    assert kinds(storage) == ["owner", "fence", "fence"]


def test_what_is_complete_says_how_to_train_on() -> None:
    storage = MemoryStorage()
    started(storage, identity(1)).complete(7)
    with pytest.raises(AlreadyCompleteError, match="completed at step 7") as ended:
        started(storage, identity(2))
    assert str(ended.value).endswith(
        f"; to continue it, start a job on another prefix with checkpoint.resume: {storage.uri}"
    )


def test_what_is_complete_at_a_step_that_nobody_knows() -> None:
    """A file such as ckpt.pt says no step, and the training was not complete at step 0."""
    storage = MemoryStorage()
    started(storage, identity(1)).complete(0)
    with pytest.raises(AlreadyCompleteError, match=r"^training was completed, by the checkpoint log"):
        started(storage, identity(2))


def test_lost_answer_is_recognised_as_our_own_record() -> None:
    """Otherwise a commit would be written twice, or taken for the commit of another attempt."""
    storage = MemoryStorage()
    patient = RetryingStorage(storage, sleep=lambda _: None)
    found = CommitLog(patient, identity(1))
    with patient.within(60):
        found.own("Auto")
        found.raise_fence()
        storage.lose_answers = 1
        found.commit(commit(10), Keep())
        storage.lose_answers = 1
        found.hand_over()
    assert kinds(storage) == ["owner", "fence", "commit", "handover"]
    assert found.state.seq == 4


class LateStorage(MemoryStorage):
    """The next append to the log gets no answer, and takes effect only when the one after it is tried."""

    late: tuple[str, bytes] | None = None
    is_on = False

    def put_if_absent(self, key: str, body: bytes) -> bool:
        if self.is_on:
            self.is_on, self.late = False, (key, body)
            raise StorageUnreachableError("no answer")
        if self.late is not None:
            late, self.late = self.late, None
            super().put_if_absent(*late)
        return super().put_if_absent(key, body)


@pytest.mark.parametrize("when", ["at once", "late", "never"])
def test_a_commit_that_is_tried_again_is_in_the_log_once(when: str) -> None:
    """Breaks if a save that is kept in an outage is committed twice, or does not retire what its commit retires."""
    storage = LateStorage()
    found = started(storage, identity(1))
    found.commit(commit(10), Keep(last=1))
    storage.lose_answers = int(when == "at once")
    storage.is_on = when != "at once"
    with pytest.raises(StorageUnreachableError):
        found.commit(commit(20), Keep(last=1))
    if when == "never":
        storage.late = None
    record, retired = found.commit(commit(20), Keep(last=1))
    assert kinds(storage) == ["owner", "fence", "commit", "commit"]
    assert (record.seq, record.kind, [c.step for c in retired]) == (4, "commit", [10])
    assert [c.step for c in found.state.commits] == [20]


def test_race_of_many_starts_has_one_order() -> None:
    storage = MemoryStorage()

    def start(attempt: int) -> str:
        try:
            started(storage, identity(attempt))
        except FencedError:
            return "fenced"
        return "started"

    with ThreadPoolExecutor(8) as pool:
        results = list(pool.map(start, range(1, 17)))
    assert results[-1] == "started"
    records = [log.decode(storage.content[names.log_key(n)], n)[0] for n in range(2, len(storage.content) + 1)]
    fences = [record.identity.attempt for record in records]
    assert fences == sorted(fences)
    assert len(fences) == results.count("started")


def test_two_jobs_on_one_prefix_at_once() -> None:
    storage = MemoryStorage()
    jobs = [identity(1, uid=f"uid-{n}", job=f"job-{n}") for n in range(8)]

    def start(who: Identity) -> str:
        try:
            started(storage, who)
        except HoldfastTrainError as error:
            return error.reason
        return "started"

    with ThreadPoolExecutor(8) as pool:
        results = list(pool.map(start, jobs))
    assert sorted(results) == ["StoragePrefixInUse"] * 7 + ["started"]


def test_another_job_gets_the_name_of_the_prefix_owner() -> None:
    storage = MemoryStorage()
    started(storage, identity(1))
    with pytest.raises(StoragePrefixInUseError, match="ns/job;"):
        started(storage, identity(1, uid="u", job="other"))


def test_takeover_is_explicit_and_final() -> None:
    storage = MemoryStorage()
    old = started(storage, identity(5))
    old.commit(commit(10), Keep())
    new = started(storage, identity(1, uid="uid-2"))
    assert kinds(storage)[-2:] == ["takeover", "fence"]
    assert [c.step for c in new.state.commits] == [10]
    with pytest.raises(FencedError):
        old.commit(commit(11), Keep())
    with pytest.raises(FencedError):
        started(storage, identity(6))


def test_retired_commits_leave_the_state_with_the_commit() -> None:
    storage = MemoryStorage()
    found = started(storage, identity(1))
    for step in range(1, 5):
        record, _ = found.commit(commit(step), Keep(last=2))
    assert [c.step for c in found.state.commits] == [3, 4]
    assert len(record.retired) == 1
    fresh = CommitLog(storage, identity(1))
    assert fresh.refresh() == found.state


def broken(storage: MemoryStorage) -> list[tuple[int, bool]]:
    found = CommitLog(storage, identity(0))
    return [(c.step, c.corrupt) for c in found.refresh().commits]


def test_quarantine_is_durable_and_fenced() -> None:
    storage = MemoryStorage()
    first = started(storage, identity(1))
    numbers = [first.commit(commit(step), Keep())[0].seq for step in (10, 20)]
    second = started(storage, identity(2))
    second.quarantine((numbers[1],))
    assert broken(storage) == [(10, False), (20, True)]
    with pytest.raises(FencedError, match="attempt 2"):
        first.quarantine((numbers[0],))
    second.hand_over()
    assert json.loads(storage.content[names.log_key(len(storage.content))])["step"] == 10
    with pytest.raises(FencedError, match="handed over"):
        second.quarantine((numbers[0],))
    person = CommitLog(storage, identity(0))
    person.refresh()
    person.release((numbers[1],))
    assert broken(storage) == [(10, False), (20, False)]
    started(storage, identity(3))
    with pytest.raises(FencedError, match="attempt 3"):
        person.release((numbers[1],))


def test_a_person_of_the_job_before_takes_nothing_back() -> None:
    storage = MemoryStorage()
    first = started(storage, identity(1))
    number = first.commit(commit(10), Keep())[0].seq
    first.hand_over()
    person = CommitLog(storage, identity(0))
    person.refresh()
    CommitLog(storage, identity(1, uid="uid-2")).own("Auto")
    with pytest.raises(FencedError, match="deleted and created again"):
        person.release((number,))
