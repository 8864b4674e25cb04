"""Rank 0 waits for the parts of other ranks and compares what they have alike. What an outage interrupts goes on."""

import math
import threading
import time
from typing import Any

import numpy as np
import pytest
from tests.support.trainer.attempts import attempt
from tests.support.trainer.stores import MemoryStorage, identity

from holdfast_train.commitlog.checkpoints import Saved
from holdfast_train.errors import (
    RankMissingError,
    RanksDifferError,
    StorageError,
    StorageFullError,
    StorageUnreachableError,
)
from holdfast_train.format import manifest
from holdfast_train.format.names import CheckpointName
from holdfast_train.format.rank_agreement import ALL_ALIKE, Apart, Sample, draw_of
from holdfast_train.format.tree import Tree, Walk
from holdfast_train.save.arena import Arena
from holdfast_train.save.job import ArrivingBytes, Job
from holdfast_train.save.messages import Failed, Save
from holdfast_train.save.plan import make_plan
from holdfast_train.save.upload import Upload
from holdfast_train.series.recorder import SeriesRecorder
from holdfast_train.series.rows import Row
from holdfast_train.series.segment import Header
from holdfast_train.storage.retrying import RetryingStorage
from holdfast_train.timings import USUAL, Timings

NAME = CheckpointName(7, 1, "0123456789ab")
AT_EACH_LOOK = Timings(fragment=-1.0)  # the time of another rank is up at each look


@pytest.fixture
def storage() -> MemoryStorage:
    return MemoryStorage()


def job_of(rank: int, state: dict[str, Any], apart: Apart = ALL_ALIKE, *, ranks: int = 2, at_most: float = 60.0) -> Job:
    """The job of one rank that has `state`, whose bytes do not matter here."""
    walk = Walk()
    tree: Tree = {"$dict": [["objects", walk.tree(state, "")]]}
    plan = make_plan(walk.leaves, len(walk.leaves), rank, ranks)
    arriving = ArrivingBytes(Arena(plan.size).view[: plan.size])
    arriving.mark_ready(plan.size, Sample(walk.leaves, draw_of(NAME)).sums())
    save = Save(NAME, NAME.step, 0, plan, tree, None, {}, {}, {}, time.monotonic(), 0.0, at_most, apart=apart)
    return Job(save, plan, arriving)


def run(
    storage: MemoryStorage, rank: int, state: dict[str, Any], apart: Apart = ALL_ALIKE, timings: Timings = USUAL
) -> Saved | None:
    """The upload of one of two ranks."""
    checkpoints = attempt(storage, identity(1)) if rank == 0 else attempt(MemoryStorage(), identity(1))
    return Upload(checkpoints, storage, rank, 2, timings=timings).run(job_of(rank, state, apart))


def state(value: int = 1, plain: int = 1) -> dict[str, Any]:
    return {"model": {"weight": np.full(3, value)}, "clip": {"mean": plain}}


def test_a_slow_rank_is_waited_for_as_long_as_it_writes(storage: MemoryStorage) -> None:
    """Breaks if a rank that is slower than rank 0 by a fixed time never gets a checkpoint."""
    run(storage, 1, state())
    key, beats = NAME.fragment_key(1), [0]
    fragment = storage.content.pop(key)

    def slowly(method: str, prefix: str) -> None:
        if (method, prefix) == ("keys", NAME.part_prefix(1)):
            beats[0] += 1
            storage.content[NAME.beat_key(1, beats[0])] = b""
            if beats[0] == 5:
                storage.content[key] = fragment

    storage.before = slowly
    assert isinstance(run(storage, 0, state(), timings=AT_EACH_LOOK), Saved)
    assert beats == [5]


def test_a_rank_that_writes_nothing_is_given_up(storage: MemoryStorage) -> None:
    with pytest.raises(StorageUnreachableError, match="rank 1 has written nothing for step 7"):
        run(storage, 0, state(), timings=AT_EACH_LOOK)


@pytest.mark.parametrize(("other", "what"), [(state(value=2), "model/weight"), (state(plain=2), "clip")])
def test_ranks_with_other_values_get_no_checkpoint(storage: MemoryStorage, other: dict[str, Any], what: str) -> None:
    run(storage, 1, other)
    with pytest.raises(RanksDifferError, match=f"step 7 is not saved: rank 1 has other values of '{what}'") as error:
        run(storage, 0, state())
    again = Failed.of(7, error.value).to_error()  # as the trainer gets it
    assert isinstance(again, RanksDifferError)
    assert (again.what, str(again)) == (what, str(error.value))


def test_what_is_saved_for_each_rank_may_differ(storage: MemoryStorage) -> None:
    apart = Apart(objects=frozenset({"clip"}))
    run(storage, 1, state(plain=2), apart)
    assert isinstance(run(storage, 0, state(), apart), Saved)


class Outage:
    """The storage is unreachable from its call number `after` of `method` on, until `end`."""

    def __init__(self, storage: MemoryStorage, method: str = "", after: int = 0, folder: str = "") -> None:
        self._storage = storage
        self._method, self._folder, self._left = method, folder, after
        self.calls: list[str] = []
        storage.before = self._before

    def _before(self, method: str, key: str) -> None:
        if method.startswith(self._method) and key.startswith(self._folder):
            if self._left == 0:
                raise StorageUnreachableError("no answer")
            self._left -= 1
        self.calls.append(f"{method} {key}")

    def end(self) -> list[str]:
        """The calls from now on."""
        self._storage.before = lambda method, key: self.calls.append(f"{method} {key}")
        self.calls = []
        return self.calls


@pytest.fixture
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(manifest, "PART_BYTES", 4096)


LARGE = {"model": {"weight": np.zeros(5 * 4096, np.uint8)}}
OUTAGES = [
    ("", 0, "", 0),
    ("write", 3, "data/", 3),
    ("put", 0, "manifests/", 5),
    ("entries", 1, "data/", 5),  # the look at the sizes
    ("put_if_absent", 0, "log/", 5),
]


@pytest.mark.parametrize(("method", "after", "folder", "uploaded"), OUTAGES)
@pytest.mark.usefixtures("small_parts")
def test_a_job_goes_on_where_an_outage_has_interrupted_it(
    storage: MemoryStorage, method: str, after: int, folder: str, uploaded: int
) -> None:
    """Breaks if what is uploaded is uploaded again, or is deleted as the rest of a failed save."""
    checkpoints = attempt(storage, identity(1))
    upload, job = Upload(checkpoints, storage, 0, 1), job_of(0, LARGE, ranks=1, at_most=math.inf)
    outage = Outage(storage, method, after, folder)
    for _ in range(3):
        with pytest.raises(StorageUnreachableError):
            upload.run(job)
        assert job.is_kept
    storage.before = lambda method, key: None
    checkpoints.sweep()
    checkpoints.log.settle()
    checkpoints.sweep()
    assert len(job.parts) == uploaded
    assert {part.key for part in job.parts.values()} <= set(storage.keys("data/"))
    calls = outage.end()
    assert isinstance(upload.run(job), Saved)
    assert not job.is_kept
    assert sum(call.startswith("write") for call in calls) == 5 - uploaded
    assert [c.name for c in checkpoints.log.state.commits] == [NAME]
    found = attempt(storage, identity(2)).newest()
    assert found is not None
    assert found.manifest.step == NAME.step


def test_a_job_whose_commit_has_come_unnoticed_commits_once(storage: MemoryStorage) -> None:
    """Breaks if the manifest is written again: its hash would not be the one in the log."""
    checkpoints = attempt(storage, identity(1))
    upload, job = Upload(checkpoints, storage, 0, 1), job_of(0, state(), ranks=1, at_most=math.inf)
    storage.lose_answers = 1
    with pytest.raises(StorageUnreachableError):
        upload.run(job)
    saved = upload.run(job)
    assert isinstance(saved, Saved)
    found = attempt(storage, identity(2)).newest()
    assert found is not None
    (commit,) = checkpoints.log.state.commits
    assert (found.seq, commit.at) == (commit.seq, saved.committed_at)
    assert checkpoints._unneeded == frozenset()


def test_a_job_that_is_dropped_is_deleted(storage: MemoryStorage) -> None:
    checkpoints = attempt(storage, identity(1))
    upload, job = Upload(checkpoints, storage, 0, 1), job_of(0, state(), ranks=1, at_most=math.inf)
    Outage(storage, "put", 0, "manifests/")
    with pytest.raises(StorageUnreachableError):
        upload.run(job)
    storage.before = lambda method, key: None
    assert storage.keys(NAME.data_prefix)
    job.drop()
    with pytest.raises(StorageError, match="given up"):
        upload.run(job)
    upload.give_up(job, "dropped")
    checkpoints.sweep()
    assert not storage.keys(NAME.data_prefix)


CASES: list[tuple[str, StorageError, bool]] = [
    ("in time", StorageUnreachableError("no answer"), True),
    ("in time", StorageFullError("no space"), False),
    ("limited", StorageUnreachableError("no answer"), False),
    ("leaving", StorageUnreachableError("no answer"), False),
    ("ended", StorageUnreachableError("no answer"), False),
    ("dropped", StorageUnreachableError("no answer"), False),
]


@pytest.mark.parametrize("rank", [0, 1])
@pytest.mark.parametrize(("how", "error", "is_kept"), CASES)
def test_only_an_outage_with_time_left_is_worth_another_try(
    storage: MemoryStorage, rank: int, how: str, error: StorageError, is_kept: bool
) -> None:
    """Breaks if a pod that has to leave waits for a storage, or if a full volume is asked for ever."""
    job = job_of(rank, LARGE, at_most=60.0 if how == "limited" else math.inf)
    upload = Upload(attempt(MemoryStorage(), identity(1)), storage, rank, 2, is_leaving=lambda: how == "leaving")

    def fail(method: str, key: str) -> None:
        if method == "write":
            if how == "ended":
                job.arriving.mark_trainer_ended()
            if how == "dropped":
                job.drop()
            raise error

    storage.before = fail
    with pytest.raises(type(error)):
        upload.run(job)
    assert job.is_kept is is_kept
    given_up = not is_kept and how != "dropped"
    assert bool(storage.keys(NAME.data_prefix)) is (rank == 1 and given_up)  # the fragment that says so


def test_a_rank_that_has_told_of_its_part_deletes_nothing(storage: MemoryStorage) -> None:
    """Breaks if a checkpoint loses parts after rank 0 has committed it: the fragment came, its answer did not."""
    upload, job = Upload(attempt(MemoryStorage(), identity(1)), storage, 1, 2), job_of(1, state(), at_most=math.inf)
    put = storage.put

    def put_without_answer(key: str, body: bytes | bytearray | memoryview) -> None:
        put(key, body)
        raise StorageUnreachableError("the answer was lost")

    storage.put = put_without_answer  # type: ignore[method-assign]
    with pytest.raises(StorageUnreachableError):
        upload.run(job)
    assert job.is_kept
    before = dict(storage.content)
    assert NAME.fragment_key(1) in before
    job.drop()
    upload.give_up(job, "a newer save has taken its place")
    assert storage.content == before


def test_rank_0_keeps_no_save_because_of_another_rank(storage: MemoryStorage) -> None:
    """Breaks if rank 0 waits for ever for a part that is lost: a new save of all ranks is certain to have all parts."""
    job = job_of(0, state(), at_most=math.inf)
    with pytest.raises(RankMissingError):
        Upload(attempt(storage, identity(1)), storage, 0, 2, timings=AT_EACH_LOOK).run(job)
    assert not job.is_kept


def test_rank_0_commits_when_another_rank_comes_back_in_time(storage: MemoryStorage) -> None:
    """Breaks if an outage of one rank costs all ranks their checkpoint."""
    other = MemoryStorage()
    other.content = storage.content
    upload_1, job_1 = Upload(attempt(MemoryStorage(), identity(1)), other, 1, 2), job_of(1, state(), at_most=math.inf)
    outage = Outage(other)
    with pytest.raises(StorageUnreachableError):
        upload_1.run(job_1)
    looks = [0]

    def look(method: str, key: str) -> None:
        looks[0] += (method, key) == ("get", NAME.fragment_key(1))
        if looks[0] == 3:
            looks[0] += 1
            outage.end()
            assert upload_1.run(job_1) is None

    checkpoints = attempt(storage, identity(1))
    storage.before = look
    assert isinstance(Upload(checkpoints, storage, 0, 2).run(job_of(0, state(), at_most=math.inf)), Saved)


@pytest.mark.parametrize(("at_most", "is_leaving"), [(60.0, False), (math.inf, True)])
def test_a_pod_that_has_to_leave_does_not_wait_for_the_history(
    storage: MemoryStorage, at_most: float, *, is_leaving: bool
) -> None:
    """Breaks if the grace of a Spot node is spent on the history."""
    go_on, were_quick = threading.Event(), list[bool]()
    slow = MemoryStorage()
    slow.before = lambda method, key: were_quick.append(go_on.wait(5))
    series = SeriesRecorder(RetryingStorage(slow), Header("uid-1", 1, "run", 0.0, resumed=None))
    series.add([Row(7, 0.0, {"loss": 1.0})])
    series.start()
    upload_of_one = Upload(
        attempt(storage, identity(1)), storage, 0, 1,
        is_leaving=lambda: is_leaving, series=series, timings=Timings(history=60.0),
    )  # fmt: skip
    assert isinstance(upload_of_one.run(job_of(0, state(), ranks=1, at_most=at_most)), Saved)
    go_on.set()
    series.end(60.0)
    assert were_quick == [True]
