"""`SeriesFeed`: hands what the program measures to the writer process, which keeps the history."""

import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from holdfast_train.graph_capture import allow_calls_beside_capture
from holdfast_train.say import say
from holdfast_train.series.rows import MOST_NAMES, Row, is_name

SAMPLES: Final = "samplesPerSecond"
EVERY: Final = 1.0  # seconds between two messages
WAITING: Final = 20_000  # rows that wait for a writer process
HELD: Final = 300  # rows with copies on a GPU that wait for the thread: each copy takes memory of the GPU


@dataclass(frozen=True)
class AddRows:
    """The message to the writer process: `rows` follow those before."""

    rows: Sequence[Row]


class SeriesFeed:
    """The measured values of one Run, on their way to `send`, which returns False if there is no writer process now.

    `note` is for the training thread. It reads no value from a GPU: it copies the value there, because a program may
    write into it again, and a thread reads the copy. It raises nothing: a row whose values cannot be copied is left
    out, and so is a row with copies while HELD others wait.
    """

    def __init__(self, send: Callable[[AddRows], bool]) -> None:
        self._send = send
        self._noted: deque[tuple[int, float, Mapping[str, Any], Any]] = deque(maxlen=WAITING)
        self._kept: Sequence[Row] = []
        self._names = dict.fromkeys(("loss", SAMPLES))
        self._left_out: set[str] = set()
        self._rated: tuple[float, float] | None = None  # when the rate was computed last, and the samples until then
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        self._has_begun = self._has_complained = False

    def note(self, step: int, measured: Mapping[str, Any], samples: Any) -> None:
        """`measured` belongs to `step`. `samples`: the sum over all steps of this process."""
        try:
            if measured or samples:
                self._note(step, measured, samples)
        except Exception as error:  # noqa: BLE001 - such as a GPU without memory; the training goes on
            self._leave_out(step, f"{type(error).__name__}: {error}")

    def _note(self, step: int, measured: Mapping[str, Any], samples: Any) -> None:
        if not self._has_begun:
            self._begin()
        if len(self._noted) >= HELD and any(map(_is_on_gpu, (*measured.values(), samples))):
            self._leave_out(step, f"{HELD} rows with values on a GPU wait to be read")
            return
        values = {name: v if type(v) is float else _held(v) for name, v in measured.items()}
        total = samples if type(samples) is float else _held(samples)
        self._noted.append((step, time.time(), values, total))

    def _leave_out(self, step: int, why: str) -> None:
        """Say once why a row is not in the history."""
        if not self._has_complained:
            self._has_complained = True
            say(f"the history lacks step {step}, and perhaps others: {why[:500]}")

    def flush(self) -> None:
        """Send everything that was noted."""
        with self._lock:
            rows = [*self._kept]
            while self._noted:
                rows.append(self._row(*self._noted.popleft()))
            self._kept = [] if not rows or self._send(AddRows(tuple(rows))) else rows[-WAITING:]

    def close(self) -> None:
        """Send the rest, and end the thread."""
        self._stopping.set()
        self.flush()

    def _begin(self) -> None:
        """Start the thread. Without one, as at a limit of processes, rows are sent with each save."""
        self._has_begun = True
        try:
            threading.Thread(target=self._work, name="holdfast-series", daemon=True).start()
        except RuntimeError as error:
            say(f"the history of the training is written with each checkpoint only: no thread starts ({error})")

    def _work(self) -> None:
        allow_calls_beside_capture()
        while not self._stopping.wait(EVERY):
            self.flush()

    def _row(self, step: int, at: float, values: Mapping[str, Any], samples: Any) -> Row:
        found: dict[str, float] = {}
        for name, value in values.items():
            if self._has_room(name) and (number := _number(value)) is not None:
                found[name] = number
        if (rate := self._rate(at, samples)) is not None:
            found[SAMPLES] = rate
        return Row(step, at, found)

    def _rate(self, at: float, samples: Any) -> float | None:
        """Samples a second since the last rate, None if that is less than a second ago."""
        if self._rated is not None and at < self._rated[0] + EVERY:
            return None
        total = _number(samples) or 0.0
        before, self._rated = self._rated, (at, total)
        return (total - before[1]) / (at - before[0]) if before is not None and total > before[1] else None

    def _has_room(self, name: str) -> bool:
        """True if `name` is one of the MOST_NAMES that have come first."""
        if name in self._names:
            return True
        if name in self._left_out or not is_name(name):
            return False
        if len(self._names) < MOST_NAMES:
            self._names[name] = None
            return True
        if not self._left_out:
            say(f"more than {MOST_NAMES - 2} metrics are reported; {name} and later ones are not in the history")
        if len(self._left_out) < 1000:
            self._left_out.add(name)
        return False


def _is_on_gpu(value: Any) -> bool:
    return not getattr(value, "is_cpu", True)


def _held(value: Any) -> Any:
    """`value` as it is now: a number, or a copy on its GPU."""
    return value.clone() if _is_on_gpu(value) else _number(value)


def _number(value: Any) -> float | None:
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError, RuntimeError):
        return None
