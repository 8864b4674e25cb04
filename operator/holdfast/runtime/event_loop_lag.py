"""Measures how late the event loop continues a task: everything that the operator does waits as long."""

import asyncio
from collections.abc import Callable
from time import monotonic

EVERY = 0.5  # seconds


async def measure_lag(observe: Callable[[float], None], clock: Callable[[], float] = monotonic) -> None:
    """Pass the lag in seconds to `observe` every half second, for ever."""
    while True:
        due = clock() + EVERY
        await asyncio.sleep(EVERY)
        observe(max(clock() - due, 0.0))
