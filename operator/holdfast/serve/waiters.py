"""Requests that wait for news of their pod: the waiting half of a long poll."""

import asyncio
from collections.abc import Callable
from typing import TypeVar

Found = TypeVar("Found")


class Waiters:
    """The requests that wait now, by pod UID."""

    def __init__(self) -> None:
        self._events: dict[str, set[asyncio.Event]] = {}

    def wake(self, pod_uid: str) -> None:
        """Let the requests of this pod look again."""
        for event in self._events.get(pod_uid, ()):
            event.set()

    async def wait(self, pod_uid: str, look: Callable[[], Found | None], seconds: float) -> Found | None:
        """What `look` finds, now or at one of the next calls of `wake`; None if that takes more than `seconds`.

        Args:
            pod_uid: the pod whose news count.
            look: returns a value that is false while there is nothing to tell.
            seconds: 0 or less looks once.
        """
        if (found := look()) or seconds <= 0:
            return found
        event = asyncio.Event()
        events = self._events.setdefault(pod_uid, set())
        events.add(event)
        try:
            async with asyncio.timeout(seconds):
                while not found:
                    await event.wait()
                    event.clear()
                    found = look()
        except TimeoutError:
            return None
        else:
            return found
        finally:
            events.discard(event)
            if not events and self._events.get(pod_uid) is events:
                del self._events[pod_uid]

    def __len__(self) -> int:
        """Number of requests that wait now."""
        return sum(map(len, self._events.values()))
