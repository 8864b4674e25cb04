"""Requests that wait: what wakes them, what they return, and that nothing of them is kept."""

import asyncio

from holdfast.serve.waiters import Waiters


class News:
    """What a request looks for; it counts the looks."""

    def __init__(self, found: str | None = None) -> None:
        self.found = found
        self.looks = 0

    def look(self) -> str | None:
        self.looks += 1
        return self.found


def test_a_request_that_finds_something_does_not_wait() -> None:
    waiters, news = Waiters(), News("an order")
    assert asyncio.run(waiters.wait("pod", news.look, 60)) == "an order"
    assert (news.looks, len(waiters)) == (1, 0)


def test_a_request_that_may_not_wait_looks_once() -> None:
    waiters, news = Waiters(), News()
    assert asyncio.run(waiters.wait("pod", news.look, 0)) is None
    assert (news.looks, len(waiters)) == (1, 0)


def test_only_news_end_the_wait_and_only_of_the_own_pod() -> None:
    """Breaks if a wake without news ends the wait, or if a pod is woken for another one."""

    async def play() -> None:
        waiters, news = Waiters(), News()
        requests = [asyncio.create_task(waiters.wait("pod", news.look, 60)) for _ in range(2)]
        await asyncio.sleep(0)
        assert len(waiters) == 2
        waiters.wake("pod")
        await asyncio.sleep(0)
        assert (news.looks, len(waiters)) == (4, 2)
        news.found = "an order"
        waiters.wake("another pod")
        await asyncio.sleep(0)
        assert len(waiters) == 2
        waiters.wake("pod")
        assert await asyncio.gather(*requests) == ["an order", "an order"]
        assert len(waiters) == 0

    asyncio.run(play())


def test_a_request_whose_time_is_over_is_forgotten() -> None:
    waiters = Waiters()
    assert asyncio.run(waiters.wait("pod", News().look, 0.01)) is None
    assert len(waiters) == 0


def test_a_request_that_is_cancelled_is_forgotten() -> None:
    async def play() -> None:
        waiters = Waiters()
        request = asyncio.create_task(waiters.wait("pod", News().look, 60))
        await asyncio.sleep(0)
        request.cancel()
        await asyncio.gather(request, return_exceptions=True)
        assert len(waiters) == 0

    asyncio.run(play())
