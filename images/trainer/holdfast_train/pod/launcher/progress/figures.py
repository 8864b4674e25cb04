"""`Figures`: step, total and loss, from the lines that patterns fit. An uncertain step is not reported."""

from __future__ import annotations

from collections.abc import Mapping

from .patterns import Pattern

_FELL = 4  # a count that falls to a quarter or less begins again; two ranks that print are never so far apart


class Figures:
    """What the lines say. Of several bars, the one with the greatest total counts, until it is full.

    A count that begins again is that of an epoch, and says no step of the training.
    """

    def __init__(self, patterns: list[Pattern]) -> None:
        self._patterns = patterns
        self._total = self._full = 0  # of the bar that counts, and of the last one that was full
        self._last = 0  # the last step, of the bar that counts if there is one
        self._begins_again = False
        self._bars = BarsOfEpochs()
        self.metrics: dict[str, str] = {}

    @property
    def begins_again(self) -> bool:
        """True if the count has begun again, as in each epoch: it says no step of the training."""
        return self._begins_again

    def read(self, line: str) -> None:
        """Take what the patterns find in the line; of two that find the same number, the first one decides."""
        values: dict[str, str] = {}
        for pattern in self._patterns:
            for name, value in (pattern.find(line) or {}).items():
                values.setdefault(name, value)
        total, step = int(values.get("total", 0)), int(values.get("step", 0))
        if total and (total < self._total or step > total):
            return
        if "step" in values:
            self._note(step, total)
        if total:
            self.metrics["total_steps"] = str(total)
        if self._begins_again and "step" in values:
            self._forget("step", "total_steps")
        elif "bar_steps" in values and "epoch" in values:
            self._set_step(self._bars.step(values))
        elif "epoch_step" in values:
            self._set_step_of_epoch(values)
        elif step:
            self._set_step(step)
        self.metrics |= {name: values[name] for name in ("loss", "grad_norm") if name in values}

    def _note(self, step: int, total: int) -> None:
        """Notice a count that begins again: after it was full, or had come at least to the last quarter of its total.

        A program may print each tenth step only, and never the last one of an epoch. Each rank may show the same bar,
        and none is full when the first one is.
        """
        same = total == self._total
        far = self._last * _FELL >= total * (_FELL - 1) if total else self._last >= _FELL
        self._begins_again |= (total > 0 and total == self._full and 2 * step < total) or (
            same and far and step * _FELL <= self._last and step < self._last
        )
        self._last = step
        if total:
            self._total, self._full = (0, total) if step == total else (total, self._full)

    def _set_step_of_epoch(self, values: Mapping[str, str]) -> None:
        """Each epoch has as many steps as the line says; without all three numbers there is no step."""
        epoch = int(values["epoch"]) if "epoch" in values else int(values.get("epoch_from_1", 0)) - 1
        at, steps = int(values["epoch_step"]), int(values.get("epoch_steps", 0))
        if epoch < 0 or not steps or at > steps:
            return
        self._set_step(epoch * steps + at)
        if "epochs" in values:
            self.metrics["total_steps"] = str(int(values["epochs"]) * steps)

    def _set_step(self, step: int | None) -> None:
        if step:
            self.metrics["step"] = str(step)
        elif step is None:
            self._forget("step")

    def _forget(self, *names: str) -> None:
        for name in names:
            self.metrics.pop(name, None)


class BarsOfEpochs:
    """Counts steps over bars of epochs.

    With `max_steps` Lightning makes the bar shorter for an epoch that the training does not end, also if it has begun
    inside that epoch. So the length of an epoch is known from epoch 0, or from two others that are equal, or from an
    epoch that was seen from its first to its last step.
    """

    def __init__(self) -> None:
        self._now: tuple[int, int] | None = None  # the epoch, and the total of its bar
        self._has_seen_begin = False  # of this epoch
        self._length = 0  # steps of a whole epoch, 0 if it is not known
        self._is_uneven = False

    def step(self, values: Mapping[str, str]) -> int | None:
        """The step, None if it is not sure."""
        epoch, at, total = (int(values[name]) for name in ("epoch", "bar_step", "bar_steps"))
        before = self._now
        if before is None:
            self._has_seen_begin = epoch == 0
        elif epoch > before[0]:
            if self._has_seen_begin or total == before[1]:
                self._is_uneven |= self._length not in (0, before[1])
                self._length = before[1]
            self._has_seen_begin = True
        self._now = (epoch, total)
        if epoch == 0:
            return at
        if self._is_uneven or not self._length or total > self._length:
            return None
        return epoch * self._length + at
