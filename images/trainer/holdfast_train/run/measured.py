"""What a program gives to its Run as numbers: checked when it is given, and read later."""

import operator
from collections.abc import Mapping
from typing import Any, Final

from holdfast_train.errors import StateError

__all__ = ["checked_goal", "checked_number", "checked_report", "decimals"]

SHOWN: Final = 40  # characters of a text that an error repeats


def checked_number(name: str, value: Any) -> Any:
    """`value`, detached if it is a tensor. StateError if it is not one number.

    No tensor is read: with CUDA that would wait for the GPU.
    """
    if type(value) in (float, int):
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
        else:
            return value
    raise StateError(
        f"the {name} given to run.report is {what}; allowed: one number, or a tensor with one element. "
        f"Report the mean of several values, and leave out what is not a number"
    )


def checked_report(loss: Any, samples: Any, metrics: Mapping[str, Any]) -> tuple[dict[str, Any], Any]:
    """The `metrics` with the `loss`, unless it is None, and the number of `samples`. StateError: see checked_number."""
    measured = {name: checked_number(f"metric {name!r}", value) for name, value in metrics.items()}
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
