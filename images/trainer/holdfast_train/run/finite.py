"""`FiniteGuard`: notices losses that are not finite numbers, or explode.

It waits for a GPU only at a save, and for one that is READ_EVERY steps behind: then for the older of these steps.
"""

import math
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from holdfast_protocol.settings import Spike
from holdfast_train.commitlog.checkpoints import Clean
from holdfast_train.run.spike import SpikeRule

IN_A_ROW: Final = 3
IN_WINDOW: Final = 10
WINDOW: Final = 1000  # steps
READ_EVERY: Final = 8  # reported losses that are read from a GPU together
SHOWN: Final = 10
NORMS: Final = ("grad_norm", "gradient_norm")  # metrics that a fault shows


@dataclass(frozen=True)
class Fault:
    """Too many losses were not finite, or exploded.

    `first` and `last`: the first and the last step of the newest such losses in a row. `good`: the newest step before
    `first` whose loss is known; `clean` steps up to it were finite. A program that reports few of its losses tells
    nothing of the steps between the two. `words`: the steps with their losses and gradient norms, for people.
    """

    first: int
    last: int
    good: int
    clean: int
    words: str


class _Row(NamedTuple):
    """Bad losses in a row: the step of the first, and what `Fault` says of the steps before it."""

    first: int
    good: int
    clean: int


class _Ring:
    """Copies of losses in the memory of one GPU, which are read READ_EVERY at a time, once their copies are done."""

    def __init__(self, device: Any, torch: Any) -> None:
        self._torch = torch
        self._losses = torch.zeros(READ_EVERY, dtype=torch.float32, device=device)
        self._host: Any = None
        self._event: Any = None
        self._steps: list[int] = []
        self._copied: list[int] = []

    def add(self, step: int, loss: Any) -> None:
        """Copy `loss` on its device: a program may write into it again in its next step."""
        self._losses[len(self._steps)].copy_(loss.reshape(()), non_blocking=True)
        self._steps.append(step)
        if len(self._steps) == READ_EVERY:
            self._begin_read()

    def _begin_read(self) -> None:
        self._host = self._torch.empty(READ_EVERY, dtype=self._torch.float32, pin_memory=True)
        self._host.copy_(self._losses, non_blocking=True)
        self._event = self._torch.cuda.Event()
        self._event.record(self._torch.cuda.current_stream(self._losses.device))
        self._copied, self._steps = self._steps, []

    def read(self) -> list[tuple[int, float]]:
        """The losses whose copy is done, with their steps. A copy that the next one would replace is waited for."""
        must_wait = len(self._steps) == READ_EVERY - 1
        return self._read_copy() if self._event is not None and (must_wait or self._event.query()) else []

    def read_all(self) -> list[tuple[int, float]]:
        """All losses that were not read, with their steps. It waits for the GPU."""
        found = [] if self._event is None else self._read_copy()
        found += zip(self._steps, self._losses[: len(self._steps)].tolist(), strict=True)
        self._steps = []
        return found

    def _read_copy(self) -> list[tuple[int, float]]:
        self._event.synchronize()
        self._event = None
        return list(zip(self._copied, self._host.tolist(), strict=True))


class FiniteGuard:
    """Watches the reported losses of this rank. `fault`: None until IN_A_ROW of them, or IN_WINDOW of WINDOW steps, are
    not finite, or the last one at the end of training, or as many as `spike` says are far above those before them.

    A loss in the memory of a GPU is copied there and read some steps later. Without a reported loss nothing is watched.
    """

    def __init__(self) -> None:
        self.fault: Fault | None = None
        self._is_on = False
        self._start = 0
        self._seen: int | None = None  # the newest step whose loss is known
        self._bad: deque[tuple[int, float]] = deque()  # of the last WINDOW steps, and of the row
        self._in_a_row = 0
        self._last_bad: int | None = None
        self._row = self._high_row = _Row(0, 0, 0)
        self._ring: _Ring | None = None
        self._norms: deque[tuple[int, Any]] = deque(maxlen=4 * READ_EVERY)
        self._spike: SpikeRule | None = None
        self._high: deque[tuple[int, float]] = deque(maxlen=SHOWN)  # the newest losses far above, in a row

    def start(self, step: int, *, is_on: bool, spike: Spike | None = None) -> None:
        """Watch the steps after `step`."""
        self._start, self._is_on = step, is_on
        self._spike = None if spike is None else SpikeRule(spike)

    def settle(self) -> bool:
        """Judge every loss that was noted, at the end of training. True if there is a fault. It waits for the GPU.

        The last loss is enough: a library or a program may end a training because of it, and no further loss comes.
        """
        self._judge_rest()
        if self._in_a_row and self.fault is None:
            self.fault = self._found("at the end of training")
        return self.fault is not None

    def clean(self, step: int) -> Clean | None:
        """How many steps up to `step` had finite losses; None if nothing is known. It waits for the GPU.

        While losses are far above the others, nothing is known of the steps from the first of them on.
        """
        self._judge_rest()
        if self._seen is None:
            return None
        good = self._high_row.good if self._high else self._seen
        return Clean(max(good - self._begin, 0), step - good)

    @property
    def _begin(self) -> int:
        """The step after which all losses that are known were finite."""
        return self._start if self._last_bad is None else self._last_bad

    def note(self, step: int, measured: Mapping[str, Any]) -> bool:
        """Take the loss of `step` from `measured`, if it has one. True if there is a fault."""
        loss = measured.get("loss")
        if not self._is_on or loss is None or self.fault is not None:
            return self.fault is not None
        norm = next((measured[name] for name in NORMS if name in measured), None)
        if norm is not None:
            self._norms.append((step, norm))
        if getattr(loss, "is_cuda", False):
            self._add(step, loss)
        else:
            self._judge(step, float(loss))
        return self.fault is not None

    def _add(self, step: int, loss: Any) -> None:
        if hasattr(loss, "to_local"):  # a DTensor
            loss = loss.to_local()
        if self._ring is None:
            import torch  # noqa: PLC0415, a program without torch has no such loss

            self._ring = _Ring(loss.device, torch)
        self._judge_all(self._ring.read())
        self._ring.add(step, loss)

    def _judge_rest(self) -> None:
        if self._ring is not None:
            self._judge_all(self._ring.read_all())

    def _judge_all(self, losses: Iterable[tuple[int, float]]) -> None:
        for step, loss in losses:
            self._judge(step, loss)

    def _judge(self, step: int, loss: float) -> None:
        if self.fault is not None:
            return
        before, self._seen = self._seen or self._start, step
        if math.isfinite(loss):
            self._in_a_row = 0
            self._judge_height(step, loss, before)
            return
        if not self._in_a_row:
            self._row = _Row(step, before, before - self._begin)
        self._in_a_row += 1
        self._last_bad = step
        self._bad.append((step, loss))
        while self._bad[0][0] <= step - WINDOW and len(self._bad) > self._in_a_row:
            self._bad.popleft()
        if self._in_a_row >= IN_A_ROW:
            self.fault = self._found(f"{self._in_a_row} in a row")
        elif len(self._bad) >= IN_WINDOW:
            self.fault = self._found(f"{len(self._bad)} of {WINDOW} steps")

    def _judge_height(self, step: int, loss: float, before: int) -> None:
        """As `_judge`, for a finite loss. `before`: the newest step before it."""
        if self._spike is None:
            return
        is_fault = self._spike.take(loss)
        if self._spike.in_a_row == 0:
            self._high.clear()
            return
        if not self._high:
            self._high_row = _Row(step, before, before - self._begin)
        self._high.append((step, loss))
        if is_fault:
            rule = f"{self._spike.in_a_row} in a row above {self._spike.limit:g}"
            words = f"the loss exploded, {rule}: {self._list(self._high)}"
            row = self._high_row
            self.fault = Fault(row.first, step, row.good, row.clean, words)

    def _list(self, losses: Iterable[tuple[int, float]]) -> str:
        norms = dict(self._norms)

        def words(step: int, loss: float) -> str:
            norm = f", gradient norm {float(norms[step]):g}" if step in norms else ""
            return f"step {step} ({loss:g}{norm})"

        return "; ".join(words(*one) for one in list(losses)[-SHOWN:])

    def _found(self, rule: str) -> Fault:
        row = self._row
        words = f"the loss was not finite, {rule}: {self._list(self._bad)}"
        return Fault(row.first, self._bad[-1][0], row.good, row.clean, words)
