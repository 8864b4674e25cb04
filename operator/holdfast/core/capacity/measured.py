"""From times that were measured to times that are reckoned with, and what is assumed before any was measured."""

from datetime import timedelta

from holdfast.api.knowledge import MAX_MEASURED, Measured


def median(measured: Measured) -> timedelta:
    """What is typical: an outlier or two, such as the first pull of an image, do not move it. The upper of two."""
    times = sorted(measured.recent)
    return times[len(times) // 2] if times else measured.worst


def at_worst(measured: Measured) -> timedelta:
    """The longest that has to be reckoned with: the worst seen, and more than that as long as few were seen."""
    count = max(len(measured.recent), 1)
    return measured.worst if count >= MAX_MEASURED else measured.worst * (count + 1) / count
