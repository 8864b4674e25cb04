"""`SeriesRecorder`: writes the rows of a Run into segments, beside the saves of its checkpoints.

It lives in the writer process, so no thread of the training waits for it. It says each failure once and tries the write
again later. A commit may wait shortly for its segment, unless the pod has to leave; no checkpoint fails because of one.
"""

import math
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

from holdfast_train.errors import StorageError
from holdfast_train.say import say
from holdfast_train.series.rows import Row
from holdfast_train.series.segment import MOST_ROWS, Header, encode, new_key
from holdfast_train.series.thinning import thin
from holdfast_train.storage.retrying import RetryingStorage

FIRST_PAUSE: Final = 15.0  # seconds until the first segment without a commit; each pause is twice the one before,
LONGEST_PAUSE: Final = 300.0  # up to this
BYTES_AN_HOUR: Final = 1 << 20
BURST: Final = 64 << 10  # bytes that may be written at once
COST: Final = 1 << 10  # what a smaller segment counts as: each is a request, also for the reader
FEWEST: Final = 8  # rows that are worth a segment if the bytes of the hour are used up
WAITING: Final = 20_000  # rows in memory
PATIENCE: Final = 10.0  # seconds of silence of the storage
NAMED: Final = 32  # segments that a commit names: the newest


class SeriesRecorder:
    """Writes segments of the Run that `header` describes into `storage`, in a thread of its own.

    A segment is written when `request` asks for one, and otherwise after a pause. At most BYTES_AN_HOUR are written in
    each hour: rows are thinned to fit, and wait if they do not fit. The last segment of a Run is written in any case.
    """

    def __init__(
        self, storage: RetryingStorage, header: Header, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._storage = storage
        self._header = header
        self._clock = clock
        self._changed = threading.Condition()
        self._rows: Sequence[Row] = []
        self._at_work: Sequence[Row] = []  # that the thread tries to write
        self._requested = self._served = 0
        self._has_ended = self._is_hurried = False
        self._pause, self._due = FIRST_PAUSE, clock() + FIRST_PAUSE
        self._bytes, self._filled_at = float(BURST), clock()  # that may be written now
        self._unnamed: list[str] = []
        self._has_complained = False
        self._thread = threading.Thread(target=self._work, name="holdfast-series", daemon=True)

    def start(self) -> None:
        """Start the thread. RuntimeError if the container is at its limit of processes."""
        self._thread.start()

    def add(self, rows: Sequence[Row]) -> None:
        """`rows` follow those before."""
        with self._changed:
            self._rows = [*self._rows, *rows]
            if len(self._rows) > WAITING:
                self._rows = thin(self._rows, WAITING // 2)
            self._changed.notify_all()

    def request(self) -> int:
        """Write what there is as soon as possible. The number of the request, for `written`."""
        with self._changed:
            self._requested += 1
            self._changed.notify_all()
            return self._requested

    def written(self, request: int, seconds: float) -> tuple[str, ...]:
        """Wait for `request`, at most for `seconds`. The segments that exist and that no commit names, oldest first."""

        def is_over() -> bool:
            return self._served >= request or self._has_ended or self._is_hurried

        with self._changed:
            self._changed.wait_for(is_over, max(0.0, seconds))
            return tuple(self._unnamed[-NAMED:])

    def hurry(self) -> None:
        """From now on `written` waits no more: the pod has to leave. May be called in any thread."""
        with self._changed:
            self._is_hurried = True
            self._changed.notify_all()

    def mark_named(self, keys: Sequence[str]) -> None:
        """A commit names the segments `keys`."""
        with self._changed:
            if keys:
                self._unnamed = self._unnamed[self._unnamed.index(keys[-1]) + 1 :]

    def end(self, seconds: float) -> None:
        """No rows will follow. Write the rest, for at most `seconds`, and say if it could not be written."""
        with self._changed:
            self._has_ended = True
            self._changed.notify_all()
        self._storage.shorten_deadline(seconds)
        self._thread.join(seconds)
        with self._changed:
            lost = [*self._at_work, *self._rows]
        if lost:
            say(f"the history of steps {lost[0].step} to {lost[-1].step} is not written: the storage did not take it")

    def _work(self) -> None:
        try:
            self._write_until_end()
        finally:  # nothing waits for a thread that is gone
            with self._changed:
                self._has_ended = True
                self._changed.notify_all()

    def _write_until_end(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(self._is_due, self._seconds_left())
                if not (self._is_due() or self._seconds_left() == 0):
                    continue
                self._at_work, self._rows = self._rows, []
                request, is_last = self._requested, self._has_ended
            left = self._tried(self._at_work, is_last=is_last) if self._at_work else []
            with self._changed:
                self._rows, self._at_work = [*left, *self._rows], []
                self._served = request
                self._pause = min(LONGEST_PAUSE, 2 * self._pause)
                self._due = self._clock() + self._pause
                self._changed.notify_all()
                if is_last:
                    return

    def _is_due(self) -> bool:
        return self._requested > self._served or self._has_ended

    def _seconds_left(self) -> float:
        return max(0.0, self._due - self._clock())

    def _tried(self, rows: Sequence[Row], *, is_last: bool) -> Sequence[Row]:
        """As `_write`. A failure is said once, and the rows wait."""
        try:
            left = self._write(rows, is_last=is_last)
        except Exception as error:  # noqa: BLE001 - the thread has to live: each save would wait for it
            if not self._has_complained:
                what = error if isinstance(error, StorageError) else f"{type(error).__name__}: {error}"
                say(f"the history of the training cannot be written: {what}; training goes on and tries again")
            self._has_complained = True
            return rows
        if not left:
            self._has_complained = False
        return left

    def _write(self, rows: Sequence[Row], *, is_last: bool) -> Sequence[Row]:
        """Write one segment with `rows`. The rows that have to wait: none, or all."""
        shown = thin(rows, MOST_ROWS)
        data = encode(self._header, shown)
        allowed = self._allowed()
        if not is_last and max(len(data), COST) > allowed:
            fitting = math.floor(0.8 * len(shown) * (allowed - COST) / len(data))
            if fitting < FEWEST:
                return rows
            data = encode(self._header, thin(shown, fitting))
            if len(data) > allowed:
                return rows
        key = new_key(rows[0].step, self._header.attempt)
        with self._storage.within(PATIENCE, at_most=2 * PATIENCE):
            self._storage.put_if_absent(key, data)  # False only if an answer was lost: the key is new
        self._bytes -= max(len(data), COST)
        with self._changed:
            self._unnamed.append(key)
            self._header = replace(self._header, previous=key)
        return []

    def _allowed(self) -> float:
        now = self._clock()
        filled = self._bytes + (now - self._filled_at) * (BYTES_AN_HOUR - BURST) / 3600
        self._bytes, self._filled_at = min(float(BURST), filled), now
        return self._bytes
