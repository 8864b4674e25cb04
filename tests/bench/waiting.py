"""Waiting for conditions without blocking the event loop."""

import asyncio
from collections.abc import Awaitable, Callable
from time import monotonic
from typing import TypeVar

T = TypeVar("T")


async def until(check: Callable[[], Awaitable[T]], seconds: float, what: str, every: float = 0.1) -> T:
    """The first true value of `check`. Raises TimeoutError, which completes "timed out waiting for"."""
    end = monotonic() + seconds
    while not (value := await check()):
        if monotonic() > end:
            raise TimeoutError(f"timed out after {seconds:g} s waiting for {what}; last seen: {value!r}")
        await asyncio.sleep(every)
    return value
