"""The recorder: what it writes, when, and what it does when the storage does not take it."""

import random
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from tests.support.trainer.stores import MemoryStorage
from tests.support.waiting import wait_for

from holdfast_train.errors import StorageDeniedError
from holdfast_train.series import recorder
from holdfast_train.series.recorder import BYTES_AN_HOUR, SeriesRecorder
from holdfast_train.series.rows import Row
from holdfast_train.series.segment import MOST_ROWS, Header, Segment, decode
from holdfast_train.storage.retrying import RetryingStorage

HEADER = Header("uid-1", 2, "run", 0.0, 10)
SECONDS = 30.0


class Clock:
    """Seconds that pass only when a test says so."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@contextmanager
def recording(storage: MemoryStorage, clock: Clock) -> Iterator[SeriesRecorder]:
    made = SeriesRecorder(RetryingStorage(storage), HEADER, clock=clock)
    made.start()
    yield made
    made.end(SECONDS)
    assert not made._thread.is_alive()


def rows(*steps: int) -> list[Row]:
    return [Row(step, float(step), {"loss": random.random()}) for step in steps]


def segments(storage: MemoryStorage) -> list[Segment]:
    """In the order of their first steps."""
    return [decode(key, storage.content[key]) for key in storage.keys("series/")]


# Breaks if a commit names what does not exist, names it twice, or leaves out what was written without a commit.
def test_a_request_writes_what_there_is() -> None:
    storage = MemoryStorage()
    with recording(storage, Clock()) as made:
        made.add(rows(11, 12))
        (first,) = made.written(made.request(), SECONDS)
        made.add(rows(13))
        second = made.written(made.request(), SECONDS)[1]
        assert made.written(made.request(), SECONDS) == (first, second)
        made.mark_named((first, second))
        assert made.written(made.request(), SECONDS) == ()
        made.add(rows(14))
    found = segments(storage)
    assert [[row.step for row in one.rows] for one in found] == [[11, 12], [13], [14]]
    assert [one.header.previous for one in found] == [None, first, second]
    assert found[0].header == HEADER


# Breaks if rows are written only with commits: a node that is lost would take all others with it.
def test_rows_are_written_without_a_commit(monkeypatch: pytest.MonkeyPatch) -> None:
    storage = MemoryStorage()
    monkeypatch.setattr(recorder, "FIRST_PAUSE", 0.01)
    made = SeriesRecorder(RetryingStorage(storage), HEADER)
    made.add(rows(11))
    made.start()
    wait_for(lambda: storage.keys("series/"), SECONDS, "a segment")
    made.end(SECONDS)


# Breaks if a storage that refuses the history loses rows, fails a commit, or fills the log with words.
def test_a_refusal_is_said_once_and_tried_again(capsys: pytest.CaptureFixture[str]) -> None:
    storage = MemoryStorage()

    def refuse(method: str, key: str) -> None:
        raise StorageDeniedError("no permission")

    storage.before = refuse
    with recording(storage, Clock()) as made:
        made.add(rows(11))
        for _ in range(3):
            assert made.written(made.request(), SECONDS) == ()
        storage.before = lambda method, key: None
        made.add(rows(12))
        assert len(made.written(made.request(), SECONDS)) == 1
    assert [row.step for row in segments(storage)[0].rows] == [11, 12]
    assert capsys.readouterr().err.count("no permission") == 1


# Breaks if an error that no storage should raise ends the thread, or if rows are lost with it.
def test_an_unexpected_error_is_said_once_and_tried_again(capsys: pytest.CaptureFixture[str]) -> None:
    storage = MemoryStorage()

    def fail(method: str, key: str) -> None:
        raise MemoryError("no memory")

    storage.before = fail
    with recording(storage, Clock()) as made:
        made.add(rows(11))
        for _ in range(3):
            assert made.written(made.request(), SECONDS) == ()
        assert made._thread.is_alive()
        storage.before = lambda method, key: None
        assert len(made.written(made.request(), SECONDS)) == 1
    assert [row.step for row in segments(storage)[0].rows] == [11]
    assert capsys.readouterr().err.count("MemoryError: no memory") == 1


# Breaks if a save waits for a thread that is gone: it would wait in each one.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_nothing_waits_for_a_thread_that_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    def end(*_: object, **__: object) -> None:
        raise SystemError("gone")

    made = SeriesRecorder(RetryingStorage(MemoryStorage()), HEADER, clock=Clock())
    monkeypatch.setattr(made, "_tried", end)
    made.add(rows(11))
    made.start()
    made.written(made.request(), 60 * SECONDS)
    made._thread.join(SECONDS)
    assert not made._thread.is_alive()
    assert made._has_ended


# Breaks if a commit waits for a storage that is slow with the history.
def test_a_request_that_takes_long_is_not_waited_for() -> None:
    storage, go_on = MemoryStorage(), threading.Event()

    def wait(method: str, key: str) -> None:
        go_on.wait(SECONDS)

    storage.before = wait
    with recording(storage, Clock()) as made:
        made.add(rows(11))
        assert made.written(made.request(), 0.0) == ()
        go_on.set()


# Breaks if the order to leave comes while a commit waits for the history, and the commit waits on.
def test_nothing_is_waited_for_once_the_pod_has_to_leave() -> None:
    storage, go_on, were_quick = MemoryStorage(), threading.Event(), list[bool]()

    def order_to_leave(method: str, key: str) -> None:
        made.hurry()
        were_quick.append(go_on.wait(5))

    storage.before = order_to_leave
    with recording(storage, Clock()) as made:
        made.add(rows(11))
        assert made.written(made.request(), SECONDS) == ()
        go_on.set()
    assert were_quick == [True]


# Breaks if the end of a training is missing in its history because the bytes of the hour were used up before.
def test_the_last_rows_are_written_also_if_the_hour_has_no_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recorder, "BURST", 4 << 10)
    storage = MemoryStorage()
    with recording(storage, Clock()) as made:
        last = 0
        for _ in range(10):  # until rows have to wait
            made.add(rows(*range(last + 1, last + 101)))
            last += 100
            made.written(made.request(), SECONDS)
        assert segments(storage)[-1].rows[-1].step < last
    assert segments(storage)[-1].rows[-1].step == last
    assert all(len(one.rows) <= MOST_ROWS for one in segments(storage))


# Breaks if nobody learns that the end of a history is missing: a storage that refuses, and one that does not answer.
@pytest.mark.parametrize("answers", [True, False])
def test_rows_that_are_lost_at_the_end_are_said(capsys: pytest.CaptureFixture[str], *, answers: bool) -> None:
    storage, go_on = MemoryStorage(), threading.Event()

    def refuse(method: str, key: str) -> None:
        if not answers:
            go_on.wait(SECONDS)
        raise StorageDeniedError("no permission")

    storage.before = refuse
    made = SeriesRecorder(RetryingStorage(storage), HEADER, clock=Clock())
    made.start()
    made.add(rows(11, 12))
    made.end(SECONDS if answers else 0.01)
    assert "the history of steps 11 to 12 is not written" in capsys.readouterr().err
    go_on.set()


# Breaks if a fast training with frequent commits fills the storage.
@pytest.mark.parametrize("names", [1, 16])
def test_an_hour_has_at_most_a_mebibyte(names: int) -> None:
    storage, clock, draw = MemoryStorage(), Clock(), random.Random(1)
    with recording(storage, clock) as made:
        for number in range(240):  # a commit every 15 seconds
            clock.now = 15.0 * number
            first = number * 100
            made.add(
                [
                    Row(step, clock.now, {f"metric{n}": draw.random() for n in range(names)})
                    for step in range(first, first + 100)
                ]
            )
            made.written(made.request(), SECONDS)
    written = sum(len(body) for key, body in storage.content.items() if key.startswith("series/"))
    assert written <= BYTES_AN_HOUR
    assert written > (BYTES_AN_HOUR // 2 if names == 16 else 50_000)
    found = segments(storage)
    assert found[-1].rows[-1].step == 23_999
    assert all(len(one.rows) <= MOST_ROWS for one in found)


def test_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recorder, "WAITING", 100)
    made = SeriesRecorder(RetryingStorage(MemoryStorage()), HEADER, clock=Clock())
    for step in range(1000):
        made.add(rows(step))
    assert 50 <= len(made._rows) <= 100
    assert (made._rows[0].step, made._rows[-1].step) == (0, 999)
