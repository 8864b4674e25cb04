"""The wait of a successor: what ends it, and how soon. Its poll takes longer than a test: what ends it must wake it."""

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from holdfast_train.errors import StorageDeniedError, StorageError, StorageUnreachableError
from holdfast_train.ranks import Ranks
from holdfast_train.run import fence_wait
from holdfast_train.run.fence_wait import Hold
from holdfast_train.run.notice import Notice

POLL = 60.0
ALONE = Ranks(connect=False)


@pytest.fixture(autouse=True)
def slow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fence_wait, "POLL_SECONDS", POLL)


def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fence_wait, "POLL_SECONDS", 0.01)


class Held:
    """A hold with its notice, waiting in this thread. `looked` is set once the log has been looked at."""

    def __init__(self) -> None:
        self.hold = Hold()
        self.notice = Notice(20.0, told=self.hold.end)
        self.looked = threading.Event()
        self.looks = 0

    def nothing(self) -> str | None:
        self.looks += 1
        self.looked.set()
        return None

    def wait(self, look: Callable[[], str | None] | None = None) -> bool:
        started = time.monotonic()
        go = self.hold.wait(ALONE, self.notice, look or self.nothing)
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
def held() -> Iterator[Held]:
    found = Held()
    yield found
    found.notice.stop_listening()


def test_order_ends_it_at_once(held: Held, capsys: pytest.CaptureFixture[str]) -> None:
    held.then(lambda: held.hold.end("told to go on (a test)"))
    assert held.wait()
    assert capsys.readouterr().err.strip().endswith("until: told to go on (a test)")


def test_order_may_come_first(held: Held) -> None:
    held.hold.end("told to go on")
    assert held.wait()


def test_log_ends_it_with_its_first_reading(held: Held, capsys: pytest.CaptureFixture[str]) -> None:
    assert held.wait(lambda: "attempt 1 has handed over at step 7")
    assert capsys.readouterr().err.strip().endswith("until: attempt 1 has handed over at step 7")


def test_log_is_read_again_and_again(held: Held, monkeypatch: pytest.MonkeyPatch) -> None:
    quick(monkeypatch)
    answers = iter([None, None, "attempt 1 has handed over"])
    assert held.wait(lambda: next(answers))


def test_log_is_read_no_more_afterwards(held: Held, monkeypatch: pytest.MonkeyPatch) -> None:
    """The thread would read the log for as long as the training lasts."""
    quick(monkeypatch)
    held.then(lambda: held.hold.end("told to go on"))
    assert held.wait()
    for thread in threading.enumerate():
        if thread.name == "holdfast-hold":
            thread.join(5)
            assert not thread.is_alive()


@pytest.mark.parametrize("error", [StorageUnreachableError("down"), StorageDeniedError("a rotated key")])
def test_log_that_cannot_be_read_is_said_once(
    held: Held, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], error: StorageError
) -> None:
    quick(monkeypatch)

    def fail() -> str | None:
        held.looks += 1
        if held.looks == 3:
            held.looked.set()
        raise error

    held.then(lambda: held.hold.end("told to go on"))
    assert held.wait(fail)
    assert held.looks >= 3
    assert capsys.readouterr().err.count(str(error)) == 1


def test_log_that_answers_again_ends_it(held: Held, monkeypatch: pytest.MonkeyPatch) -> None:
    quick(monkeypatch)

    def look() -> str | None:
        held.looks += 1
        if held.looks < 3:
            raise StorageUnreachableError("down")
        return "attempt 1 has handed over"

    assert held.wait(look)


@pytest.mark.parametrize("order", [True, False])
def test_storage_that_hangs_delays_nobody(held: Held, order: bool) -> None:
    """An order, or SIGTERM: neither has to wait for the end of a call that takes 20 s to fail."""
    released = threading.Event()

    def hang() -> str | None:
        held.looked.set()
        released.wait(POLL)
        return None

    held.then(lambda: held.hold.end("told to go on") if order else held.notice.give(5.0, "a drain order"))
    assert held.wait(hang) == order
    released.set()


def test_sigterm_ends_it_at_once(held: Held, capsys: pytest.CaptureFixture[str]) -> None:
    held.notice.listen()
    held.then(lambda: os.kill(os.getpid(), signal.SIGTERM))
    assert not held.wait()
    assert capsys.readouterr().err.strip().endswith("until: told to leave (SIGTERM)")


def test_notice_before_it_begins(held: Held) -> None:
    held.notice.give(5.0, "a drain order")
    assert not held.wait()


def test_leaving_is_stronger_than_an_order(held: Held) -> None:
    held.hold.end("told to go on")
    held.notice.give(5.0, "a drain order")
    assert not held.wait()


def test_says_how_long(capsys: pytest.CaptureFixture[str]) -> None:
    times = iter([100.0, 112.34])
    hold = Hold(clock=lambda: next(times))
    hold.end("told to go on (a test)")
    assert hold.wait(ALONE, Notice(20.0), lambda: None)
    assert "held at the fence for 12.3 s, until: told to go on (a test)\n" in capsys.readouterr().err


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
def test_ranks_go_and_leave_together(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], told: int | None
) -> None:
    """Also where only one of them is told, whichever it is. Rank 0 alone reads the log, and says why."""
    quick(monkeypatch)
    barrier, flags = threading.Barrier(2), dict[int, tuple[bool, bool]]()
    holds = [Hold(), Hold()]
    notices = [Notice(20.0, told=hold.end) for hold in holds]
    looks = [0, 0]

    def wait(rank: int) -> bool:
        def look() -> str | None:
            looks[rank] += 1
            if looks[rank] == 3:
                if told is None:
                    return "attempt 1 has handed over"
                notices[told].give(5.0, "a drain order")
            return None

        return holds[rank].wait(Pair(rank, barrier, flags), notices[rank], look)

    with ThreadPoolExecutor(2) as pool:
        assert list(pool.map(wait, range(2))) == [told is None] * 2
    assert looks[1] == 0
    said = capsys.readouterr().err
    assert said.count("held at the fence") == 1
    assert {None: "handed over", 0: "(a drain order)", 1: "(another rank was told)"}[told] in said
