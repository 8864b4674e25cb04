"""The share of time that training waits for data, with a clock of the test's own."""

import threading
from collections.abc import Iterator

import pytest

from holdfast_train.data_wait import LEAST_STEPS, WINDOW, DataShare, DataWait


class Training:
    """A loop that takes a second a step, beside the wait for its loader."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now, self.slow = 100.0, 0.0
        for clock in ("perf_counter", "monotonic"):
            monkeypatch.setattr(f"holdfast_train.data_wait.{clock}", lambda: self.now)
        self.wait = DataWait()
        self.share = DataShare(self.wait)
        self.data = self.wait.over(self.batches())

    def batches(self) -> Iterator[int]:
        number = 0
        while True:
            self.now += self.slow
            yield number
            number += 1

    def train(self, steps: int, slow: float) -> None:
        """So many steps, each of which waits `slow` seconds."""
        self.slow = slow
        for _, _ in zip(range(steps), self.data, strict=False):
            self.now += 1.0
            self.share.end_step()


@pytest.fixture
def training(monkeypatch: pytest.MonkeyPatch) -> Training:
    return Training(monkeypatch)


# Breaks if the first step counts, in which a loader starts its workers.
def test_the_share_of_a_step(training: Training) -> None:
    training.train(1, 500.0)
    training.train(LEAST_STEPS - 1, 3.0)
    assert training.share.take() is None
    training.train(4, 3.0)
    assert training.share.take() == pytest.approx(0.75)


# Breaks if a loader that has become quick counts as slow for ever, or if one slow batch counts as starved at once.
def test_old_steps_are_forgotten(training: Training) -> None:
    training.train(30, 3.0)
    assert training.share.take() == pytest.approx(0.75)
    training.train(10, 0.0)
    assert 0.6 < (training.share.take() or 0) < 0.75
    for _ in range(10):
        training.train(int(WINDOW / 8), 0.0)
        found = training.share.take()
    assert found == 0.0
    assert len(training.share._past) < 12


# Breaks if steps that are longer than the window have no share.
def test_long_steps(training: Training) -> None:
    for _ in range(12):
        training.train(1, 9 * WINDOW)
        training.share.take()
    assert training.share.take() == pytest.approx(9 * WINDOW / (9 * WINDOW + 1))


# Breaks if a program whose loader is not timed looks as if it never waited.
def test_nothing_is_said_of_a_loader_that_is_not_timed(training: Training) -> None:
    training.data = training.batches()
    training.train(20, 1.0)
    assert training.share.take() is None


# Breaks if a thread that prefetches, for which training does not wait, counts as a wait.
def test_other_threads_do_not_count(training: Training) -> None:
    training.train(2, 1.0)
    waited = training.wait.seconds
    assert waited == 1.0  # of the second step
    thread = threading.Thread(target=lambda: next(iter(training.data)))
    thread.start()
    thread.join()
    assert training.wait.seconds == waited


# Breaks if a loader around a loader counts the same wait twice.
def test_a_loader_in_a_loader_counts_once(training: Training) -> None:
    training.data = training.wait.over(training.data)
    training.train(11, 1.0)
    assert training.share.take() == pytest.approx(0.5)


def test_the_items_the_end_and_the_errors_are_those_of_the_loader(training: Training) -> None:
    numbers = training.wait.over([1, 2, 3])
    training.share.end_step()
    assert (list(numbers), list(numbers), len(numbers)) == ([1, 2, 3], [1, 2, 3], 3)

    def broken() -> Iterator[int]:
        yield 1
        raise ValueError("no such file")

    with pytest.raises(ValueError, match="no such file"):
        list(training.wait.over(broken()))
    assert list(training.wait.over(iter([4]))) == [4]
