"""Turns for writing progress into status: a bounded number of jobs per second over the cluster.

Namespaces take turns.
"""

import asyncio
from collections.abc import Callable, Set
from time import monotonic

from holdfast.runtime.informer.cache import Key
from holdfast.serve.fair_line import FairLine
from holdfast.serve.token_bucket import TokenBucket

EVERY = 0.1  # seconds between two looks for slots of jobs that wait


class ProgressSlots:
    """`rate` slots per second; at most `burst` unused slots are saved.

    A job that finds no slot waits for one; `give` is called when it has one.
    """

    def __init__(
        self, rate: float, give: Callable[[Key], None], burst: float = 10.0, clock: Callable[[], float] = monotonic
    ) -> None:
        self._bucket = TokenBucket(rate, burst, clock)
        self._give = give
        self._waiting: FairLine[Key] = FairLine(lambda key: key.namespace)
        self._given: set[Key] = set()

    def take(self, key: Key) -> bool:
        """True if the job may write progress now; then `record_write` or `leave` must follow."""
        if key not in self._given and not len(self._waiting) and self._bucket.try_acquire():
            self._given.add(key)
        return key in self._given

    def record_write(self, key: Key) -> None:
        """Record that the job wrote progress in its slot."""
        self._given.discard(key)

    def wait(self, key: Key) -> None:
        """Let the job wait for a slot, unless it has one."""
        if key not in self._given:
            self._waiting.put(key)
            self.hand_out()

    def leave(self, key: Key) -> None:
        """Give the slot of the job back, or let it wait no longer, because it has nothing to write."""
        if key in self._given:
            self._given.remove(key)
            self._bucket.give_back()
        else:
            self._waiting.remove(key)

    def keep_only(self, keys: Set[Key]) -> None:
        """Forget all other jobs that have a slot."""
        self._given &= keys

    def hand_out(self) -> None:
        """Give the slots that there are to jobs that wait."""
        while len(self._waiting) and self._bucket.try_acquire():
            key = self._waiting.take()
            self._given.add(key)
            self._give(key)

    async def run(self) -> None:
        """Give slots until cancelled."""
        while True:
            await asyncio.sleep(EVERY)
            self.hand_out()
