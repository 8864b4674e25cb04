"""The wait at the fence: what ends it, and how soon. A poll takes longer than a test, so the end must wake the wait."""

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from holdfast_train.errors import StorageDeniedError, StorageError, StorageUnreachableError
from holdfast_train.ranks import Ranks
from holdfast_train.run.fence_wait import FenceWait
from holdfast_train.run.notice import Notice
from holdfast_train.timings import Timings

POLL = 60.0
ALONE = Ranks(connect=False)


SLOW, QUICK = Timings(fence_look=POLL), Timings(fence_look=0.01)


class Waiting:
    """A wait at the fence with its notice, in this thread. `looked` is set once the log has been read."""

    def __init__(self, timings: Timings = SLOW) -> None:
        self.fence_wait = FenceWait(timings)
        self.notice = Notice(20.0, on_given=self.fence_wait.end)
        self.looked = threading.Event()
        self.looks = 0

    def nothing(self) -> str | None:
        self.looks += 1
        self.looked.set()
        return None

    def wait(self, look: Callable[[], str | None] | None = None) -> bool:
        started = time.monotonic()
        go = self.fence_wait.wait(ALONE, self.notice, look or self.nothing)
        assert time.monotonic() - started < POLL / 4
        return go

    def then(self, act: Callable[[], object]) -> threading.Thread:
        """`act` in another thread, once the log has been looked at."""

        def later() -> None:
            self.looked.wait(10)  # where it never comes the test goes on, and fails
            act()

        thread = threading.Thread(target=later, daemon=True)
        thread.start()
        return thread


@pytest.fixture
def waiting() -> Iterator[Waiting]:
    found = Waiting()
    yield found
    found.notice.stop_listening()


@pytest.fixture
def quick() -> Iterator[Waiting]:
    """One that looks at the log again and again."""
    found = Waiting(QUICK)
    yield found
    found.notice.stop_listening()


def test_order_ends_it_at_once(waiting: Waiting, capsys: pytest.CaptureFixture[str]) -> None:
    waiting.then(lambda: waiting.fence_wait.end("ordered to pass the fence (a test)"))
    assert waiting.wait()
    assert capsys.readouterr().err.strip().endswith("until: ordered to pass the fence (a test)")


def test_order_may_come_first(waiting: Waiting) -> None:
    waiting.fence_wait.end("ordered to pass the fence")
    assert waiting.wait()


def test_log_ends_it_with_its_first_reading(waiting: Waiting, capsys: pytest.CaptureFixture[str]) -> None:
    assert waiting.wait(lambda: "attempt 1 has handed over at step 7")
    assert capsys.readouterr().err.strip().endswith("until: attempt 1 has handed over at step 7")


def test_log_is_read_again_and_again(quick: Waiting) -> None:
    answers = iter([None, None, "attempt 1 has handed over"])
    assert quick.wait(lambda: next(answers))


def test_log_is_read_no_more_afterwards(quick: Waiting) -> None:
    """Breaks if the thread reads the log as long as training lasts."""
    quick.then(lambda: quick.fence_wait.end("ordered to pass the fence"))
    assert quick.wait()
    for thread in threading.enumerate():
        if thread.name == "holdfast-fence-wait":
            thread.join(5)
            assert not thread.is_alive()


@pytest.mark.parametrize("error", [StorageUnreachableError("down"), StorageDeniedError("a rotated key")])
def test_log_that_cannot_be_read_is_said_once(
    quick: Waiting, capsys: pytest.CaptureFixture[str], error: StorageError
) -> None:

    def fail() -> str | None:
        quick.looks += 1
        if quick.looks == 3:
            quick.looked.set()
        raise error

    quick.then(lambda: quick.fence_wait.end("ordered to pass the fence"))
    assert quick.wait(fail)
    assert quick.looks >= 3
    assert capsys.readouterr().err.count(str(error)) == 1


def test_log_that_answers_again_ends_it(quick: Waiting) -> None:

    def look() -> str | None:
        quick.looks += 1
        if quick.looks < 3:
            raise StorageUnreachableError("down")
        return "attempt 1 has handed over"

    assert quick.wait(look)


@pytest.mark.parametrize("order", [True, False])
def test_a_storage_that_hangs_does_not_delay_the_order(waiting: Waiting, order: bool) -> None:
    """An order and SIGTERM end the wait during a call that takes 20 s to fail."""
    released = threading.Event()

    def hang() -> str | None:
        waiting.looked.set()
        released.wait(POLL)
        return None

    waiting.then(
        lambda: (
            waiting.fence_wait.end("ordered to pass the fence") if order else waiting.notice.give(5.0, "a drain order")
        )
    )
    assert waiting.wait(hang) == order
    released.set()


def test_sigterm_ends_it_at_once(waiting: Waiting, capsys: pytest.CaptureFixture[str]) -> None:
    waiting.notice.listen()
    waiting.then(lambda: os.kill(os.getpid(), signal.SIGTERM))
    assert not waiting.wait()
    assert capsys.readouterr().err.strip().endswith("until: notice to leave (SIGTERM)")


def test_notice_before_it_begins(waiting: Waiting) -> None:
    waiting.notice.give(5.0, "a drain order")
    assert not waiting.wait()


def test_leaving_is_stronger_than_an_order(waiting: Waiting) -> None:
    waiting.fence_wait.end("ordered to pass the fence")
    waiting.notice.give(5.0, "a drain order")
    assert not waiting.wait()


def test_says_how_long(capsys: pytest.CaptureFixture[str]) -> None:
    times = iter([100.0, 112.34])
    one = FenceWait(clock=lambda: next(times))
    one.end("ordered to pass the fence (a test)")
    assert one.wait(ALONE, Notice(20.0), lambda: None)
    assert "waited at the fence for 12.3 s, until: ordered to pass the fence (a test)\n" in capsys.readouterr().err


class Pair(Ranks):
    """One of two ranks, in a thread."""

    def __init__(self, rank: int, barrier: threading.Barrier, flags: dict[int, tuple[bool, bool]]) -> None:
        super().__init__(connect=False)
        self.rank = rank
        self._barrier = barrier
        self._both = flags

    def any(self, leave: bool, save: bool) -> tuple[bool, bool]:
        self._both[self.rank] = leave, save
        self._barrier.wait(20)
        found = any(f[0] for f in self._both.values()), any(f[1] for f in self._both.values())
        self._barrier.wait(20)
        return found


@pytest.mark.parametrize("told", [None, 0, 1])
def test_ranks_go_and_leave_together(capsys: pytest.CaptureFixture[str], told: int | None) -> None:
    """Also if only one of them has a notice. Only rank 0 reads the log and prints the reason."""
    barrier, flags = threading.Barrier(2), dict[int, tuple[bool, bool]]()
    fence_waits = [FenceWait(QUICK), FenceWait(QUICK)]
    notices = [Notice(20.0, on_given=one.end) for one in fence_waits]
    looks = [0, 0]

    def wait(rank: int) -> bool:
        def look() -> str | None:
            looks[rank] += 1
            if looks[rank] == 3:
                if told is None:
                    return "attempt 1 has handed over"
                notices[told].give(5.0, "a drain order")
            return None

        return fence_waits[rank].wait(Pair(rank, barrier, flags), notices[rank], look)

    with ThreadPoolExecutor(2) as pool:
        assert list(pool.map(wait, range(2))) == [told is None] * 2
    assert looks[1] == 0
    said = capsys.readouterr().err
    assert said.count("waited at the fence") == 1
    assert {None: "handed over", 0: "(a drain order)", 1: "(another rank has to leave)"}[told] in said
