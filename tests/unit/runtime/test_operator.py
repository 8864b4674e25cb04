"""How the parts of the operator end together."""

import asyncio

import pytest

from holdfast.runtime.errors import WatchDiedError
from holdfast.runtime.operator import wait_for_end


async def test_the_death_of_the_watches_is_no_stop() -> None:
    """Breaks if an operator whose watches have died ends as if SIGTERM had come, with exit code 0 and no error."""
    stop, before = asyncio.Event(), asyncio.all_tasks()

    async def watches() -> None:
        for _ in range(3):
            await asyncio.sleep(0)
        mine = asyncio.current_task()
        for task in asyncio.all_tasks() - before - {mine, *parts}:  # as kopf does
            task.cancel()
        await asyncio.sleep(0.01)
        raise WatchDiedError("the watches ended")

    parts = [asyncio.create_task(watches()), asyncio.create_task(asyncio.Event().wait())]
    async with asyncio.timeout(5):
        await wait_for_end(stop, parts)
    assert not stop.is_set()
    with pytest.raises(WatchDiedError):
        await parts[0]
    parts[1].cancel()


async def test_a_stop_ends_the_wait() -> None:
    stop = asyncio.Event()
    part = asyncio.create_task(asyncio.Event().wait())
    asyncio.get_running_loop().call_soon(stop.set)
    async with asyncio.timeout(5):
        await wait_for_end(stop, [part])
    assert not part.done()
    part.cancel()
