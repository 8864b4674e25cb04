"""The jobs of a writer: bytes that still arrive, the order, and a job that is kept during an outage."""

import threading
import time

import pytest

from holdfast_train.errors import StorageError
from holdfast_train.format.names import CheckpointName
from holdfast_train.save.job import ArrivingBytes, Job, Jobs
from holdfast_train.save.messages import Save
from holdfast_train.save.plan import Plan
from holdfast_train.timings import USUAL


def test_a_wait_ends_when_the_bytes_are_copied() -> None:
    arriving = ArrivingBytes(memoryview(bytes(10)))
    waiting = threading.Thread(target=arriving.wait_for, args=(6,), daemon=True)
    waiting.start()
    arriving.mark_ready(5)
    waiting.join(0.1)
    assert waiting.is_alive()
    arriving.mark_ready(6)
    waiting.join(30)
    assert not waiting.is_alive()


def test_the_end_of_the_trainer_matters_only_before_the_copy_is_complete() -> None:
    complete, cut_off = ArrivingBytes(memoryview(bytes(10))), ArrivingBytes(memoryview(bytes(10)))
    complete.mark_ready(10)
    cut_off.mark_ready(9)
    for arriving in (complete, cut_off):
        arriving.mark_trainer_ended()
    complete.wait_for(10)
    with pytest.raises(StorageError, match="given up: the training process ended before its state was copied"):
        cut_off.wait_for(9)


def job(step: int) -> Job:
    name, plan = CheckpointName(step, 1, "0f"), Plan(0, 1, (), 0, 0, (), ())
    return Job(Save(name, step, 0, plan, None, None, {}, {}, {}, 0.0, 0.0, 0.0), plan, ArrivingBytes(memoryview(b"")))


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def jobs(clock: Clock) -> Jobs:
    return Jobs(clock=clock)


def test_a_kept_job_is_tried_again_after_a_while(jobs: Jobs, clock: Clock) -> None:
    """Breaks if a writer asks a store that is down without a pause, or never again."""
    first = job(1)
    jobs.add(first)
    assert jobs.next() is first
    for _ in range(3):
        jobs.keep(first)
        assert jobs._retry_at - clock.now == pytest.approx(USUAL.retry, rel=0.2)
        clock.now += 2 * USUAL.retry
        assert jobs.next() is first
    assert not first.is_dropped
    jobs.finish(first)
    jobs.end()
    assert jobs.next() is None


def test_a_kept_job_is_not_tried_before_its_time(jobs: Jobs) -> None:
    jobs.add(kept := job(1))
    assert jobs.next() is kept
    jobs.keep(kept)
    found: list[Job | None] = []
    waiting = threading.Thread(target=lambda: found.append(jobs.next()), daemon=True)
    waiting.start()
    waiting.join(0.1)
    assert waiting.is_alive()
    jobs.drop(CheckpointName(2, 1, "0f"))  # another one
    waiting.join(0.1)
    assert waiting.is_alive()
    jobs.drop(kept.save.name)
    waiting.join(30)
    assert found == [kept]
    assert kept.is_dropped
    with pytest.raises(StorageError, match="a newer save takes its place"):
        kept.check()


@pytest.mark.parametrize("when", ["before it is kept", "while it is kept", "during a further try"])
def test_a_newer_job_takes_the_place_of_a_kept_one(jobs: Jobs, clock: Clock, when: str) -> None:
    """Breaks if an outage of one checkpoint delays all later ones."""
    older, newer = job(1), job(2)
    jobs.add(older)
    assert jobs.next() is older
    if when == "before it is kept":
        jobs.add(newer)
        assert not older.is_dropped  # it may still succeed
        jobs.keep(older)
    elif when == "while it is kept":
        jobs.keep(older)
        jobs.add(newer)
    else:
        jobs.keep(older)
        clock.now += 2 * USUAL.retry
        assert jobs.next() is older
        jobs.add(newer)
        jobs.keep(older)
    assert older.is_dropped
    assert jobs.next() is older
    jobs.finish(older)
    assert jobs.next() is newer
    assert not newer.is_dropped


def test_a_kept_job_is_tried_once_more_when_the_trainer_has_ended(jobs: Jobs) -> None:
    jobs.add(kept := job(1))
    assert jobs.next() is kept
    jobs.keep(kept)
    begun = time.monotonic()
    jobs.end()
    assert jobs.next() is kept
    assert time.monotonic() - begun < USUAL.retry
    jobs.finish(kept)
    assert jobs.next() is None
