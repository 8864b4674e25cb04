"""Measures how late the event loop continues a task: everything that the operator does waits as long."""

import asyncio
from collections.abc import Callable
from time import monotonic

EVERY = 0.5  # seconds


async def measure_lag(
    observe: Callable[[float], None], clock: Callable[[], float] = monotonic, every: float = EVERY
) -> None:
    """Pass the lag in seconds to `observe` every `every` seconds, for ever."""
    while True:
        due = clock() + every
        await asyncio.sleep(every)
        observe(max(clock() - due, 0.0))
