"""Work that blocks, such as reading a storage, beside the event loop."""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from typing import TypeVar

T = TypeVar("T")


async def in_thread(work: Callable[[], T]) -> T:
    """The result of work that blocks. The process can end while it goes on, unlike with the threads of asyncio."""
    loop, results, ended = asyncio.get_running_loop(), Future[T](), asyncio.Event()

    def run() -> None:
        try:
            results.set_result(work())
        except BaseException as error:  # noqa: BLE001 - it is raised where the result is awaited
            results.set_exception(error)
        with suppress(RuntimeError):  # the loop has ended
            loop.call_soon_threadsafe(ended.set)

    threading.Thread(target=run, name="holdfast-storage", daemon=True).start()
    await ended.wait()
    return results.result()
