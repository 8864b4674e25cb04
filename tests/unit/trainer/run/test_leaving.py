"""The handover, the last act of an attempt that leaves."""

import threading
import time

import pytest
from tests.support.trainer.stores import MemoryStorage, identity

from holdfast_protocol.settings import Keep
from holdfast_train.commitlog import records
from holdfast_train.commitlog.checkpoints import Checkpoints
from holdfast_train.errors import StorageDeniedError, StorageUnreachableError
from holdfast_train.run.leaving import hand_over
from holdfast_train.storage.retrying import RetryingStorage
from holdfast_train.timings import USUAL, Timings


class Attempt:
    """Attempt 1, training."""

    def __init__(self) -> None:
        self.memory = MemoryStorage()
        self.storage = RetryingStorage(self.memory)
        self.checkpoints = Checkpoints(self.storage, identity(1), Keep())
        self.checkpoints.start("Auto")

    def hand_over(self, seconds: float, timings: Timings = USUAL) -> None:
        hand_over(self.checkpoints, self.storage, seconds, timings)

    @property
    def handovers(self) -> int:
        keys = enumerate(self.memory.keys("log/"), 1)
        return [records.decode(self.memory.content[key], seq)[0].kind for seq, key in keys].count("handover")


@pytest.fixture
def attempt() -> Attempt:
    return Attempt()


def test_handover(attempt: Attempt, capsys: pytest.CaptureFixture[str]) -> None:
    attempt.hand_over(10.0)
    attempt.hand_over(10.0)
    assert attempt.handovers == 1
    assert capsys.readouterr().err == ""


def test_handover_that_is_refused_is_one_line(attempt: Attempt, capsys: pytest.CaptureFixture[str]) -> None:
    def refuse(_method: str, _key: str) -> None:
        raise StorageDeniedError("a rotated key")

    attempt.memory.before = refuse
    attempt.hand_over(10.0)
    assert capsys.readouterr().err.count("\n") == 1
    attempt.memory.before = lambda _method, _key: None
    assert attempt.handovers == 0


def test_handover_when_the_successor_has_begun_already(attempt: Attempt, capsys: pytest.CaptureFixture[str]) -> None:
    Checkpoints(attempt.storage, identity(2), Keep()).start("Auto")
    attempt.hand_over(10.0)
    assert attempt.handovers == 0
    assert "attempt 2 (pod pod-uid-1-2) has started" in capsys.readouterr().err


def test_handover_without_time_is_not_tried(attempt: Attempt) -> None:
    attempt.hand_over(0.0)
    assert attempt.handovers == 0


def test_handover_is_tried_again_while_there_is_time(attempt: Attempt) -> None:
    failures = iter([StorageUnreachableError("down")] * 2)

    def flaky(_method: str, _key: str) -> None:
        for error in failures:
            raise error

    attempt.memory.before = flaky
    attempt.hand_over(10.0)
    assert attempt.handovers == 1


@pytest.mark.parametrize(("left", "limit"), [(0.1, 5.0), (100.0, 0.1)])
def test_a_handover_that_hangs_does_not_delay_the_end(
    attempt: Attempt, capsys: pytest.CaptureFixture[str], left: float, limit: float
) -> None:
    """One try may hang for 20 s; what is left of the grace may be less, and a long grace is not used up for this."""
    released = threading.Event()
    attempt.memory.before = lambda _method, _key: (released.wait(30), None)[1]
    started = time.monotonic()
    attempt.hand_over(left, Timings(handover=limit))
    assert time.monotonic() - started < 5
    assert "could not hand over within 0.1 s" in capsys.readouterr().err
    released.set()
