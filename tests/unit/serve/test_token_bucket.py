import asyncio
from time import monotonic

from tests.support.operator.fake_api_server import Clock

from holdfast.serve.token_bucket import TokenBucket, TokenBuckets


def test_a_burst_then_the_rate() -> None:
    clock = Clock()
    bucket = TokenBucket(10, 5, clock)
    assert [bucket.try_acquire() for _ in range(6)] == [True] * 5 + [False]
    clock.tick(0.25)
    assert [bucket.try_acquire() for _ in range(3)] == [True, True, False]


def test_unused_tokens_are_saved_up_to_the_burst_only() -> None:
    clock = Clock()
    bucket = TokenBucket(10, 5, clock)
    clock.tick(3600)
    assert sum(bucket.try_acquire() for _ in range(100)) == 5


async def test_acquire_waits_as_long_as_the_rate_says() -> None:
    bucket = TokenBucket(100, 1)
    start = monotonic()
    await asyncio.gather(*(bucket.acquire() for _ in range(6)))
    assert 0.045 <= monotonic() - start < 1


def test_a_token_that_is_given_back_can_be_taken_again_and_the_burst_stays_the_limit() -> None:
    bucket = TokenBucket(10, 2, Clock())
    assert [bucket.try_acquire() for _ in range(3)] == [True, True, False]
    bucket.give_back()
    assert [bucket.try_acquire() for _ in range(2)] == [True, False]
    for _ in range(9):
        bucket.give_back()
    assert sum(bucket.try_acquire() for _ in range(9)) == 2


def test_a_clock_that_goes_back_takes_no_token_away() -> None:
    clock = Clock()
    bucket = TokenBucket(10, 2, clock)
    clock.tick(-60)
    assert bucket.try_acquire()
    assert bucket.try_acquire()


def test_each_key_has_its_own_bucket_and_the_one_unused_for_longest_is_dropped() -> None:
    buckets = TokenBuckets(1, 1, remembered=2, clock=Clock())
    assert [buckets.try_acquire(key) for key in "aab"] == [True, False, True]
    assert buckets.try_acquire("c")  # drops a
    assert [buckets.try_acquire(key) for key in "ba"] == [False, True]


async def test_groups_take_turns_and_one_with_many_does_not_hold_up_another() -> None:
    """Breaks if the writes of all namespaces wait in one line: one tenant then takes the rate from all others."""
    bucket, order = TokenBucket(1000, 1), list[str]()

    async def write(group: str) -> None:
        await bucket.acquire(group)
        order.append(group)

    writes = [asyncio.create_task(write("many")) for _ in range(50)]
    await asyncio.sleep(0)
    await write("few")
    assert order.index("few") <= 3
    await asyncio.gather(*writes)
    assert order.count("many") == 50


async def test_who_is_cancelled_takes_no_token() -> None:
    bucket = TokenBucket(1000, 1)
    await bucket.acquire()
    waiting = asyncio.create_task(bucket.acquire())
    await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    await asyncio.wait_for(bucket.acquire(), 5)


async def test_within_a_group_what_is_first_goes_before_the_rest_and_takes_no_turn_of_another_group() -> None:
    """Breaks if a new pod waits for all statuses of its namespace."""
    bucket, done = TokenBucket(rate=1000, burst=1), list[str]()
    await bucket.acquire()

    async def take(name: str, *, first: bool = False) -> None:
        await bucket.acquire(name[0], first=first)
        done.append(name)

    names = [("a1", False), ("a2", False), ("b1", False), ("a3", True), ("a4", True), ("b2", False)]
    await asyncio.gather(*(take(name, first=first) for name, first in names))
    assert done == ["a3", "b1", "a4", "b2", "a1", "a2"]
