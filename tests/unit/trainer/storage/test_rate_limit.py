"""The limit on bytes a second, on a clock that tests move."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from holdfast_train.storage.rate_limit import RateLimit


def rate(limit: float | None, burst: int) -> RateLimit:
    return RateLimit(limit, burst, clock=lambda: 0.0, sleep=lambda _: pytest.fail("slept"))


def test_a_full_bucket_lets_a_burst_pass() -> None:
    bucket = rate(10, 100)
    assert [bucket.take(50, 0.0) for _ in range(2)] == [0, 0]
    assert bucket.take(5, 0.0) == pytest.approx(0.5)


@pytest.mark.parametrize("piece", [1, 7, 100, 1000])
def test_over_time_the_limit_is_kept(piece: int) -> None:
    """A writer that waits as the limit demands sends at most burst + limit x time, in pieces of any size."""
    bucket, now, sent = rate(10, 20), 0.0, 0
    while now < 1000:
        now += bucket.take(piece, now)
        sent += piece
        assert sent <= 20 + 10 * now + piece
    assert sent >= 10 * 1000


def test_an_idle_bucket_saves_no_more_than_a_burst() -> None:
    bucket = rate(10, 20)
    bucket.take(20, 0.0)
    assert bucket.take(20, 1e6) == 0
    assert bucket.take(10, 1e6) == pytest.approx(1)


def test_without_a_limit_no_write_waits() -> None:
    bucket = rate(10, 20)
    assert bucket.take(1000, 0.0) > 90
    bucket.limit = None
    assert bucket.take(10**12, 1.0) == 0
    bucket.limit = 10
    assert bucket.take(20, 1.0) == 0
    assert bucket.take(10, 1.0) == pytest.approx(1)


def test_a_clock_that_goes_back_gives_nothing() -> None:
    bucket = rate(10, 10)
    bucket.take(10, 100.0)
    assert bucket.take(10, 50.0) == pytest.approx(1)
    assert bucket.take(10, 100.0) == pytest.approx(2)


def test_threads_share_the_limit() -> None:
    pauses: list[float] = []
    bucket = RateLimit(10, 1, clock=lambda: 0.0, sleep=pauses.append)
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(bucket.wait, [1] * 101))
    assert sorted(pauses) == pytest.approx([number / 10 for number in range(1, 101)])


def test_a_write_that_waits_continues_when_the_limit_is_lifted() -> None:
    """Breaks if a pod that has to leave waits out a pause of hours."""
    bucket = RateLimit(1e-3, 1)
    with ThreadPoolExecutor(2) as pool:
        waiting = [pool.submit(bucket.wait, 10) for _ in range(2)]
        bucket.limit = None
        for future in waiting:
            future.result(timeout=30)


@pytest.mark.parametrize(("limit", "burst"), [(0, 1), (-1, 1), (1, 0)])
def test_a_text_that_is_not_a_rate_is_refused(limit: float, burst: int) -> None:
    with pytest.raises(ValueError, match="allowed"):
        rate(limit, burst)
