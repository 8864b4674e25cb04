"""Run what a method does in a thread of its own, with an event loop of its own.

So a method can be called from any thread, and from a notebook, whose thread has a running event loop already.
"""

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import Future
from contextlib import suppress
from typing import Any, Final, Generic, TypeVar

T = TypeVar("T")
MOST_HELD: Final = 10_000  # values of a stream that wait for their reader


def call(work: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """What the coroutine returns. An exception in the caller, such as Ctrl-C, cancels it."""
    task = _Cancellable(work)
    try:
        return call_blocking(task.run)
    except BaseException:
        task.cancel()
        raise


def call_blocking(work: Callable[[], T]) -> T:
    """What `work` returns in a thread that has no event loop. The process can end while it goes on."""
    results = Future[T]()
    _start(work, results)
    return results.result()


def stream(work: Callable[[Callable[[T], None]], Coroutine[Any, Any, object]]) -> Iterator[T]:
    """The values that the coroutine gives to the function that it gets, as they come; then its error, if it has one.

    It begins at the first value that is asked for, and is cancelled if the iterator is closed.
    """
    pipe = _Pipe[T]()
    task = _Cancellable(lambda: work(pipe.put))
    results = Future[object]()
    results.add_done_callback(lambda _: pipe.end())
    _start(task.run, results)
    try:
        yield from pipe
        results.result()
    finally:
        pipe.close()
        task.cancel()


def _start(work: Callable[[], T], results: "Future[T]") -> None:
    def run() -> None:
        try:
            found = work()
        except BaseException as error:  # noqa: BLE001 - it is raised in the caller's thread
            results.set_exception(error)
        else:
            results.set_result(found)

    threading.Thread(target=run, name="holdfast-client", daemon=True).start()


class _Cancellable(Generic[T]):
    """A coroutine that another thread may cancel, before it begins too."""

    def __init__(self, work: Callable[[], Coroutine[Any, Any, T]]) -> None:
        self._work = work
        self._lock = threading.Lock()
        self._cancelled = False
        self._running: tuple[asyncio.AbstractEventLoop, asyncio.Task[Any]] | None = None

    def run(self) -> T:
        """What it returns."""
        return asyncio.run(self._main())

    async def _main(self) -> T:
        task = asyncio.current_task()
        assert task is not None
        with self._lock:
            if self._cancelled:
                raise asyncio.CancelledError
            self._running = asyncio.get_running_loop(), task
        return await self._work()

    def cancel(self) -> None:
        """Cancel it. No-op if it has ended."""
        with self._lock:
            self._cancelled = True
            if self._running is not None:
                loop, task = self._running
                with suppress(RuntimeError):  # the loop is closed
                    loop.call_soon_threadsafe(task.cancel)


class _Pipe(Generic[T]):
    """Values on their way from one thread to another. A writer that is far ahead waits for the reader."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._held = deque[T]()
        self._ended = self._closed = False

    def put(self, value: T) -> None:
        """Give a value to the reader. It is dropped if there is none any more."""
        with self._changed:
            self._changed.wait_for(lambda: len(self._held) < MOST_HELD or self._closed)
            if not self._closed:
                self._held.append(value)
            self._changed.notify_all()

    def end(self) -> None:
        """No more values come."""
        with self._changed:
            self._ended = True
            self._changed.notify_all()

    def close(self) -> None:
        """The reader is gone."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def __iter__(self) -> Iterator[T]:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._held or self._ended)
                if not self._held:
                    return
                value = self._held.popleft()
                self._changed.notify_all()
            yield value
