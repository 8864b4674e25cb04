"""A storage that repeats calls while the store is unreachable."""

import math
import random
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import Final, TypeVar

from holdfast_train.errors import StorageError, StorageUnreachableError
from holdfast_train.progress import Silence
from holdfast_train.storage.base import Entry, Storage
from holdfast_train.storage.rate_limit import RateLimit

T = TypeVar("T")

PATIENCE_SECONDS: Final = 60.0  # of silence before a start, a restore, an import or an export gives up
FIRST_DELAY: Final = 0.1
LONGEST_DELAY: Final = 2.0
TOLD_SECONDS: Final = 2.0  # of silence before it is told: a store that is busy refuses now and then
_JITTER: Final = random.SystemRandom()  # not the global generator: its numbers belong to the program


class _Told:
    """Passes a silence to `listener` once it has lasted TOLD_SECONDS, or a call gives up; at its end None.

    A silence begins with the first failed call after an answered one, and any answer ends it.
    """

    def __init__(self, listener: Callable[[Silence | None], None]) -> None:
        self._listener = listener
        self._since: float | None = None
        self._is_told = False
        self._lock = threading.Lock()

    def fail(self, error: StorageUnreachableError, now: float, *, gives_up: bool) -> None:
        """A call was not answered."""
        with self._lock:
            since = self._since = now if self._since is None else self._since
            if not self._is_told and (gives_up or now - since >= TOLD_SECONDS):
                self._is_told = True
                self._listener(Silence(since, str(error)))

    def answer(self) -> None:
        """A call was answered, maybe by a refusal."""
        if self._since is None:
            return
        with self._lock:
            was_told, self._is_told, self._since = self._is_told, False, None
            if was_told:
                self._listener(None)


class RetryingStorage:
    """A Storage that repeats calls, with growing random delays, while the store is unreachable.

    `within` sets for how long; outside `within` every call makes one attempt. Calls of several threads share one
    silence: it begins with the first failed call after an answered one, and any answer ends it.

    `on_silence`, called in any thread, gets a silence soon after its beginning, and None at its end.
    """

    def __init__(
        self,
        storage: Storage,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
        on_silence: Callable[[Silence | None], None] = lambda _: None,
    ) -> None:
        self._told = _Told(on_silence)
        self._storage = storage
        self._clock = clock
        self._sleep = sleep
        self._patience = 0.0
        self._deadline = math.inf
        self._silent_since: float | None = None
        self.uri = storage.uri

    def apart(self) -> "RetryingStorage":
        """The same store, with a patience and a deadline of its own."""
        found = RetryingStorage(self._storage, clock=self._clock, sleep=self._sleep)
        found._told = self._told
        return found

    @contextmanager
    def within(self, seconds: float, *, at_most: float = math.inf) -> Iterator[None]:
        """Inside, repeat a call until the store has been silent for `seconds`.

        Each answer starts these seconds again, so a transfer of many gigabytes survives many short disturbances.
        `at_most` seconds from now the retries end in any case: for a process that has to exit by then.
        """
        before = self._patience, self._deadline
        self._patience, self._deadline = seconds, self._clock() + at_most
        self._silent_since = None
        try:
            yield
        finally:
            self._patience, self._deadline = before

    def shorten_deadline(self, at_most: float) -> None:
        """Inside `within`: end the retries at most `at_most` seconds from now. May be called in any thread."""
        self._deadline = min(self._deadline, self._clock() + at_most)

    def _call(self, function: Callable[[], T]) -> T:
        delay = FIRST_DELAY
        while True:
            try:
                answer = function()
            except StorageUnreachableError as error:
                # Random delays prevent a thousand jobs from returning to a recovering store in one wave.
                pause = delay * _JITTER.uniform(0.5, 1.5)
                now = self._clock()
                since = self._silent_since
                if since is None:
                    since = self._silent_since = now
                gives_up = now + pause > min(since + self._patience, self._deadline)
                self._told.fail(error, now, gives_up=gives_up)
                if gives_up:
                    raise
                self._sleep(pause)
                delay = min(LONGEST_DELAY, delay * 2)
            except StorageError:
                self._silent_since = None  # a refusal is an answer too
                self._told.answer()
                raise
            else:
                self._silent_since = None
                self._told.answer()
                return answer

    def put_if_absent(self, key: str, body: bytes) -> bool:
        """As Storage. False may also mean that an earlier attempt took effect unnoticed: compare the stored bytes."""
        return self._call(lambda: self._storage.put_if_absent(key, body))

    def put(self, key: str, body: bytes | bytearray) -> None:
        """As Storage."""
        self._call(lambda: self._storage.put(key, body))

    def write(self, key: str, data: memoryview, *, sums: Sequence[str] = (), rate: RateLimit | None = None) -> None:
        """As Storage. Each attempt sends all of `data`."""
        self._call(lambda: self._storage.write(key, data, sums=sums, rate=rate))

    def copy_from(self, uri: str, key: str) -> bool:
        """As Storage."""
        return self._call(lambda: self._storage.copy_from(uri, key))

    def get(self, key: str) -> bytes:
        """As Storage."""
        return self._call(lambda: self._storage.get(key))

    def read_into(self, key: str, start: int, *views: memoryview, version: str = "") -> None:
        """As Storage. Each attempt reads all bytes."""
        self._call(lambda: self._storage.read_into(key, start, *views, version=version))

    def size(self, key: str) -> int | None:
        """As Storage."""
        return self._call(lambda: self._storage.size(key))

    def keys(self, prefix: str, after: str = "") -> list[str]:
        """As Storage."""
        return self._call(lambda: self._storage.keys(prefix, after))

    def entries(self, prefix: str) -> list[Entry]:
        """As Storage."""
        return self._call(lambda: self._storage.entries(prefix))

    def delete(self, keys: Iterable[str]) -> None:
        """As Storage."""
        wanted = list(keys)
        self._call(lambda: self._storage.delete(wanted))

    def drop_unfinished(self, prefix: str, before: datetime) -> int:
        """As Storage."""
        return self._call(lambda: self._storage.drop_unfinished(prefix, before))
