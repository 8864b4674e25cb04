"""The schedule of saves: when the next one is due, and the results that reports show."""

import re
import time
from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from holdfast_protocol import report
from holdfast_protocol.figures import number_text
from holdfast_protocol.report import MAX_LINE
from holdfast_protocol.settings import Every
from holdfast_train.commitlog.checkpoints import Saved
from holdfast_train.environment import Credentials
from holdfast_train.errors import StorageError, StorageUnreachableError
from holdfast_train.progress import Progress, Silence
from holdfast_train.save import interval
from holdfast_train.say import say
from holdfast_train.timings import USUAL, Timings

STUCK_SECONDS: Final = 600.0  # after which a save that is still in flight is reported as a failure
LONGEST_LINE: Final = 200
_USER_INFO: Final = re.compile(r"//[^/@\s]+@")


class SaveSchedule:
    """The saves of one run. `saved_step`: of its newest checkpoint. `costs`: of its last few saves.

    `newest`: the newest save of this run, on rank 0. `requested`: an order asks for a save. `failure`: of the last
    save, None if it succeeded. `state_at`: when the newest save began to copy the state, in seconds of
    time.monotonic(). Results are also put into `progress`, for the next report.
    """

    def __init__(self, progress: Progress, credentials: Credentials | None = None, timings: Timings = USUAL) -> None:
        self._progress = progress
        self._timings = timings
        self._secrets = (credentials or Credentials()).values
        self.saved_step: int | None = None
        self.requested = False
        self.failure: StorageError | None = None
        self.state_at = time.monotonic()
        self.costs: tuple[interval.Cost, ...] = ()
        self.newest: Saved | None = None
        self._stepped_at = self.state_at
        self._steps_done: int | None = None
        self._last_step = 0.0  # seconds that it took
        self._is_planned = False  # the ranks save after the next step that they agree on
        self._retry_at: float | None = None
        self._every: Every | None = None
        self._has_warned = False
        self._is_skipping = False

    def is_due(self, step: int, every: Every, ahead: int = 0) -> bool:
        """True if it is time to save now, after `step`. Call it after every step: it measures the time of a step.

        With `ahead`, as rank 0 of several asks: true if it will be time after that many more steps. It stays true until
        `is_due` is called without `ahead`, for the step on which the ranks have agreed: that may be a later one.
        """
        self._every = every
        now = time.monotonic()
        if step != self._steps_done:
            self._last_step, self._stepped_at, self._steps_done = now - self._stepped_at, now, step
        was_planned, self._is_planned = self._is_planned, self._is_planned and ahead > 0
        if self.requested or self._is_skipping or was_planned:
            return True
        if self._retry_at is not None:
            return now >= self._retry_at
        age, last_step = now - self.state_at, self._last_step * (1 + ahead)
        found = interval.is_due(every, self.costs, step=step + ahead, age=age, last_step=last_step)
        self._is_planned = found and ahead > 0
        return found

    def start(self, saved_step: int | None) -> None:
        """Start the clock. `saved_step`: the newest step in the job's own storage, None if there is none."""
        self.state_at = self._stepped_at = time.monotonic()
        if saved_step is not None:
            self.saved_step = saved_step

    def record_begun(self) -> None:
        """A save has begun: the next one is due after another interval."""
        self.requested = self._is_planned = False
        self._retry_at = None
        self._is_skipping = False
        self.state_at = self._stepped_at = time.monotonic()

    def record_silence(self, process: str, silence: Silence | None) -> None:
        """Report that the storage does not answer a process of this rank; None: it answers again."""
        told = silence and Silence(silence.since, one_line(silence.why, self._secrets))
        self._progress.note_silence(process, told)

    def record_memory(self, shortage: str) -> bool:
        """Report that a save may get the trainer killed; empty: it fits into the container's memory. True if new."""
        known, self._progress.memory_warning = self._progress.memory_warning, shortage[:MAX_LINE] or None
        is_new = bool(shortage) and known is None
        if is_new:
            say(shortage)
        return is_new

    def record_skipped(self, *, at_most: bool = False) -> None:
        """A save is due, but there is no arena for it. It stays due, so the next step asks again.

        `at_most`: there are as many copies of the state as there may be; otherwise there is no memory for another one.

        The log says so once; reports show it as an error if the saves in flight do not end.
        """
        if self._every is None:  # on this rank nothing asks `is_due`: rank 0 reports
            return
        why, field = (
            "a save is due, but earlier ones are still in flight and have both copies of the state that a trainer may "
            "make; save less often, or use a faster storage",
            "spec.checkpoint.every",
        ) if at_most else (
            "a save is due, but earlier ones are still in flight and there is no memory for another; "
            "save less often, use a faster storage, or give the trainer memory for another copy of its state",
            "spec.trainer.resources.memory",
        )  # fmt: skip
        if not self._is_skipping:
            say(f"{why} ({field}); training goes on, and saves when there is room")
        self._is_skipping = True
        if time.monotonic() - self.state_at >= STUCK_SECONDS:
            self._progress.save_error = one_line(f"SaveSkipped: {why}")

    def record_saved(self, saved: Saved, lost: float, *, was_kept: bool = False) -> None:
        """`saved` is committed. Training waited `lost` seconds for it.

        `was_kept`: its writer has tried it several times. Then its time says nothing of what a save costs.
        """
        if not was_kept:
            self.costs = interval.remember(self.costs, interval.Cost(lost, saved.seconds, saved.uploaded))
            cost = number_text(interval.median([cost.lost for cost in self.costs]))
            self._progress.measured = replace(self._progress.measured, save_cost=cost)
        self.newest = saved
        warning = None if self._every is None else interval.warning(self._every, self.costs)
        if warning is not None and not self._has_warned:
            say(warning)
        self._has_warned = warning is not None
        self.saved_step = saved.step
        self.failure = self._progress.save_error = None
        took = f"{saved.seconds:.3f}"
        self._progress.checkpoint = report.Saved(saved.uri, saved.size, took, saved.committed_at, saved.step)

    def record_failed(self, error: StorageError, *, is_kept: bool = False, is_mended: bool = False) -> StorageError:
        """A save has failed, and is due again soon. Return the new `failure`, to be raised if it was the last save.

        `is_kept`: its writer tries it again with the copy that it has. Then no other save is due before its time.
        `is_mended`: its cause is gone, and no storage has to recover. Then another save is due at once.

        A storage that has worked for this run is not misconfigured: if it refuses now, a later attempt may succeed.
        """
        if not is_kept:
            self._retry_at = time.monotonic() + (0.0 if is_mended else self._timings.retry)
        self._progress.save_error = one_line(f"{error.reason}: {error}", self._secrets)
        if error.outcome == "misconfigured" and self.saved_step is not None:
            error = StorageUnreachableError(f"the storage has worked for this run and refuses now: {error}")
        self.failure = error
        return error


def one_line(text: str, secrets: Iterable[str] = ()) -> str:
    """`text` in one printable line of at most 200 characters, without `secrets` and passwords in addresses."""
    for secret in secrets:
        text = text.replace(secret, "...")
    text = "".join(c if c.isprintable() else " " for c in _USER_INFO.sub("//", text))
    text = " ".join(text.split())
    return text if len(text) <= LONGEST_LINE else f"{text[: LONGEST_LINE - 3]}..."
