import asyncio
from itertools import pairwise

import pytest
from tests.support.operator.fake_api_server import Clock

from holdfast.runtime.informer.work_queue import CALM_WAIT, LULL, WorkQueue


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def queue(clock: Clock) -> WorkQueue[str]:
    return WorkQueue(clock, seed=1)


async def test_a_key_added_often_is_given_out_once(queue: WorkQueue[str]) -> None:
    for _ in range(3):
        queue.add("a")
    queue.add("b")
    assert [await queue.get(), await queue.get()] == ["a", "b"]
    assert len(queue) == 0


async def test_a_busy_key_is_not_given_out_again_until_it_is_done(queue: WorkQueue[str]) -> None:
    queue.add("a")
    assert await queue.get() == "a"
    queue.add("a")
    queue.add("a")
    queue.add("b")
    assert await queue.get() == "b"
    assert len(queue) == 0
    queue.done("a")
    assert await queue.get() == "a"
    queue.done("a")
    assert len(queue) == 0


async def test_after_waits_and_the_earliest_wins(queue: WorkQueue[str], clock: Clock) -> None:
    queue.after("a", 60)
    queue.after("a", 10)
    queue.after("a", 30)
    waiter = asyncio.ensure_future(queue.get())
    await asyncio.sleep(0)
    assert not waiter.done()
    clock.tick(10)
    queue.add("b")
    assert {await waiter, await queue.get()} == {"a", "b"}
    queue.done("a")
    clock.tick(100)
    queue.add("c")
    assert await queue.get() == "c"  # the later entries of "a" were replaced, not kept
    assert queue.scheduled == 0


async def test_calm_keys_let_others_pass_but_not_for_ever(queue: WorkQueue[str], clock: Clock) -> None:
    queue.after("calm", 1, calm=True)
    queue.after("both", 1, calm=True)
    clock.tick(1)
    queue.add("event")
    assert await queue.get() == "event"  # "calm" and "both" are due now, too
    queue.add("both")
    assert (await queue.get(), len(queue)) == ("both", 1)
    queue.after("third", 0.5, calm=True)
    clock.tick(0.5)
    queue.add("more")
    queue._promote()
    clock.tick(CALM_WAIT)
    assert (queue.oldest, await queue.get()) == (CALM_WAIT + 0.5, "calm")
    assert [await queue.get(), await queue.get()] == ["more", "third"]  # in turn
    assert len(queue) == 0


async def test_a_calm_key_waits_until_nothing_urgent_is_worked_on_but_not_for_ever(
    queue: WorkQueue[str], clock: Clock
) -> None:
    queue.add("urgent")
    assert (await queue.get(), queue.urgent) == ("urgent", True)
    queue.after("calm", 1, calm=True)
    queue.after("other", 2, calm=True)
    clock.tick(2)
    waiter = asyncio.ensure_future(queue.get())
    await asyncio.sleep(0)
    assert not waiter.done()
    queue.done("urgent")
    await asyncio.sleep(0)
    assert not waiter.done()  # another may follow
    clock.tick(LULL)
    queue.after("wake", 3600)
    assert (await asyncio.wait_for(waiter, 1), queue.urgent) == ("calm", False)
    queue.add("slow")
    assert await queue.get() == "slow"
    clock.tick(CALM_WAIT)
    assert await queue.get() == "other"


async def test_what_only_something_calm_made_dirty_stays_calm(queue: WorkQueue[str], clock: Clock) -> None:
    queue.add("a")
    assert await queue.get() == "a"
    queue.after("a", 1, calm=True)
    clock.tick(1)
    queue.add("b")
    assert await queue.get() == "b"
    queue.done("a")
    queue.add("c")
    assert await queue.get() == "c"
    for key in ("b", "c"):
        queue.done(key)
    clock.tick(LULL)
    assert await queue.get() == "a"


async def test_a_timer_does_not_wait_behind_a_burst(queue: WorkQueue[str], clock: Clock) -> None:
    queue.after("both", 1, calm=True)
    queue.after("both", 2)
    clock.tick(2)
    queue.after("timer", 1)
    clock.tick(1)
    queue._promote()
    for number in range(5):
        queue.add(f"new-{number}")
    assert [await queue.get(), await queue.get()] == ["both", "timer"]


async def test_a_sleeping_worker_wakes_for_an_earlier_key(queue: WorkQueue[str], clock: Clock) -> None:
    queue.after("late", 3600)
    waiter = asyncio.ensure_future(queue.get())
    await asyncio.sleep(0)
    queue.add("now")
    assert await asyncio.wait_for(waiter, 1) == "now"


async def test_failures_back_off_exponentially_and_success_forgets_them(queue: WorkQueue[str], clock: Clock) -> None:
    delays = []
    for _ in range(14):
        queue.add("a")
        clock.tick(100)
        assert await queue.get() == "a"
        delays.append(queue.failed("a"))
    assert all(later > 1.2 * earlier for earlier, later in pairwise(delays[:9]))
    assert max(delays) <= 60 * 1.25
    clock.tick(100)
    assert await queue.get() == "a"
    queue.done("a")
    queue.add("a")
    assert await queue.get() == "a"
    assert queue.failed("a") < 0.1


async def test_a_dirty_key_that_fails_does_not_skip_its_back_off(queue: WorkQueue[str], clock: Clock) -> None:
    queue.add("a")
    await queue.get()
    queue.add("a")
    queue.failed("a")
    assert len(queue) == 0
    assert queue.scheduled == 1
    clock.tick(2)
    assert await queue.get() == "a"


async def test_the_server_may_ask_for_a_longer_delay(queue: WorkQueue[str]) -> None:
    queue.add("a")
    await queue.get()
    assert queue.failed("a", at_least=7) == 7


async def test_the_age_of_the_oldest_key(queue: WorkQueue[str], clock: Clock) -> None:
    assert queue.oldest == 0
    queue.add("a")
    clock.tick(3)
    queue.add("b")
    clock.tick(1)
    assert queue.oldest == 4
    await queue.get()
    assert queue.oldest == 1


async def test_only_one_sleeping_worker_wakes_for_a_key() -> None:
    class Counted(WorkQueue[str]):
        looks = 0

        def _line(self) -> dict[str, float]:
            self.looks += 1
            return super()._line()

    queue = Counted()
    waiters = [asyncio.ensure_future(queue.get()) for _ in range(50)]
    await asyncio.sleep(0)
    queue.looks = 0
    queue.add("a")
    await asyncio.wait(waiters, return_when=asyncio.FIRST_COMPLETED, timeout=1)
    assert [waiter.result() for waiter in waiters if waiter.done()] == ["a"]
    assert queue.looks == 1
    queue.after("b", 0.001)
    await asyncio.wait([waiter for waiter in waiters if not waiter.done()], return_when=asyncio.FIRST_COMPLETED)
    assert sorted(waiter.result() or "" for waiter in waiters if waiter.done()) == ["a", "b"]
    queue.close()
    await asyncio.gather(*waiters)


@pytest.mark.parametrize("first", [True, False], ids=["before it was woken", "after it was woken"])
async def test_a_cancelled_worker_leaves_its_key_to_another(first: bool) -> None:
    queue: WorkQueue[str] = WorkQueue()
    gone, other = (asyncio.ensure_future(queue.get()) for _ in range(2))
    await asyncio.sleep(0)
    if first:
        gone.cancel()
    queue.add("a")
    gone.cancel()
    assert await asyncio.wait_for(other, 1) == "a"
    await asyncio.wait({gone}, timeout=1)
    assert gone.cancelled()


async def test_close_ends_every_waiting_worker(queue: WorkQueue[str]) -> None:
    waiters = [asyncio.ensure_future(queue.get()) for _ in range(3)]
    await asyncio.sleep(0)
    queue.close()
    assert await asyncio.gather(*waiters) == [None, None, None]


async def test_every_key_is_worked_on_by_one_worker_at_a_time() -> None:
    queue: WorkQueue[int] = WorkQueue()
    inside: set[int] = set()
    seen: list[int] = []

    async def work() -> None:
        while (key := await queue.get()) is not None:
            assert key not in inside
            inside.add(key)
            await asyncio.sleep(0)
            if len(seen) < 100:
                queue.add((key + 1) % 5)
                queue.add(key)
            inside.discard(key)
            seen.append(key)
            queue.done(key)
            if len(seen) > 200 or not (len(queue) or queue.busy):
                queue.close()

    queue.add(0)
    async with asyncio.timeout(5):
        await asyncio.gather(*(work() for _ in range(4)))
    assert set(seen) == set(range(5))


async def test_a_namespace_with_many_keys_does_not_hold_up_another(clock: Clock) -> None:
    """Breaks if all jobs wait in one line: the annotations of one tenant then delay the pods of all others."""
    queue: WorkQueue[tuple[str, int]] = WorkQueue(clock, seed=1, group_of=lambda key: key[0])
    for number in range(100):
        queue.add(("many", number))
        clock.tick(1)
    queue.add(("few", 1))
    assert [await queue.get(), await queue.get()] == [("many", 0), ("few", 1)]
    assert queue.oldest == 99.0


@pytest.mark.parametrize("calm", [False, True])
async def test_a_namespace_with_many_keys_leaves_workers_to_another(clock: Clock, calm: bool) -> None:
    """Breaks if the jobs of one tenant have all workers, each of which waits for its writes."""
    queue: WorkQueue[tuple[str, int]] = WorkQueue(clock, seed=1, group_of=lambda key: key[0], workers=16)

    def add(key: tuple[str, int]) -> None:
        queue.after(key, 1, calm=True) if calm else queue.add(key)

    for number in range(50):
        add(("many", number))
    clock.tick(1 + LULL)
    workers = [asyncio.ensure_future(queue.get()) for _ in range(16)]
    for _ in range(3):
        await asyncio.sleep(0)
    assert sum(worker.done() for worker in workers) == 14
    add(("few", 1))
    clock.tick(1 + CALM_WAIT)
    queue.add(("few", 2))
    async with asyncio.timeout(5):
        assert {await worker for worker in workers[14:]} == {("few", 1), ("few", 2)}
        queue.done(("many", 0))
        queue.done(("many", 1))
        assert await queue.get() == ("many", 14)


async def test_calm_keys_of_namespaces_take_turns(clock: Clock) -> None:
    """Breaks if the states of one tenant's pods wait behind all jobs of another."""
    queue: WorkQueue[tuple[str, int]] = WorkQueue(clock, seed=1, group_of=lambda key: key[0])
    for number in range(10):
        queue.after(("many", number), 1, calm=True)
    queue.after(("few", 1), 1.5, calm=True)
    clock.tick(2)
    assert [await queue.get(), await queue.get()] == [("many", 0), ("few", 1)]


async def test_a_long_queue_that_moves_is_not_stalled(queue: WorkQueue[str], clock: Clock) -> None:
    """Breaks if the kubelet restarts an operator because one tenant has many jobs: it would begin again and again."""
    for name in "abc":
        queue.add(name)
    clock.tick(50)
    assert (queue.oldest, queue.stalled) == (50, 50)
    await queue.get()
    clock.tick(50)
    assert (queue.oldest, queue.stalled) == (100, 50)
    await queue.get()
    await queue.get()
    assert (queue.oldest, queue.stalled) == (0, 0)
