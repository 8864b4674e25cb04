"""Ranks agree on a step only when one asks for it. Ranks are threads here, with a real store."""

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from threading import Event
from typing import Any

import pytest
import torch.distributed
from tests.support.waiting import wait_for

from holdfast_train.errors import StateError
from holdfast_train.run.step_agreement import StepAgreement
from holdfast_train.timings import USUAL, Timings

WAIT = 30.0


class World:
    """Ranks that share a store. `leaving`: the ranks that have a notice."""

    def __init__(self, size: int, timings: Timings = USUAL) -> None:
        self.store = torch.distributed.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
        self.leaving: set[int] = set()
        self.ranks = [
            StepAgreement(rank, size, self.store.clone, self._must_leave(rank), timings) for rank in range(size)
        ]

    def _must_leave(self, rank: int) -> Callable[[], bool]:
        return lambda: rank in self.leaving

    def start(self, *ranks: StepAgreement, agreed: bool = False) -> None:
        for rank in ranks or self.ranks:
            rank.start(0, agreed=agreed)

    def until(self, rank: StepAgreement, step: int) -> int:
        """Train `rank` from `step` on: the step on which it acts."""
        while not rank.is_agreed(step):
            step += 1
        return step


@pytest.fixture
def pair() -> Iterator[World]:
    world = World(2)
    yield world
    for rank in world.ranks:
        rank.close()


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(8) as found:
        yield found


def test_one_rank_acts_after_every_step() -> None:
    alone = StepAgreement()
    alone.start(0, agreed=False)
    assert all(alone.is_agreed(step) for step in range(1, 4))
    alone.ask()
    alone.ask_and_wait()
    alone.close()


def test_ranks_exchange_nothing_until_one_asks(pair: World) -> None:
    """Breaks if a step waits for another rank: this one does a thousand steps before the other does one."""
    pair.start()
    assert not any(pair.ranks[0].is_agreed(step) for step in range(1, 1000))
    assert pair.store.num_keys() <= 1


@pytest.mark.parametrize("asks", [0, 1])
def test_they_act_after_the_first_step_that_none_has_done(pair: World, pool: ThreadPoolExecutor, asks: int) -> None:
    pair.start()
    for step in range(1, 8):
        pair.ranks[1].is_agreed(step)
    for step in range(1, 4):
        pair.ranks[0].is_agreed(step)
    pair.ranks[asks].ask_and_wait()
    acted: list[Future[int]] = [pool.submit(pair.until, pair.ranks[0], 4), pool.submit(pair.until, pair.ranks[1], 8)]
    assert [one.result(WAIT) for one in acted] == [8, 8]


def test_a_rank_whose_step_takes_hours_answers_all_the_same(pair: World) -> None:
    """Rank 1 is in its third step and calls nothing."""
    pair.start()
    for step in (1, 2):
        pair.ranks[1].is_agreed(step)
    pair.ranks[0].ask_and_wait()
    assert [pair.ranks[0].is_agreed(step) for step in (1, 2, 3)] == [False, False, True]


def test_a_rank_that_has_answered_begins_no_step_before_the_answer_of_all(pool: ThreadPoolExecutor) -> None:
    world = World(2)
    world.start(world.ranks[0])
    world.ranks[0].ask()
    wait_for(lambda: world.ranks[0]._is_open, WAIT, "rank 0 to answer")
    step = pool.submit(world.ranks[0].is_agreed, 1)
    assert not step.done()
    world.start(world.ranks[1])
    assert step.result(WAIT)
    assert world.ranks[1].is_agreed(1)
    for rank in world.ranks:
        rank.close()


def test_they_agree_again_and_again_and_leave_no_keys_behind(pair: World, pool: ThreadPoolExecutor) -> None:
    pair.start()
    last = [0, 0]
    for number in range(20):
        pair.ranks[number % 2].ask_and_wait()
        acted = [pool.submit(pair.until, rank, at + 1) for rank, at in zip(pair.ranks, last, strict=True)]
        last = [one.result(WAIT) for one in acted]
        assert last[0] == last[1] == number + 1
    assert pair.store.num_keys() < 15


def test_all_ask_at_once(pool: ThreadPoolExecutor) -> None:
    world = World(5)
    world.start()
    for rank in world.ranks:
        rank.ask()

    acted = [pool.submit(world.until, rank, 1) for rank in world.ranks]
    assert len({one.result(WAIT) for one in acted}) == 1
    for rank in world.ranks:
        rank.close()


def test_the_first_step_may_be_agreed_beforehand(pair: World) -> None:
    pair.start(agreed=True)
    assert [[rank.is_agreed(step) for step in (1, 2)] for rank in pair.ranks] == [[True, False]] * 2


# Breaks if ranks that do not end together wait for each other without end.
def test_a_rank_that_ends_alone_is_an_error_of_all(pair: World, pool: ThreadPoolExecutor) -> None:
    pair.start()
    for number in range(3):
        for act in [pool.submit(rank.meet, "act", number) for rank in pair.ranks]:
            act.result(WAIT)
    ends = pool.submit(pair.ranks[1].meet, "end", 6)
    step = pair.until(pair.ranks[0], 5)
    for waits in (ends, pool.submit(pair.ranks[0].meet, "act", step)):
        with pytest.raises(
            StateError, match=rf"rank 1 has ended .* after step 6, and rank 0 goes on after step {step}"
        ):
            waits.result(WAIT)
    assert pair.store.num_keys() < 15


def test_ranks_end_together(pair: World, pool: ThreadPoolExecutor) -> None:
    """With different steps too: one whose data is shorter has fewer of them."""
    pair.start()
    for end in [pool.submit(rank.meet, "end", 8 + number) for number, rank in enumerate(pair.ranks)]:
        end.result(WAIT)


def test_rank_0_stays_at_the_end_until_all_have_read_who_came(pool: ThreadPoolExecutor) -> None:
    """Breaks if it ends, and its store with it, while another rank still asks the store."""
    world, may_read = World(2), Event()

    class Slow:
        def __init__(self) -> None:
            self._store = world.store.clone()

        def __getattr__(self, name: str) -> Any:
            return getattr(self._store, name)

        def check(self, keys: list[str]) -> bool:
            return (keys != ["meeting 0/0"] or may_read.wait(WAIT)) and self._store.check(keys)

    ranks = [world.ranks[0], StepAgreement(1, 2, Slow)]
    world.start(*ranks)
    ends = [pool.submit(rank.meet, "end", 5) for rank in ranks]
    wait_for(lambda: world.store.check(["meeting 0/read"]), WAIT, "rank 0 to have read")
    assert not ends[0].done()
    may_read.set()
    assert [end.result(WAIT) for end in ends] == [None, None]
    for rank in ranks:
        rank.close()


def test_a_rank_that_fails_lets_no_other_one_wait(pair: World, pool: ThreadPoolExecutor) -> None:
    pair.start()
    ends = pool.submit(pair.ranks[1].meet, "end", 6)
    wait_for(lambda: pair.store.check(["meeting 0/1"]), WAIT, "rank 1 to wait")
    assert pair.ranks[0].fail(6) == "rank 1 has ended its training after step 6"
    with pytest.raises(ConnectionError, match="rank 0 has failed after step 6"):
        ends.result(WAIT)


# Breaks if a process stays because the node of another rank is silent.
def test_a_rank_that_fails_does_not_wait_for_the_store() -> None:
    world, answers = World(2, Timings(close=0.01)), Event()

    class Silent:
        def set(self, *_: Any) -> None:
            answers.wait()
            raise RuntimeError("the store has ended")

    world.ranks[0]._meeting = Silent()
    world.start(world.ranks[0])
    assert world.ranks[0].fail(3) == ""
    answers.set()
    world.ranks[0].close()


def test_a_rank_that_must_leave_does_not_wait_for_one_that_is_gone() -> None:
    world = World(2, Timings(other_ranks=0.01))
    world.start(world.ranks[0])
    world.leaving.add(0)
    world.ranks[0].ask()
    wait_for(lambda: world.ranks[0]._is_open, WAIT, "rank 0 to answer")
    with pytest.raises(ConnectionError, match="does not answer"):
        world.ranks[0].is_agreed(1)
    with pytest.raises(ConnectionError, match="does not answer"):
        world.ranks[0].ask_and_wait()


def test_the_end_of_the_store_is_an_error_of_the_next_step() -> None:
    world = World(2)

    class Broken:
        def wait(self, *_: Any) -> None:
            raise RuntimeError("the store has ended")

        check = wait

    world.ranks[0]._answering = Broken()
    world.start(world.ranks[0])
    wait_for(lambda: world.ranks[0]._error is not None, WAIT, "the error")
    with pytest.raises(RuntimeError, match="has ended"):
        world.ranks[0].is_agreed(1)


def test_close_ends_the_threads_of_all_ranks(pair: World) -> None:
    pair.start()
    pair.ranks[1].close()
    for rank in pair.ranks:
        rank._threads[0].join(WAIT)
        assert not rank._threads[0].is_alive()


def test_an_agreement_that_is_abandoned_raises_where_a_rank_waits(pool: ThreadPoolExecutor) -> None:
    """Breaks if a loop goes on, or waits for ranks that are gone, when its attempt is over."""
    world = World(2)
    world.start(world.ranks[0])
    world.ranks[0].ask()
    wait_for(lambda: world.ranks[0]._is_open, WAIT, "rank 0 to answer")
    waits = pool.submit(world.ranks[0].is_agreed, 1)
    world.ranks[0].abandon(KeyboardInterrupt("over"))
    for attempt in (waits.exception(WAIT), pool.submit(world.ranks[0].is_agreed, 2).exception(WAIT)):
        assert isinstance(attempt, KeyboardInterrupt)
    world.ranks[0].close()
    assert not any(thread.is_alive() for thread in world.ranks[0]._threads)


def test_both_threads_end_though_the_store_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Breaks if a thread of an attempt that is over stays in a process that goes on."""

    def gone(_: StepAgreement, key: str) -> bytes:
        raise RuntimeError(f"no connection: {key}")

    monkeypatch.setattr(StepAgreement, "_value", gone)
    world = World(2)
    world.start(world.ranks[1])
    with pytest.raises(RuntimeError, match="no connection"):
        world.ranks[1].ask_and_wait()
    world.ranks[1].close()
    for thread in world.ranks[1]._threads:
        thread.join(WAIT)
        assert not thread.is_alive()
