import asyncio
from time import monotonic

from tests.support.operator.fake_api_server import Clock

from holdfast.serve.token_bucket import TokenBucket


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
