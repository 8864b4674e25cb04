"""`Reported`: the history of a program that knows nothing of Holdfast, from what it reports or prints.

The launcher leaves its reports in a file. The program can write into that file too, so nothing in it is trusted.
"""

import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from holdfast_train.environment import Identity
from holdfast_train.pod.launcher.progress.kubeflow import NOT_SHOWN, STEP, count_of, loss_of, number
from holdfast_train.pod.launcher.progress.noted_progress import FILE, MOST_BYTES
from holdfast_train.say import say
from holdfast_train.series.recorder import SeriesRecorder
from holdfast_train.series.rows import MOST_NAMES, MOST_STEP, Row, is_name, name_of
from holdfast_train.series.segment import Header
from holdfast_train.storage.retrying import RetryingStorage

COMMIT_SECONDS: Final = 2.0  # a commit waits this long for the history when its data is uploaded
LAST_SECONDS: Final = 5.0  # for the last rows, when everything is committed


class Reported:
    """Takes the reports out of `folder`, and writes them into `storage` as segments of the history.

    Without a folder there are no reports. `resumed`: the step that was put back before the program started; None if no
    name says it, or if the program runs already, beside a writer that takes the place of another one.
    """

    def __init__(self, folder: str | None, storage: RetryingStorage, writer: Identity) -> None:
        self._path = Path(folder, FILE) if folder else None
        self._storage = storage
        self._writer = writer
        self._recorder: SeriesRecorder | None = None
        self._request = 0
        self._is_hurried = False
        self.resumed: int | None = 0
        self.told: int | None = None
        """The step that was reported last,"""
        self.told_at = 0.0
        """and when, in seconds since 1970."""

    def collect(self) -> None:
        """Take what was reported since the last call."""
        taken = list(self._taken())
        if taken:
            self.told, self.told_at = taken[-1].step, taken[-1].at
        rows = [row for row in taken if row.values]
        if rows and self._recorder is None:
            self._recorder = self._started(rows[0].step)
        if rows and self._recorder is not None:
            self._recorder.add(rows)

    def request(self) -> None:
        """Write what there is, beside the upload of a checkpoint."""
        self.collect()
        if self._recorder is not None:
            self._request = self._recorder.request()

    def written(self) -> tuple[str, ...]:
        """The segments for the next commit to name."""
        if self._recorder is None:
            return ()
        return self._recorder.written(self._request, 0.0 if self._is_hurried else COMMIT_SECONDS)

    def mark_named(self, keys: tuple[str, ...]) -> None:
        """A commit names the segments `keys`."""
        if self._recorder is not None:
            self._recorder.mark_named(keys)

    def hurry(self) -> None:
        """From now on no commit waits for the history: the pod has to leave. Any thread may call this."""
        self._is_hurried = True

    def end(self, seconds: float) -> None:
        """Nothing will follow. Write the rest, for at most `seconds`, and LAST_SECONDS."""
        self.collect()
        if self._recorder is not None:
            self._recorder.end(min(LAST_SECONDS, max(0.0, seconds)))

    def _started(self, first: int) -> SeriesRecorder | None:
        """A program that begins before the step that was put back did not resume from it."""
        went_on = first - 1 if self.resumed is None else self.resumed
        header = Header.new(self._writer, went_on if 0 < went_on < first else None)
        recorder = SeriesRecorder(self._storage.apart(), header)
        try:
            recorder.start()
        except RuntimeError as error:  # the container is at its limit of processes
            self._give_up(f"no thread can be started for it ({error})")
            return None
        return recorder

    def _taken(self) -> Iterator[Row]:
        if self._path is None:
            return
        taken = self._path.with_suffix(".taken")
        try:
            self._path.rename(taken)
            # The program may have put something else there: a pipe would never end, and a link leads elsewhere.
            with os.fdopen(os.open(taken, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb") as file:
                data = file.read(2 * MOST_BYTES)
            taken.unlink()
        except FileNotFoundError:
            return
        except OSError as error:
            self._give_up(f"{self._path} cannot be read: {error}")
            return
        for line in (data or b"").splitlines():
            if (row := row_of(line)) is not None:
                yield row

    def _give_up(self, why: str) -> None:
        self._path = None
        say(f"the history of the training is not written: {why}")


def row_of(line: bytes) -> Row | None:
    """The row of one report; None if it tells no step."""
    try:
        found = json.loads(line)
        at, given = float(found["at"]), {name: str(value)[:64] for name, value in found["metrics"].items()}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, OverflowError):
        return None
    step = count_of(given, *STEP) or 0
    values = dict(_values(given))
    if not (0 < step <= MOST_STEP and 0 <= at < 1e11):
        return None
    return Row(step, at, values)


def _values(given: Mapping[str, str]) -> Iterator[tuple[str, float]]:
    """The numbers by name, at most MOST_NAMES."""
    if (loss := loss_of(given)) is not None:
        yield "loss", loss
    numbers = {name: value for name in given if (value := number(given, name)) is not None}
    shown = [name for name in numbers if name not in NOT_SHOWN and name != "train_loss"]
    for name in shown[: MOST_NAMES - 2]:
        if is_name(name_of(name)):
            yield name_of(name), numbers[name]
