"""When to save, and what came of it: the schedule of checkpoints, and what reports say of them."""

import math
import re
import time
from collections.abc import Iterable, Mapping
from typing import Any, Final

from holdfast_train.commitlog.checkpoints import Saved
from holdfast_train.environment import Credentials, Every
from holdfast_train.errors import MisconfiguredStorageError, StateError, StorageError, StorageUnreachableError
from holdfast_train.progress import Progress
from holdfast_train.save import interval
from holdfast_train.say import say

__all__ = ["FINAL_PATIENCE", "RETRY_SECONDS", "SAVE_PATIENCE", "Saving", "decimals", "one_line"]

SAVE_PATIENCE: Final = 10.0  # seconds of silence that a save during training puts up with: the next one is fresher,
RETRY_SECONDS: Final = 15.0  # how much later a save that failed is tried again,
FINAL_PATIENCE: Final = 600.0  # and the patience of the last one, when there is nothing left to do but wait
STUCK_SECONDS: Final = 600.0  # after which a save that has not come to an end is shown as one that fails
LONGEST_LINE: Final = 200
_USER_INFO: Final = re.compile(r"//[^/@\s]+@")


class Saving:
    """The saves of one run. `step` is that of its newest checkpoint, `costs` what the last few have cost.

    `saved_at`: when the newest save took hold of the state, in seconds of time.monotonic(). What came of the last one
    is in `progress`, for the next report.
    """

    def __init__(self, progress: Progress, credentials: Credentials | None = None) -> None:
        self._progress = progress
        keys = credentials or Credentials()
        self._secrets = tuple(filter(None, (keys.access_key_id, keys.secret_access_key, keys.session_token)))
        self.step: int | None = None
        self.asked = False
        self.failure: StorageError | None = None
        self.saved_at = time.monotonic()
        self.costs: tuple[interval.Cost, ...] = ()
        self._stepped_at = self.saved_at
        self._retry_at: float | None = None
        self._every: Every | None = None
        self._remarked = False
        self._skipping = False

    def due(self, step: int, every: Every) -> bool:
        """Is it time to save, after `step`? To be asked once after every step: it measures how long one takes."""
        self._every = every
        now = time.monotonic()
        last_step, self._stepped_at = now - self._stepped_at, now
        if self.asked:
            return True
        if self._retry_at is not None:
            return now >= self._retry_at
        return interval.due(every, self.costs, step=step, age=now - self.saved_at, last_step=last_step)

    def begin(self, saved_step: int | None) -> None:
        """Start the clock. `saved_step` is the step that the job's own storage holds already, None if it holds none."""
        self.saved_at = self._stepped_at = time.monotonic()
        if saved_step is not None:
            self.step = saved_step

    def begun(self) -> None:
        """A save is on its way: the next one is due after another interval."""
        self.asked = False
        self._retry_at = None
        self._skipping = False
        self.saved_at = self._stepped_at = time.monotonic()

    def skipped(self) -> None:
        """A save was due, but those before it are still on their way. It stays as urgent as it was.

        That is said once, and shown as an error when they do not come to an end.
        """
        if self._every is None:  # not the rank that says when a save is due
            return
        why = (
            "a save is due, but those before it are on their way and there is no memory for one more; "
            "save less often, to a faster storage, or give the trainer memory for another copy of its state"
        )
        if not self._skipping:
            say(f"{why} (spec.trainer.resources.memory); training goes on, and saves when there is room")
        self._skipping = True
        if time.monotonic() - self.saved_at >= STUCK_SECONDS:
            self._progress.save_error = one_line(f"SaveSkipped: {why}")

    def succeeded(self, saved: Saved, lost: float) -> None:
        """`saved` is committed. It cost training `lost` seconds."""
        self.costs = interval.remember(self.costs, interval.Cost(lost, saved.seconds, saved.size))
        remark = None if self._every is None else interval.remark(self._every, self.costs)
        if remark is not None and not self._remarked:
            say(remark)
        self._remarked = remark is not None
        self.step = saved.step
        self.failure = self._progress.save_error = None
        self._progress.checkpoint = {
            "step": saved.step,
            "uri": saved.uri,
            "bytes": saved.size,
            "seconds": f"{saved.seconds:.3f}",
            "committedAt": saved.committed_at,
        }

    def failed(self, error: StorageError) -> StorageError:
        """A save has failed, and is due again soon. What to raise if it was the last one; it is in `failure` too.

        A storage that has worked for this run is not misconfigured: if it refuses now, a later attempt may be let in.
        """
        self._retry_at = time.monotonic() + RETRY_SECONDS
        self._progress.save_error = one_line(f"{error.reason}: {error}", self._secrets)
        if isinstance(error, MisconfiguredStorageError) and self.step is not None:
            error = StorageUnreachableError(f"the storage has worked for this run and refuses now: {error}")
        self.failure = error
        return error


def decimals(metrics: Mapping[str, Any]) -> dict[str, str]:
    """Numbers, and tensors of one, as decimals; what is not finite is left out: nothing can be best by it.

    StateError names a metric that is neither.
    """
    found = {}
    for name, value in metrics.items():
        try:
            found[name] = float(value)
        except (TypeError, ValueError, RuntimeError) as error:
            raise StateError(
                f"the metric {name!r} given to run.report is a {type(value).__name__}, not one number ({error}); "
                "give a number, or a tensor with one element"
            ) from error
    return {name: repr(value) for name, value in found.items() if math.isfinite(value)}


def one_line(text: str, secrets: Iterable[str] = ()) -> str:
    """`text` in one printable line of at most 200 characters, without `secrets` and passwords in addresses."""
    for secret in secrets:
        text = text.replace(secret, "...")
    text = "".join(c if c.isprintable() else " " for c in _USER_INFO.sub("//", text))
    text = " ".join(text.split())
    return text if len(text) <= LONGEST_LINE else f"{text[: LONGEST_LINE - 3]}..."
