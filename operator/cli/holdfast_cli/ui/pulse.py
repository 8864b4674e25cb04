"""A signal that something changed, for any number of waiting tasks."""

import asyncio


class Pulse:
    """Counts beats. A task that waits names the last beat that it has seen, so that none is missed."""

    def __init__(self) -> None:
        self.count = 0
        self._next = asyncio.Event()

    def beat(self) -> None:
        """Wake all that wait."""
        self.count += 1
        self._next.set()
        self._next = asyncio.Event()

    async def after(self, seen: int, seconds: float) -> bool:
        """Wait for a beat after `seen`; False if there is none for so many seconds."""
        if self.count > seen:
            return True
        try:
            async with asyncio.timeout(seconds):
                await self._next.wait()
        except TimeoutError:
            return False
        return True
