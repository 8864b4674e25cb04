"""The lag of the event loop."""

import asyncio
from contextlib import suppress

import pytest

from holdfast.runtime.event_loop_lag import measure_lag


async def test_work_that_holds_the_event_loop_is_seen() -> None:
    now, seen = 0.0, asyncio.Queue[float]()
    task = asyncio.create_task(measure_lag(seen.put_nowait, lambda: now, every=0.01))
    await asyncio.sleep(0)  # it has noted when it wants to go on
    now = 3.01
    assert await seen.get() == pytest.approx(3.0)
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task
