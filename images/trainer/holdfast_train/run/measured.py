"""What a program gives to its Run as numbers: checked when it is given, and read later."""

import operator
import sys
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final

from holdfast_train.errors import StateError
from holdfast_train.progress import Progress
from holdfast_train.say import say
from holdfast_train.series.feed import SeriesFeed
from holdfast_train.series.rows import name_of

SHOWN: Final = 40  # characters of a text that an error repeats


class Measurements:
    """What the program has reported: of the step that it is in, of the step before (`of_step`), and for `progress`.

    `series`: takes what was measured in each step, on rank 0 if there is storage.
    """

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._since_step: dict[str, Any] = {}
        self.of_step: Mapping[str, Any] = {}
        self.series: SeriesFeed | None = None

    def note(self, measured: Mapping[str, Any], samples: Any) -> None:
        """Take what `checked_report` returned."""
        self._since_step |= measured
        self._progress.note(measured, samples)

    def end_step(self, step: int) -> Mapping[str, Any]:
        """`step` is done. What was measured in it."""
        self.of_step, self._since_step = self._since_step, {}
        if self.series is not None:
            self.series.note(step, self.of_step, self._progress.samples)
        return self.of_step


def checked_number(name: str, value: Any) -> Any:
    """`value`, detached if it is a tensor. StateError if it is not one number.

    No tensor is read: with CUDA that would wait for the GPU.
    """
    if type(value) is float:
        return value
    if hasattr(value, "detach"):
        if value.numel() == 1 and not value.is_complex():
            return value.detach()
        what = f"a tensor of {value.dtype} with the shape {list(value.shape)}"
    elif isinstance(value, (str, bytes)):
        what = f"the text {value[:SHOWN]!r}"
    else:
        try:
            float(value)
        except (TypeError, ValueError):
            what = f"a {type(value).__name__}"
        except OverflowError:
            what = f"a {type(value).__name__} above {sys.float_info.max:g}"
        else:
            return value
    raise StateError(
        f"the {name} given to run.report is {what}; allowed: one number, or a tensor with one element. "
        f"Report the mean of several values, and leave out what is not a number"
    )


@lru_cache(1024)  # so a name is said once
def metric_name(name: str) -> str:
    """`name` as a metric is shown and stored: other characters become `_`. A name must not end a training."""
    found = name_of(name)
    if found != name:
        say(f"the metric {str(name)[:SHOWN]!r} is shown as {found}: letters, digits and _ . / @ - are kept")
    return found


def checked_report(loss: Any, samples: Any, metrics: Mapping[str, Any]) -> tuple[dict[str, Any], Any]:
    """The `metrics` with the `loss`, unless it is None, and the number of `samples`. StateError: see checked_number."""
    measured = {metric_name(name): checked_number(f"metric {name!r}", value) for name, value in metrics.items()}
    if loss is not None:
        measured["loss"] = checked_number("loss", loss)
    return measured, checked_number("number of samples", samples)


def checked_goal(goal: Any) -> int | None:
    """`goal` as an int. StateError if it is not a whole number."""
    if goal is None:
        return None
    try:
        return int(goal) if isinstance(goal, float) and goal.is_integer() else operator.index(goal)
    except TypeError as error:
        raise StateError(
            f"the goal given to run.steps is {goal!r} ({type(goal).__name__}); allowed: a whole number of steps, or "
            f"None for the job's goal.steps"
        ) from error


def decimals(metrics: Mapping[str, Any]) -> dict[str, str]:
    """Checked numbers as texts that `float` reads, also `nan`, `inf` and `-inf`, which no retention takes as best."""
    return {name: repr(float(value)) for name, value in metrics.items()}
