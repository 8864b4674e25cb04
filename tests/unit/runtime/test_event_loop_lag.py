"""The lag of the event loop."""

import asyncio
from contextlib import suppress

import pytest

from holdfast.runtime import event_loop_lag


async def test_work_that_holds_the_event_loop_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_loop_lag, "EVERY", 0.01)
    now, seen = 0.0, asyncio.Queue[float]()
    task = asyncio.create_task(event_loop_lag.measure_lag(seen.put_nowait, lambda: now))
    await asyncio.sleep(0)  # it has noted when it wants to go on
    now = 3.01
    assert await seen.get() == pytest.approx(3.0)
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task
